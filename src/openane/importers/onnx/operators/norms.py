"""ONNX normalisations. Scales and offsets that are constants go into the MIL operation, computed ones follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.errors import GraphError
from openane.graph import RoundedArray, Value
from openane.importers.composites import scaled
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result
from openane.importers.onnx.together import EPSILON, NormConstants
from openane.ops.half_bits import to_half
from openane.ops.halves import SMALLEST, halves_finite
from openane.ops.weights import kept_from_zero


def _epsilon(step: OnnxStep, default: float = 1e-5) -> RoundedArray:
    return kept_from_zero(step.real_attribute("epsilon", default))


def along_channels(step: OnnxStep, value: Value, rank: int) -> Value:
    """A vector over the channels of a tensor [N, C, ...] of `rank` dimensions."""
    return step.add("reshape", part="channels", x=value, shape=(value.type.elements, *(1,) * max(rank - 2, 0)))


def _batch_normalization(step: OnnxStep) -> Result:
    x = step.value(0)
    if step.integer("training_mode", 0):
        return _batch_training(step, x)
    step.only_output("running statistics")
    statistics = [step.operand(index) for index in range(1, 5)]
    known = [operand for operand in statistics if not isinstance(operand, Value)]
    if len(known) < len(statistics):
        return _batch_computed(step, x, step.real(3), step.real(4))
    return _batch_constant(step, x, known)


def _batch_constant(step: OnnxStep, x: Value, statistics: Sequence[np.ndarray]) -> Operand:
    """The variance is divided out in double precision: fp16 could not hold a small one."""
    epsilon = step.real_attribute("epsilon", EPSILON)
    made = step.constants.norm(statistics, epsilon) if x.type.rank > 2 else None
    if made is not None:
        return _normalised(step, x, made)
    alike = len({each.shape for each in statistics}) == 1
    table = np.array(statistics, np.float64).reshape(len(statistics), -1) if alike else \
        [each.astype(np.float64).reshape(-1) for each in statistics]
    scale, offset, mean, variance = table
    with np.errstate(invalid="ignore"):
        root = np.sqrt(variance + epsilon)
    if not root.min(initial=1) > 0:
        raise GraphError(f"{step.label}: var + epsilon must be positive, found {variance.min():g}")
    gain = scale / root
    if x.type.rank < 3:
        shifted = step.add("mul", part="gain", x=x, y=step.rounded(gain, 1))
        return step.add("add", x=shifted, y=step.rounded(offset - mean * gain, 2))
    middle, factor, shift = _rounded(step, {3: mean, 1: gain, 2: offset})
    return _normalised(step, x, NormConstants(middle, factor, shift, np.ones(variance.shape, np.float16)))


def _normalised(step: OnnxStep, x: Value, by: NormConstants) -> Operand:
    return step.add("batch_norm", x=x, mean=by.mean, variance=by.ones, gamma=by.gain, beta=by.shift, epsilon=0.0)


def _rounded(step: OnnxStep, vectors: Mapping[int, np.ndarray]) -> list[RoundedArray]:
    """Vectors made from inputs of these numbers in fp16, with the digits that were rounded away: all at once, as each
    has few numbers. GraphError as of OnnxStep.rounded."""
    shapes = {vector.shape for vector in vectors.values()}
    table = np.array(list(vectors.values())) if len(shapes) == 1 else None
    halves = None if table is None else to_half(table)
    if table is None or halves is None or not halves_finite(halves):
        return [step.rounded(vector, index) for index, vector in vectors.items()]
    return list(map(RoundedArray, halves, table.astype(np.float32)))


def _batch_computed(step: OnnxStep, x: Value, mean: Value, variance: Value) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + B, the statistics computed while the model runs."""
    rank = x.type.rank
    root = step.add("rsqrt", part="root", x=along_channels(step, variance, rank), epsilon=_epsilon(step))
    gain = step.add("mul", part="gain", x=root, y=along_channels(step, step.real(1), rank))
    centred = step.add("sub", part="centred", x=x, y=along_channels(step, mean, rank))
    return scaled(step, centred, gain, along_channels(step, step.real(2), rank))


def _batch_training(step: OnnxStep, x: Value) -> Result:
    """Statistics of the batch, and the running ones moved towards them."""
    axes = [axis for axis in range(x.type.rank) if axis != 1]
    mean = step.add("reduce_mean", part="mean", x=x, axes=axes, keep_dims=False)
    centred = step.add("sub", part="centred", x=x, y=along_channels(step, mean, x.type.rank))
    variance = step.add("reduce_mean", part="variance", x=step.add("square", part="squares", x=centred), axes=axes,
                        keep_dims=False)
    momentum = step.real_attribute("momentum", 0.9)
    moved = [step.add("add", part=name, x=step.add("mul", part="kept", x=step.real(index), y=momentum),
                      y=step.add("mul", part="new", x=value, y=1 - momentum))
             for name, index, value in (("running_mean", 3, mean), ("running_var", 4, variance))]
    return (_batch_computed(step, x, mean, variance), *moved)


def _affine(step: OnnxStep, index: int, shape: Sequence[int]) -> tuple[RoundedArray | None, Value | None]:
    """Input `index` of a normalisation as a constant of `shape`, with all its digits, or as a value; both None when it
    is left out."""
    if not step.has(index):
        return None, None
    operand = step.operand(index)
    if isinstance(operand, Value):
        return None, step.real(index)
    return step.rounded(np.broadcast_to(operand, bounded(step, shape)), index), None


def _layer_normalization(step: OnnxStep) -> Result:
    x = step.real(0)
    axis = step.front(step.integer("axis", -1), x.type.rank)
    axes = tuple(range(axis, x.type.rank))
    gamma, gain = _affine(step, 1, x.shape[axis:])
    beta, offset = _affine(step, 2, x.shape[axis:]) if gain is None else (None, step.real(2) if step.has(2) else None)
    normal = step.add("layer_norm", x=x, axes=axes, gamma=gamma, beta=beta, epsilon=_epsilon(step))
    result = scaled(step, normal, gain, offset)
    if not (step.uses(1) or step.uses(2)):
        return result
    mean = step.add("reduce_mean", part="mean", x=x, axes=axes, keep_dims=True)
    centred = step.add("sub", part="centred", x=x, y=mean)
    variance = step.add("reduce_mean", part="variance", x=step.add("square", part="squares", x=centred), axes=axes,
                        keep_dims=True)
    return result, mean, step.add("rsqrt", part="deviation", x=variance, epsilon=_epsilon(step))


def _rms_normalization(step: OnnxStep) -> Operand:
    x = step.real(0)
    axis = step.front(step.integer("axis", -1), x.type.rank)
    gamma, gain = _affine(step, 1, x.shape[axis:])
    normal = step.add("rms_norm", x=x, axes=range(axis, x.type.rank), gamma=gamma, epsilon=_epsilon(step))
    return scaled(step, normal, gain, None)


def _instance_normalization(step: OnnxStep) -> Operand:
    x = step.real(0)
    channels = (x.shape[1],)
    gamma, gain = _affine(step, 1, channels)
    beta, offset = _affine(step, 2, channels)
    if gain is None and offset is None and x.type.rank in (3, 4):
        return step.add("instance_norm", x=x, gamma=gamma, beta=beta, epsilon=_epsilon(step))
    normal = step.add("layer_norm", part="normal", x=x, axes=range(2, x.type.rank), epsilon=_epsilon(step))
    return scaled(step, normal, *(along_channels(step, step.real(index), x.type.rank) for index in (1, 2)))


def _group_normalization(step: OnnxStep) -> Operand:
    """Rows of one group each. Before opset 21 there is one scale for each group, then one for each channel."""
    x, groups = step.real(0), step.integer("num_groups", 0)
    if groups < 1 or x.shape[1] % groups:
        raise GraphError(f"{step.label}: num_groups must divide the {x.shape[1]} channels, found {groups}")
    rows = step.add("reshape", part="rows", x=x, shape=(x.shape[0], groups, prod(x.shape[1:]) // groups))
    normal = step.add("layer_norm", part="normal", x=rows, axes=[2], epsilon=_epsilon(step))
    gain, offset = (step.real(index) for index in (1, 2))
    if gain.type.elements == groups and groups != x.shape[1]:
        normal = scaled(step, normal, *(along_channels(step, value, 3) for value in (gain, offset)))
        return step.add("reshape", x=normal, shape=x.shape)
    normal = step.add("reshape", part="shaped", x=normal, shape=x.shape)
    return scaled(step, normal, *(along_channels(step, value, x.type.rank) for value in (gain, offset)))


def _mean_variance_normalization(step: OnnxStep) -> Operand:
    return step.add("layer_norm", x=step.real(0), axes=step.integers("axes", (0, 2, 3)), epsilon=SMALLEST)


def _lp_normalization(step: OnnxStep) -> Operand:
    x, power = step.real(0), step.integer("p", 2)
    if power not in (1, 2):
        raise step.refuse("p", power, "one of 1, 2")
    axis = step.front(step.integer("axis", -1), x.type.rank)
    norm = step.add(f"reduce_l{power}_norm", part="norm", x=x, axes=[axis], keep_dims=True)
    return step.add("real_div", x=x, y=step.add("maximum", part="positive", x=norm, y=SMALLEST))


def _local_response_normalization(step: OnnxStep) -> Operand:
    """Over a window of channels; an even one reaches further back than forward."""
    x, size = step.real(0), step.integer("size", 0)
    alpha, beta, bias = (step.real_attribute(name, default)
                         for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return step.add("local_response_norm", x=x, size=size, alpha=alpha, beta=beta, k=bias)


OPERATORS: Mapping[str, Handler] = {
    "BatchNormalization": _batch_normalization, "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization, "LRN": _local_response_normalization,
    "LayerNormalization": _layer_normalization, "LpNormalization": _lp_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization, "RMSNormalization": _rms_normalization,
}
