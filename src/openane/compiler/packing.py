"""Coefficient streams: numpy weights in, the bytes each core reads out, by the placements of engine.coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.engine import Packing
from openane.engine.coefficients import (
    CORES,
    PAD,
    SPARSE_LENGTH,
    SPARSE_WIDTH,
    TABLE_BYTES,
    Channel,
    blocks,
    dense_channels,
    grouped_channels,
    left_over_lanes,
    sparse_taps,
    stream_sizes,
)

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
    """Streams of one task, concatenated: `streams` lists (core, offset in `data`, bytes)."""

    data: bytes
    streams: tuple[tuple[int, int, int], ...]
    lanes: int
    packing: Packing = Packing.DENSE


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
    options = {"bias": bias is not None, "table": table is not None}
    if groups == 1:
        placed = dense_channels(channels, rows, lanes, **options)
    else:
        placed = grouped_channels(groups, channels, rows, lanes, **options)
    flat_bias = None if bias is None else bias.reshape(-1)
    return _fill(placed, weights.reshape(groups * channels, rows), flat_bias, lanes, table)


def pack_table(table: bytes, cores: int) -> Packed:
    """A table alone: every active core reads the same 128 bytes. Room for one each is kept, as Apple does."""
    return Packed(table.ljust(cores * TABLE_BYTES, b"\0"), tuple((core, 0, TABLE_BYTES) for core in range(cores)), 1)


def _fill(placed: list[Channel], weights: np.ndarray, bias: np.ndarray | None, lanes: int,
          table: bytes | None) -> Packed:
    rows = weights.shape[1]
    sizes = stream_sizes(placed, rows)
    offsets, total = {}, 0
    for core in sorted(sizes):
        offsets[core] = total
        total += sizes[core]
    halves = np.zeros(total // 2, np.float16)
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(weights, dtype=np.float16)
        biases = None if bias is None else bias.astype(np.float16)
    for index, channel in enumerate(placed):
        base = offsets[channel.core] // 2
        start = base + channel.weights
        halves[start:start + (rows - 1) * channel.step + 1:channel.step] = values[index]
        if biases is not None and channel.bias is not None:
            halves[base + channel.bias] = biases[index]
    data = bytearray(halves.astype("<f2").tobytes())
    if table is not None:
        for offset in offsets.values():
            data[offset:offset + TABLE_BYTES] = table
    return Packed(bytes(data), tuple((core, offsets[core], sizes[core]) for core in sorted(sizes)), lanes)


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
    return Packed(bytes(data), tuple(places), lanes, Packing.SPARSE)


def _sparse_group(streams: dict[int, bytearray], weights: np.ndarray, bias: np.ndarray | None, lanes: int,
                  table: bytes) -> None:
    """Appends the blocks of one group, weights [channels, Cin, Kh, Kw]; a stream begins with the table."""
    channels, inputs, *kernel = weights.shape
    taps = sparse_taps(kernel[0], kernel[1])
    values = weights.astype("<f2").reshape(channels, inputs, -1)
    present = {slot: tap for slot, tap in enumerate(taps) if tap is not None}
    first = 0
    for core, width, count in blocks(channels, lanes):
        slots = np.zeros((inputs, len(taps), max(width, SPARSE_WIDTH)), "<f2")
        chosen = values[first:first + count][:, :, list(present.values())]
        slots[:, list(present), :count] = chosen.transpose(1, 2, 0)
        body = _skipped(slots.reshape(inputs, -1))
        stream = streams.setdefault(core, bytearray(table))
        if bias is not None:
            head = np.zeros(width, "<f2")
            head[:count] = bias[first:first + count]
            stream += head.tobytes()
        stream += len(body).to_bytes(SPARSE_LENGTH, "little") + body
        first += count


def _skipped(slots: np.ndarray) -> bytes:
    """Rows of halfwords [rows, slots] as mask bytes and nonzero halfwords, row after row."""
    rows, width = slots.shape
    padded = np.zeros((rows, -(-width // 8) * 8), "<f2")
    padded[:, :width] = slots
    groups = padded.reshape(-1, 8)
    nonzero = groups != 0
    table = np.zeros((len(groups), 1 + 2 * 8), np.uint8)
    table[:, 0] = np.packbits(nonzero, axis=1, bitorder="little")[:, 0]
    table[:, 1:] = groups.view(np.uint8)
    kept = np.ones(table.shape, bool)
    kept[:, 1:] = np.repeat(nonzero, 2, axis=1)
    return table[kept].tobytes()
