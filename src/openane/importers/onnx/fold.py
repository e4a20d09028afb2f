"""Constant folding: the numpy meaning of the operators exporters compute shapes and weights with.

A function takes the node and its constant inputs and gives the result as an array. Results are bounded before they are
made: a few bytes of a model can ask for an array of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.onnx.dtypes import numpy_dtype
from openane.importers.onnx.step import Step, axes_of, axis_of

MAXIMUM_ELEMENTS = 1 << 24
"""Largest array folding may create from smaller ones."""

Fold = Callable[[Step], np.ndarray]


def bounded(step: Step, shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` when an array of it may be made. GraphError when it is negative or too large."""
    given = max((operand.size for operand in step.inputs if isinstance(operand, np.ndarray)), default=0)
    limit = max(MAXIMUM_ELEMENTS, given)
    if any(extent < 0 for extent in shape) or prod(shape) > limit:
        raise GraphError(f"{step.label}: a constant of shape {list(shape)[:16]} is outside 0..{limit} elements")
    return tuple(shape)


def _inputs(step: Step) -> list[np.ndarray]:
    return [step.array(index, f"input {index}") for index in range(len(step.inputs))]


def _elementwise(function: Callable[..., np.ndarray]) -> Fold:
    def fold(step: Step) -> np.ndarray:
        arrays = _inputs(step)
        bounded(step, np.broadcast_shapes(*(array.shape for array in arrays)))
        return np.asarray(function(*arrays))
    return fold


def _variadic(function: Callable[..., np.ndarray]) -> Fold:
    def fold(step: Step) -> np.ndarray:
        first, *others = _inputs(step)
        for other in others:
            bounded(step, np.broadcast_shapes(first.shape, other.shape))
            first = np.asarray(function(first, other))
        return first
    return fold


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    return np.asarray(np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)  # C's: towards zero


def _cast(step: Step) -> np.ndarray:
    return step.array(0, "input").astype(numpy_dtype(step.integer("to", 0), step.label))


def _concat(step: Step) -> np.ndarray:
    return np.concatenate(_inputs(step), step.integer("axis", 0))


def _gather(step: Step) -> np.ndarray:
    data, indices = step.array(0, "data"), step.array(1, "indices")
    axis = axis_of(step, step.integer("axis", 0), data.ndim)
    bounded(step, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1:]))
    return np.asarray(np.take(data, indices, axis))


def _slice(step: Step) -> np.ndarray:
    data = step.array(0, "data")
    if step.version < 10:
        starts, ends = step.integers("starts"), step.integers("ends")
        axes, steps = step.integers("axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = step.integers_in(1, "starts"), step.integers_in(2, "ends")
        axes = step.integers_in(3, "axes") if step.has(3) else tuple(range(len(starts)))
        steps = step.integers_in(4, "steps") if step.has(4) else (1,) * len(starts)
    index = [slice(None)] * data.ndim
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        stop = None if stride < 0 and end < -data.shape[axis] else end
        index[axis_of(step, axis, data.ndim)] = slice(start, stop, stride)
    return data[tuple(index)]


def _range(step: Step) -> np.ndarray:
    start, limit, delta = (step.number_in(index, what) for index, what in enumerate(("start", "limit", "delta")))
    if not delta:
        raise GraphError(f"{step.label}: delta must not be 0")
    count = max(0, int(np.ceil((limit - start) / delta)))
    bounded(step, (count,))
    return (start + np.arange(count) * delta).astype(step.array(0, "start").dtype)


def _shape(step: Step) -> np.ndarray:
    return np.array(step.operand(0).shape[_bounds(step)], np.int64)


def _bounds(step: Step) -> slice:
    return slice(step.integer("start", 0), step.attributes.get("end"))


def _size(step: Step) -> np.ndarray:
    return np.array(prod(step.operand(0).shape), np.int64)


def _constant_of_shape(step: Step) -> np.ndarray:
    shape = bounded(step, step.integers_in(0, "shape"))
    value = step.attributes.get("value")
    fill = value if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
    return np.full(shape, fill.reshape(()), fill.dtype)


def _expand(step: Step) -> np.ndarray:
    data = step.array(0, "data")
    shape = np.broadcast_shapes(data.shape, bounded(step, step.integers_in(1, "shape")))
    return np.broadcast_to(data, bounded(step, shape))


def _reshape(step: Step) -> np.ndarray:
    data = step.array(0, "data")
    return data.reshape(reshaped(step, data.shape))


def reshaped(step: Step, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The static result shape of a Reshape node: 0 keeps a dimension (unless allowzero), -1 takes what is left."""
    wanted = step.integers_in(1, "shape") if step.version >= 5 else step.integers("shape")
    keep = not step.integer("allowzero", 0)
    if keep and any(extent == 0 and place >= len(shape) for place, extent in enumerate(wanted)):
        raise GraphError(f"{step.label}: shape {list(wanted)} keeps a dimension x {list(shape)} does not have")
    filled = [shape[place] if keep and extent == 0 else extent for place, extent in enumerate(wanted)]
    known = prod(extent for extent in filled if extent != -1)
    if filled.count(-1) == 1 and known and prod(shape) % known == 0:
        filled[filled.index(-1)] = prod(shape) // known
    if min(filled, default=1) < 0 or prod(filled) != prod(shape):
        raise GraphError(f"{step.label}: shape {list(wanted)} does not hold the {prod(shape)} elements of "
                         f"{list(shape)}")
    return tuple(filled)


def _squeeze(step: Step) -> np.ndarray:
    axes = axes_of(step, 1, 13)
    return np.squeeze(step.array(0, "data"), axes)


def _unsqueeze(step: Step) -> np.ndarray:
    return np.expand_dims(step.array(0, "data"), axes_of(step, 1, 13) or ())


def _transpose(step: Step) -> np.ndarray:
    data = step.array(0, "data")
    return data.transpose(step.integers("perm", range(data.ndim)[::-1]))


def _reduce(function: Callable[..., np.ndarray], since: int) -> Fold:
    def fold(step: Step) -> np.ndarray:
        data, axes = step.array(0, "data"), axes_of(step, 1, since)
        if not axes and step.integer("noop_with_empty_axes", 0):
            return data
        return np.asarray(function(data, axis=axes or None, keepdims=bool(step.integer("keepdims", 1)),
                                   dtype=data.dtype))
    return fold


def _constant(step: Step) -> np.ndarray:
    for name, dtype in (("value", None), ("value_float", np.float32), ("value_floats", np.float32),
                        ("value_int", np.int64), ("value_ints", np.int64)):
        if name in step.attributes:
            return np.asarray(step.attributes[name], dtype)
    raise GraphError(f"{step.label}: attribute 'value' is missing; it has {', '.join(step.attributes) or 'none'}")


SHAPE_ONLY: Mapping[str, Fold] = {"Shape": _shape, "Size": _size, "Constant": _constant}
"""Operators whose result is known even when their input is not."""

FOLDS: Mapping[str, Fold] = {
    "Abs": _elementwise(np.abs), "Add": _elementwise(np.add), "And": _elementwise(np.logical_and), "Cast": _cast,
    "Ceil": _elementwise(np.ceil), "Concat": _concat, "ConstantOfShape": _constant_of_shape,
    "Div": _elementwise(_divide), "Equal": _elementwise(np.equal), "Exp": _elementwise(np.exp), "Expand": _expand,
    "Floor": _elementwise(np.floor), "Gather": _gather, "Greater": _elementwise(np.greater),
    "Identity": _elementwise(lambda x: x), "Less": _elementwise(np.less), "Max": _variadic(np.maximum),
    "Min": _variadic(np.minimum), "Mod": _elementwise(np.mod), "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative), "Not": _elementwise(np.logical_not), "Or": _elementwise(np.logical_or),
    "Pow": _elementwise(lambda x, y: np.power(x, y.astype(x.dtype))), "Range": _range,
    "Reciprocal": _elementwise(np.reciprocal), "ReduceProd": _reduce(np.prod, 18), "ReduceSum": _reduce(np.sum, 13),
    "Reshape": _reshape, "Slice": _slice, "Sqrt": _elementwise(np.sqrt), "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract), "Transpose": _transpose, "Unsqueeze": _unsqueeze, "Where": _elementwise(np.where),
}


def try_fold(step: Step) -> np.ndarray | None:
    """The node's result when it is known now, else None."""
    if step.op in SHAPE_ONLY:
        return SHAPE_ONLY[step.op](step)
    if step.op not in FOLDS or any(isinstance(operand, Value) for operand in step.inputs):
        return None
    with np.errstate(all="ignore"):
        return FOLDS[step.op](step)
