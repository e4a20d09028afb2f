"""How coefficients lie in the streams of a generation's cores: the one placement that packing, patching, the verifier,
the simulator and timing ask.

Output channels are dealt out in blocks of `lanes` channels, block b to core b modulo the number of cores. A block is
[one bias per lane] then one row of `lanes` halfwords per weight position (input channel slowest, then kernel depth,
row, column). Channels left over behind a full round of all cores form blocks of fewer lanes; a first round that is not
full leaves cores idle (Apple's product of 16 rows with 2 lanes uses 8). Every group of a grouped operation has a plane
of its own in each stream, padded to the streams' alignment. A table heads every stream where it has none of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from openane.chips.lanes import left_over_lanes
from openane.chips.table_format import TableFormat
from openane.engine import Coefficients, CoefficientSection, Geometry
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.rounding import round_up

HALFWORD = 2
"""Bytes of an fp16 number."""


class Channel(NamedTuple):
    """One output channel: weight r is halfword `weights + r * step` of `core`'s stream, its bias halfword `bias`."""

    core: int
    weights: int
    step: int
    bias: int | None


@dataclass(frozen=True, slots=True)
class CoreRun:
    """Equal blocks of `cores` cores from `core` on, whose streams follow each other every `spacing` bytes: in round r
    the c-th of them takes `count` channels from `first` + (r * `turn` + c) * `width`. `place` is where the first block
    begins, in halfwords behind the beginning of its group's plane; `turn` is how many cores a round deals to."""

    core: int
    cores: int
    spacing: int
    first: int
    rounds: int
    width: int
    count: int
    place: int
    turn: int

    def joined(self, others: Sequence[CoreRun], spacing: int) -> CoreRun:
        """The run together with those of the next cores that continue it, streams `spacing` bytes apart."""
        return self if not others else replace(self, cores=1 + len(others), spacing=spacing)

    def continues(self, first: CoreRun, cores: int) -> bool:
        """Whether the run of one core goes on with those of `cores` cores from that of `first` on."""
        return (self.rounds, self.width, self.count, self.place) == \
            (first.rounds, first.width, first.count, first.place) and self.core == first.core + cores \
            and self.first == first.first + cores * first.width


@dataclass(frozen=True, slots=True)
class CoefficientPlacement:
    """Where weights [groups, channels, rows] and biases [groups, channels] of one task lie.

    `head` are the bytes of a stream before its first plane; `planes` the halfwords of one group's plane by core,
    padded; `used` those before padding, whole rows of lanes; `streams` (core, offset, bytes) when one stream follows
    the other.
    """

    groups: int
    rows: int
    bias: bool
    head: int
    runs: tuple[CoreRun, ...]
    planes: Mapping[int, int]
    used: Mapping[int, int]
    streams: tuple[tuple[int, int, int], ...]

    def needed(self) -> dict[int, int]:
        """Bytes each core reads of its stream at least."""
        return {core: self.head + HALFWORD * ((self.groups - 1) * plane + self.used[core])
                for core, plane in self.planes.items()}

    def multiplied(self) -> Iterator[tuple[int, int, tuple[tuple[int, int], ...], int]]:
        """The bytes of the streams that products are made with, as (core, offset, loops of (extent, stride), bytes side
        by side): neither what fills up planes nor the lanes of a last block that has fewer channels."""
        rows = self.rows + self.bias
        for run in self.runs:
            step, loops = HALFWORD * run.width, ((run.rounds, HALFWORD * rows * run.width),)
            for core in range(run.core, run.core + run.cores):
                groups = (self.groups, HALFWORD * self.planes[core])
                yield core, self.head + HALFWORD * run.place, (groups, *loops, (rows, step)), HALFWORD * run.count

    def channels(self) -> Iterator[Channel]:
        """Every output channel, group by group, counted from the start of its core's stream."""
        start = self.head // HALFWORD
        for group in range(self.groups):
            found: list[tuple[int, Channel]] = []
            for run in self.runs:
                for turn in range(run.rounds):
                    for each in range(run.cores):
                        core = run.core + each
                        block = start + group * self.planes[core] + run.place \
                            + turn * (self.rows + self.bias) * run.width
                        body = block + self.bias * run.width
                        first = run.first + (turn * run.turn + each) * run.width
                        found += [(first + lane, Channel(core, body + lane, run.width,
                                                         block + lane if self.bias else None))
                                  for lane in range(run.count)]
            found.sort()
            yield from (channel for _, channel in found)


ANNOUNCED = bytes(HALFWORD * byte.bit_count() for byte in range(256))
"""Bytes of the halfwords that a byte of a mask announces."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a zero-skipping body that have the same masks: `count` rows of `size` bytes from byte `start` on, whose
    masks lie at `places` from the beginning of their row."""

    start: int
    count: int
    size: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SparseFormat:
    """The zero-skipping form of weights: per block [one bias per lane], the body's length, the body. Per input channel
    a body has the slots of `taps`, each as wide as the block and at least `least_lanes`; `values` of them share a mask
    (bit i, counted from the lowest of its first byte: value i is not zero), which the nonzero halfwords follow.

    Evidence: the recorded hashes of sections Apple's compiler packed, for H13 four (1x1 with 4 lanes, 1x1 of 4 groups
    with one lane, 3x3 with 4, 3x3 with 8 and biases), for H14 one (3x3 with 4 lanes).
    """

    length: int        # bytes that state the length of a body
    least_lanes: int   # lanes a slot has at least
    values: int        # values a mask is for, a multiple of 8
    proved: int        # height and width of the largest kernel whose form a record proves

    @property
    def mask(self) -> int:
        """Bytes of a mask."""
        return self.values // 8

    def width(self, lanes: int) -> int:
        """Lanes of a slot in blocks of `lanes`."""
        return max(lanes, self.least_lanes)

    def rows(self, body: bytes, masks: int) -> Iterator[Rows]:
        """The rows of a body, one for each input channel, `masks` masks in each. ProgramError when a mask, or what it
        announces, lies beyond the end."""
        announced, mask, start = body.translate(ANNOUNCED), self.mask, 0
        while start < len(body):
            places, at = [], start
            for _ in range(masks):
                places.append(at - start)
                at += mask + (announced[at] if mask == 1 and at < len(body) else sum(announced[at:at + mask]))
            if at > len(body) or not masks:
                raise ProgramError(f"a body of {len(body)} bytes ends before its masks and what they announce do")
            size = at - start
            offsets = [place + byte for place in places for byte in range(mask)]
            count = _alike(body, start, size, offsets)
            yield Rows(start, count, size, tuple(places))
            start += count * size

    @staticmethod
    def taps(height: int, width: int) -> list[int | None]:
        """Order of a kernel's taps, None for a slot that holds zeros.

        A stride of 2 splits the kernel into four phases (even and odd rows and columns), each stored as a grid of
        ceil(height / 2) x ceil(width / 2) slots.
        """
        found: list[int | None] = []
        for phase in range(4):
            for row in range(phase // 2, height + height % 2, 2):
                for column in range(phase % 2, width + width % 2, 2):
                    found.append(row * width + column if row < height and column < width else None)
        return found


def _alike(body: bytes, start: int, size: int, offsets: Sequence[int]) -> int:
    """How many rows of `size` bytes from `start` on have the first one's bytes at `offsets`. Most rows have no zero, so
    ever more of them are looked at together."""
    known, together, most = 1, 64, (len(body) - start) // size
    while known < most:
        run = some = min(together, most - known)
        base = start + known * size
        for offset in offsets:
            seen = body[base + offset:base + offset + (run - 1) * size + 1:size]
            run = len(seen) - len(seen.lstrip(body[start + offset:start + offset + 1]))
            if run == 0:
                break
        known += run
        if run < some:
            break
        together *= 4
    return known


@dataclass(frozen=True, slots=True)
class CoefficientFormat:
    """How a generation arranges coefficients. `table_apart`: a table has a stream of its own, else it heads every
    stream of the weights, or is all there is in them."""

    cores: int
    alignment: int     # streams and planes begin and end at multiples of this, bytes
    table_apart: bool
    table: TableFormat
    sparse: SparseFormat

    def blocks(self, channels: int, lanes: int) -> Iterator[tuple[int, int, int]]:
        """Core, lanes and channels of every block in order."""
        for core, width, count, rounds in self.rounds(channels, lanes):
            if rounds == 1:
                yield core, width, count
            elif core == 0:
                yield from ((each, width, count) for _ in range(rounds) for each in range(self.cores))

    def rounds(self, channels: int, lanes: int) -> Iterator[tuple[int, int, int, int]]:
        """Core, lanes, channels and repetitions of the blocks in order: those of full rounds once for each core."""
        full = channels // (self.cores * lanes)
        if full:
            yield from ((core, lanes, lanes, full) for core in range(self.cores))
        left = channels - full * self.cores * lanes
        width = min(lanes, left_over_lanes(left, self.cores)) if full else lanes
        core = 0
        while left > 0:
            count = min(width, left)
            yield core, width, count, 1
            left -= count
            core = (core + 1) % self.cores
            if core == 0:
                width = min(width, left_over_lanes(left, self.cores))

    def head(self, coefficients: Coefficients) -> int:
        """Bytes before the first weight or bias of every stream."""
        table = coefficients.table
        return 0 if table is None or table not in (coefficients.weights, coefficients.bias) else self.table.size

    def common(self, coefficients: Coefficients) -> CoefficientSection | None:
        """A table that all cores read from one stream, as only a table with a stream of its own is."""
        return coefficients.table if self.table_apart and not self.head(coefficients) else None

    def fetched(self, coefficients: Coefficients) -> int:
        """Bytes that come in from memory: what all cores read from one stream comes once."""
        common = self.common(coefficients)
        return sum(self.table.size if section == common else section.streams.total for section in coefficients.sections)

    def place(self, geometry: Geometry, coefficients: Coefficients) -> CoefficientPlacement:
        """Where the weights and biases of an operation lie in their streams, packed densely."""
        return self.dense(geometry, coefficients.lanes, coefficients.bias is not None, self.head(coefficients))

    def dense(self, geometry: Geometry, lanes: int, bias: bool, head: int = 0) -> CoefficientPlacement:
        """The same from the number of lanes, whether there are biases, and the bytes before the first of them."""
        if geometry.single:
            geometry, lanes = Geometry(1, geometry.groups * geometry.channels, geometry.rows), 1
        return _dense(self, geometry, lanes, bias, head)


@lru_cache(maxsize=1 << 8)
def _dense(form: CoefficientFormat, geometry: Geometry, lanes: int, bias: bool, head: int) -> CoefficientPlacement:
    groups, channels, rows = geometry.groups, geometry.channels, geometry.rows
    runs: dict[tuple[int, int, int], CoreRun] = {}
    used, ends, first = [0] * form.cores, dict[int, int](), 0
    for core, width, count, rounds in form.rounds(channels, lanes):
        known = runs.get((width, count, core))
        runs[width, count, core] = CoreRun(core, 1, 0, first, rounds, width, count, used[core], form.cores) \
            if known is None else replace(known, rounds=known.rounds + rounds)
        used[core] += rounds * (rows + bias) * width
        ends[core] = used[core] - width + count
        first += count if core < form.cores - 1 else count + (rounds - 1) * form.cores * count
    planes = {core: round_up(HALFWORD * end, form.alignment) // HALFWORD for core, end in ends.items()}
    streams: list[tuple[int, int, int]] = []
    offset = 0
    for core in sorted(planes):
        streams.append((core, offset, head + HALFWORD * groups * planes[core]))
        offset += streams[-1][2]
    whole = [runs[key] for key in sorted(runs)]
    return CoefficientPlacement(groups, rows, bias, head, tuple(_joined(whole, planes, streams)), planes,
                                {core: used[core] for core in planes}, tuple(streams))


def _joined(runs: list[CoreRun], planes: Mapping[int, int], streams: list[tuple[int, int, int]]) -> list[CoreRun]:
    """The runs, each of one core, with those of neighbouring cores as one where they lie alike."""
    offsets = {core: offset for core, offset, _ in streams}
    joined: list[CoreRun] = []
    position = 0
    while position < len(runs):
        first, end, apart = runs[position], position + 1, 0
        while end < len(runs) and runs[end].continues(first, end - position):
            core = runs[end].core
            spacing = offsets[core] - offsets[core - 1]
            if planes[core] != planes[first.core] or apart not in (0, spacing):
                break
            end, apart = end + 1, spacing
        joined.append(first.joined(runs[position + 1:end], apart))
        position = end
    return joined
