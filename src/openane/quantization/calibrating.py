"""Forms of weights whose rounding is calibrated: chosen such that a layer's results on samples are near.

For every layer the numbers are rounded column by column (see rounding.py) with moments of what the samples give it, and
what is left of the error's mean is taken out of the layer's bias. Scales are those of the largest magnitudes: others of
less error in the results were tried, and gain nothing at 8 bits.
How much the moments are trusted, the damping, is chosen on vectors that they were not computed of: where those gain
nothing over numbers rounded to the nearest, these stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.ops.compressed import spread
from openane.quantization.columns import column_scales
from openane.quantization.forms import (
    BITS,
    StoredWeight,
    Storing,
    along,
    block_scales,
    blocks_weight,
    centres,
    channel_scales,
    columns_weight,
    int8_weight,
    nearest_integers,
    offsets_weight,
    palette_weight,
    places,
    store,
)
from openane.quantization.layers import Layer
from openane.quantization.looking import LayerInputs
from openane.quantization.matrices import Matrices
from openane.quantization.moments import LayerMoments
from openane.quantization.rounding import Nearest, factor_of, rounded
from openane.quantization.steps import block_steps, nearest_steps

DAMPINGS = (0.02, 0.1, 0.5)
"""Shares of the moments' mean diagonal that are added to it."""
SURER = 10
"""How many times as much is added where a weight is to make good for others: what results lack is noise for the most
part, which few vectors are learnt by heart of."""
CALIBRATED = frozenset(WeightForm) - {WeightForm.SPARSE}
"""Forms whose rounding can be chosen."""


def calibrated(form: WeightForm, layer: Layer, matrices: Matrices, seen: LayerInputs, how: Storing,
               biases: bool) -> StoredWeight:
    """A layer's weight in a form, rounded by moments; with `biases` the layer's bias takes the mean of the error."""
    adjusts = biases and matrices.biased
    weight = layer.weight.array()
    rows = matrices.rows(weight)
    fit, check = (each.centred() if adjusts else each for each in (seen.fit, seen.check))
    best = store(form, weight, layer.axis, how)
    error, chosen = check.squared_error(matrices.rows(best.array) - rows), False
    for wanted, damping in _tries(rows, fit):
        found = _held(form, layer, matrices, wanted, fit.square, damping, how)
        if found is not None and (now := check.squared_error(matrices.rows(found.array) - rows)) < error:
            best, error, chosen = found, now, True
        elif chosen:
            break  # errors have one least value over dampings
    return _with_bias(best, layer, matrices, rows, seen.fit) if adjusts else best


def _tries(rows: np.ndarray, moments: LayerMoments) -> Iterator[tuple[np.ndarray, float]]:
    """What the weight is to be near [groups, outputs, inputs], and a damping: the weight as it is, or, where results
    lack something, with what makes it good as far as the moments are trusted."""
    for damping in DAMPINGS:
        if moments.missing is None:
            yield rows, damping
            continue
        added = _making_good(moments, SURER * damping)
        if added is not None:
            yield rows + added, damping
    if moments.missing is not None:
        yield rows, DAMPINGS[-1]


def _making_good(moments: LayerMoments, damping: float) -> np.ndarray | None:
    """What added to a weight gives what is missing, of least squares; None where the moments allow none."""
    assert moments.missing is not None
    square = moments.square + _damped(moments.square, damping)
    try:
        return np.linalg.solve(square, moments.missing.swapaxes(1, 2)).swapaxes(1, 2)
    except np.linalg.LinAlgError:
        return None


def _damped(square: np.ndarray, damping: float) -> np.ndarray:
    mean = np.trace(square, axis1=1, axis2=2) / square.shape[1]
    return np.asarray(damping * mean[:, None, None] * np.eye(square.shape[1]))


def _held(form: WeightForm, layer: Layer, matrices: Matrices, rows: np.ndarray, square: np.ndarray, damping: float,
          how: Storing) -> StoredWeight | None:
    """What a form holds near matrices [groups, outputs, inputs], rounded by second moments and a damping; None where no
    factor is found."""
    if form is WeightForm.INT8:
        return _int8(layer, matrices, rows, square, damping)
    if form is WeightForm.INT8_COLUMNS:
        return _columns(layer, matrices, rows, square, damping)
    if form is WeightForm.INT8_BLOCKS:
        return _blocks(layer, matrices, rows, square, damping, how.block)
    if form is WeightForm.INT8_OFFSETS:
        return _offsets(layer, matrices, rows, square, damping, how.block)
    return _palette(form, layer, matrices, rows, square, damping, how)


def _palette(form: WeightForm, layer: Layer, matrices: Matrices, rows: np.ndarray, square: np.ndarray,
             damping: float, how: Storing) -> StoredWeight | None:
    importance = np.broadcast_to(np.diagonal(square, axis1=1, axis2=2)[:, None, :], rows.shape)
    shares = importance + 1e-3 * importance.mean() + np.finfo(float).tiny
    weight = layer.weight.array()
    lut = centres(rows, 2 ** BITS[form], weights=shares).astype(weight.dtype)
    numbers = lut.astype(np.float64)
    found = _rounded(rows, square, damping, [lambda column, _: numbers[places(column, lut)]] * matrices.groups)
    return None if found is None else palette_weight(form, places(matrices.weight(found, weight.shape), lut), lut,
                                                     how.packed)


def _int8(layer: Layer, matrices: Matrices, rows: np.ndarray, square: np.ndarray, damping: float
          ) -> StoredWeight | None:
    weight = layer.weight.array()
    scale = channel_scales(matrices.weight(rows, weight.shape).astype(np.float32), layer.axis, weight.dtype)
    each = scale.astype(np.float64).reshape(matrices.groups, -1)
    found = _rounded(rows, square, damping, [_multiples(group) for group in each])
    if found is None:
        return None
    laid = along(scale, layer.axis, weight.ndim)
    integers = nearest_integers(matrices.weight(found, weight.shape).astype(np.float32), laid)
    return int8_weight(integers, scale, layer.axis, weight.dtype)


def _multiples(scale: np.ndarray) -> Nearest:
    """Of scales [outputs]."""
    return lambda column, _: np.asarray(nearest_integers(column, scale) * scale)


def _columns(layer: Layer, matrices: Matrices, rows: np.ndarray, square: np.ndarray, damping: float
             ) -> StoredWeight | None:
    factors = [factor_of(each, damping) for each in square]
    known = [factor for factor in factors if factor is not None]
    if len(known) < len(factors):
        return None
    weight = layer.weight.array()
    found = column_scales(rows, np.stack([factor.shown for factor in known]))
    columns = matrices.weight(np.broadcast_to(found[:, None], rows.shape), weight.shape).astype(np.float32)
    wide = matrices.weight(rows, weight.shape).astype(np.float32)
    steps = block_steps(wide / columns, layer.axis, weight.dtype, None)
    scale, offset = steps.laid(weight.shape)
    scale = scale * columns
    held = np.stack([rounded(group, factor, nearest) for group, factor, nearest
                     in zip(rows, known, _shifted_multiples(matrices, scale, offset), strict=True)])
    integers = nearest_steps(matrices.weight(held, weight.shape).astype(np.float32), scale, offset)
    outputs = weight.shape[layer.axis]
    each_group = columns.take(range(0, outputs, outputs // matrices.groups), layer.axis)
    return columns_weight(integers, steps, each_group)


def _offsets(layer: Layer, matrices: Matrices, rows: np.ndarray, square: np.ndarray, damping: float, block: int
             ) -> StoredWeight | None:
    weight = layer.weight.array()
    steps = block_steps(matrices.weight(rows, weight.shape).astype(np.float32), layer.axis, weight.dtype, block)
    scale, offset = steps.laid(weight.shape)
    found = _rounded(rows, square, damping, _shifted_multiples(matrices, scale, offset))
    if found is None:
        return None
    return offsets_weight(nearest_steps(matrices.weight(found, weight.shape).astype(np.float32), scale, offset), steps)


def _blocks(layer: Layer, matrices: Matrices, rows: np.ndarray, square: np.ndarray, damping: float, block: int
            ) -> StoredWeight | None:
    weight = layer.weight.array()
    scale = block_scales(matrices.weight(rows, weight.shape).astype(np.float32), layer.axis, weight.dtype,
                         block)
    laid = spread(scale.astype(np.float32), weight.shape)
    found = _rounded(rows, square, damping, [_own_multiples(group) for group in matrices.rows(laid)])
    if found is None:
        return None
    return blocks_weight(nearest_integers(matrices.weight(found, weight.shape).astype(np.float32), laid), scale)


def _own_multiples(scale: np.ndarray) -> Nearest:
    """Of scales [outputs, inputs]."""
    by_input = np.ascontiguousarray(scale.T, np.float32)
    return lambda column, place: np.asarray(nearest_integers(column, by_input[place]) * by_input[place])


def _shifted_multiples(matrices: Matrices, scale: np.ndarray, offset: np.ndarray) -> list[Nearest]:
    """Of scales and offsets for each number of a weight, for each group."""
    return [_multiples_from(*each) for each in zip(matrices.rows(scale), matrices.rows(offset), strict=True)]


def _multiples_from(scale: np.ndarray, offset: np.ndarray) -> Nearest:
    steps, zeros = (np.ascontiguousarray(each.T, np.float32) for each in (scale, offset))
    return lambda column, place: np.asarray(
        (nearest_steps(column, steps[place], zeros[place]) - zeros[place]) * steps[place])


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
               whole: LayerMoments) -> StoredWeight:
    bias = layer.nodes[0]["bias"].array()
    moved = np.matmul(rows - matrices.rows(stored.array), whole.mean[:, :, None]).reshape(-1)
    if whole.lacking is not None:
        moved += whole.lacking.reshape(-1)
    return replace(stored, bias=(bias.astype(np.float64) + moved).astype(bias.dtype))
