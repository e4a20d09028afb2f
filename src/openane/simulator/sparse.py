"""Reads the zero-skipping form of coefficients, which strided convolutions use; see chips.coefficients.SparseFormat."""

from __future__ import annotations

import numpy as np

from openane.chips.coefficients import HALFWORD, CoefficientFormat, Rows, SparseFormat
from openane.engine import Coefficients, Geometry
from openane.errors import ProgramError, SimulationError
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up
from openane.simulator.arithmetic.half import Floats, decoded

ALIKE = 8  # rows with the same masks from which, on average, they are taken together


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


def expand(geometry: Geometry, coefficients: Coefficients, store: np.ndarray, form: CoefficientFormat, what: str,
           kernel: tuple[int, int] = (1, 1)) -> tuple[Floats, Floats | None]:
    """Weights [groups, channels, rows] and biases [groups, channels] as float32; rows are input channels times taps.

    SimulationError when the streams do not follow the form. Their bounds have been proved by the caller.
    """
    assert coefficients.weights is not None
    groups, channels, rows = geometry.shape
    cursors = {stream.core: _Cursor(store[stream.offset:stream.offset + stream.size].tobytes(), what,
                                    form.head(coefficients)) for stream in coefficients.weights.streams}
    weights = np.zeros(geometry.shape, np.uint16)
    bias = np.zeros(geometry.shape[:2], np.uint16)
    for group in range(groups):
        channel = 0
        for core, lanes, count in form.blocks(channels, coefficients.lanes):
            if core not in cursors:
                raise SimulationError(f"{what}: core {core} of {form.cores} computes output channels but has no stream")
            block, block_bias = _block(cursors[core], rows, lanes, coefficients.bias is not None, kernel, form)
            weights[group, channel:channel + count] = block[:, :count].T
            bias[group, channel:channel + count] = block_bias[:count]
            channel += count
        for cursor in cursors.values():
            cursor.at = min(round_up(cursor.at, form.alignment), len(cursor.data))
    return decoded(weights), decoded(bias) if coefficients.bias is not None else None


def _block(cursor: _Cursor, rows: int, lanes: int, bias: bool, kernel: tuple[int, int],
           form: CoefficientFormat) -> tuple[np.ndarray, np.ndarray]:
    """Halfwords [rows, lanes] and biases [lanes] of one block."""
    biases = np.frombuffer(cursor.take(HALFWORD * lanes), "<u2") if bias else np.zeros(lanes, np.uint16)
    sparse = form.sparse
    taps = sparse.taps(*kernel)
    present = {slot: tap for slot, tap in enumerate(taps) if tap is not None}
    inputs = rows // len(present)
    length = int.from_bytes(cursor.take(sparse.length), "little")
    width = sparse.width(lanes)
    masks = ceil_div(len(taps) * width, sparse.values)
    values = _unskipped(cursor.take(length), inputs, masks, sparse, cursor.what)
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


def _unskipped(body: bytes, inputs: int, masks: int, form: SparseFormat, what: str) -> np.ndarray:
    """Halfwords [inputs, values] of a body with `masks` masks for every input."""
    try:
        rows = list(form.rows(body, masks))
    except ProgramError as error:
        raise SimulationError(f"{what}: zero-skipping coefficients: {error}") from None
    if sum(row.count for row in rows) != inputs:
        raise SimulationError(f"{what}: a zero-skipping body of {len(body)} bytes does not hold {inputs * masks} masks "
                              f"and what they announce")
    if ALIKE * len(rows) <= inputs:
        found = [_alike(body, row, form) for row in rows]
        return found[0] if len(found) == 1 else np.concatenate(found)
    counts = [row.count for row in rows]
    begun = np.cumsum([0, *counts[:-1]])
    starts, sizes = np.array([(row.start, row.size) for row in rows]).T
    starts = np.repeat(starts - begun * sizes, counts) + np.arange(inputs) * np.repeat(sizes, counts)
    places = starts[:, None] + np.repeat(np.array([row.places for row in rows]), counts, axis=0)
    places = np.add.outer(places.reshape(-1), np.arange(form.mask))
    data, payload = np.frombuffer(body, np.uint8), np.ones(len(body), bool)
    payload[places] = False
    chosen = np.unpackbits(data[places], axis=1, bitorder="little").astype(bool).reshape(-1)
    values = np.zeros(len(chosen), np.uint16)
    values[chosen] = data[payload].view("<u2")
    return values.reshape(inputs, -1)


def _alike(body: bytes, rows: Rows, form: SparseFormat) -> np.ndarray:
    """Halfwords [rows, values] of rows with the same masks."""
    data = np.frombuffer(body, np.uint8, rows.count * rows.size, rows.start).reshape(rows.count, rows.size)
    places = np.add.outer(np.array(rows.places), np.arange(form.mask))
    chosen = np.unpackbits(data[0, places], axis=1, bitorder="little").astype(bool).reshape(-1)
    values = np.zeros((rows.count, len(chosen)), np.uint16)
    payload = np.delete(np.arange(rows.size), places.reshape(-1))
    values[:, chosen] = np.take(data, payload, axis=1).view("<u2")
    return values
