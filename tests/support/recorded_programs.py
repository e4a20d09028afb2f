"""Records of Apple's compiler for H14 to H18 as programs: its words and surfaces, with constants of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from support.records import generation_words

from openane.chips import get_chip
from openane.engine import Space, sources
from openane.program import Buffer, Layout, Program, Role, Task
from openane.rounding import round_up

HEAD = 16
"""Bytes of the text before the first task, to which tasks are aligned."""

_SIGNATURE = re.compile(r"func main<\w+>\((.*?)\)\s*\{.*\}\s*->\s*\((.*?)\)", re.DOTALL)


def recorded_tasks(record: dict[str, Any], name: str) -> tuple[Task, ...]:
    """The tasks of a record, where they lie in its text."""
    tasks, offset = [], HEAD
    for words in generation_words(record, name):
        tasks.append(Task(words, offset))
        offset += round_up(4 * len(words), HEAD)
    return tuple(tasks)


def recorded_ports(record: dict[str, Any], first: int) -> Iterator[Buffer]:
    """Inputs and outputs in alphabetical order of their names, from slot `first` on. The record states the inputs by
    name, then the outputs."""
    match = _SIGNATURE.search(record["mil"])
    assert match is not None
    inputs, outputs = sorted(re.findall(r"> (\w+)", match[1])), sorted(re.findall(r"\w+", match[2]))
    stated = dict(zip((*inputs, *outputs), record["tensor_descriptors"], strict=True))
    for slot, name in enumerate(sorted(stated), start=first):
        n, c, h, w = stated[name]["shape"]
        sn, sc, sh, sw = stated[name]["strides"]
        layout = Layout((n, c, 1, h, w), (sn, sc, sn, sh, sw))
        yield Buffer(name, slot, Role.INPUT if name in inputs else Role.OUTPUT, stated[name]["total_bytes"], layout)


def recorded_program(record: dict[str, Any], name: str, constants: bytes, kernels: bytes) -> Program:
    """The program of a record, with these bytes as the two sections it states the sizes of."""
    chip, tasks = get_chip(name), recorded_tasks(record, name)
    slots = chip.limits.slots
    operations = [chip.operation(task.words) for task in tasks]
    buffers = [*recorded_ports(record, slots.first_port)]
    scratch = max([access.span[1] for each in operations for access in (*sources(each), each.result)
                   if access.space is Space.MEMORY and access.slot == slots.scratch], default=0)
    if scratch:
        buffers.append(Buffer("scratch", slots.scratch, Role.SCRATCH, scratch))
    return Program(name, tasks, constants + kernels, tuple(buffers), kernel_starts=(len(constants),) if kernels else ())


__all__ = ["HEAD", "recorded_ports", "recorded_program", "recorded_tasks"]
