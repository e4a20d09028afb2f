"""Programs as the cache keeps them: a line of JSON, then the words of the tasks, then the constants.

Reading is quick because nothing is checked: the cache gives back only bytes that this machine wrote into it.
"""

from __future__ import annotations

import json
from array import array

from openane.engine import DType
from openane.errors import FormatError
from openane.program import Buffer, Constants, Layout, Program, Role, Task

WORD = "I"
PIECE = 1 << 16
"""Bytes that are searched at a time for the end of the line."""


def write_cached(program: Program) -> bytes:
    """The bytes of a program."""
    head = {"chip": program.chip, "name": program.name, "kernels": program.kernel_starts,
            "tasks": [(task.offset, len(task.words)) for task in program.tasks],
            "buffers": [(b.name, b.slot, b.role, b.size, b.layout and (
                b.layout.shape, b.layout.strides, b.layout.dtype, b.layout.interleave)) for b in program.buffers]}
    words = array(WORD, [word for task in program.tasks for word in task.words])
    return b"".join((json.dumps(head).encode(), b"\n", words.tobytes(), program.constants))


def read_cached(data: Constants) -> Program:
    """The program. FormatError when these are no bytes of `write_cached`."""
    try:
        end = _line_end(data)
        head = json.loads(bytes(data[:end]))
        count = sum(size for _, size in head["tasks"])
        words = array(WORD)
        words.frombytes(data[end + 1:end + 1 + count * words.itemsize])
        tasks, start = [], 0
        for offset, size in head["tasks"]:
            tasks.append(Task(tuple(words[start:start + size]), offset))
            start += size
        buffers = tuple(Buffer(name, slot, Role(role), size, layout and _layout(*layout))
                        for name, slot, role, size, layout in head["buffers"])
        return Program(head["chip"], tuple(tasks), data[end + 1 + count * words.itemsize:], buffers, head["name"],
                       kernel_starts=tuple(head["kernels"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"this is no kept program: {error}") from None


def _line_end(data: Constants) -> int:
    """Where the line of JSON ends. ValueError where no line does."""
    for start in range(0, len(data), PIECE):
        found = bytes(data[start:start + PIECE]).find(b"\n")
        if found >= 0:
            return start + found
    raise ValueError("there is no line")


def _layout(shape: list[int], strides: list[int], dtype: str, interleave: int) -> Layout:
    n, c, d, h, w = shape
    sn, sc, sd, sh, sw = strides
    return Layout((n, c, d, h, w), (sn, sc, sd, sh, sw), DType(dtype), interleave)
