"""Reads the zero-skipping form of coefficients, which strided convolutions use; see chips.coefficients.SparseFormat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.chips.coefficients import HALFWORD, CoefficientFormat, Rows, SparseFormat
from openane.engine import Coefficients, Geometry
from openane.errors import ProgramError, SimulationError
from openane.machine_code.patience import patience
from openane.program.sparse_bodies import BodyForm, SparseBody, sparse_bodies
from openane.rounding import ceil_div
from openane.simulator.arithmetic.half import Floats, decoded
from openane.simulator.bodies import unskipped

ALIKE = 8  # rows with the same masks from which, on average, they are taken together


def unpacked(geometry: Geometry, coefficients: Coefficients, store: np.ndarray, form: CoefficientFormat, what: str,
             kernel: tuple[int, int] = (1, 1)) -> tuple[Floats, Floats | None, bool | None]:
    """Weights [groups, channels, rows] and biases [groups, channels] as float32, and whether the weights are finite
    where that is known; rows are rows of the kernel, then input channels, then its columns.

    SimulationError when the streams do not follow the form. Their bounds have been proved by the caller.
    """
    groups, channels, rows = geometry.shape
    loop, held = patience().unskipper(geometry.weights), _form(geometry, kernel, form)
    if loop is not None:
        bodies = _bodies(geometry, coefficients, store, form, what)
        found = unskipped(loop, held, bodies, store, geometry.shape)
        if found is not None:
            return found[0], _biases(geometry, coefficients, bodies, store), found[1]
    weights, bias = expand(geometry, coefficients, store, form, what, kernel)
    taps = weights.reshape(groups, channels, held.inputs, *kernel).swapaxes(2, 3)  # by whole rows
    return np.ascontiguousarray(taps).reshape(weights.shape), bias, None


def expand(geometry: Geometry, coefficients: Coefficients, store: np.ndarray, form: CoefficientFormat, what: str,
           kernel: tuple[int, int] = (1, 1)) -> tuple[Floats, Floats | None]:
    """The same in numpy; rows are input channels times taps."""
    bodies, held = _bodies(geometry, coefficients, store, form, what), _form(geometry, kernel, form)
    weights = np.zeros(geometry.shape, np.uint16)
    for body in bodies:
        block = _block(body, held, store, what)
        weights[body.group, body.channel:body.channel + body.count] = block[:, :body.count].T
    return decoded(weights), _biases(geometry, coefficients, bodies, store)


def _form(geometry: Geometry, kernel: tuple[int, int], form: CoefficientFormat) -> BodyForm:
    return BodyForm(form.sparse, kernel, geometry.rows // (kernel[0] * kernel[1]))


def _bodies(geometry: Geometry, coefficients: Coefficients, store: np.ndarray, form: CoefficientFormat,
            what: str) -> list[SparseBody]:
    """Every body. SimulationError."""
    try:
        return list(sparse_bodies(geometry, coefficients, store.data, form))
    except ProgramError as error:
        raise SimulationError(f"{what}: zero-skipping coefficients: {error}") from None


def _biases(geometry: Geometry, coefficients: Coefficients, bodies: Sequence[SparseBody],
            store: np.ndarray) -> Floats | None:
    """float32 [groups, channels]; None where there are none."""
    if coefficients.bias is None:
        return None
    found = np.zeros(geometry.shape[:2], np.uint16)
    for body in bodies:
        if body.bias is not None:
            words = store[body.bias:body.bias + HALFWORD * body.count].tobytes()
            found[body.group, body.channel:body.channel + body.count] = np.frombuffer(words, "<u2")
    return decoded(found)


def _block(body: SparseBody, held: BodyForm, store: np.ndarray, what: str) -> np.ndarray:
    """Halfwords [rows, lanes] of one block."""
    sparse, lanes = held.form, body.lanes
    taps = sparse.taps(*held.kernel)
    present = {slot: tap for slot, tap in enumerate(taps) if tap is not None}
    width = sparse.width(lanes)
    masks = ceil_div(len(taps) * width, sparse.values)
    values = _unskipped(store[body.start:body.end].tobytes(), held.inputs, masks, sparse, what)
    if values[:, len(taps) * width:].any() or values[:, :len(taps) * width].reshape(-1, width)[:, lanes:].any():
        raise SimulationError(f"{what}: a mask of a zero-skipping body names a lane beyond the {lanes} of its block")
    grid = values[:, :len(taps) * width].reshape(held.inputs, len(taps), width)[:, :, :lanes]
    absent = [slot for slot, tap in enumerate(taps) if tap is None]
    if grid[:, absent].any():
        height, across = held.kernel
        raise SimulationError(f"{what}: a zero-skipping body holds a weight where a {height}x{across} kernel has none")
    ordered = np.empty((held.inputs, len(present), lanes), np.uint16)
    ordered[:, list(present.values())] = grid[:, list(present)]
    return ordered.reshape(-1, lanes)


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
