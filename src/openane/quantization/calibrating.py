"""Forms of weights whose rounding is calibrated: chosen such that a layer's results on samples are near.

For every layer the numbers are rounded column by column (see rounding.py) with moments of what the samples give it, and
what is left of the error's mean is taken out of the layer's bias. Scales are those of the largest magnitudes: others of
less error in the results were tried, and gain nothing at 8 bits.
How much the moments are trusted, the damping, is chosen on vectors that they were not computed of: where those gain
nothing over numbers rounded to the nearest, these stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.ops.compressed import spread
from openane.quantization.forms import (
    BITS,
    StoredWeight,
    along,
    block_scales,
    blocks_weight,
    centres,
    channel_scales,
    int8_weight,
    nearest_integers,
    palette_weight,
    places,
    store,
)
from openane.quantization.layers import Layer
from openane.quantization.matrices import Matrices
from openane.quantization.moments import InputMoments, squared_error
from openane.quantization.rounding import Nearest, factor_of, rounded

DAMPINGS = (0.1, 0.5)
"""Shares of the moments' mean diagonal that are added to it."""
CALIBRATED = frozenset((WeightForm.INT8, WeightForm.INT8_BLOCKS, WeightForm.PALETTE4, WeightForm.PALETTE6))
"""Forms whose rounding can be chosen."""


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What a layer's matrices are multiplied with: moments to round by, and of vectors kept apart to choose by."""

    fit: InputMoments
    check: InputMoments


def calibrated(form: WeightForm, layer: Layer, matrices: Matrices, seen: LayerInputs, packed: bool,
               biases: bool) -> StoredWeight:
    """A layer's weight in a form, rounded by moments; with `biases` the layer's bias takes the mean of the error."""
    adjusts = biases and matrices.biased
    weight = layer.weight.array()
    rows = matrices.rows(weight)
    check, fit = (each.centred() if adjusts else each.square for each in (seen.check, seen.fit))
    best = store(form, weight, layer.axis, packed=packed)
    error = _error(best, rows, matrices, check)
    holder = _holder(form, layer, matrices, rows, fit, packed)
    for damping in DAMPINGS:
        found = holder(fit, damping)
        if found is not None and (now := _error(found, rows, matrices, check)) < error:
            best, error = found, now
    return _with_bias(best, layer, matrices, rows, seen.fit) if adjusts else best


def _error(stored: StoredWeight, rows: np.ndarray, matrices: Matrices, moments: np.ndarray) -> float:
    return squared_error(rows - matrices.rows(stored.array), moments)


Holder = Callable[[np.ndarray, float], StoredWeight | None]


def _holder(form: WeightForm, layer: Layer, matrices: Matrices, rows: np.ndarray, moments: np.ndarray,
            packed: bool) -> Holder:
    """What rounds a layer's weight by moments and a damping; None where no factor is found."""
    if form is WeightForm.INT8:
        return lambda square, damping: _int8(layer, matrices, rows, square, damping)
    if form is WeightForm.INT8_BLOCKS:
        return lambda square, damping: _blocks(layer, matrices, rows, square, damping)
    importance = np.broadcast_to(np.diagonal(moments, axis1=1, axis2=2)[:, None, :], rows.shape)
    shares = importance + 1e-3 * importance.mean() + np.finfo(float).tiny
    wide = layer.weight.array()
    lut = centres(rows, 2 ** BITS[form], weights=shares).astype(wide.dtype)
    numbers = lut.astype(np.float64)

    def held(square: np.ndarray, damping: float) -> StoredWeight | None:
        found = _rounded(rows, square, damping, [lambda column, _: numbers[places(column, lut)]] * matrices.groups)
        if found is None:
            return None
        return palette_weight(form, places(matrices.weight(found, wide.shape), lut), lut, packed)

    return held


def _int8(layer: Layer, matrices: Matrices, rows: np.ndarray, moments: np.ndarray, damping: float
          ) -> StoredWeight | None:
    weight = layer.weight.array()
    scale = channel_scales(weight.astype(np.float32), layer.axis, weight.dtype)
    each = scale.astype(np.float64).reshape(matrices.groups, -1)
    found = _rounded(rows, moments, damping, [_multiples(group) for group in each])
    if found is None:
        return None
    laid = along(scale, layer.axis, weight.ndim)
    integers = nearest_integers(matrices.weight(found, weight.shape).astype(np.float32), laid)
    return int8_weight(integers, scale, layer.axis, weight.dtype)


def _multiples(scale: np.ndarray) -> Nearest:
    """Of scales [outputs]."""
    return lambda column, _: np.asarray(nearest_integers(column, scale) * scale)


def _blocks(layer: Layer, matrices: Matrices, rows: np.ndarray, moments: np.ndarray, damping: float
            ) -> StoredWeight | None:
    weight = layer.weight.array()
    scale = block_scales(weight.astype(np.float32), layer.axis, weight.dtype)
    laid = spread(scale.astype(np.float32), weight.shape)
    found = _rounded(rows, moments, damping, [_own_multiples(group) for group in matrices.rows(laid)])
    if found is None:
        return None
    return blocks_weight(nearest_integers(matrices.weight(found, weight.shape).astype(np.float32), laid), scale)


def _own_multiples(scale: np.ndarray) -> Nearest:
    """Of scales [outputs, inputs]."""
    return lambda column, place: np.asarray(nearest_integers(column, scale[:, place]) * scale[:, place])


def _rounded(rows: np.ndarray, moments: np.ndarray, damping: float, nearest: Sequence[Nearest]) -> np.ndarray | None:
    """Matrices [groups, outputs, inputs] of numbers that a form holds."""
    found = np.empty_like(rows)
    for group, square in enumerate(moments):
        factor = factor_of(square, damping)
        if factor is None:
            return None
        found[group] = rounded(rows[group], factor, nearest[group])
    return found


def _with_bias(stored: StoredWeight, layer: Layer, matrices: Matrices, rows: np.ndarray,
               whole: InputMoments) -> StoredWeight:
    bias = layer.nodes[0]["bias"].array()
    moved = np.matmul(rows - matrices.rows(stored.array), whole.mean[:, :, None]).reshape(-1)
    return replace(stored, bias=(bias.astype(np.float64) + moved).astype(bias.dtype))
