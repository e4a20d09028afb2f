"""Where each coefficient of a neural-engine operation lies: the packing both the compiler and the simulator use.

The engine has 16 cores, each fed by its own stream of halfwords. Output channels are dealt out in blocks of `lanes`
channels: block b goes to core b % 16. A block is [one bias per lane] then one row of `lanes` halfwords per weight
position (input channel slowest, then kernel depth, row, column). Channels left over behind a full round of 16 * lanes
form blocks of fewer lanes; a first round that is not full leaves cores idle (Apple's product of 16 rows with 2 lanes
uses 8). A 128-byte table, when present, heads every stream. Streams are padded to 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, overload

CORES = 16
PAD = 64
TABLE_BYTES = 128
SPARSE_LENGTH = 3
"""Bytes that state the length of a zero-skipping body."""
SPARSE_WIDTH = 4
"""Lanes a slot of a zero-skipping body has at least. Evidence: the recorded section of a grouped 1x1 convolution of
one lane has its hash only so."""


class Packing(StrEnum):
    """How the halfwords of a stream stand for weights."""

    DENSE = "dense"
    SPARSE = "sparse"    # zero-skipping: per eight lanes a mask byte and the nonzero halfwords
    PALETTE = "palette"  # indices into a table of values


class Stream(NamedTuple):
    """The bytes one core reads: `size` bytes from `offset` relative to the coefficients' slot."""

    core: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Streams(Sequence[Stream]):
    """Streams that lie as `parts` do, `offset` bytes further: what tasks share that read one piece after another. Equal
    to any sequence of the same streams."""

    parts: tuple[Stream, ...]
    offset: int = 0

    @staticmethod
    def of(streams: Sequence[Stream]) -> Streams:
        """Any streams as such."""
        return streams if isinstance(streams, Streams) else Streams(tuple(streams))

    @property
    def end(self) -> int:
        """One past the last byte; 1 where there are none."""
        return self.offset + _bounds(self.parts)[1] if self.parts else 1

    @property
    def start(self) -> int:
        """The first byte; 0 where there are none."""
        return self.offset + _bounds(self.parts)[0] if self.parts else 0

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, index: int) -> Stream: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Stream, ...]: ...

    def __getitem__(self, index: int | slice) -> Stream | tuple[Stream, ...]:
        return tuple(self)[index]

    def __iter__(self) -> Iterator[Stream]:
        base = self.offset
        return iter([Stream(core, base + offset, size) for core, offset, size in self.parts])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Streams) and self.parts == other.parts:
            return self.offset == other.offset or not self.parts
        return tuple(self) == tuple(other) if isinstance(other, tuple | Streams) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@lru_cache(maxsize=1 << 10)
def _bounds(parts: tuple[Stream, ...]) -> tuple[int, int]:
    """The first byte of streams and one past the last."""
    return min([offset for _, offset, _ in parts]), max([offset + size for _, offset, size in parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What a task's kernel DMA brings in: weights and/or biases and/or a table, in one stream per active core."""

    slot: int
    streams: Sequence[Stream]
    lanes: int = 1
    weights: bool = True
    bias: bool = False
    table: bool = False
    packing: Packing = Packing.DENSE
    palette_bits: int = 0
    runtime: bool = False

    def moved(self, slot: int, offset: int) -> Coefficients:
        """The same `offset` bytes further, relative to `slot`."""
        streams = Streams.of(self.streams)
        return Coefficients(slot=slot, streams=Streams(streams.parts, streams.offset + offset), lanes=self.lanes,
                            weights=self.weights, bias=self.bias, table=self.table, packing=self.packing,
                            palette_bits=self.palette_bits, runtime=self.runtime)

    def __str__(self) -> str:
        parts = [name for name in ("weights", "bias", "table", "runtime") if getattr(self, name)]
        total = sum(s.size for s in self.streams)
        return (f"slot{self.slot}+0x{min((s.offset for s in self.streams), default=0):x}"
                f"[{'+'.join(parts)}, {len(self.streams)} cores, {total} bytes, {self.lanes} lanes, {self.packing}]")


class Channel(NamedTuple):
    """One output channel: weight r is halfword `weights + r * step` of `core`'s stream, its bias halfword `bias`."""

    core: int
    weights: int
    step: int
    bias: int | None


def dense_channels(channels: int, rows: int, lanes: int, *, bias: bool = False, table: bool = False) -> list[Channel]:
    """Placement of `channels` output channels of `rows` weights each, for an ungrouped convolution or product."""
    cursor = [TABLE_BYTES // 2 if table else 0] * CORES
    placed: list[Channel] = []
    for core, width, count in blocks(channels, lanes):
        start = cursor[core]
        body = start + (width if bias else 0)
        placed += [Channel(core, body + lane, width, start + lane if bias else None) for lane in range(count)]
        cursor[core] = body + rows * width
    return placed


def depthwise_channels(channels: int, taps: int, *, bias: bool = False, table: bool = False) -> list[Channel]:
    """Placement of a depthwise convolution: channel c on core c % 16, its taps contiguous after its bias."""
    return dense_channels(channels, taps, 1, bias=bias, table=table)


def grouped_channels(groups: int, channels: int, rows: int, lanes: int, *, bias: bool = False,
                     table: bool = False) -> list[Channel]:
    """Placement of a grouped convolution, group by group; each group's plane on a core is padded to 64 bytes."""
    placed: list[Channel] = []
    start = [TABLE_BYTES // 2 if table else 0] * CORES
    for _ in range(groups):
        end = list(start)
        for channel in dense_channels(channels, rows, lanes, bias=bias):
            base = start[channel.core]
            moved = Channel(channel.core, base + channel.weights, channel.step,
                            None if channel.bias is None else base + channel.bias)
            placed.append(moved)
            end[channel.core] = max(end[channel.core], moved.weights + (rows - 1) * moved.step + 1)
        start = [-(-e * 2 // PAD) * PAD // 2 if e != s else s for s, e in zip(start, end, strict=True)]
    return placed


def sparse_taps(height: int, width: int) -> list[int | None]:
    """Order of a kernel's taps in the zero-skipping form, None for a slot that holds zeros.

    A stride of 2 splits the kernel into four phases (even and odd rows and columns), each stored as a grid of
    ceil(height / 2) x ceil(width / 2) slots. Evidence: with it three sections Apple's compiler packed (1x1, 3x3, 3x3
    with bias) have their recorded hash.
    """
    taps: list[int | None] = []
    for phase in range(4):
        for row in range(phase // 2, height + height % 2, 2):
            for column in range(phase % 2, width + width % 2, 2):
                taps.append(row * width + column if row < height and column < width else None)
    return taps


def stream_sizes(channels: list[Channel], rows: int) -> dict[int, int]:
    """Bytes of each core's stream that holds anything, padded to 64. Unused lanes of a last block are included."""
    sizes: dict[int, int] = {}
    for channel in channels:
        last = channel.weights + (rows - 1) * channel.step + 1
        sizes[channel.core] = max(sizes.get(channel.core, 0), -(-last * 2 // PAD) * PAD)
    return sizes


def left_over_lanes(remaining: int) -> int:
    """Lanes of the blocks that take `remaining` channels: the largest power of two that fills all 16 cores."""
    return 1 << max(0, (remaining // CORES).bit_length() - 1)


def blocks(channels: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """Core, lanes and channels of every block in order."""
    remaining, core = channels, 0
    while remaining > 0:
        if core == 0 and remaining < min(channels, CORES * lanes):
            lanes = min(lanes, left_over_lanes(remaining))
        count = min(lanes, remaining)
        yield core, lanes, count
        remaining -= count
        core = (core + 1) % CORES
