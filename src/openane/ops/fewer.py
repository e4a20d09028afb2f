"""Operations on tensors of more dimensions than the engine has, written with fewer: what `Op.fewer` is made of.

Dimensions that lie side by side and are treated alike are one dimension, and what is left over of a transpose is made
in several moves. The results are tensors of as many dimensions as the user's between two reshapes; those vanish where
one meets another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from openane.graph import Node, Value
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Parameter

MOST = 5
"""Dimensions of an operand of the engine: batch, channels, depth, height, width."""
Fewer = Callable[[Node, Rewriter], tuple[Value, ...] | None]
Groups = list[list[int]]


def alike(kinds: Sequence[Hashable]) -> Groups:
    """Neighbouring dimensions of the same kind, together; one whose kind is None alone."""
    named = [(number if kind is None else -1, kind) for number, kind in enumerate(kinds)]
    return [[number for number, _ in group] for _, group in groupby(enumerate(named), key=lambda each: each[1])]


def joined(shape: Sequence[int], groups: Groups) -> tuple[int, ...]:
    """The extents of groups of dimensions."""
    return tuple(prod(shape[axis] for axis in group) for group in groups)


def reshaped(rewriter: Rewriter, x: Value, shape: Sequence[int]) -> Any:
    """x in another shape; a constant stays one."""
    if x.constant:
        return x.array().reshape(tuple(shape))
    return x if x.shape == tuple(shape) else rewriter.single("reshape", x=x, shape=np.array(shape, np.int32))


def elementwise(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A function of single elements, of one operand or several that are broadcast: neighbours are alike where every
    operand has both of them, or neither. An operand is repeated where that leaves too many."""
    shape = node.output.shape
    tensors = {name: value for name, value in node.operands.items()
               if isinstance(value, Value) and value.type.rank and value.dtype != "string" and _fits(value, shape)}
    full = {name: (1,) * (len(shape) - value.type.rank) + value.shape for name, value in tensors.items()}
    groups = alike([tuple(own[axis] == 1 for own in full.values()) if extent > 1 else "one"
                    for axis, extent in enumerate(shape)])
    groups = _without_ones(groups, shape)
    if len(groups) > MOST:
        return None
    made: dict[str, Any] = {name: reshaped(rewriter, value, joined(full[name], groups))
                            for name, value in tensors.items()}
    result = _again(node, rewriter, made)
    return (reshaped(rewriter, result, shape),)


def _again(node: Node, rewriter: Rewriter, changed: dict[str, Any]) -> Value:
    """The node's operation once more, with some operands changed."""
    operands: dict[str, Any] = {**node.operands, **changed}
    return rewriter.single(node.op, **operands)


def _fits(value: Value, shape: Sequence[int]) -> bool:
    return value.type.rank <= len(shape) and all(
        a in (1, b) for a, b in zip(reversed(value.shape), reversed(shape), strict=False))


def _without_ones(groups: Groups, shape: Sequence[int]) -> Groups:
    """The groups with dimensions of one element in the group before them, or the next."""
    found: Groups = []
    for group in groups:
        single = prod(shape[axis] for axis in group) == 1
        if found and (single or prod(shape[axis] for axis in found[-1]) == 1):
            found[-1] = [*found[-1], *group]
        else:
            found.append(group)
    return found


def transposed(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A transpose: dimensions that stay together are one, those of one element none. What is left is made by exchanging
    two neighbouring blocks at a time."""
    x = node["x"]
    order = [int(axis) % x.type.rank for axis in node["perm"].array()]
    groups = _moving_together(order, x.shape)
    from_left = sorted(range(len(groups)), key=lambda number: groups[number][0])
    extents = [prod(x.shape[axis] for axis in groups[number]) for number in from_left]
    places = [from_left.index(number) for number in range(len(groups))]
    value = reshaped(rewriter, x, extents or (1,))
    if len(extents) <= MOST:
        made = rewriter.single("transpose", x=value, perm=np.array(places, np.int32)) if len(extents) > 1 else value
        return (reshaped(rewriter, made, node.output.shape),)
    return (reshaped(rewriter, _exchanged(rewriter, value, extents, places), node.output.shape),)


def _moving_together(order: Sequence[int], shape: Sequence[int]) -> Groups:
    """The dimensions of the result in groups that are neighbours in x too, without those of one element."""
    moved = [axis for axis in order if shape[axis] > 1]
    rank = {axis: number for number, axis in enumerate(sorted(moved))}
    groups: Groups = []
    for axis in moved:
        if groups and rank[axis] == rank[groups[-1][-1]] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _exchanged(rewriter: Rewriter, value: Value, extents: Sequence[int], places: Sequence[int]) -> Value:
    """The blocks in the order of `places`: each in turn is brought to its place past those before it."""
    now = list(range(len(extents)))
    for number, wanted in enumerate(places):
        at = now.index(wanted)
        if at == number:
            continue
        blocks = [now[:number], now[number:at], now[at:at + 1], now[at + 1:]]
        sizes = [prod(extents[block] for block in part) for part in blocks]
        value = rewriter.single("transpose", x=reshaped(rewriter, value, sizes), perm=np.array([0, 2, 1, 3], np.int32))
        now = [*blocks[0], *blocks[2], *blocks[1], *blocks[3]]
    return value


def along(parameters: Sequence[Parameter]) -> Fewer:
    """An operation over `axis` or `axes`, with results of x's shape, reduced or shorter: dimensions among the axes are
    alike, and so are the others."""
    def fewer(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
        x, arguments = node["x"], Arguments(node.op, parameters, node.operands)
        name = "axes" if arguments.takes("axes") else "axis"
        axes = _axes(arguments, name, x.type.rank)
        groups = alike([axis in axes for axis in range(x.type.rank)])
        if len(groups) > MOST:
            return None
        over = [number for number, group in enumerate(groups) if group[0] in axes]
        changed: dict[str, Any] = {"x": reshaped(rewriter, x, joined(x.shape, groups)),
                                   name: np.array(over if name == "axes" else over[0], np.int32)}
        if arguments.takes("keep_dims"):
            changed["keep_dims"] = np.bool_(True)
        weights = {name: node.get(name) for name in ("gamma", "beta")}
        changed |= {name: reshaped(rewriter, weight, [prod(x.shape[axis] for axis in groups[n]) for n in over])
                    for name, weight in weights.items() if weight is not None}
        return _as_before(node, rewriter, rewriter.add(node.op, **{**node.operands, **changed}))

    return fewer


def _as_before(node: Node, rewriter: Rewriter, made: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """The results of a node in the shapes it has them in."""
    parts = made if isinstance(made, tuple) else (made,)
    return tuple(reshaped(rewriter, part, value.shape) for part, value in zip(parts, node.outputs, strict=True))


def _axes(arguments: Arguments, name: str, rank: int) -> set[int]:
    """The axes an operation is over: all of them where none are named."""
    found = arguments.axes(name, rank) if name == "axes" else (arguments.axis(name, rank),)
    return set(range(rank)) if found is None else set(found)


def concatenated(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A concatenation: the dimensions before the joined one are alike, and those behind it."""
    values, axis = node.operands["values"], int(node["axis"].array())
    values = (values,) if isinstance(values, Value) else values
    axis %= node.output.type.rank
    interleave = node.get("interleave")
    if interleave is not None and interleave.array():
        return None

    def flat(value: Value) -> Any:
        return reshaped(rewriter, value, (prod(value.shape[:axis]), value.shape[axis], prod(value.shape[axis + 1:])))

    result = rewriter.single("concat", values=tuple(map(flat, values)), axis=np.int32(1))
    return (reshaped(rewriter, result, node.output.shape),)


def split(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A split: the dimensions before the divided one are alike, and those behind it."""
    x, axis = node["x"], int(node["axis"].array())
    axis %= x.type.rank
    whole = reshaped(rewriter, x, (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1:])))
    sizes = np.array([value.shape[axis] for value in node.outputs], np.int32)
    return _as_before(node, rewriter, rewriter.add("split", x=whole, split_sizes=sizes, axis=np.int32(1)))


def repeated(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A tile: dimensions that are not repeated are alike."""
    x, reps = node["x"], [int(count) for count in node["reps"].array()]
    groups = alike([None if count > 1 else "whole" for count in reps])
    if len(groups) > MOST:
        return None
    result = rewriter.single("tile", x=reshaped(rewriter, x, joined(x.shape, groups)),
                             reps=np.array([reps[group[0]] for group in groups], np.int32))
    return (reshaped(rewriter, result, node.output.shape),)


def widened(x: Value, pairs: Sequence[tuple[int, int]], node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A padding by (before, after) of every dimension: dimensions that are left as they are, are alike. Two are padded
    at once, which are five groups at most."""
    padded, shape, made = [axis for axis, pair in enumerate(pairs) if any(pair)], list(x.shape), x
    for some in (padded[at:at + 2] for at in range(0, len(padded), 2)):
        groups = alike([None if axis in some else "whole" for axis in range(len(pairs))])
        counts = [count for group in groups for count in (pairs[group[0]] if group[0] in some else (0, 0))]
        made = _again(node, rewriter, {"x": reshaped(rewriter, made, joined(shape, groups)),
                                       "pad": np.array(counts, np.int32)})
        shape = [extent + sum(pairs[axis]) if axis in some else extent for axis, extent in enumerate(shape)]
    return (reshaped(rewriter, made, node.output.shape),)


def picked(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A gather: dimensions before the one that is picked from are alike, and those behind it."""
    x, indices = node["x"], node["indices"]
    batch = node.get("batch_dims")
    if batch is not None and int(batch.array()):
        return None
    stated = node.get("axis")
    axis = (0 if stated is None else int(stated.array())) % x.type.rank
    sides = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1:])
    result = _again(node, rewriter, {"x": reshaped(rewriter, x, sides), "axis": np.int32(1),
                                     "indices": reshaped(rewriter, indices, (indices.type.elements,))})
    return (reshaped(rewriter, result, node.output.shape),)


def cut(x: Value, ranges: Sequence[range], node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A slice that keeps these positions of every dimension: dimensions that are kept whole are alike."""
    groups = alike(["whole" if kept == range(extent) else None for kept, extent in zip(ranges, x.shape, strict=True)])
    if len(groups) > MOST:
        return None
    kept = [ranges[group[0]] if len(group) == 1 else range(extent)
            for group, extent in zip(groups, joined(x.shape, groups), strict=True)]
    result = rewriter.single(
        "slice_by_index", x=reshaped(rewriter, x, joined(x.shape, groups)),
        begin=np.array([each.start for each in kept], np.int32),
        end=np.array([max(each.stop, 0) for each in kept], np.int32),
        stride=np.array([each.step for each in kept], np.int32),
        end_mask=np.array([each.step < 0 and each.stop < 0 for each in kept]))
    return (reshaped(rewriter, result, node.output.shape),)


def multiplied(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """A matrix product: dimensions of the batch are alike where both operands have them, or the same one has not."""
    x, y = node["x"], node["y"]
    batch = node.output.shape[:-2]
    if min(x.type.rank, y.type.rank) < 2:
        return None
    left, right = ((1,) * (len(batch) + 2 - value.type.rank) + value.shape for value in (x, y))
    groups = _without_ones(alike([(left[axis] == 1, right[axis] == 1) if extent > 1 else "one"
                                  for axis, extent in enumerate(batch)]), batch)
    if len(groups) > MOST - 2:
        return None
    changed: dict[str, Any] = {
        name: reshaped(rewriter, value, (*joined(full, groups), *full[-2:])) if value.type.rank > 2 else value
        for name, value, full in (("x", x, left), ("y", y, right))}
    result = _again(node, rewriter, changed)
    return (reshaped(rewriter, result, node.output.shape),)
