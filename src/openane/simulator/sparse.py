"""The zero-skipping form of coefficients, which strided convolutions use.

A block of `lanes` channels is [one bias per lane], the length of its body in bytes (24 bits), and the body: per input
channel the slots of engine.coefficients.sparse_taps, each `lanes` wide, as a mask byte per eight values (bit i: value i
is not zero) followed by the nonzero halfwords; slots are at least 4 wide. Every group begins at a multiple of 64 bytes.
Evidence: it gives the recorded hash of four sections Apple's compiler packed (1x1 with 4 lanes, 1x1 of 4 groups with
one lane, 3x3 with 4, 3x3 with 8 and biases).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.engine.coefficients import (
    CORES,
    PAD,
    SPARSE_LENGTH,
    SPARSE_WIDTH,
    TABLE_BYTES,
    Coefficients,
    blocks,
    sparse_taps,
)
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import Floats, decoded

MASK_LANES = 8
_STEPS = bytes(1 + 2 * mask.bit_count() for mask in range(2 ** MASK_LANES))
"""Bytes from a mask to the next one, by the mask."""


@dataclass(slots=True)
class _Cursor:
    """A position in one core's stream; reading past its end is an error."""

    data: bytes
    what: str
    at: int = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise SimulationError(f"{self.what}: the zero-skipping body runs past the end of its stream of "
                                  f"{len(self.data)} bytes")
        self.at += count
        return self.data[self.at - count:self.at]


def expand(shape: tuple[int, int, int], coefficients: Coefficients, store: np.ndarray, what: str,
           kernel: tuple[int, int] = (1, 1)) -> tuple[Floats, Floats | None]:
    """Weights [groups, channels, rows] and biases [groups, channels] as float32; rows are input channels times taps.

    SimulationError when the streams do not follow the form. Their bounds have been proved by the caller.
    """
    groups, channels, rows = shape
    cursors = {stream.core: _Cursor(store[stream.offset:stream.offset + stream.size].tobytes(), what)
               for stream in coefficients.streams}
    start = TABLE_BYTES if coefficients.table else 0
    for cursor in cursors.values():
        cursor.at = start
    weights = np.zeros(shape, np.uint16)
    bias = np.zeros(shape[:2], np.uint16)
    for group in range(groups):
        channel = 0
        for core, lanes, count in blocks(channels, coefficients.lanes):
            if core not in cursors:
                raise SimulationError(f"{what}: core {core} of {CORES} computes output channels but has no stream")
            block, block_bias = _block(cursors[core], rows, lanes, coefficients.bias, kernel)
            weights[group, channel:channel + count] = block[:, :count].T
            bias[group, channel:channel + count] = block_bias[:count]
            channel += count
        for cursor in cursors.values():
            cursor.at = min(-(-cursor.at // PAD) * PAD, len(cursor.data))
    return decoded(weights), decoded(bias) if coefficients.bias else None


def _block(cursor: _Cursor, rows: int, lanes: int, bias: bool,
           kernel: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Halfwords [rows, lanes] and biases [lanes] of one block."""
    biases = np.frombuffer(cursor.take(2 * lanes), "<u2") if bias else np.zeros(lanes, np.uint16)
    taps = sparse_taps(*kernel)
    present = {slot: tap for slot, tap in enumerate(taps) if tap is not None}
    inputs = rows // len(present)
    length = int.from_bytes(cursor.take(SPARSE_LENGTH), "little")
    width = max(lanes, SPARSE_WIDTH)
    masks = -(-len(taps) * width // MASK_LANES)
    values = _unskipped(cursor.take(length), inputs, masks, cursor.what)
    if values[:, len(taps) * width:].any() or values[:, :len(taps) * width].reshape(-1, width)[:, lanes:].any():
        raise SimulationError(f"{cursor.what}: a mask of a zero-skipping body names a lane beyond the {lanes} of its "
                              "block")
    grid = values[:, :len(taps) * width].reshape(inputs, len(taps), width)[:, :, :lanes]
    absent = [slot for slot, tap in enumerate(taps) if tap is None]
    if grid[:, absent].any():
        raise SimulationError(f"{cursor.what}: a zero-skipping body holds a weight where a {kernel[0]}x{kernel[1]} "
                              "kernel has none")
    ordered = np.empty((inputs, len(present), lanes), np.uint16)
    ordered[:, list(present.values())] = grid[:, list(present)]
    return ordered.reshape(rows, lanes), biases


def _unskipped(body: bytes, inputs: int, masks: int, what: str) -> np.ndarray:
    """Halfwords [inputs, 8 * masks] of a body."""
    steps, length = body.translate(_STEPS), len(body)
    positions, at = [], 0
    while at < length:
        positions.append(at)
        at += steps[at]
    if at != len(body) or len(positions) != inputs * masks:
        raise SimulationError(f"{what}: a zero-skipping body of {len(body)} bytes does not hold {inputs * masks} masks "
                              f"and what they announce")
    data = np.frombuffer(body, np.uint8)
    payload = np.ones(len(body), bool)
    payload[positions] = False
    chosen = np.unpackbits(data[positions], bitorder="little").astype(bool)
    values = np.zeros(len(chosen), np.uint16)
    values[chosen] = data[payload].view("<u2")
    return values.reshape(inputs, MASK_LANES * masks)
