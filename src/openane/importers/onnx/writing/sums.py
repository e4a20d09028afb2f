"""Reductions, norms and products as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.importers.onnx.writing.elements import Writer
from openane.importers.onnx.writing.outgoing import OutgoingNode
from openane.ops.halves import LARGEST

REDUCTIONS = {
    "reduce_l1_norm": "ReduceL1", "reduce_l2_norm": "ReduceL2", "reduce_log_sum": "ReduceLogSum",
    "reduce_log_sum_exp": "ReduceLogSumExp", "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean",
    "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum",
    "reduce_sum_square": "ReduceSumSquare",
}
POSITIONS = {"reduce_argmax": "ArgMax", "reduce_argmin": "ArgMin"}


def _axes(step: OutgoingNode) -> tuple[int, ...]:
    """The axes stated, in rising order; all where none are."""
    rank = step.node["x"].type.rank
    axes = step.arguments.axes("axes", rank)
    return tuple(range(rank)) if axes is None else axes


def _reduction(step: OutgoingNode) -> str:
    return step.add(REDUCTIONS[step.node.op], step.read(), step.integers(_axes(step)),
                    keepdims=int(step.arguments.flag("keep_dims")))


def _position(step: OutgoingNode) -> str:
    axis = step.arguments.axis("axis", step.node["x"].type.rank)
    found = step.add(POSITIONS[step.node.op], step.read(), axis=axis, keepdims=int(step.arguments.flag("keep_dims")))
    return step.cast(found, step.node.output.dtype)


def _cumsum(step: OutgoingNode) -> str:
    axis = step.model.constant(np.array(step.arguments.axis("axis", step.node["x"].type.rank), np.int64))
    flags = {name: int(step.arguments.flag(name)) for name in ("exclusive", "reverse")}
    return step.add("CumSum", step.read(), axis, **flags)


def _softmax(step: OutgoingNode) -> str:
    x = step.read()
    if step.arguments.given("scale"):
        x = step.add("Mul", x, step.array(np.array(step.arguments.number("scale"))))
    return step.add("Softmax", x, axis=step.arguments.axis("axis", step.node["x"].type.rank))


def _channels(step: OutgoingNode, name: str, default: float) -> str:
    """A vector with a number per channel, or of the default."""
    return step.optional(name) or step.array(np.full(step.node["x"].shape[1], default))


def _batch_norm(step: OutgoingNode) -> str:
    return step.add("BatchNormalization", step.read(), _channels(step, "gamma", 1), _channels(step, "beta", 0),
                    step.read("mean"), step.read("variance"), epsilon=step.arguments.number("epsilon"))


def _instance_norm(step: OutgoingNode) -> str:
    return step.add("InstanceNormalization", step.read(), _channels(step, "gamma", 1), _channels(step, "beta", 0),
                    epsilon=step.arguments.number("epsilon"))


def _spread(step: OutgoingNode, name: str, axes: Sequence[int]) -> str:
    """A constant of the shape of the axes a norm is over, its shape ready for x."""
    shape = [extent if axis in axes else 1 for axis, extent in enumerate(step.node["x"].shape)]
    return step.model.constant(step.model.numbers(step.node[name]).reshape(shape))


def _scaled(step: OutgoingNode, tensor: str, axes: Sequence[int]) -> str:
    """What a norm made, times gamma and plus beta where they are given."""
    if step.node.get("scale") is not None:
        tensor = step.add("Mul", tensor, step.number(step.arguments.number("scale")))
    for op, name in (("Mul", "gamma"), ("Add", "beta")):
        if step.node.get(name) is not None:
            tensor = step.add(op, tensor, _spread(step, name, axes))
    return tensor


def _over_root(step: OutgoingNode, tensor: str, squares: str) -> str:
    """The tensor over the root of these squares and the norm's epsilon."""
    safe = step.add("Add", squares, step.number(step.arguments.number("epsilon")))
    return step.add("Div", tensor, step.add("Sqrt", safe))


def _squares(step: OutgoingNode, tensor: str, axes: Sequence[int], op: str = "ReduceMean") -> str:
    return step.add(op, step.add("Mul", tensor, tensor), step.integers(axes))


def _layer_norm(step: OutgoingNode) -> str:
    """ONNX's norm is over the last dimensions; over others it is composed."""
    axes, rank = _axes(step), step.node["x"].type.rank
    if axes != tuple(range(axes[0], rank)) or step.arguments.given("scale"):
        centred = step.add("Sub", step.read(), step.add("ReduceMean", step.read(), step.integers(axes)))
        return _scaled(step, _over_root(step, centred, _squares(step, centred, axes)), axes)
    gamma = step.optional("gamma") or step.array(np.ones(step.node["x"].shape[axes[0]:]))
    beta = [step.read("beta")] if step.node.get("beta") is not None else []
    return step.add("LayerNormalization", step.read(), gamma, *beta, axis=axes[0],
                    epsilon=step.arguments.number("epsilon"))


def _rms_norm(step: OutgoingNode) -> str:
    axes = _axes(step)
    return _scaled(step, _over_root(step, step.read(), _squares(step, step.read(), axes)), axes)


def _l2_norm(step: OutgoingNode) -> str:
    """Over the last three dimensions."""
    rank = step.node["x"].type.rank
    return _over_root(step, step.read(), _squares(step, step.read(), range(rank - 3, rank), "ReduceSum"))


def _local_response_norm(step: OutgoingNode) -> str:
    """ONNX counts an even window from another channel on. Runtimes take images alone: a row is one of height 1."""
    size, shape = step.arguments.integer("size", 1), step.node["x"].shape
    if size % 2 == 0:
        raise step.refuse("a window over channels has an odd size", size, "an odd number of channels")
    images = step.read() if len(shape) == 4 else step.reshape(step.read(), (*shape[:2], 1, shape[2]))
    made = step.add("LRN", images, size=size, alpha=step.arguments.number("alpha"),
                    beta=step.arguments.number("beta"), bias=step.arguments.number("k"))
    return made if len(shape) == 4 else step.reshape(made, shape)


def _turned(step: OutgoingNode, name: str) -> str:
    """The operand with its last two dimensions exchanged; of a constant that is another constant."""
    value = step.node[name]
    if value.constant:
        return step.model.constant(step.model.numbers(value).swapaxes(-1, -2), value.name)
    return step.transpose(step.read(name), (*range(value.type.rank - 2), value.type.rank - 1, value.type.rank - 2))


def _matmul(step: OutgoingNode) -> str:
    x, y = (_turned(step, name) if step.arguments.flag(f"transpose_{name}") and step.node[name].type.rank > 1
            else step.read(name) for name in ("x", "y"))
    return step.add("MatMul", x, y)


def _attention(step: OutgoingNode) -> str:
    """A product of queries and keys, over the root of their length, and what the mask adds or leaves out."""
    query, key, mask = step.node["query"], step.node["key"], step.node.get("attn_mask")
    rank = key.type.rank
    turned = step.transpose(step.read("key"), (*range(rank - 2), rank - 1, rank - 2))
    root = step.number(query.shape[-1] ** -0.5, "query")
    scores = step.add("MatMul", step.add("Mul", step.read("query"), root), turned)
    if mask is not None and mask.dtype == "bool":
        scores = step.add("Where", step.read("attn_mask"), scores, step.number(-LARGEST, "query"))
    elif mask is not None:
        scores = step.add("Add", scores, step.read("attn_mask"))
    return step.add("MatMul", step.add("Softmax", scores, axis=-1), step.read("value"))


def _linear(step: OutgoingNode) -> str:
    bias = step.optional("bias")
    if step.node["x"].type.rank == 2:
        return step.add("Gemm", step.read(), step.read("weight"), *([bias] if bias else []), transB=1)
    made = step.add("MatMul", step.read(), _turned(step, "weight"))
    return step.add("Add", made, bias) if bias else made


def _einsum(step: OutgoingNode) -> str:
    equation = step.arguments.constant("equation")
    return step.add("Einsum", *step.all("values"), equation=str(equation))


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(REDUCTIONS, _reduction), **dict.fromkeys(POSITIONS, _position), "batch_norm": _batch_norm,
    "cumsum": _cumsum, "einsum": _einsum, "instance_norm": _instance_norm, "l2_norm": _l2_norm,
    "layer_norm": _layer_norm, "linear": _linear, "local_response_norm": _local_response_norm, "matmul": _matmul,
    "rms_norm": _rms_norm, "scaled_dot_product_attention": _attention, "softmax": _softmax,
}
"""By the name of the operation."""
