"""Constant folding: the numpy meaning of the operators exporters compute shapes and weights with.

A function takes the node and its constant inputs and gives the result as an array. Results are bounded before they are
made: a few bytes of a model can ask for an array of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import numpy_type
from openane.importers.onnx.dtypes import numpy_dtype
from openane.importers.onnx.fold_order import top_k
from openane.importers.onnx.step import OnnxStep, axes_of
from openane.importers.shapes import with_ones

MAXIMUM_ELEMENTS = 1 << 27
"""Largest array folding may create from smaller ones: the first fully connected layer of VGG has 98 million weights."""

ITEM = 4
"""Bytes of an element in the count; float64 and int64 take twice as many."""

Fold = Callable[[OnnxStep], np.ndarray]


def bounded(step: OnnxStep, shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` when an array of it may be made, which counts then. GraphError when it is negative or too large,
    UnsupportedError when the model's constants together are."""
    given = max((operand.size for operand in step.inputs if isinstance(operand, np.ndarray)), default=0)
    limit = max(MAXIMUM_ELEMENTS, given, (step.folding.stated or 0) // ITEM)
    if any(extent < 0 for extent in shape) or prod(shape) > limit:
        raise GraphError(f"{step.label}: a constant of shape {list(shape)[:16]} is outside 0..{limit} elements")
    step.folding.take(step.label, prod(shape) * ITEM)
    return tuple(shape)


def _inputs(step: OnnxStep) -> list[np.ndarray]:
    return [step.array(index, f"input {index}") for index in range(len(step.inputs))]


def _elementwise(function: Callable[..., np.ndarray]) -> Fold:
    def fold(step: OnnxStep) -> np.ndarray:
        arrays = _inputs(step)
        bounded(step, np.broadcast_shapes(*(array.shape for array in arrays)))
        return np.asarray(function(*arrays))
    return fold


def _variadic(function: Callable[..., np.ndarray]) -> Fold:
    def fold(step: OnnxStep) -> np.ndarray:
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


def _cast(step: OnnxStep) -> np.ndarray:
    bounded(step, step.array(0, "input").shape)
    return step.array(0, "input").astype(numpy_dtype(step.integer("to", 0), step.label))


def _cast_like(step: OnnxStep) -> np.ndarray:
    """Of the element type of input 1, which need not be known itself."""
    bounded(step, step.array(0, "input").shape)
    like = step.operand(1)
    dtype = like.dtype if isinstance(like, np.ndarray) else numpy_type("fp32" if like.dtype == "fp16" else like.dtype)
    return step.array(0, "input").astype(dtype)


def _concat(step: OnnxStep) -> np.ndarray:
    arrays = _inputs(step)
    bounded(step, (sum(array.size for array in arrays),))
    return np.concatenate(arrays, step.integer("axis", 0))


def _gather(step: OnnxStep) -> np.ndarray:
    data, indices = step.array(0, "data"), step.array(1, "indices")
    axis = step.front(step.integer("axis", 0), data.ndim)
    bounded(step, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1:]))
    return np.asarray(np.take(data, indices, axis))


def _clip(step: OnnxStep) -> np.ndarray:
    """The bounds are inputs from operator set 11 on, and either may be missing."""
    x = step.array(0, "input")
    if step.version < 11:
        low, high = step.real_attribute("min", -np.inf), step.real_attribute("max", np.inf)
        return np.asarray(np.clip(x, low, high), x.dtype)
    for index, bound in ((1, np.maximum), (2, np.minimum)):
        x = bound(x, step.array(index, "bound")) if step.has(index) else x
    return np.asarray(x)


def _gather_elements(step: OnnxStep) -> np.ndarray:
    """The indices may reach less far than the data in other dimensions."""
    data, indices = step.array(0, "data"), step.array(1, "indices")
    axis = step.front(step.integer("axis", 0), data.ndim)
    bounded(step, indices.shape)
    if indices.ndim != data.ndim or any(count > extent for place, (count, extent)
                                        in enumerate(zip(indices.shape, data.shape, strict=True)) if place != axis):
        raise GraphError(f"{step.label}: indices {list(indices.shape)} reach beyond data {list(data.shape)}")
    kept = tuple(slice(None) if place == axis else slice(count) for place, count in enumerate(indices.shape))
    try:
        return np.take_along_axis(data[kept], indices, axis)
    except IndexError as error:
        raise GraphError(f"{step.label}: {error}") from None


def slices(step: OnnxStep, shape: Sequence[int]) -> tuple[slice, ...]:
    """What a Slice node keeps of each dimension of `shape`."""
    if step.version < 10:
        starts, ends = step.integers("starts"), step.integers("ends")
        axes, steps = step.integers("axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = step.integers_in(1, "starts"), step.integers_in(2, "ends")
        axes = step.integers_in(3, "axes") if step.has(3) else tuple(range(len(starts)))
        steps = step.integers_in(4, "steps") if step.has(4) else (1,) * len(starts)
    kept = [slice(None)] * len(shape)
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        place = step.front(axis, len(shape))
        stop = None if stride < 0 and end < -shape[place] else end
        if stride < 0:
            start = max(start, -shape[place])  # what begins before the first element begins at it
        kept[place] = slice(start, stop, stride)
    return tuple(kept)


def _slice(step: OnnxStep) -> np.ndarray:
    data = step.array(0, "data")
    return data[slices(step, data.shape)]


def _range(step: OnnxStep) -> np.ndarray:
    start, limit, delta = (step.number_in(index, what) for index, what in enumerate(("start", "limit", "delta")))
    if not delta:
        raise GraphError(f"{step.label}: delta must not be 0")
    count = max(0, int(np.ceil((limit - start) / delta)))
    bounded(step, (count,))
    return (start + np.arange(count) * delta).astype(step.array(0, "start").dtype)


def _shape(step: OnnxStep) -> np.ndarray:
    return np.array(step.operand(0).shape[_bounds(step)], np.int64)


def _bounds(step: OnnxStep) -> slice:
    return slice(step.integer("start", 0), step.attributes.get("end"))


def _size(step: OnnxStep) -> np.ndarray:
    return np.array(prod(step.operand(0).shape), np.int64)


def _constant_of_shape(step: OnnxStep) -> np.ndarray:
    shape = bounded(step, step.integers_in(0, "shape"))
    value = step.attributes.get("value")
    fill = value if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
    return np.full(shape, fill.reshape(()), fill.dtype)


def _expand(step: OnnxStep) -> np.ndarray:
    data = step.array(0, "data")
    shape = np.broadcast_shapes(data.shape, bounded(step, step.integers_in(1, "shape")))
    return np.broadcast_to(data, bounded(step, shape))


def _reshape(step: OnnxStep) -> np.ndarray:
    data = step.array(0, "data")
    return data.reshape(bounded(step, reshaped(step, data.shape)))


def _filled(shape: list[int], elements: int) -> list[int]:
    """The shape, -1 replaced by what is left of the elements where that is whole."""
    known = prod(extent for extent in shape if extent != -1)
    if shape.count(-1) != 1 or not known or elements % known:
        return shape
    return [elements // known if extent == -1 else extent for extent in shape]


def reshaped(step: OnnxStep, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The static result shape of a Reshape node: 0 keeps a dimension (unless allowzero), -1 takes what is left."""
    wanted = step.integers_in(1, "shape") if step.version >= 5 else step.integers("shape")
    keep = not step.integer("allowzero", 0)
    if keep and any(extent == 0 and place >= len(shape) for place, extent in enumerate(wanted)):
        raise GraphError(f"{step.label}: shape {list(wanted)} keeps a dimension x {list(shape)} does not have")
    filled = _filled([shape[place] if keep and extent == 0 else extent for place, extent in enumerate(wanted)],
                     prod(shape))
    if min(filled, default=1) < 0 or prod(filled) != prod(shape):
        raise GraphError(f"{step.label}: shape {list(wanted)} does not hold the {prod(shape)} elements of "
                         f"{list(shape)}")
    return tuple(filled)


def _squeeze(step: OnnxStep) -> np.ndarray:
    axes = axes_of(step, 1, 13)
    return np.squeeze(step.array(0, "data"), axes)


def _unsqueeze(step: OnnxStep) -> np.ndarray:
    data, axes = step.array(0, "data"), axes_of(step, 1, 13) or ()
    shape = with_ones(data.shape, axes)
    return np.expand_dims(data, axes) if shape is None else data.reshape(shape)


def _transpose(step: OnnxStep) -> np.ndarray:
    data = step.array(0, "data")
    return data.transpose(step.integers("perm", range(data.ndim)[::-1]))


def _reduce(function: Callable[..., np.ndarray], since: int) -> Fold:
    def fold(step: OnnxStep) -> np.ndarray:
        data, axes = step.array(0, "data"), axes_of(step, 1, since)
        if not axes and step.integer("noop_with_empty_axes", 0):
            return data
        bounded(step, data.shape)
        return np.asarray(function(data, axis=axes or None, keepdims=bool(step.integer("keepdims", 1)),
                                   dtype=data.dtype))
    return fold


def _constant(step: OnnxStep) -> np.ndarray:
    for name, dtype in (("value", None), ("value_float", np.float32), ("value_floats", np.float32),
                        ("value_int", np.int64), ("value_ints", np.int64)):
        if name in step.attributes:
            return np.asarray(step.attributes[name], dtype)
    raise GraphError(f"{step.label}: attribute 'value' is missing; it has {', '.join(step.attributes) or 'none'}")


def _identity_like(step: OnnxStep) -> np.ndarray:
    rows, columns = bounded(step, step.operand(0).shape)
    dtype = step.integer("dtype", 0)
    kinds: dict[str, Any] = {"fp16": np.float32, "bool": np.bool_}
    given = step.operand(0)
    like = given.dtype if isinstance(given, np.ndarray) else kinds.get(given.dtype, np.int64)
    return np.eye(rows, columns, step.integer("k", 0), numpy_dtype(dtype, step.label) if dtype else like)


def _window(*weights: float) -> Fold:
    """A window function as a sum of cosines."""
    def fold(step: OnnxStep) -> np.ndarray:
        size = int(step.number_in(0, "size"))
        bounded(step, (size,))
        period = max(size if step.integer("periodic", 1) else size - 1, 1)
        angle = 2 * np.pi * np.arange(size) / period
        total = sum(weight * np.cos(number * angle) for number, weight in enumerate(weights))
        return np.asarray(total).astype(numpy_dtype(step.integer("output_datatype", 1), step.label))
    return fold


SHAPE_ONLY: Mapping[str, Fold] = {"Constant": _constant, "EyeLike": _identity_like, "Shape": _shape, "Size": _size}
"""Operators whose result is known even when their input is not."""

FOLDS: Mapping[str, Fold] = {
    "BlackmanWindow": _window(0.42, -0.5, 0.08), "HammingWindow": _window(25 / 46, -21 / 46),
    "HannWindow": _window(0.5, -0.5),
    "Abs": _elementwise(np.abs), "Add": _elementwise(np.add), "And": _elementwise(np.logical_and), "Cast": _cast,
    "Ceil": _elementwise(np.ceil), "Clip": _clip, "Concat": _concat, "ConstantOfShape": _constant_of_shape,
    "Div": _elementwise(_divide), "Equal": _elementwise(np.equal), "Exp": _elementwise(np.exp), "Expand": _expand,
    "Floor": _elementwise(np.floor), "Gather": _gather, "GatherElements": _gather_elements,
    "Greater": _elementwise(np.greater),
    "Identity": _elementwise(lambda x: x), "Less": _elementwise(np.less), "Max": _variadic(np.maximum),
    "Min": _variadic(np.minimum), "Mod": _elementwise(np.mod), "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative), "Not": _elementwise(np.logical_not), "Or": _elementwise(np.logical_or),
    "Pow": _elementwise(lambda x, y: np.power(x, y.astype(x.dtype))), "Range": _range,
    "Reciprocal": _elementwise(np.reciprocal), "ReduceProd": _reduce(np.prod, 18), "ReduceSum": _reduce(np.sum, 13),
    "Reshape": _reshape, "Slice": _slice, "Sqrt": _elementwise(np.sqrt), "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract), "Transpose": _transpose, "Unsqueeze": _unsqueeze, "Where": _elementwise(np.where),
}

SHAPING = frozenset(["BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "NonZero", "Range"])
"""Operators whose inputs decide the shape of their result and nothing else."""
BROADCAST_FOLDS = frozenset([
    "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "GreaterOrEqual", "LessOrEqual", "Xor"])
REFERENCE_FOLDS = BROADCAST_FOLDS | {
    "Acos", "ArgMax", "ArgMin", "Asin", "Atan", "BitwiseNot", "Cos", "CumSum", "Erf", "IsInf", "IsNaN", "NonZero",
    "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "Relu", "Round", "ScatterElements", "ScatterND",
    "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Split", "Tan", "Tanh", "Trilu"}
"""Operators known for constants alone, or also for them."""


def try_fold(step: OnnxStep, computed: bool) -> np.ndarray | tuple[np.ndarray, ...] | None:
    """The node's results when they are known now, else None. `computed`: an input is not."""
    if step.op in SHAPE_ONLY:
        return SHAPE_ONLY[step.op](step)
    if step.op == "CastLike" and isinstance(step.operand(0), np.ndarray):
        return _cast_like(step)
    if computed:
        return None
    with np.errstate(all="ignore"):
        if step.op == "TopK":
            return top_k(step)
        if step.op in FOLDS:
            return FOLDS[step.op](step)
        return _by_reference(step) if step.op in REFERENCE_FOLDS and step.has(0) else None


def _by_reference(step: OnnxStep) -> tuple[np.ndarray, ...]:
    """The results as ONNX's own reference computes it, for operators whose results are about as large as their
    inputs."""
    arrays = [array for array in step.inputs if isinstance(array, np.ndarray)]
    bounded(step, np.broadcast_shapes(*(array.shape for array in arrays))
            if step.op in BROADCAST_FOLDS else (sum(array.size for array in arrays),))
    import onnx.helper
    import onnx.reference
    feeds: dict[str, Any] = {name: array for name, array in zip(step.input_names, step.inputs, strict=True) if name}
    if step.op == "CumSum":  # runtimes take an axis in a list of one as well
        feeds[step.input_names[-1]] = feeds[step.input_names[-1]].squeeze()
    try:
        code = onnx.helper.np_dtype_to_tensor_dtype
        ports = [onnx.helper.make_tensor_value_info(name, code(array.dtype), array.shape)
                 for name, array in feeds.items()]
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in step.proto.output]
        graph = onnx.helper.make_graph([step.proto], "node", ports, results)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", step.version)])
        return tuple(map(np.asarray, onnx.reference.ReferenceEvaluator(model).run(None, feeds)))
    except Exception as error:  # whatever the reference does with malformed nodes
        raise GraphError(f"{step.label}: cannot be computed: {str(error)[:200]}") from None
