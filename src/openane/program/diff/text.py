"""A comparison for people and as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from openane.program.diff.records import ConstantChange, Diff, FieldChange, Plain, TaskChange
from openane.program.listing.lexer import comment

_ARRAY = re.compile(r"([^\[]+)\[(\d+)\](.*)")


def diff_lines(diff: Diff) -> Iterator[str]:
    """The comparison as text: nothing when the programs are the same."""
    if diff.chips:
        yield f"chip: {diff.chips[0]} -> {diff.chips[1]}; tasks of different generations are not compared"
    if diff.names:
        yield comment(f"name: {diff.names[0]} -> {diff.names[1]}")
    for buffer in diff.buffers:
        if buffer.what == "buffer":
            known, verb = (buffer.after, "added") if buffer.before is None else (buffer.before, "removed")
            yield comment(f"buffer {buffer.buffer}: {verb} ({known})")
        else:
            yield comment(f"buffer {buffer.buffer}: {buffer.what} {buffer.before} -> {buffer.after}")
    for task in diff.tasks:
        yield from _task(task)
    for constant in diff.constants:
        yield _constant(constant)


def diff_document(diff: Diff) -> dict[str, Any]:
    """The comparison as plain data for JSON."""
    return {"same": diff.same, "chips": diff.chips, "names": diff.names,
            "tasks": [{"kind": task.kind, **asdict(task)} for task in diff.tasks],
            "buffers": [asdict(buffer) for buffer in diff.buffers],
            "constants": [asdict(constant) for constant in diff.constants]}


def _task(task: TaskChange) -> Iterator[str]:
    if task.before is None:
        yield comment(f"task {task.after}: inserted: {task.summary[1]}")
        return
    if task.after is None:
        yield comment(f"task {task.before}: removed: {task.summary[0]}")
        return
    title = f"task {task.before}" if task.before == task.after else f"task {task.before} -> {task.after}"
    yield comment(f"{title}: {task.summary[1]}")
    for change in task.attributes:
        unit = f" {change.unit}" if change.unit else ""
        names = f"  ({', '.join(change.fields)})" if change.fields else ""
        yield f"  {change.name} {_value(change.before)} -> {_value(change.after)}{unit}{names}"
    rows = _merged([(field.name, *_field(field)) for field in task.fields])
    width = max((len(name) for name, _, _ in rows), default=0)
    yield from (f"    {name:<{width}}  {values}  {where}" for name, values, where in rows)


def _merged(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Neighbours of an array with the same change on one line: `CoeffBaseAddr[0..15].Addr`."""
    runs: list[tuple[int, tuple[str, str, str]]] = []
    for row in rows:
        match, last = _ARRAY.fullmatch(row[0]), _ARRAY.fullmatch(runs[-1][1][0]) if runs else None
        if match and last and (match[1], match[3], row[1]) == (last[1], last[3], runs[-1][1][1]) \
                and int(match[2]) == runs[-1][0] + 1:
            first = runs[-1][1]
            runs[-1] = int(match[2]), first
            continue
        runs.append((int(match[2]) if match else -1, row))
    merged = []
    for end, (name, values, where) in runs:
        match = _ARRAY.fullmatch(name)
        if match and end > int(match[2]):
            name, where = f"{match[1]}[{match[2]}..{end}]{match[3]}", f"{where} and on"
        merged.append((name, values, where))
    return merged


def _field(field: FieldChange) -> tuple[str, str]:
    """The values, and where the bits are."""
    values = [_value(v, field.bits == "rest" or field.name.endswith(("Stride", "Addr", "Size", "Offset")))
              for v in (field.before, field.after)]
    where = field.bits if field.name == "records" else f"bits {field.bits} of word {field.address:#x}"
    return f"{values[0]} -> {values[1]}", where


def _value(value: Plain, hexadecimal: bool = False) -> str:
    if value is None:
        return "not there"
    return f"{value:#x}" if hexadecimal and isinstance(value, int) else str(value)


def _constant(change: ConstantChange) -> str:
    owner = "constants" if change.task is None else f"task {change.task}"
    core = "" if change.core is None else f" of core {change.core}"
    more = ", ..." if change.halfwords > len(change.first) else ""
    first = ", ".join(f"{offset:#x}" for offset in change.first) + more
    resized = "" if change.sizes[0] == change.sizes[1] else f", {change.sizes[0]} -> {change.sizes[1]} bytes"
    where = f", first at constants+{first}" if first else ""
    return f"{owner}: {change.what}{core}: {change.halfwords} of {change.total} halfwords differ{where}{resized}"
