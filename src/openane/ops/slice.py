"""slice_by_index, slice_by_size and crop: every step-th element of a range of each dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from openane.graph import Node, Operand, TensorType, Value, mil_type
from openane.ops.concat import PARAMETERS as CONCAT
from openane.ops.fewer import cut
from openane.ops.gradients import Backward, only, placed, reshaped
from openane.ops.lowering import Lowering
from openane.ops.merging import as_other
from openane.ops.movement import constant_indices, select
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

BOUNDS = (
    Parameter("begin", const=True, kind="index"),
    Parameter("end", const=True, kind="index"),
    Parameter("stride", const=True, default=None, kind="index"),
    Parameter("begin_mask", const=True, default=None, kind="bool"),
    Parameter("end_mask", const=True, default=None, kind="bool"),
    Parameter("squeeze_mask", const=True, default=None, kind="bool"),
)
BY_INDEX = (Parameter("x"), *BOUNDS)
BY_SIZE = (Parameter("x"), Parameter("begin", const=True, kind="index"), Parameter("size", const=True, kind="index"))
CROP = (
    Parameter("x"),
    Parameter("crop_height", const=True, kind="int32"),
    Parameter("crop_width", const=True, kind="int32"),
)

Ranges = tuple[range, ...]


def flags(arguments: Arguments, name: str, count: int) -> tuple[bool, ...]:
    """A constant vector of `count` booleans, all false when left out."""
    data = arguments.constant(name)
    if data is None:
        return (False,) * count
    if isinstance(data, str) or data.dtype != np.bool_ or data.shape != (count,):
        raise refusal(arguments.op, name, f"must hold {count} booleans", data)
    return tuple(bool(flag) for flag in data)


def _only(extent: int, at: int) -> range:
    """One position of so many; none where it is beyond them."""
    return range(extent)[at:at + 1 or None] if -extent <= at < extent else range(0)


def ranges_by_index(op: str, parameters: Sequence[Parameter],
                    operands: Mapping[str, Operand]) -> tuple[Ranges, tuple[bool, ...]]:
    """The positions each dimension of x keeps, and which dimensions are dropped.

    As in numpy: negative positions count from the end, positions beyond it are cut off; where `begin_mask` or
    `end_mask` is set the range starts or ends at the end the step comes from or goes to; where `squeeze_mask` is set
    only `begin` is kept. GraphError when nothing is left.
    """
    arguments = Arguments(op, parameters, operands)
    shape = arguments.tensor("x", ELEMENTS, (1, 8)).shape
    rank = len(shape)
    begin, end = (arguments.integers(name, count=rank) or () for name in ("begin", "end"))
    stride = arguments.integers("stride", (1,) * rank, count=rank) or ()
    if 0 in stride:
        raise refusal(op, "stride", "must hold steps other than 0", list(stride))
    masks = [flags(arguments, name, rank) for name in ("begin_mask", "end_mask", "squeeze_mask")]
    found = []
    for axis, extent in enumerate(shape):
        no_begin, no_end, squeeze = (mask[axis] for mask in masks)
        first, last = None if no_begin else begin[axis], None if no_end else end[axis]
        kept = _only(extent, first or 0) if squeeze else range(extent)[first:last:stride[axis]]
        if not kept:
            raise refusal(op, "begin", f"must leave at least one of the {extent} elements of dimension {axis}",
                          f"begin {begin[axis]}, end {end[axis]}, stride {stride[axis]}")
        found.append(kept)
    return tuple(found), masks[2]


def _by_index(operands: Mapping[str, Operand]) -> tuple[Ranges, tuple[bool, ...]]:
    return ranges_by_index("slice_by_index", BY_INDEX, operands)


def _by_size(operands: Mapping[str, Operand]) -> tuple[Ranges, tuple[bool, ...]]:
    arguments = Arguments("slice_by_size", BY_SIZE, operands)
    shape = arguments.tensor("x", ELEMENTS, (1, 8)).shape
    begin = arguments.integers("begin", count=len(shape)) or ()
    size = arguments.integers("size", count=len(shape), minimum=-1) or ()
    found = []
    for axis, extent in enumerate(shape):
        first = begin[axis] + extent if begin[axis] < 0 else begin[axis]
        count = extent - first if size[axis] == -1 else size[axis]
        if first < 0 or count < 1 or first + count > extent:
            raise refusal("slice_by_size", "size", f"must keep some of elements 0 to {extent - 1} of axis {axis}",
                          f"begin {begin[axis]}, size {size[axis]}")
        found.append(range(first, first + count))
    return tuple(found), (False,) * len(shape)


def _crop(operands: Mapping[str, Operand]) -> tuple[Ranges, tuple[bool, ...]]:
    arguments = Arguments("crop", CROP, operands)
    shape = arguments.tensor("x", ELEMENTS, (3, 8)).shape
    found = [range(extent) for extent in shape]
    for axis, name in ((len(shape) - 2, "crop_height"), (len(shape) - 1, "crop_width")):
        before, after = arguments.integers(name, count=2, minimum=0) or (0, 0)
        found[axis] = range(before, shape[axis] - after)
        if not found[axis]:
            raise refusal("crop", name, f"must leave at least one of {shape[axis]} elements", [before, after])
    return tuple(found), (False,) * len(shape)


KEPT = {"slice_by_index": _by_index, "slice_by_size": _by_size, "crop": _crop}


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    kept, dropped = KEPT[name](operands)
    x = operands["x"]
    assert isinstance(x, Value)
    return (TensorType(x.dtype, tuple(len(r) for r, drop in zip(kept, dropped, strict=True) if not drop)),)


def _reference(*, name: str, x: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    kept, dropped = KEPT[name](as_operands(x, settings))
    for axis, positions in enumerate(kept):
        x = x.take(np.asarray(positions), axis)
    return (x.squeeze(tuple(axis for axis, drop in enumerate(dropped) if drop)),)


def as_operands(x: np.ndarray, settings: Mapping[str, np.ndarray | str | None]) -> dict[str, Operand]:
    """A reference's keywords as constant operands, for what reads them by name; of x only shape and type count.
    float64, which references may be called with, counts as fp32."""
    found: dict[str, Operand] = {}
    for name, data in {"x": np.broadcast_to(np.zeros((), x.dtype), x.shape), **settings}.items():
        if isinstance(data, str):
            found[name] = Value(name, TensorType("string", ()), data)
        elif data is not None:
            dtype = "fp32" if data.dtype == np.float64 else mil_type(data.dtype)
            found[name] = Value(name, TensorType(dtype, data.shape), data)
    return found


def keeps_all(node: Node) -> bool:
    """Whether the result is all of x in its order."""
    kept, _ = KEPT[node.op](node.operands)
    return node["x"].type.elements == node.output.type.elements and all(r.step > 0 or len(r) == 1 for r in kept)


def _lower(node: Node, lowering: Lowering) -> None:
    """Views: an offset and strides. Where a row starts unaligned or is read with a step it is turned into planes first,
    where it runs backwards its elements are copied."""
    if keeps_all(node):
        lowering.alias(node.output, node["x"])
        return
    kept, _ = KEPT[node.op](node.operands)
    select(lowering, node.output, lowering.native(node["x"]), {d: np.asarray(r) for d, r in enumerate(kept)})


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Zeros around, and between where the step was more than 1; ranges that ran backwards are turned first."""
    kept, _ = KEPT[node.op](node.operands)
    given = reshaped(backward, only(upstream), tuple(len(r) for r in kept))
    turned = [axis for axis, r in enumerate(kept) if r.step < 0 and len(r) > 1]
    if turned:
        given = backward.single("reverse", x=given, axes=turned)
    rising = [r[::-1] if r.step < 0 else r for r in kept]
    return {"x": placed(backward, given, node["x"].shape, rising)}


def _fewer(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    kept, _ = KEPT[node.op](node.operands)
    return cut(node["x"], kept, node, rewriter)


def _slice_of_part(node: Node, before: Node) -> Node | None:
    """A slice of the one operand of a concat that it takes from."""
    if before.op != "concat":
        return None
    arguments = Arguments(before.op, CONCAT, before.operands)
    values = arguments.tensors("values")
    axis = arguments.axis("axis", values[0].type.rank)
    kept, dropped = KEPT[node.op](node.operands)
    if arguments.flag("interleave") or any(r.step < 0 for r in kept):
        return None
    start = 0
    for value in values:
        stop = start + value.shape[axis]
        if start <= kept[axis].start and kept[axis][-1] < stop:
            own = (*kept[:axis], range(kept[axis].start - start, kept[axis].stop - start, kept[axis].step),
                   *kept[axis + 1:])
            bounds = {"begin": [r.start for r in own], "end": [r[-1] + 1 for r in own], "stride": [r.step for r in own]}
            return as_other(node, "slice_by_index", value, **bounds, squeeze_mask=list(dropped))
        start = stop
    return None


def _op(name: str, parameters: tuple[Parameter, ...]) -> Op:
    return Op(name, parameters, partial(_infer, name=name), partial(_reference, name=name),
              rules=(*MOVED, constant_indices), lower=_lower, view=keeps_all, gradient=_gradient, moves=Movement.PART,
              merge=_slice_of_part, fewer=_fewer)


OPS = (_op("slice_by_index", BY_INDEX), _op("slice_by_size", BY_SIZE), _op("crop", CROP))
