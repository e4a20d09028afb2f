"""Sets of bytes that strided accesses touch, exactly, without visiting them.

A `Region` is nested loops over runs of adjacent bytes: strides from large to small, each at least what the loops
inside span, so that no byte is named twice. Every operand that compilers write has this form once dimensions of
extent 1 and broadcast ones are taken out. Differences of regions are regions again; where they would become too many
or too irregular (`Effort` runs out) the caller is told and must assume the worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace

from openane.engine import Access
from openane.record_classes import dataclass
from openane.rounding import round_up

FEW_CELLS = 8
Loops = tuple[tuple[int, int], ...]
"""(extent, stride) pairs, outermost first."""


@dataclass(frozen=True, slots=True)
class Region:
    """Runs of `run` bytes at `offset` + sum of index * stride over `loops`. `end` is one past the last byte."""

    offset: int
    loops: Loops
    run: int
    end: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        end = self.offset + self.run
        for extent, stride in self.loops:
            end += (extent - 1) * stride
        object.__setattr__(self, "end", end)  # asked for far more often than regions are made

    @property
    def size(self) -> int:
        """Number of bytes."""
        size = self.run
        for extent, _ in self.loops:
            size *= extent
        return size


class Effort:
    """How much work a question about regions may take."""

    __slots__ = ("left",)

    def __init__(self, steps: int = 4096) -> None:
        self.left = steps

    def spend(self) -> bool:
        """Takes one step; False when none is left."""
        self.left -= 1
        return self.left >= 0


def span(loops: Loops, run: int) -> int:
    """Bytes from the first to one past the last."""
    return sum((extent - 1) * stride for extent, stride in loops) + run


def interval(low: int, high: int) -> Region:
    """All bytes from `low` to `high`."""
    return Region(low, (), high - low)


def nested(offset: int, loops: Iterable[tuple[int, int]], run: int) -> tuple[Region | None, bool]:
    """The bytes of arbitrary loops as a region, and whether each is named once. (None, False) when they are no region:
    strides that do not nest."""
    inner: list[tuple[int, int]] = []
    once = True
    reach = run
    for extent, stride in sorted(loops, key=lambda loop: (abs(loop[1]), loop[0])):
        if extent == 1 or stride == 0:
            continue
        if stride < 0:
            offset, stride = offset + (extent - 1) * stride, -stride
        if not inner and stride <= run:
            once = once and stride == run
            run = reach = (extent - 1) * stride + run
        elif inner and stride % inner[0][1] == 0 and stride <= inner[0][0] * inner[0][1]:
            step = stride // inner[0][1]
            once = once and step == inner[0][0]
            inner[0] = ((extent - 1) * step + inner[0][0], inner[0][1])
            reach = span(tuple(inner), run)
        elif stride >= reach:
            inner.insert(0, (extent, stride))
            reach += (extent - 1) * stride
        else:
            return None, False
    return Region(offset, tuple(inner), run), once


def access_regions(access: Access) -> tuple[tuple[Region, ...], bool]:
    """The bytes of a memory or L2 access (copies apart), and whether every element lies on bytes of its own (the
    repeats of a broadcast dimension do not).

    Strides that do not nest give a region for every index of a short dimension, or no regions at all where there is
    none whose leaving out helps.
    """
    packed = access.packed
    if access.interleave == 1:
        parts = [(access.offset, access.shape[packed], 1)]
    else:
        blocks, rest = divmod(access.shape[packed], access.interleave)
        parts = [(access.offset, blocks, access.interleave)] if blocks else []
        if rest:
            parts.append((access.offset + blocks * access.strides[packed], 1, rest))
    regions, disjoint = [], all(e == 1 or s for e, s in zip(access.blocks, access.strides, strict=True))
    for offset, count, lanes in parts:
        extents = (*access.shape[:packed], count, *access.shape[packed + 1:])
        loops = tuple(zip(extents, access.strides, strict=True))
        region, once = nested(offset, loops, lanes * access.dtype.size)
        pieces = _apart(offset, loops, lanes * access.dtype.size) if region is None else [region]
        if not pieces:
            return (), False
        regions += pieces
        disjoint = disjoint and once
    return tuple(regions), disjoint and not (len(regions) > 1 and meets(*regions))


def _apart(offset: int, loops: Loops, run: int) -> list[Region]:
    """Loops that do not nest as one region per index of the shortest loop without which they do."""
    for place in sorted(range(len(loops)), key=lambda place: loops[place][0]):
        extent, stride = loops[place]
        if 1 < extent <= FEW_CELLS and stride:
            rest, _ = nested(offset, (*loops[:place], *loops[place + 1:]), run)
            if rest is not None:
                return [replace(rest, offset=rest.offset + index * stride) for index in range(extent)]
    return []


def rounded(region: Region, burst: int) -> Region:
    """The bytes moved when every row is moved in whole bursts. Rows are what lies closer than a burst; they start at
    the same place within one."""
    rows = tuple(loop for loop in region.loops if loop[1] >= burst)
    ahead = region.offset % burst
    row = ahead + span(region.loops[len(rows):], region.run)
    run = round_up(row, burst)
    whole, _ = nested(region.offset - ahead, rows, run)
    return whole or interval(region.offset - ahead, region.offset - ahead + span(rows, run))


def meets(first: Region, second: Region) -> bool:
    """Whether two regions share a byte; true also where that would take too long to decide."""
    if first.end <= second.offset or second.end <= first.offset:
        return False
    effort = Effort()
    left = subtract(first, second, effort)
    return effort.left < 0 or sum(piece.size for piece in left) != first.size


def subtract(region: Region, other: Region, effort: Effort) -> list[Region]:
    """The bytes of `region` that are not in `other`. When `effort` runs out, bytes of both may be left in."""
    if other.end <= region.offset or region.end <= other.offset:
        return [region]
    if not effort.spend():
        return [region]
    if not other.loops:
        return split(region, other.offset, other.end)[1]
    (extent, stride), within = other.loops[0], other.loops[1:]
    first = (region.offset - other.offset) // stride
    last = (region.end - 1 - other.offset) // stride
    if first == last:
        if not 0 <= first < extent:
            return [region]
        return subtract(region, Region(other.offset + first * stride, within, other.run), effort)
    high = other.offset + extent * stride
    if region.offset < other.offset or region.end > high:
        inside, outside = split(region, other.offset, high)
        return outside + [piece for part in inside for piece in subtract(part, other, effort)]
    return _by_cells(region, other, effort)


def _by_cells(region: Region, other: Region, effort: Effort) -> list[Region]:
    """`subtract` where the region lies within several cells (outer strides) of `other`: loops that step whole cells
    stand aside, what is left of the region is cut at cell boundaries."""
    _, stride = other.loops[0]
    outer = tuple(loop for loop in region.loops if loop[1] % stride == 0)
    inner = tuple(loop for loop in region.loops if loop[1] % stride)
    phase = (region.offset - other.offset) % stride
    back = region.offset - other.offset - phase
    part = Region(other.offset + phase, inner, region.run)
    if part.end <= other.offset + stride:
        cell = Region(other.offset, other.loops[1:], other.run)
        return [_joined(piece, outer, back) for piece in subtract(part, cell, effort)]
    pieces: list[Region] = []
    for piece in _cell_parts(part, other.offset, stride):
        if not effort.spend():
            return [region]
        pieces += subtract(_joined(piece, outer, back), other, effort)
    return pieces


def _cell_parts(part: Region, origin: int, stride: int) -> Iterator[Region]:
    """A region in parts that lie in one cell each, or consist of whole cells, or are simpler than it."""
    if not part.loops:
        yield from _cut(part, origin, stride)
        return
    (count, step), within = part.loops[0], part.loops[1:]
    first, last = (part.offset - origin) // stride, (part.end - 1 - origin) // stride
    if stride % step == 0 and (part.offset - origin) % step + span(within, part.run) <= step:
        yield from _cells(part, origin, stride)
    elif last - first < FEW_CELLS:
        for cell in range(first, last + 1):
            low = origin + cell * stride
            yield from split(part, low, low + stride)[0]
    else:
        for index in range(count):
            yield _slices(part, index, index + 1)


def _joined(piece: Region, outer: Loops, back: int) -> Region:
    loops = tuple(sorted((*outer, *piece.loops), key=lambda loop: -loop[1]))
    return Region(piece.offset + back, loops, piece.run)


def _cells(region: Region, origin: int, stride: int) -> list[Region]:
    """A region whose outer loop steps through cells, several steps each: first cell, whole cells, last cell."""
    (count, step), within = region.loops[0], region.loops[1:]
    each = stride // step
    done = (region.offset - origin) // step % each
    head = min(count, each - done) if done else 0
    whole, tail = divmod(count - head, each)
    parts = [_slices(region, 0, head)] if head else []
    if whole:
        start = region.offset + head * step
        parts.append(Region(start, (*(((whole, stride),) if whole > 1 else ()), (each, step), *within), region.run))
    return parts + ([_slices(region, count - tail, count)] if tail else [])


def _cut(region: Region, origin: int, stride: int) -> list[Region]:
    """One run at the boundaries of cells: head, whole cells, tail."""
    low, high = region.offset, region.end
    first = origin + round_up(low - origin, stride)
    last = origin + (high - origin) // stride * stride
    parts = [interval(low, first)] if low < first else []
    cells = (last - first) // stride
    if cells:
        parts.append(Region(first, ((cells, stride),) if cells > 1 else (), stride))
    return parts + ([interval(last, high)] if last < high else [])


def split(region: Region, low: int, high: int) -> tuple[list[Region], list[Region]]:
    """The parts of a region inside and outside the bytes from `low` to `high`. At most one slice of every loop lies
    across either end, so there are few."""
    if region.end <= low or high <= region.offset:
        return [], [region]
    if low <= region.offset and region.end <= high:
        return [region], []
    if not region.loops:
        start, stop = max(low, region.offset), min(high, region.end)
        ends = ((region.offset, start), (stop, region.end))
        return [interval(start, stop)], [interval(first, last) for first, last in ends if first < last]
    (extent, stride), within = region.loops[0], region.loops[1:]
    reach = span(within, region.run)
    # slices 0..a lie before `low`, a..b straddle it, b..c lie inside, c..d straddle `high`, the others lie beyond
    before = min(extent, max(0, (low - region.offset - reach) // stride + 1))
    beyond = min(extent, max(0, -((region.offset - high) // stride)))
    enter = min(extent, max(before, -((region.offset - low) // stride)))
    leave = max(enter, min(beyond, (high - region.offset - reach) // stride + 1))
    inside: list[Region] = []
    outside: list[Region] = []
    for first, last, into in ((0, before, outside), (enter, leave, inside), (beyond, extent, outside)):
        if first < last:
            into.append(_slices(region, first, last))
    for index in (*range(before, enter), *range(max(leave, enter), max(beyond, enter))):
        within_part, outside_part = split(_slices(region, index, index + 1), low, high)
        inside += within_part
        outside += outside_part
    return inside, outside


def _slices(region: Region, first: int, last: int) -> Region:
    (_, stride), within = region.loops[0], region.loops[1:]
    loops = ((last - first, stride), *within) if last - first > 1 else within
    return Region(region.offset + first * stride, loops, region.run)
