"""scatter, scatter_along_axis, scatter_nd and slice_update: data with updates written, or combined, at constant
positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.engine import Activation, Binary, Post
from openane.errors import UnsupportedError
from openane.graph import Node, Operand, TensorType, Value, numpy_type
from openane.ops import tables
from openane.ops.gather import VALIDATE, common_vector
from openane.ops.gradients import Backward, only, product
from openane.ops.indexing import few
from openane.ops.lowering import Lowering, Tensor
from openane.ops.movement import (
    constant_indices,
    factored,
    folded,
    inner,
    inside,
    place_for,
    taken_along,
    within,
)
from openane.ops.operands import ELEMENTS, INDICES, Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import MOVED
from openane.ops.slice import BOUNDS, as_operands, ranges_by_index
from openane.ops.spec import Op, Parameter, Upstream

FUNCTIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum}
MODES = ("update", *FUNCTIONS)
BINARY = {"add": Binary.ADD, "sub": Binary.ADD, "mul": Binary.MULTIPLY, "div": Binary.MULTIPLY, "max": Binary.MAXIMUM,
          "min": Binary.MINIMUM}

GATHERS = {"scatter": "gather", "scatter_along_axis": "gather_along_axis", "scatter_nd": "gather_nd"}
NEUTRAL = {"mul": 1.0, "div": 1.0, "max": -np.inf, "min": np.inf}
"""What changes nothing in the modes that do more than add or replace."""
ELEMENTWISE = {"mul": "mul", "div": "real_div", "max": "maximum", "min": "minimum"}

COMMON = (Parameter("data"), Parameter("indices", kind="index"), Parameter("updates"))
MODE = Parameter("mode", const=True, default="add", kind="string")
AXIS = Parameter("axis", const=True, default=0, kind="int32")
PARAMETERS = {
    "scatter": (*COMMON, AXIS, MODE, VALIDATE),
    "scatter_along_axis": (*COMMON, AXIS, MODE, VALIDATE),
    "scatter_nd": (*COMMON, MODE, VALIDATE),
    "slice_update": (Parameter("x"), Parameter("update"), *BOUNDS),
}


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS[name], operands)
    data = arguments.tensor("data", ELEMENTS, (1, 8))
    indices = arguments.tensor("indices", INDICES, (1, 8))
    arguments.text("mode", MODES)
    wanted = _updates_shape(arguments, name, data.shape, indices)
    updates = arguments.tensor("updates", (data.dtype,))
    if updates.shape != wanted:
        raise refusal(name, "updates", f"must have shape {list(wanted)}", list(updates.shape))
    return (data.type,)


def _updates_shape(arguments: Arguments, name: str, shape: tuple[int, ...], indices: Value) -> tuple[int, ...]:
    """The shape updates must have. GraphError when indices do not fit data of `shape`."""
    if name == "scatter_nd":
        depth = indices.shape[-1]
        if depth > len(shape):
            raise refusal(name, "indices", f"must end with at most {len(shape)} positions", list(indices.shape))
        if indices.constant:
            for i in range(depth):
                within(name, "indices", indices.array()[..., i], shape[i])
        return (*indices.shape[:-1], *shape[depth:])
    axis = arguments.axis("axis", len(shape))
    if indices.constant:
        within(name, "indices", indices.array(), shape[axis])
    if name == "scatter":
        if indices.type.rank != 1:
            raise refusal(name, "indices", "must be a vector", indices.type)
        return (*shape[:axis], *indices.shape, *shape[axis + 1:])
    if indices.type.rank != len(shape) or any(a != b for d, (a, b) in enumerate(zip(indices.shape, shape, strict=True))
                                              if d != axis):
        raise refusal(name, "indices", f"must have the shape of data {list(shape)} but for axis {axis}",
                      list(indices.shape))
    return indices.shape


def positions(name: str, shape: tuple[int, ...], indices: np.ndarray, axis: int = 0) -> np.ndarray:
    """Row-major position in data of `shape` that each element of the updates goes to."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    at = indices.astype(np.int64)
    if name == "scatter":
        return np.take(places, at, axis)
    if name == "scatter_along_axis":
        return np.take_along_axis(places, at, axis)
    return np.asarray(places[tuple(np.moveaxis(at, -1, 0))])


def _reference(*, name: str, data: np.ndarray, indices: np.ndarray, updates: np.ndarray, mode: str,
               axis: np.ndarray | int = 0, validate_indices: np.ndarray) -> tuple[np.ndarray, ...]:
    result = data.astype(np.float64 if data.dtype.kind == "f" else data.dtype).ravel()
    at = positions(name, data.shape, indices, int(axis)).ravel()
    if mode == "update":
        result[at] = updates.ravel()
    else:
        for _, which in rounds(at):
            result[at[which]] = FUNCTIONS[mode](result[at[which]], updates.ravel()[which])
    return (result.astype(data.dtype).reshape(data.shape),)


def rounds(at: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(number, updates applied in it): the first update of every position, then the second, and so on."""
    order = np.argsort(at, kind="stable")
    sorted_at = at[order]
    first = np.searchsorted(sorted_at, sorted_at)
    number = np.empty(len(at), np.int64)
    number[order] = np.arange(len(at)) - first
    return [(n, np.flatnonzero(number == n)) for n in range(int(number.max(initial=-1)) + 1)]


def last_writes(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(positions in rising order, the update that is written there last)."""
    found, back = np.unique(at[::-1], return_index=True)
    return found, len(at) - 1 - back


def _layout(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], int, np.ndarray]:
    """Shapes data and updates are seen in, the dimension of both that positions count, and the positions along it."""
    data, indices = node["data"], node["indices"]
    shape = data.shape
    arguments = Arguments(node.op, PARAMETERS[node.op], node.operands)
    axis = 0 if node.op == "scatter_nd" else arguments.axis("axis", len(shape))
    at = indices.array().astype(np.int64)
    if node.op == "scatter_along_axis":
        vector = common_vector(at, axis)
        if vector is not None:
            return shape, node["updates"].shape, axis, vector % shape[axis]
    elif node.op == "scatter":
        return shape, node["updates"].shape, axis, at % shape[axis]
    (leading, chosen, trailing), vector = factored(shape, positions(node.op, shape, at, axis))
    return (leading, chosen, trailing), (leading, len(vector), trailing), 1, vector


def _lower(node: Node, lowering: Lowering) -> None:
    """Data is copied, then updates over it. Other modes gather what updates meet, combine them, and write that; several
    updates of one position take as many rounds."""
    mode = Arguments(node.op, PARAMETERS[node.op], node.operands).text("mode", MODES)
    shape, narrow, axis, at = _layout(node)
    move = lowering.native if mode == "update" else lowering.read
    data, updates = move(node["data"]), move(node["updates"])
    if data.dtype is not updates.dtype:
        data, updates = lowering.read(node["data"]), lowering.read(node["updates"])
    data, updates = folded(lowering, data, shape, axis), folded(lowering, updates, narrow, axis)
    target = place_for(lowering, node.output, data, shape)()
    every = np.arange(shape[axis])
    if mode == "update":
        where, which = last_writes(at)
        lowering.copy_indexed(target, axis, [(data, every, None), (updates, which, where)])
    else:
        result = data
        groups = rounds(at)
        for number, which in groups:
            met = _combined(lowering, result, updates, axis, at[which], which, mode)
            place = target if number == len(groups) - 1 else lowering.scratch(shape)
            lowering.copy_indexed(place, axis, [(result, every, None), (met, np.arange(len(which)), at[which])])
            result = place
    lowering.bind(node.output, target, node.output.shape)


def _combined(lowering: Lowering, data: Tensor, updates: Tensor, axis: int, at: np.ndarray, which: np.ndarray,
              mode: str) -> Tensor:
    """data[at] and updates[which] combined, in scratch."""
    shape = (*data.shape[:axis], len(at), *data.shape[axis + 1:])
    first, second = (lowering.taken(tensor, axis, indices, lambda: lowering.scratch(shape))
                     for tensor, indices in ((data, at), (updates, which)))
    if mode == "div":
        inverse = lowering.scratch(shape)
        lowering.copy(lowering.compact(second), inverse, Post(activation=Activation.TABLE), tables.inverse())
        second = inverse
    met = lowering.scratch(shape)
    lowering.elementwise(met, first, second, BINARY[mode], subtract=mode == "sub")
    return met


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Updates get what reaches their places, with the sign they came in by. What was overwritten gets nothing: zeros
    are written over the gradient of data, and of several updates of one place the last counts."""
    arguments, given = Arguments(node.op, PARAMETERS[node.op], node.operands), only(upstream)
    mode, indices, updates = arguments.text("mode", MODES), node["indices"], node["updates"]
    place: dict[str, Any] = {name: node[name] for name in ("indices", "axis") if name in node.operands}
    reached = backward.single(GATHERS[node.op], x=given, **place)
    if mode != "update":
        return {"data": given, "updates": reached if mode == "add" else product(backward, reached, -1.0)}
    if not indices.constant:
        raise backward.refuse("the gradient of what is overwritten is known for constant indices",
                              "leave the indices constant, or write the update as products with one-hot rows")
    zeros = np.zeros(updates.shape, numpy_type(updates.dtype))
    at = _positions(node).ravel()
    kept = np.zeros(len(at), np.float32)
    kept[last_writes(at)[1]] = 1
    reached = reached if kept.all() else product(backward, reached, kept.reshape(updates.shape))
    return {"data": backward.single(node.op, data=given, updates=zeros, mode="update", **place), "updates": reached}


def _positions(node: Node) -> np.ndarray:
    shape, name = node["data"].shape, node.op
    axis = 0 if name == "scatter_nd" else Arguments(name, PARAMETERS[name], node.operands).axis("axis", len(shape))
    return positions(name, shape, node["indices"].array(), axis)


def _expand(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """Data combined with all of the updates at once, neutral numbers elsewhere: as often as most places are updated.
    The gradient of what only adds or replaces needs no such form."""
    mode = Arguments(node.op, PARAMETERS[node.op], node.operands).text("mode", MODES)
    if mode not in NEUTRAL:
        return None
    data, updates = node["data"], node["updates"]
    if not node["indices"].constant:
        raise UnsupportedError(node.label, "the gradient is known for constant indices", remedy="leave them constant")
    at, count = _positions(node).ravel(), data.type.elements
    flat = rewriter.single("reshape", x=updates, shape=[-1])
    neutral = np.full(count, NEUTRAL[mode], numpy_type(data.dtype))
    for _, which in rounds(at):
        some = rewriter.single("gather", x=flat, indices=which.astype(np.int32), axis=0)
        spread = rewriter.single("scatter", data=neutral, indices=at[which].astype(np.int32), updates=some,
                                 mode="update")
        data = rewriter.single(ELEMENTWISE[mode], x=data,
                               y=rewriter.single("reshape", x=spread, shape=list(data.shape)))
    return (data,)


def few_runs(node: Node, limits: Limits) -> bool:
    """Constant indices must run in ranges or repeat, so that few strided copies make the result."""
    if not node["indices"].constant:
        return True
    at = _layout(node)[3]
    where, which = last_writes(at)
    return few(which, where) and all(few(group, at[group]) for _, group in rounds(at))


def floats_when_combined(node: Node, limits: Limits) -> bool:
    """Modes other than update must have fp16 or fp32 data."""
    mode = node.get("mode")
    return (mode is not None and mode.data == "update") or node["data"].dtype in ("fp16", "fp32")


def _infer_slice(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    parameters = PARAMETERS["slice_update"]
    arguments = Arguments("slice_update", parameters, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    kept, dropped = ranges_by_index("slice_update", parameters, operands)
    shape = tuple(len(r) for r, drop in zip(kept, dropped, strict=True) if not drop)
    update = arguments.tensor("update", (x.dtype,))
    if update.shape != shape:
        raise refusal("slice_update", "update", f"must have the shape of the slice, {list(shape)}", list(update.shape))
    return (x.type,)


def _slice_array(*, x: np.ndarray, update: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    kept, _ = ranges_by_index("slice_update", PARAMETERS["slice_update"], as_operands(x, settings))
    result = x.copy()
    result[np.ix_(*(np.asarray(r) for r in kept))] = update.reshape(tuple(len(r) for r in kept))
    return (result,)


def _lower_slice(node: Node, lowering: Lowering) -> None:
    """x is copied, then the update over its slice."""
    kept, _ = ranges_by_index("slice_update", PARAMETERS["slice_update"], node.operands)
    x, update = lowering.native(node["x"]), lowering.native(node["update"])
    if x.dtype is not update.dtype:
        x, update = lowering.read(node["x"]), lowering.read(node["update"])
    part = folded(lowering, update, tuple(len(r) for r in kept), 0)
    backwards = {d: np.arange(len(r))[::-1] for d, r in enumerate(kept) if r.step < 0}
    part = taken_along(lowering, part, backwards, partial(lowering.scratch, part.shape, None, part.dtype))
    target = place_for(lowering, node.output, x, x.shape)()
    forward = tuple(r[::-1] if r.step < 0 else r for r in kept)
    whole = inside(lowering, target, forward)
    lowering.copy(x, whole)
    lowering.copy(part, inner(whole, forward))
    if whole is not target:
        lowering.copy(whole, target)
    lowering.bind(node.output, target, node.output.shape)


def _slice_gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The update gets its slice, x the rest: zeros are written over what was replaced."""
    given, update = only(upstream), node["update"]
    bounds: dict[str, Any] = {parameter.name: node[parameter.name] for parameter in BOUNDS
                              if parameter.name in node.operands}
    zeros = np.zeros(update.shape, numpy_type(update.dtype))
    return {"x": backward.single("slice_update", x=given, update=zeros, **bounds),
            "update": backward.single("slice_by_index", x=given, **bounds)}


def _op(name: str) -> Op:
    reference = partial(_reference, name=name)
    return Op(name, PARAMETERS[name], partial(_infer, name=name), reference,
              rules=(*MOVED, constant_indices, few_runs, floats_when_combined), lower=_lower, gradient=_gradient,
              expand=_expand, positions="indices")


OPS = (
    _op("scatter"),
    _op("scatter_along_axis"),
    _op("scatter_nd"),
    Op("slice_update", PARAMETERS["slice_update"], _infer_slice, _slice_array, rules=(*MOVED, constant_indices),
       lower=_lower_slice, gradient=_slice_gradient),
)
