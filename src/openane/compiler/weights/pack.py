"""Coefficient streams: numpy weights in, the bytes each core reads out, by the placements of engine.coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.engine import Packing
from openane.engine.coefficients import (
    CORES,
    PAD,
    SPARSE_LENGTH,
    SPARSE_WIDTH,
    TABLE_BYTES,
    blocks,
    left_over_lanes,
    sparse_taps,
)

SPARSE_GROUP = 8
"""Values one mask byte of a zero-skipping body is for."""
HOLES = 16
"""Rows with zeros are made one by one while there are that many times as many without."""
LANE_CAP = 16
"""Lanes a core uses at most for large images and products."""
SMALL_LANE_CAP = 32
"""Lanes a core uses at most when the input has at most `SMALL_SIDE` pixels per side."""
SMALL_SIDE = 8


CORE_BYTES = 1 << 16
"""Coefficients a core keeps while it goes over more pixels than `STREAMED_PIXELS`."""
STREAMED_PIXELS = 128
"""Up to this many pixels a core meets each coefficient once, so that a stream may be longer than what it keeps."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Streams of one task, concatenated: `streams` lists (core, offset in `data`, bytes). `weights` and `bias` are what
    was packed, `form` where it went if that does not depend on the values."""

    data: bytes
    streams: tuple[tuple[int, int, int], ...]
    lanes: int
    packing: Packing = Packing.DENSE
    weights: np.ndarray | None = None
    bias: np.ndarray | None = None
    form: DenseForm | None = None


def choose_lanes(channels: int, height: int, width: int, rows: int = 1, streamed: bool = True) -> int:
    """Lanes of a convolution with `channels` outputs per group, `rows` weights each, on a `height` x `width` input.

    The largest power of two that leaves no core idle, at most 32 when both sides are 8 pixels or fewer, else 16
    (seen in every convolution Apple's compiler packed). Unless the weights are `streamed` a block must also fit what
    a core keeps.
    """
    cap = SMALL_LANE_CAP if max(height, width) <= SMALL_SIDE else LANE_CAP
    lanes = min(cap, left_over_lanes(channels))
    while lanes > 1 and not streamed and 2 * rows * lanes > CORE_BYTES:
        lanes //= 2
    return lanes


def task_channels(channels: int, rows: int, lanes: int, limit: int, head: int = 0) -> int:
    """Output channels of one task when a core may have `limit` bytes of coefficients: all, or whole rounds of blocks.

    `rows` counts the bias; `head` are the bytes before the first block. Evidence: Apple splits products of more than
    128 rows at 64 KiB a core (a table of 128 bytes makes 3 tasks of 2 full ones), and 3x3 convolutions of 512 and more
    inputs at the largest block below that.
    """
    rounds = max(1, (limit - head) // (2 * rows * lanes))
    fit = CORES * lanes * rounds
    return channels if channels <= fit else fit


def product_lanes(rows: int, reduction: int, channels: int) -> int:
    """Lanes of a matrix product [rows, reduction] x [reduction, channels].

    16 at most; beyond 128 rows also at most 32768 / reduction (seen in Apple's products).
    """
    lanes = min(LANE_CAP, left_over_lanes(channels))
    if rows > 128:
        lanes = min(lanes, max(1, 2 ** max(0, (32768 // reduction).bit_length() - 1)))
    return lanes


def pack_dense(weights: np.ndarray, bias: np.ndarray | None, lanes: int, table: bytes | None = None) -> Packed:
    """Streams of weights [groups, channels, rows] and bias [groups, channels] (both become fp16)."""
    groups, channels, rows = weights.shape
    form = dense_form(groups, channels, rows, lanes, bias=bias is not None, table=table is not None)
    section = np.zeros(sum(size for _, _, size in form.streams), np.uint8)
    form.write(section, 0, weights, bias)
    if table is not None:
        for _, offset, _ in form.streams:
            section[offset:offset + TABLE_BYTES] = np.frombuffer(table, np.uint8)
    return Packed(section.tobytes(), form.streams, lanes, Packing.DENSE, weights, bias, form)


def pack_table(table: bytes, cores: int) -> Packed:
    """A table alone: every active core reads the same 128 bytes. Room for one each is kept, as Apple does."""
    return Packed(table.ljust(cores * TABLE_BYTES, b"\0"), tuple((core, 0, TABLE_BYTES) for core in range(cores)), 1)


@dataclass(frozen=True, slots=True)
class Run:
    """Equal blocks of `cores` cores from `core` on, whose streams follow each other every `spacing` bytes: in round r
    the c-th of them takes `count` channels from `first` + (r * CORES + c) * `width`. `place` is where the first block
    begins, in halfwords behind the beginning of its group's plane."""

    core: int
    cores: int
    spacing: int
    first: int
    rounds: int
    width: int
    count: int
    place: int

    def taken(self, values: np.ndarray) -> np.ndarray:
        """[groups, rounds, cores, count, ...] of [groups, channels, ...]."""
        step = values.strides[1]
        return np.lib.stride_tricks.as_strided(
            values[:, self.first:], (len(values), self.rounds, self.cores, self.count, *values.shape[2:]),
            (values.strides[0], CORES * self.width * step, self.width * step, step, *values.strides[2:]))

    def joined(self, others: Sequence[Run], spacing: int) -> Run:
        """The run together with those of the next cores that continue it, streams `spacing` bytes apart."""
        return self if not others else replace(self, cores=1 + len(others), spacing=spacing)

    def continues(self, first: Run, cores: int) -> bool:
        """Whether the run of one core goes on with those of `cores` cores from that of `first` on."""
        return (self.rounds, self.width, self.count, self.place) == \
            (first.rounds, first.width, first.count, first.place) and self.core == first.core + cores \
            and self.first == first.first + cores * first.width


@dataclass(frozen=True, slots=True)
class DenseForm:
    """Where the weights [groups, channels, rows] of one task lie: `streams` as in Packed, `planes` the halfwords of one
    group by core, `head` the bytes before the first plane. See engine.coefficients."""

    bias: bool
    head: int
    runs: tuple[Run, ...]
    planes: dict[int, int]
    streams: tuple[tuple[int, int, int], ...]

    def write(self, section: np.ndarray, base: int, weights: np.ndarray, bias: np.ndarray | None) -> None:
        """Puts weights [groups, channels, rows] and biases [groups, channels], rounded to fp16, into a section of bytes
        (uint8) from `base` on; what lies between is left as it is."""
        with np.errstate(over="ignore"):
            values = weights.astype("<f2", copy=False)
            biases = None if bias is None else bias.astype("<f2", copy=False)
        (groups, _, rows), offsets = values.shape, {core: offset for core, offset, _ in self.streams}
        for run in self.runs:
            place = base + offsets[run.core] + self.head + 2 * run.place
            extents, row = (groups, run.rounds, run.cores), 2 * run.width
            outer = (2 * self.planes[run.core], (rows + self.bias) * row, run.spacing)
            target = np.ndarray((*extents, rows, run.count), "<f2", section, place + row * self.bias, (*outer, row, 2))
            target[...] = run.taken(values).swapaxes(3, 4)
            if biases is not None:
                np.ndarray((*extents, run.count), "<f2", section, place, (*outer, 2))[...] = run.taken(biases)


def dense_form(groups: int, channels: int, rows: int, lanes: int, *, bias: bool, table: bool) -> DenseForm:
    """The placements of engine.coefficients, dense and grouped, as runs of equal blocks."""
    runs: dict[tuple[int, int, int], Run] = {}
    cursor, ends, first = [0] * CORES, dict[int, int](), 0
    for core, width, count, rounds in _rounds(channels, lanes):
        known = runs.get((width, count, core))
        runs[width, count, core] = Run(core, 1, 0, first, rounds, width, count, cursor[core]) if known is None \
            else replace(known, rounds=known.rounds + rounds)
        end = cursor[core] + rounds * (rows + bias) * width
        ends[core] = end - width + count
        cursor[core] = end
        first += count if core < CORES - 1 else count + (rounds - 1) * CORES * count
    head = TABLE_BYTES if table else 0
    planes = {core: -(-2 * end // PAD) * PAD // 2 for core, end in ends.items()}
    streams, offset = [], 0
    for core in sorted(planes):
        streams.append((core, offset, head + 2 * groups * planes[core]))
        offset += streams[-1][2]
    whole = [runs[key] for key in sorted(runs)]
    return DenseForm(bias, head, tuple(_joined(whole, planes, streams)), planes, tuple(streams))


def _rounds(channels: int, lanes: int) -> Iterator[tuple[int, int, int, int]]:
    """Core, lanes and channels of the blocks in order, those of full rounds once with the number of rounds."""
    full = channels // (CORES * lanes)
    if full:
        yield from ((core, lanes, lanes, full) for core in range(CORES))
    left = channels - full * CORES * lanes
    width = min(lanes, left_over_lanes(left)) if full else lanes
    yield from ((core, width, count, 1) for core, width, count in blocks(left, width))


def _joined(runs: list[Run], planes: dict[int, int], streams: list[tuple[int, int, int]]) -> list[Run]:
    """The runs, each of one core, with those of neighbouring cores as one where they lie alike."""
    offsets = {core: offset for core, offset, _ in streams}
    joined: list[Run] = []
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


def pack_sparse(weights: np.ndarray, bias: np.ndarray | None, lanes: int, table: bytes | None = None) -> Packed:
    """Zero-skipping streams of a stride-2 convolution, weights [groups, channels, Cin, Kh, Kw], biases
    [groups, channels].

    Per block: the biases, the body's length in bytes (24 bits), then per input channel the slots of
    `sparse_taps`, each as wide as the block and at least 4, eight values to a mask byte (bit i: value i is not
    zero) that is followed by its nonzero halfwords. Every group's streams are padded to 64 bytes.
    """
    streams: dict[int, bytearray] = {}
    for group in range(weights.shape[0]):
        _sparse_group(streams, weights[group], None if bias is None else bias[group], lanes, table or b"")
        for stream in streams.values():
            stream += bytes(-len(stream) % PAD)
    data, places = bytearray(), []
    for core, stream in sorted(streams.items()):
        places.append((core, len(data), len(stream)))
        data += stream
    return Packed(bytes(data), tuple(places), lanes, Packing.SPARSE, weights, bias)


def _sparse_group(streams: dict[int, bytearray], weights: np.ndarray, bias: np.ndarray | None, lanes: int,
                  table: bytes) -> None:
    """Appends the blocks of one group, weights [channels, Cin, Kh, Kw]; a stream begins with the table."""
    channels, inputs, *kernel = weights.shape
    taps = sparse_taps(kernel[0], kernel[1])
    values = weights.astype("<f2", copy=False).reshape(channels, inputs, -1)
    heads = None if bias is None else bias.astype("<f2")
    first = 0
    for core, width, count in blocks(channels, lanes):
        stream = streams.setdefault(core, bytearray(table))
        if heads is not None:
            head = np.zeros(width, "<f2")
            head[:count] = heads[first:first + count]
            stream += head.tobytes()
        body = _body(values[first:first + count], taps, max(width, SPARSE_WIDTH))
        stream += body.size.to_bytes(SPARSE_LENGTH, "little")
        stream += body.data
        first += count


def _body(values: np.ndarray, taps: list[int | None], width: int) -> np.ndarray:
    """Weights [channels, Cin, taps] of one block as bytes: slots of `width` halfwords, zeros skipped."""
    count, inputs, _ = values.shape
    if count < width or (width % SPARSE_GROUP and SPARSE_GROUP % width):
        return _skipped(_slots(values, taps, width))
    lanes, groups, together = min(width, SPARSE_GROUP), max(1, width // SPARSE_GROUP), max(1, SPARSE_GROUP // width)
    masks, places, end = [], [], 0
    for first in range(0, len(taps), together):
        held = [(i, tap) for i, tap in enumerate(taps[first:first + together]) if tap is not None]
        pitch = 1 + 2 * lanes * len(held)
        mask = sum((2 ** lanes - 1) * 2 ** (lanes * slot) for slot, _ in held)
        masks.append((slice(end, end + groups * pitch, pitch), mask))
        places += [(tap, end + 1 + 2 * lanes * number, pitch) for number, (_, tap) in enumerate(held)]
        end += groups * pitch
    body = np.zeros((inputs, end), np.uint8)
    for where, mask in masks:
        body[:, where] = mask
    for tap, start, pitch in places:
        place = np.ndarray((inputs, groups, lanes), "<f2", body, start, (end, pitch, 2))
        place[...] = values[:, :, tap].T.reshape(inputs, groups, lanes)
    present = values[:, :, [tap for tap in taps if tap is not None]]
    return _without_zeros(body, present, np.flatnonzero(_has_zeros(present)), taps)


def _without_zeros(body: np.ndarray, values: np.ndarray, holes: np.ndarray, taps: list[int | None]) -> np.ndarray:
    """Bytes of rows [inputs, bytes] that were made as if no value were zero; the rows `holes` have some."""
    if not holes.size:
        return body.reshape(-1)
    order = [tap for tap in taps if tap is not None]
    numbers = [None if tap is None else order.index(tap) for tap in taps]
    if HOLES * holes.size > len(body):
        return _skipped(_slots(values, numbers, len(values)))
    parts, start = [], 0
    for hole in holes.tolist():
        parts += [body[start:hole].reshape(-1), _skipped(_slots(values[:, hole:hole + 1], numbers, len(values)))]
        start = hole + 1
    return np.concatenate([*parts, body[start:].reshape(-1)])


def _slots(values: np.ndarray, taps: list[int | None], width: int) -> np.ndarray:
    """[channels, Cin, taps] as rows of slots [Cin, slots * width], zeros where nothing is."""
    slots = np.zeros((values.shape[1], len(taps), width), "<f2")
    for slot, tap in enumerate(taps):
        if tap is not None:
            slots[:, slot, :len(values)] = values[:, :, tap].T
    return slots.reshape(len(slots), -1)


def _has_zeros(halves: np.ndarray) -> np.ndarray:
    """For each input of [channels, Cin, taps] whether a weight is zero."""
    bits = np.abs(halves).view("<u2")
    return np.asarray(bits.min(axis=(0, 2)) == 0)


def _skipped(slots: np.ndarray) -> np.ndarray:
    """Rows of halfwords [rows, slots] as mask bytes and nonzero halfwords, row after row."""
    rows, width = slots.shape
    padded = slots
    if width % SPARSE_GROUP:
        padded = np.zeros((rows, -(-width // SPARSE_GROUP) * SPARSE_GROUP), "<f2")
        padded[:, :width] = slots
    groups = padded.reshape(-1, SPARSE_GROUP)
    nonzero = np.abs(groups).view("<u2") != 0  # many times faster than comparing fp16
    table = np.zeros((len(groups), 1 + 2 * SPARSE_GROUP), np.uint8)
    table[:, 0] = np.packbits(nonzero, axis=1, bitorder="little")[:, 0]
    table[:, 1:] = groups.view(np.uint8)
    kept = np.ones(table.shape, bool)
    kept[:, 1:] = np.repeat(nonzero, 2, axis=1)
    return table[kept]
