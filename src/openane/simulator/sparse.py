"""The zero-skipping form of coefficients, which strided convolutions use.

A block of `lanes` channels is [one bias per lane], the length of its body in bytes (one halfword), and the body: per
weight position a zero byte, then per eight lanes a mask byte (bit i: lane i is not zero) followed by its nonzero
halfwords, then lanes / 2 - 2 zero bytes. Evidence: for 1x1 kernels and 4 lanes this gives the recorded hash of a
section Apple's compiler packed; for more lanes it is as described by others. The order of the taps of larger kernels
is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.engine.coefficients import CORES, PAD, TABLE_BYTES, Coefficients, blocks
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import Floats, decoded

MASK_LANES = 8


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

    def zeros(self, count: int) -> None:
        found = self.take(count)
        if any(found):
            raise SimulationError(f"{self.what}: byte {self.at - count:#x} of a zero-skipping body must be 0, found "
                                  f"{found.hex()}; only the order of 1x1 kernels is described")


def expand(shape: tuple[int, int, int], coefficients: Coefficients, store: np.ndarray,
           what: str) -> tuple[Floats, Floats | None]:
    """Weights [groups, channels, rows] and biases [groups, channels] as float32.

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
            block, block_bias = _block(cursors[core], rows, lanes, coefficients.bias)
            weights[group, channel:channel + count] = block[:, :count].T
            bias[group, channel:channel + count] = block_bias[:count]
            channel += count
        for cursor in cursors.values():
            cursor.at = min(-(-cursor.at // PAD) * PAD, len(cursor.data))
    return decoded(weights), decoded(bias) if coefficients.bias else None


def _block(cursor: _Cursor, rows: int, lanes: int, bias: bool) -> tuple[np.ndarray, np.ndarray]:
    """Halfwords [rows, lanes] and biases [lanes] of one block."""
    values = np.zeros((rows, lanes), np.uint16)
    biases = np.frombuffer(cursor.take(2 * lanes), "<u2") if bias else np.zeros(lanes, np.uint16)
    length = int.from_bytes(cursor.take(2), "little")
    end = cursor.at + length
    for row in range(rows):
        cursor.zeros(1)
        for first in range(0, lanes, MASK_LANES):
            mask = np.frombuffer(cursor.take(1), np.uint8)
            chosen = first + np.flatnonzero(np.unpackbits(mask, bitorder="little"))
            if (chosen >= lanes).any():
                raise SimulationError(f"{cursor.what}: mask {mask[0]:#04x} names a lane beyond the {lanes} of its "
                                      "block")
            values[row, chosen] = np.frombuffer(cursor.take(2 * len(chosen)), "<u2")
        cursor.zeros(max(0, lanes // 2 - 2))
    if cursor.at != end:
        raise SimulationError(f"{cursor.what}: a zero-skipping body states {length} bytes but its {rows} rows take "
                              f"{length + cursor.at - end}")
    return values, biases
