"""Elements at positions that indices give as ONNX nodes: gathers, scatters, the largest and their order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.importers.onnx.writing.elements import Writer
from openane.importers.onnx.writing.outgoing import OutgoingNode

REDUCTIONS = {"update": "none", "add": "add", "sub": "add", "mul": "mul", "div": "mul", "max": "max", "min": "min"}
"""How ScatterElements and ScatterND combine, by mode."""
INVERSES = {"sub": "Neg", "div": "Reciprocal"}
"""What makes an update one that is added, or multiplied by."""


def _indices(step: OutgoingNode, name: str = "indices") -> str:
    """The operand as int64; constants are int64 numbers themselves."""
    value = step.node[name]
    if value.constant:
        return step.model.constant(value.array().astype(np.int64))
    return step.cast(step.read(name), "int64")


def _gather(step: OutgoingNode) -> str:
    """With batch dimensions by GatherND, which gathers along the first dimension behind them."""
    x, indices = step.node["x"], step.node["indices"]
    axis, batch = step.arguments.axis("axis", x.type.rank), step.arguments.integer("batch_dims")
    if not batch:
        return step.add("Gather", step.read(), _indices(step), axis=axis)
    order = [*range(batch), axis, *(d for d in range(batch, x.type.rank) if d != axis)]
    rows = step.reshape(_indices(step), (*indices.shape, 1))
    made = step.add("GatherND", step.transpose(step.read(), order), rows, batch_dims=batch)
    between, found = axis - batch, indices.type.rank - batch
    rank = step.node.output.type.rank
    back = [*range(batch), *range(batch + found, batch + found + between), *range(batch, batch + found),
            *range(batch + found + between, rank)]
    return step.transpose(made, back)


def _gather_along(step: OutgoingNode) -> str:
    axis = step.arguments.axis("axis", step.node["x"].type.rank)
    return step.add("GatherElements", step.read(), _indices(step), axis=axis)


def _gather_nd(step: OutgoingNode) -> str:
    return step.add("GatherND", step.read(), _indices(step), batch_dims=step.arguments.integer("batch_dims"))


def _combined(step: OutgoingNode, op: str, indices: str, **attributes: int) -> str:
    """Data with the updates combined. onnxruntime combines no fp16 numbers: they are fp32 for that."""
    mode, dtype = step.arguments.text("mode", tuple(REDUCTIONS)), step.node["data"].dtype
    how, data, updates = REDUCTIONS[mode], step.read("data"), step.read("updates")
    narrow = how != "none" and step.model.dtype(dtype) == "fp16"
    if narrow:
        data, updates = step.cast(data, "fp32"), step.cast(updates, "fp32")
    updates = step.add(INVERSES[mode], updates) if mode in INVERSES else updates
    made = step.add(op, data, indices, updates, reduction=how, **attributes)
    return step.cast(made, dtype) if narrow else made


def _scatter(step: OutgoingNode) -> str:
    """One vector of indices counts for all elements of the other dimensions; along an axis there is one for each."""
    shape = step.node["updates"].shape
    axis = step.arguments.axis("axis", len(shape))
    indices = _indices(step)
    if step.node.op == "scatter":
        column = step.reshape(indices, [extent if d == axis else 1 for d, extent in enumerate(shape)])
        indices = step.add("Expand", column, step.integers(shape))
    return _combined(step, "ScatterElements", indices, axis=axis)


def _scatter_nd(step: OutgoingNode) -> str:
    return _combined(step, "ScatterND", _indices(step))


def _one_hot(step: OutgoingNode) -> str:
    """Indices beside all positions: ONNX's OneHot counts negative ones from the end."""
    indices = step.node["indices"]
    axis = step.arguments.axis("axis", indices.type.rank + 1)
    count = step.arguments.integer("one_hot_vector_size", 1)
    shape = [count if d == axis else 1 for d in range(indices.type.rank + 1)]
    positions = step.model.constant(np.arange(count, dtype=np.int64).reshape(shape))
    same = step.add("Equal", step.add("Unsqueeze", _indices(step), step.integers([axis])), positions)
    on, off = (step.model.constant(_held(step, name)) for name in ("on_value", "off_value"))
    return step.add("Where", same, on, off)


def _held(step: OutgoingNode, name: str) -> np.ndarray:
    """A constant number in the type the model holds it in."""
    data = np.asarray(step.arguments.constant(name))
    return data.astype(np.float32) if step.model.wide and data.dtype == np.float16 else data


def _largest(step: OutgoingNode, count: int) -> list[str]:
    """The values and positions of the `count` largest, or smallest, along the axis."""
    axis = step.arguments.axis("axis", step.node["x"].type.rank)
    return step.several("TopK", (step.read(), step.integers([count])), 2, axis=axis, sorted=1,
                        largest=int(not step.arguments.flag("ascending")))


def _topk(step: OutgoingNode) -> list[str]:
    axis = step.arguments.axis("axis", step.node["x"].type.rank)
    values, positions = _largest(step, step.node.outputs[0].shape[axis])
    return [values, *(step.cast(positions, value.dtype) for value in step.node.outputs[1:])]


def _argsort(step: OutgoingNode) -> str:
    x = step.node["x"]
    return step.cast(_largest(step, x.shape[step.arguments.axis("axis", x.type.rank)])[1], step.node.output.dtype)


def _quantize(step: OutgoingNode) -> str:
    return _scaled(step, "QuantizeLinear", "input", step.node.output.dtype)


def _dequantize(step: OutgoingNode) -> str:
    return _scaled(step, "DequantizeLinear", "input", step.node["input"].dtype)


def _stored(step: OutgoingNode) -> str:
    """Weights of 8 bits stay that."""
    return _scaled(step, "DequantizeLinear", "quantized_data", step.node["quantized_data"].dtype)


def _scaled(step: OutgoingNode, op: str, name: str, dtype: str) -> str:
    """A conversion by scale and zero point; a vector of them belongs to an axis."""
    scale, point = step.node["scale"], step.node.get("zero_point")
    zeros = np.zeros(scale.shape, dtype) if point is None else np.broadcast_to(point.array(), scale.shape)
    axis = {"axis": step.arguments.axis("axis", step.node[name].type.rank)} if scale.type.rank else {}
    return step.add(op, step.read(name), step.read("scale"), step.model.constant(zeros), **axis)


WRITERS: Mapping[str, Writer] = {
    "argsort": _argsort, "constexpr_affine_dequantize": _stored, "dequantize": _dequantize, "gather": _gather,
    "gather_along_axis": _gather_along, "gather_nd": _gather_nd, "one_hot": _one_hot, "quantize": _quantize,
    "scatter": _scatter, "scatter_along_axis": _scatter, "scatter_nd": _scatter_nd, "topk": _topk,
}
"""By the name of the operation."""
