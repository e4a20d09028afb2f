"""An engine program: what the engine executes, independent of the file it came from.

Tasks are descriptors in a text. Memory is reached through numbered base-address slots: the generation says which are
the text and the constants, the others are buffers. Which slot is which buffer is stated by `buffers`, never assumed.

The constants of a program are one row of bytes. Up to H15 all of them lie behind one slot; from H16 on those that the
kernel DMA reads lie in sections of their own, behind the slots after the last buffer's. `Program.constant_ranges` says
which bytes lie behind which slot: offsets in tasks count from the first of them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import field, replace
from enum import StrEnum
from itertools import pairwise

from openane.chips import get_chip
from openane.chips.limits import BaseSlots
from openane.engine import DType, Shape
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up

Constants = bytes | memoryview
"""Bytes that nobody writes: in memory, or mapped from a file."""

ByteRange = tuple[int, int]
"""First byte and one past the last, as offsets in the constants."""


class Role(StrEnum):
    """What a buffer is for."""

    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in its buffer: extents and byte strides in the order N, C, D, H, W."""

    shape: Shape
    strides: Shape
    dtype: DType = DType.FLOAT16
    interleave: int = 1

    @property
    def size(self) -> int:
        """Bytes from the start of the buffer to the end of the last row, row padding included."""
        n, c, d, h, w = self.shape
        sn, sc, sd, sh, sw = self.strides
        blocks = ceil_div(c, self.interleave)
        last = (n - 1) * sn + (blocks - 1) * sc + (d - 1) * sd + (h - 1) * sh
        return last + max(sh if h > 1 or sh else 0, w * sw)

    @staticmethod
    def packed(shape: Shape, align: int, dtype: DType = DType.FLOAT16) -> Layout:
        """The layout Apple's compiler gives a surface: rows padded to `align` bytes, everything else dense.

        Strides: row = roundup(W * size, align), depth and plane follow; planes of one depth are adjacent channels.
        """
        n, c, d, h, w = shape
        row = round_up(w * dtype.size, align)
        plane = row * h
        depth = plane * c
        return Layout(shape, (depth * d, plane, depth, row, dtype.size), dtype)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory behind a slot. `size` is bytes; `layout` describes the tensor in it, when known."""

    name: str
    slot: int
    role: Role
    size: int
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task descriptor: its 32-bit words and its byte offset in the text."""

    words: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return 4 * len(self.words)

    @property
    def data(self) -> bytes:
        """The words as the engine fetches them, lowest byte first."""
        words = array("I", self.words)
        if sys.byteorder == "big":
            words.byteswap()
        return words.tobytes()


@dataclass(frozen=True, slots=True)
class Program:
    """Tasks in execution order, the constants they read and the buffers behind their slots (kept in slot order).

    `kernel_starts` are the bytes of the constants at which the sections begin that the kernel DMA reads from slots of
    their own; none where the generation has no such sections, or the program reads nothing from them.

    `origin` says where a program was read from (compiler version, container); it does not take part in equality.
    """

    chip: str
    tasks: tuple[Task, ...]
    constants: Constants = b""
    buffers: tuple[Buffer, ...] = ()
    name: str = "main"
    origin: dict[str, str] = field(default_factory=dict, compare=False, hash=False)
    kernel_starts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", tuple(sorted(self.buffers, key=lambda b: b.slot)))
        slots = [b.slot for b in self.buffers]
        for slot in {s for s in slots if slots.count(s) > 1}:
            names = ", ".join(b.name for b in self.buffers if b.slot == slot)
            raise ProgramError(f"slot {slot} is bound to more than one buffer: {names}")
        names_seen = [b.name for b in self.buffers]
        for name in {n for n in names_seen if names_seen.count(n) > 1}:
            raise ProgramError(f"two buffers are called {name!r}")

    def __repr__(self) -> str:
        names = ", ".join(f"{b.role} {b.name}" for b in self.buffers)
        return (f"<Program {self.name!r} for {self.chip}: {len(self.tasks)} tasks, {len(self.constants)} bytes of "
                f"constants, buffers {names or 'none'}>")

    def with_role(self, *roles: Role) -> tuple[Buffer, ...]:
        """Buffers of the given roles, in slot order."""
        return tuple(sorted((b for b in self.buffers if b.role in roles), key=lambda b: b.slot))

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """Input buffers in slot order."""
        return self.with_role(Role.INPUT)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """Output buffers in slot order."""
        return self.with_role(Role.OUTPUT)

    @property
    def slots(self) -> BaseSlots:
        """What the base-address slots of its generation are for. UnsupportedError when that is not described."""
        return get_chip(self.chip).limits.slots

    @property
    def constant_ranges(self) -> dict[int, ByteRange]:
        """The bytes of the constants behind each slot that has some, the constants' own slot first. Sections where the
        generation has none are left out: the verifier names them. UnsupportedError as `slots`."""
        slots = self.slots
        first = slots.first_kernels(b.slot for b in self.buffers)
        starts = () if first is None else self.kernel_starts
        ranges = {slots.constants: (0, starts[0] if starts else len(self.constants))}
        if first is not None:
            ranges |= dict(enumerate(pairwise((*starts, len(self.constants))), first))
        return ranges

    def constants_of(self, slot: int) -> Constants:
        """The bytes of constants behind a slot; none where there are none."""
        low, high = self.constant_ranges.get(slot, (0, 0))
        return self.constants if high - low == len(self.constants) else memoryview(self.constants)[low:high]

    def kernels_defect(self) -> str:
        """What the sections that the kernel DMA reads must be and are not; empty where they are right."""
        starts, size = self.kernel_starts, len(self.constants)
        if starts and not self.slots.kernels_apart:
            return f"none: the kernel DMA of {self.chip} reads the constants"
        if any(type(start) is not int for start in starts) or min(starts, default=0) < 0 \
                or any(low >= high for low, high in pairwise((*starts, size))):
            return f"sections one after another, none empty, in {size} bytes of constants"
        return ""

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`; ProgramError lists the known ones."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise ProgramError(f"no buffer is called {name!r}; there are " + ", ".join(b.name for b in self.buffers))

    def text(self) -> bytes:
        """The task descriptors at their offsets, gaps zero, as the engine fetches them."""
        end = max((t.offset + t.size for t in self.tasks), default=0)
        out = bytearray(end)
        for task in self.tasks:
            out[task.offset:task.offset + task.size] = task.data
        return bytes(out)

    def replace_tasks(self, tasks: Iterator[Task]) -> Program:
        """The same program with other tasks."""
        return replace(self, tasks=tuple(tasks))
