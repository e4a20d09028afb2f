"""What differs between the programs of two compilations, in a few lines: the first task, its first field, the first
constants, the first buffer; or everything the disassembler's comparison says.

Ports, states and steps of the host, which digests cover too, are no part of programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openane.program import Program
from openane.program.diff import Diff, TaskChange, diff, diff_lines
from openane.wording import plural


def described(before: Sequence[Program], after: Sequence[Program], full: bool = False) -> Iterator[str]:
    """A line for each thing that differs; `full`: every task, field, buffer and constant."""
    if len(before) != len(after):
        yield f"{plural(len(before), 'program')} before, {len(after)} now"
    elif list(before) == list(after):
        yield "the programs are the same: ports, states or steps of the host differ"
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        place = f"program {number}: " if len(before) > 1 else ""
        found = diff(old, new)
        yield from (f"{place}{line}" for line in (diff_lines(found) if full else _shortened(found)))


def _shortened(found: Diff) -> Iterator[str]:
    if found.chips:
        yield f"chip {found.chips[0]} -> {found.chips[1]}"
    if found.tasks:
        differ = "task differs" if len(found.tasks) == 1 else "tasks differ"
        yield f"{len(found.tasks)} {differ}, first {_first(found.tasks[0])}"
    if found.constants:
        line, *_ = diff_lines(Diff(constants=found.constants[:1]))
        yield f"constants differ in {plural(len(found.constants), 'place')}, first {line}"
    if found.buffers:
        line, *_ = diff_lines(Diff(buffers=found.buffers[:1]))
        yield f"buffers differ in {plural(len(found.buffers), 'place')}, first {line}"


def _first(task: TaskChange) -> str:
    """The task and its first field that differs: fields in the order of the words."""
    if task.kind != "changed":
        number, text = (task.after, task.summary[1]) if task.before is None else (task.before, task.summary[0])
        return f"task {number}, which is {task.kind}: {text}"
    title = f"task {task.before}" + (f" (now {task.after})" if task.before != task.after else "")
    if task.fields:
        field, others = task.fields[0], len(task.fields) - 1
        more = f" and {plural(others, 'field')} more" if others else ""
        return f"{title}: {field.name} {field.before} -> {field.after}{more}"
    change = task.attributes[0]
    return f"{title}: {change.name} {change.before} -> {change.after} {change.unit}".rstrip()
