"""Which bytes of L2 and of DRAM are live during which task, and which task hands data to which: from the accesses.

A life begins where bytes are written (or the host fills them) and ends with the last task that reads them before other
bytes take their place. Bytes nobody has read yet are not ended by a write: several tasks may fill one tensor together.
Padding of rows counts as part of them. Coefficients from the constants are no part of it, nor are the rings that L2
streams operands through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise, product
from math import prod

from openane.chips import Limits
from openane.engine import Access, NeuralOperation, Operation, Space, sources
from openane.program import Program, Role
from openane.record_classes import dataclass

L2 = "L2"
HOST = -1
PIECES = 32
"""Pieces of one access that are followed one by one; an access of more is taken from its first to its last byte."""
FINAL = (Role.OUTPUT, Role.STATE)


@dataclass(frozen=True, slots=True)
class Area:
    """L2, or a buffer in DRAM: `role` is the buffer's, `size` bytes."""

    name: str
    role: str
    size: int


@dataclass(slots=True)
class MemoryLife:
    """Bytes `low` to `high` (exclusive) of area number `area`: written by task `writer` (-1: the host), live from task
    `begin` to task `end`, both included. Tasks are counted over all programs."""

    area: int
    low: int
    high: int
    begin: int
    end: int
    writer: int
    read: bool = False


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """`flow` are pairs of tasks, the second reading what the first wrote."""

    areas: tuple[Area, ...]
    lives: tuple[MemoryLife, ...]
    flow: tuple[tuple[int, int], ...]

    def live(self, tasks: int, on_chip: bool) -> list[int]:
        """Bytes live in each of the tasks, in L2 or in DRAM; bytes of several lives count once."""
        chosen = [life for life in self.lives if (self.areas[life.area].role == L2) == on_chip]
        begin: dict[int, list[MemoryLife]] = {}
        for life in chosen:
            begin.setdefault(life.begin, []).append(life)
        found, active = [], list[MemoryLife]()
        for task in range(tasks):
            active = [life for life in active if life.end >= task] + begin.get(task, [])
            found.append(_union(active))
        return found


@dataclass(slots=True)
class _Walk:
    """The tasks so far: lives that may go on, by area, and those that have ended. `burst` is what rows in memory are
    padded to."""

    burst: int
    areas: dict[str, int] = field(default_factory=dict)
    table: list[Area] = field(default_factory=list)
    open: dict[int, list[MemoryLife]] = field(default_factory=dict)
    ended: list[MemoryLife] = field(default_factory=list)
    flow: dict[tuple[int, int], None] = field(default_factory=dict)

    def area(self, name: str, role: str, size: int) -> int:
        """The number of an area, which grows to the largest size it is used with."""
        number = self.areas.setdefault(name, len(self.table))
        if number == len(self.table):
            self.table.append(Area(name, role, size))
            self.open[number] = []
        elif size > self.table[number].size:
            self.table[number] = Area(name, self.table[number].role, size)
        return number

    def read(self, task: int, area: int, low: int, high: int) -> None:
        """A task reads bytes."""
        for life in self.open[area]:
            if life.low < high and low < life.high:
                life.read, life.end = True, max(life.end, task)
                if life.writer not in (HOST, task):
                    self.flow[life.writer, task] = None

    def write(self, task: int, area: int, low: int, high: int, writer: int | None = None) -> None:
        """A task (or, for it, another `writer`) writes bytes."""
        kept: list[MemoryLife] = []
        for life in self.open[area]:
            if not life.read or life.high <= low or high <= life.low:
                kept.append(life)
                continue
            self.ended.append(_cut(life, max(low, life.low), min(high, life.high)))
            kept += [_cut(life, *part) for part in ((life.low, low), (high, life.high)) if part[0] < part[1]]
        self.open[area] = [*kept, MemoryLife(area, low, high, task, task, task if writer is None else writer)]


def lifetimes(programs: Sequence[tuple[Program, Sequence[Operation]]], limits: Limits) -> Lifetimes:
    """Lives of all programs one after the other; buffers of one name are one buffer, except scratch."""
    walk = _Walk(limits.burst)
    walk.area(L2, L2, limits.l2_size)
    first = 0
    for number, (program, operations) in enumerate(programs):
        slots = _areas(walk, number, program, first)
        walk.ended += walk.open[0]
        walk.open[0] = []
        for index, operation in enumerate(operations):
            _task(walk, slots, first + index, operation)
        first += len(operations)
    lives = [*walk.ended, *(life for some in walk.open.values() for life in some)]
    roles = {walk.areas[buffer.name] for program, _ in programs for buffer in program.buffers if buffer.role in FINAL}
    for life in lives:
        if life.area in roles and any(life is each for each in walk.open[life.area]):
            life.end = max(first - 1, life.begin)  # the host reads it
    return Lifetimes(tuple(walk.table), tuple(sorted(lives, key=lambda life: (life.area, life.begin, life.low))),
                     tuple(walk.flow))


def _areas(walk: _Walk, number: int, program: Program, first: int) -> dict[int, int]:
    """The areas behind a program's slots; what nobody wrote before it the host has written."""
    slots: dict[int, int] = {}
    for buffer in program.buffers:
        name = f"{buffer.name} of program {number}" if buffer.role is Role.SCRATCH else buffer.name
        slots[buffer.slot] = area = walk.area(name, str(buffer.role), buffer.size)
        if buffer.role in (Role.INPUT, Role.STATE) and not walk.open[area] and buffer.size:
            walk.write(first, area, 0, buffer.size, HOST)
    return slots


def _task(walk: _Walk, slots: dict[int, int], task: int, operation: Operation) -> None:
    read = sources(operation)
    if any(access.space is Space.CHAIN for access in read):
        walk.flow[task - 1, task] = None
    for area, low, high in _touched(read, slots, walk.burst):
        walk.read(task, area, low, high)
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        for section in operation.coefficients.sections:  # only buffers have an area: constants are left out
            for stream in section.streams if section.slot in slots else ():
                walk.read(task, slots[section.slot], stream.offset, stream.offset + stream.size)
    copies = [access.copy for access in (*read, operation.result) if access.copy is not None]
    for area, low, high in _touched((operation.result, *copies), slots, walk.burst):
        walk.write(task, area, low, high)


def _touched(accesses: Sequence[Access], slots: dict[int, int], burst: int) -> Iterator[tuple[int, int, int]]:
    for access in accesses:
        area = 0 if access.space is Space.L2 else slots.get(access.slot, HOST)
        if access.space is not Space.CHAIN and area != HOST:
            for low, high in pieces(access, burst):
                yield area, low, high


def _rows(access: Access, burst: int) -> tuple[int, list[tuple[int, int]]]:
    """The bytes of dense loops with their padding, and strides and extents of the loops around them."""
    run = min(access.interleave, access.shape[access.packed]) * access.dtype.size
    outer: list[tuple[int, int]] = []
    loops = zip(access.strides, access.blocks, strict=True)
    for stride, extent in sorted((abs(stride), extent) for stride, extent in loops if extent > 1 and stride):
        if not outer and (stride <= run or (stride - run < burst and not stride % burst)):
            run += (extent - 1) * stride
        else:
            outer.append((stride, extent))
    return run, outer


def pieces(access: Access, burst: int) -> list[tuple[int, int]]:
    """The byte ranges of an access: dense loops and rows with their padding in one, at most `PIECES` of them."""
    low, high = access.span
    run, outer = _rows(access, burst)
    if prod(extent for _, extent in outer) > PIECES:
        return [(low, high)]
    starts = sorted(low + sum(steps) for steps in product(*(range(0, s * e, s) for s, e in outer)))
    if any(after < before + run for before, after in pairwise(starts)):
        return [(low, high)]
    return [(start, min(start + run, high)) for start in starts]


def _cut(life: MemoryLife, low: int, high: int) -> MemoryLife:
    return MemoryLife(life.area, low, high, life.begin, life.end, life.writer, life.read)


def _union(lives: Sequence[MemoryLife]) -> int:
    """Bytes of the lives, those that overlap counted once."""
    total, reached = 0, (-1, 0)
    for area, low, high in sorted((life.area, life.low, life.high) for life in lives):
        begin = max(low, reached[1]) if reached[0] == area else low
        if high > begin:
            total, reached = total + high - begin, (area, high)
    return total
