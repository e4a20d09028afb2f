"""Coefficient streams: numpy weights in, the bytes each core reads out, by the placements of engine.coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.engine import Packing
from openane.engine.coefficients import (
    CORES,
    PAD,
    TABLE_BYTES,
    Channel,
    dense_channels,
    grouped_channels,
    left_over_lanes,
    stream_sizes,
)

LANE_CAP = 16
"""Lanes a core uses at most for large images and products."""
SMALL_LANE_CAP = 32
"""Lanes a core uses at most when the input has at most `SMALL_SIDE` pixels per side."""
SMALL_SIDE = 8


@dataclass(frozen=True, slots=True)
class Packed:
    """Streams of one task, concatenated: `streams` lists (core, offset in `data`, bytes)."""

    data: bytes
    streams: tuple[tuple[int, int, int], ...]
    lanes: int
    packing: Packing = Packing.DENSE


def choose_lanes(channels: int, height: int, width: int) -> int:
    """Lanes of a convolution with `channels` outputs per group on a `height` x `width` input.

    The largest power of two that leaves no core idle, at most 32 when both sides are 8 pixels or fewer, else 16
    (seen in every convolution Apple's compiler packed).
    """
    cap = SMALL_LANE_CAP if max(height, width) <= SMALL_SIDE else LANE_CAP
    return min(cap, left_over_lanes(channels))


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


def pack_sparse(weights: np.ndarray, bias: np.ndarray | None, lanes: int) -> Packed:
    """Zero-skipping streams of a 1x1 convolution, weights [channels, rows].

    Per block: the biases, the body's length in bytes as u16, then per row a zero byte, per eight lanes a mask byte and
    the nonzero halfwords, and zero bytes that fill lanes/2 - 2. Streams are padded to 64 bytes.
    """
    channels, rows = weights.shape
    values = weights.astype("<f2")
    bodies: dict[int, bytearray] = {core: bytearray() for core in range(min(CORES, channels))}
    remaining, first, core, width = channels, 0, 0, lanes
    while remaining > 0:
        if core == 0 and remaining < CORES * width:
            width = min(width, left_over_lanes(remaining))
        block = np.zeros((width, rows), "<f2")
        count = min(width, remaining)
        block[:count] = values[first:first + count]
        if bias is not None:
            head = np.zeros(width, "<f2")
            head[:count] = bias[first:first + count]
            bodies[core] += head.tobytes()
        body = b"".join(_sparse_row(block[:, row]) for row in range(rows))
        bodies[core] += len(body).to_bytes(2, "little") + body
        remaining, first, core = remaining - count, first + count, (core + 1) % CORES
    data, streams = bytearray(), []
    for core, body_bytes in bodies.items():
        size = -(-len(body_bytes) // PAD) * PAD
        streams.append((core, len(data), size))
        data += bytes(body_bytes).ljust(size, b"\0")
    return Packed(bytes(data), tuple(streams), lanes, Packing.SPARSE)


def _sparse_row(lanes: np.ndarray) -> bytes:
    out = bytearray(b"\0")
    for start in range(0, len(lanes), 8):
        chunk = lanes[start:start + 8]
        nonzero = chunk.view("<u2") != 0
        out.append(int(np.packbits(nonzero, bitorder="little")[0]))
        out += chunk[nonzero].tobytes()
    return bytes(out) + bytes(max(0, len(lanes) // 2 - 2))
