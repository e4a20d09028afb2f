"""Programs as the cache keeps them: a line of JSON, the tasks' words, the constants.

Quick to read because nothing is checked: the cache gives back only bytes that it was given on the same machine.
"""

from __future__ import annotations

import json
from array import array

from openane.engine import DType
from openane.errors import FormatError
from openane.program import Buffer, Layout, Program, Role, Task

WORD = "I"


def write_cached(program: Program) -> bytes:
    """The bytes of a program."""
    head = {"chip": program.chip, "name": program.name,
            "tasks": [(task.offset, len(task.words)) for task in program.tasks],
            "buffers": [(b.name, b.slot, b.role, b.size, b.layout and (
                b.layout.shape, b.layout.strides, b.layout.dtype, b.layout.interleave)) for b in program.buffers]}
    words = array(WORD, [word for task in program.tasks for word in task.words])
    return b"".join((json.dumps(head).encode(), b"\n", words.tobytes(), program.constants))


def read_cached(data: bytes) -> Program:
    """The program. FormatError when these are no bytes of `write_cached`."""
    try:
        end = data.index(b"\n")
        head = json.loads(data[:end])
        count = sum(size for _, size in head["tasks"])
        words = array(WORD)
        words.frombytes(data[end + 1:end + 1 + count * words.itemsize])
        tasks, start = [], 0
        for offset, size in head["tasks"]:
            tasks.append(Task(tuple(words[start:start + size]), offset))
            start += size
        buffers = tuple(Buffer(name, slot, Role(role), size, layout and _layout(*layout))
                        for name, slot, role, size, layout in head["buffers"])
        return Program(head["chip"], tuple(tasks), data[end + 1 + count * words.itemsize:], buffers, head["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"this is no kept program: {error}") from None


def _layout(shape: list[int], strides: list[int], dtype: str, interleave: int) -> Layout:
    n, c, d, h, w = shape
    sn, sc, sd, sh, sw = strides
    return Layout((n, c, d, h, w), (sn, sc, sd, sh, sw), DType(dtype), interleave)
