"""Operations that move elements as ONNX nodes: shapes, parts, joins, repeats, paddings, elements at given places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from openane.graph import Value
from openane.importers.onnx.writing.elements import Writer
from openane.importers.onnx.writing.outgoing import OutgoingNode
from openane.ops import get_op
from openane.ops.band_part import band
from openane.ops.depth_to_space import shuffle
from openane.ops.evaluate import evaluate_node
from openane.ops.pad import padding
from openane.ops.slice import KEPT, ranges_by_index

SHAPES = ("expand_dims", "flatten2d", "reshape", "reshape_like", "squeeze")
"""Operations whose result is x under another shape, which is known."""


def _shape(step: OutgoingNode) -> str:
    return step.reshape(step.read(), step.node.output.shape)


def _transpose(step: OutgoingNode) -> str:
    rank = step.node["x"].type.rank
    order = step.arguments.integers("perm", count=rank) or ()
    return step.transpose(step.read(), [axis % rank for axis in order])


def _concat(step: OutgoingNode) -> str:
    """Interleaved slices are those of tensors stacked behind the axis."""
    first = step.arguments.tensors("values")[0]
    axis = step.arguments.axis("axis", first.type.rank)
    if not step.arguments.flag("interleave"):
        return step.add("Concat", *step.all("values"), axis=axis)
    return step.reshape(_stacked(step, axis + 1), step.node.output.shape)


def _stack(step: OutgoingNode) -> str:
    return _stacked(step, step.arguments.axis("axis", step.arguments.tensors("values")[0].type.rank + 1))


def _stacked(step: OutgoingNode, axis: int) -> str:
    """The tensors of `values`, joined along a new axis."""
    deeper = [step.add("Unsqueeze", tensor, step.integers([axis])) for tensor in step.all("values")]
    return step.add("Concat", *deeper, axis=axis)


def _split(step: OutgoingNode) -> list[str]:
    axis = step.arguments.axis("axis", step.node["x"].type.rank)
    sizes = step.integers([value.shape[axis] for value in step.node.outputs])
    return step.several("Split", (step.read(), sizes), len(step.node.outputs), axis=axis)


def _ranges(step: OutgoingNode, tensor: str, kept: Sequence[range], shape: Sequence[int]) -> str:
    """The part of a tensor of `shape` at these positions of each dimension."""
    cut = [axis for axis, (positions, extent) in enumerate(zip(kept, shape, strict=True)) if positions != range(extent)]
    if not cut:
        return tensor
    begins = [kept[axis].start for axis in cut]
    ends = [kept[axis].stop if kept[axis].stop >= 0 else -shape[axis] - 1 for axis in cut]
    return step.add("Slice", tensor, *map(step.integers, (begins, ends, cut, [kept[axis].step for axis in cut])))


def _slice(step: OutgoingNode) -> str:
    kept, dropped = KEPT[step.node.op](step.node.operands)
    part = _ranges(step, step.read(), kept, step.node["x"].shape)
    return step.reshape(part, step.node.output.shape) if any(dropped) else part


def _reverse(step: OutgoingNode) -> str:
    shape = step.node["x"].shape
    axes = step.arguments.axes("axes", len(shape))
    turned = range(len(shape)) if axes is None else axes
    return _ranges(step, step.read(), [range(extent)[::-1] if axis in turned else range(extent)
                                       for axis, extent in enumerate(shape)], shape)


def _tile(step: OutgoingNode) -> str:
    return step.add("Tile", step.read(), step.integers(step.arguments.integers("reps") or ()))


def _pad(step: OutgoingNode) -> str:
    pairs = padding(step.node.operands)
    counts = step.integers([before for before, _ in pairs] + [after for _, after in pairs])
    mode = {"replicate": "edge"}.get(text := str(step.arguments.constant("mode")), text)
    return step.add("Pad", step.read(), counts, step.number(step.arguments.number("constant_val")), mode=mode)


def _block(name: str, setting: str, **attributes: str) -> Writer:
    """A factor of height and width."""
    return lambda step: step.add(name, step.read(), blocksize=step.arguments.integer(setting, 1), **attributes)


def _shuffle(step: OutgoingNode) -> str:
    """Zeros around, every dimension split, the pieces in another order, joined, and cut."""
    plan = shuffle(step.node.op, step.node.operands)
    tensor = step.read()
    if any(chain(*plan.added)):
        pairs = ((0, 0), (0, 0), *plan.added)
        tensor = step.add("Pad", tensor, step.integers([before for before, _ in pairs] + [after for _, after in pairs]))
    split = step.reshape(tensor, list(chain(*plan.factors)))
    joined = step.reshape(step.transpose(split, list(chain(*plan.order))), plan.merged())
    kept = [range(extent) for extent in plan.merged()]
    for axis, (before, after) in enumerate(plan.removed, 2):
        kept[axis] = range(before, len(kept[axis]) - after)
    return _ranges(step, joined, kept, plan.merged())


def _band_part(step: OutgoingNode) -> str:
    height, width = step.node["x"].shape[-2:]
    step.take(height * width)
    mask = band(height, width, step.arguments.integer("lower"), step.arguments.integer("upper"))
    return step.add("Mul", step.read(), step.array(mask))


def _picked(step: OutgoingNode) -> str:
    """Any elements of x at places known now: the operation itself says which, told to move numbers of elements."""
    x = step.node["x"]
    step.take(x.type.elements + step.node.output.type.elements)
    numbers = Value(x.name, replace(x.type, dtype="int32"), np.arange(x.type.elements, dtype=np.int32).reshape(x.shape))
    found, = evaluate_node(replace(step.node, operands={**step.node.operands, "x": numbers}), {})
    flat = step.reshape(step.read(), (-1,))
    return step.add("Gather", flat, step.model.constant(found.astype(np.int64)), axis=0)


def _reverse_sequence(step: OutgoingNode) -> str:
    """ONNX reverses along one of the first two dimensions, which the others are moved behind."""
    rank = step.node["x"].type.rank
    along, batch = (step.arguments.axis(name, rank) for name in ("seq_axis", "batch_axis"))
    if step.node["lengths"].constant or along == batch:
        return _picked(step)
    order = [batch, along, *(axis for axis in range(rank) if axis not in (batch, along))]
    lengths = step.cast(step.read("lengths"), "int64")
    made = step.add("ReverseSequence", step.transpose(step.read(), order), lengths, batch_axis=0, time_axis=1)
    return step.transpose(made, [order.index(axis) for axis in range(rank)])


def _slice_update(step: OutgoingNode) -> str:
    """Numbers of the elements that are replaced, and what they become."""
    shape = step.node["x"].shape
    step.take(2 * step.node["x"].type.elements)
    kept, _ = ranges_by_index(step.node.op, get_op(step.node.op).parameters, step.node.operands)
    places = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)[np.ix_(*kept)].reshape(-1, 1)
    flat, update = step.reshape(step.read("x"), (-1,)), step.reshape(step.read("update"), (-1,))
    return step.reshape(step.add("ScatterND", flat, step.model.constant(places), update), shape)


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(SHAPES, _shape), **dict.fromkeys(KEPT, _slice), "band_part": _band_part,
    "batch_to_space": _shuffle, "concat": _concat,
    "depth_to_space": _block("DepthToSpace", "block_size", mode="DCR"), "pad": _pad,
    "pixel_shuffle": _block("DepthToSpace", "upscale_factor", mode="CRD"), "pixel_unshuffle": _shuffle,
    "reverse": _reverse, "reverse_sequence": _reverse_sequence, "slice_update": _slice_update,
    "sliding_windows": _picked, "space_to_batch": _shuffle, "space_to_depth": _block("SpaceToDepth", "block_size"),
    "split": _split, "stack": _stack, "tile": _tile, "transpose": _transpose,
}
"""By the name of the operation."""
