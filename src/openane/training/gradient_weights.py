"""Weights as inputs: named constants become inputs, and operations that want constants are written with others.

MIL takes the weights of linear and of normalisations, and most biases, as constants only, and so does the engine with
the kernels of convolutions. With weights given at run time linear is a matrix product, gains and offsets are products
and sums of their own, and a convolution whose taps are not 1x1 is unfolded (see ops.taps).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, Value, substituted
from openane.ops import all_ops, arguments, get_op
from openane.ops.conv import conv_window
from openane.ops.rewriter import Rewriter
from openane.ops.taps import folded, product_of_columns, unfolded, unfolded_results
from openane.passes.rewrite import rebuilt, taken_names
from openane.training.gradient_repeats import without_repeats


def promote(graph: Graph, names: Sequence[str], runtime: bool = True) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph with the constants called `names` as inputs behind its others, and their values by name.

    The values are the constants' own arrays: fp16 or fp32, of the inputs' shapes. With `runtime` the graph compiles as
    it is (see `computable`). Without it linear, convolutions and normalisations keep their form: to be differentiated
    (the rules know their weights, and make less of a convolution than of its unfolded form), or for inputs that become
    constants again. GraphError when no constant, or more than one, has a name, or it is not of real numbers;
    UnsupportedError when an operation cannot do without a constant.
    """
    constants = _constants(graph, names)
    inputs = {id(value): Value(name, value.type) for name, value in constants.items()}
    made = replace(graph, inputs=(*graph.inputs, *(inputs[id(value)] for value in constants.values())),
                   nodes=tuple(substituted(node, inputs) for node in graph.nodes),
                   outputs=tuple(inputs.get(id(value), value) for value in graph.outputs))
    made.verify()
    return computable(made) if runtime else made, {name: value.array() for name, value in constants.items()}


def computable(graph: Graph) -> Graph:
    """The graph with every operation whose weights are no constants written so that the engine computes it.

    UnsupportedError when an operation cannot do without a constant.
    """
    names = taken_names(graph)
    return without_repeats(rebuilt(graph, [made for node in graph.nodes for made in spelled(node, names)]))


def _constants(graph: Graph, names: Sequence[str]) -> dict[str, Value]:
    found: dict[str, dict[int, Value]] = {name: {} for name in names}
    for node in graph.nodes:
        for value in node.values():
            if value.constant and value.name in found:
                found[value.name][id(value)] = value
    for name, values in found.items():
        if len(values) != 1:
            raise GraphError(f"{name!r} must be the name of one input or constant of the graph; {len(values)} "
                             "constants have it")
        value, = values.values()
        if value.dtype not in ("fp16", "fp32"):
            raise GraphError(f"constant {name!r} must hold fp16 or fp32 to become an input; found {value.type}")
    return {name: next(iter(values.values())) for name, values in found.items()}


Spelled = Callable[[Node, Rewriter], Value | tuple[Value, ...]]


def spelled(node: Node, names: set[str]) -> Iterable[Node]:
    """The node, some operands of which may not be constant, as nodes that take it so; `names` are taken, and new ones
    added. UnsupportedError when there is no such form."""
    if node.op not in all_ops():
        return [node]  # reads and writes of states
    loose = [p.name for p in get_op(node.op).parameters
             if (p.const or _kernel(node, p.name)) and not _fixed(node, p.name)]
    if not loose:
        return [node]
    form, allowed = SPELLED.get(node.op, (_expanded, _weights(node)))
    beyond = [name for name in loose if name not in allowed]
    if beyond:
        raise UnsupportedError(node.label, f"its operand {beyond[0]!r} must be a constant", remedy="leave it as one; "
                               f"operations whose weights can be inputs: {', '.join(SPELLED)}, lstm, gru, rnn")
    rewriter = Rewriter(node, names, node.source)
    made = form(node, rewriter)
    return [inner for part in rewriter.instead(made if isinstance(made, tuple) else (made,)) for inner in
            (spelled(part, names) if part.op != node.op else [part])]


def _weights(node: Node) -> tuple[str, ...]:
    """Operands an operation's expansion takes as inputs, if it has one: all but settings, which are scalars."""
    op = get_op(node.op)
    return tuple(p.name for p in op.parameters if op.expand is not None and p.kind == "tensor"
                 and (value := node.get(p.name)) is not None and value.type.rank)


def _expanded(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """The form an operation is differentiated in."""
    expand = get_op(node.op).expand
    made = expand(node, rewriter) if expand is not None else None
    assert made is not None, "what has weights has an expansion"
    return made


def _kernel(node: Node, name: str) -> bool:
    """Whether an operand is the kernel of a convolution that is more than a matrix product."""
    return node.op == "conv" and name == "weight" and not _plain(node)


def _fixed(node: Node, name: str) -> bool:
    operand = node.operands.get(name, ())
    return all(value.constant for value in (operand if isinstance(operand, tuple) else (operand,)))


def _plain(node: Node) -> bool:
    """Whether a convolution is a matrix product per image: 1x1 taps, neither stride nor padding, not depthwise."""
    axes, groups = conv_window(node.operands).axes, arguments(node).integer("groups", 1)
    return (groups == 1 or groups < node["weight"].shape[0]) and all(
        axis.kernel == axis.stride == 1 and axis.before == axis.after == 0 for axis in axes)


def _without(node: Node, rewriter: Rewriter, names: Collection[str]) -> Value:
    """The node without some operands."""
    kept: dict[str, Any] = {name: operand for name, operand in node.operands.items() if name not in names}
    return rewriter.single(node.op, **kept)


def _linear(node: Node, rewriter: Rewriter) -> Value:
    """A matrix product, where the weight is an input, and a sum with the bias."""
    bias = node.get("bias")
    if node["weight"].constant:
        result = _without(node, rewriter, ("bias",))
    else:
        result = rewriter.single("matmul", x=node["x"], y=node["weight"], transpose_y=True)
    return result if bias is None else rewriter.single("add", x=result, y=bias)


def _conv(node: Node, rewriter: Rewriter) -> Value:
    """The product of the unfolded x, where the weight is an input, and a sum with a bias per channel."""
    if node["weight"].constant or _plain(node):
        result = _without(node, rewriter, ("bias",))
    else:
        columns = unfolded(rewriter, node["x"], conv_window(node.operands))
        result = product_of_columns(rewriter, columns, node["weight"], arguments(node).integer("groups", 1))
    return _by_channel(rewriter, "add", result, node.get("bias"))


def _conv_transpose(node: Node, rewriter: Rewriter) -> Value:
    """The product of unfolded results, where the weight is an input, and a sum with a bias per channel."""
    weight, groups = node["weight"], arguments(node).integer("groups", 1)
    if weight.constant:
        result = _without(node, rewriter, ("bias",))
    else:
        result = (_folded if _less_folded(node, groups) else _unfolded)(node, rewriter, groups)
    return _by_channel(rewriter, "add", result, node.get("bias"))


def _less_folded(node: Node, groups: int) -> bool:
    """Whether what each tap adds to results is less than what lies under the taps of results."""
    x, result = node["x"], node.output
    return groups < x.shape[1] and result.shape[1] * prod(x.shape[2:]) <= x.shape[1] * prod(result.shape[2:])


def _unfolded(node: Node, rewriter: Rewriter, groups: int) -> Value:
    """A conv_transpose as one product with what lies under the taps of its results."""
    inputs, outputs, *kernel = node["weight"].shape
    matrix = rewriter.single("reshape", x=node["weight"], shape=[groups, inputs // groups, outputs, prod(kernel)])
    matrix = rewriter.single("transpose", x=matrix, perm=[0, 2, 1, 3])
    matrix = rewriter.single("reshape", x=matrix, shape=[groups * outputs, -1])
    return product_of_columns(rewriter, unfolded_results(rewriter, node), matrix, groups)


def _folded(node: Node, rewriter: Rewriter, groups: int) -> Value:
    """A conv_transpose as a product that makes what each tap adds to results, put in place and summed."""
    inputs, outputs, *kernel = node["weight"].shape
    matrix = rewriter.single("reshape", x=node["weight"], shape=[groups, inputs // groups, outputs * prod(kernel)])
    matrix = rewriter.single("transpose", x=matrix, perm=[0, 2, 1])
    matrix = rewriter.single("reshape", x=matrix, shape=[-1, inputs // groups, *(1,) * len(kernel)])
    return folded(rewriter, rewriter.single("conv", x=node["x"], weight=matrix, groups=groups), node)


def _by_channel(rewriter: Rewriter, function: str, x: Value, vector: Value | None) -> Value:
    """x combined with one number per channel, if there is any."""
    if vector is None:
        return x
    shape = [x.shape[1], *(1,) * (x.type.rank - 2)]
    return rewriter.single(function, x=x, y=rewriter.single("reshape", x=vector, shape=shape))


def _channel_norm(node: Node, rewriter: Rewriter) -> Value:
    """The normalisation alone, then gain and offset per channel."""
    result = _without(node, rewriter, ("gamma", "beta"))
    return _by_channel(rewriter, "add", _by_channel(rewriter, "mul", result, node.get("gamma")), node.get("beta"))


def _layer_norm(node: Node, rewriter: Rewriter) -> Value:
    """The normalisation alone, then gain and offset over its dimensions."""
    result, x = _without(node, rewriter, ("gamma", "beta")), node["x"]
    axes = arguments(node).axes("axes", x.type.rank)
    shape = [extent if axes is None or d in axes else 1 for d, extent in enumerate(x.shape)]
    for name, function in (("gamma", "mul"), ("beta", "add")):
        if (vector := node.get(name)) is not None:
            spread = rewriter.single("reshape", x=vector, shape=shape)
            result = rewriter.single(function, x=result, y=spread)
    return result


def _prelu(node: Node, rewriter: Rewriter) -> Value:
    """relu(x) less slope * relu(-x)."""
    x = node["x"]
    below = rewriter.single("relu", x=rewriter.single("mul", x=x, y=-1.0))
    return rewriter.single("sub", x=rewriter.single("relu", x=x), y=_by_channel(rewriter, "mul", below, node["alpha"]))


SPELLED: Mapping[str, tuple[Spelled, tuple[str, ...]]] = {
    "linear": (_linear, ("weight", "bias")),
    "conv": (_conv, ("weight", "bias")),
    "conv_transpose": (_conv_transpose, ("weight", "bias")),
    "layer_norm": (_layer_norm, ("gamma", "beta")),
    "batch_norm": (_channel_norm, ("gamma", "beta")),
    "instance_norm": (_channel_norm, ("gamma", "beta")),
    "prelu": (_prelu, ("alpha",)),
}
"""Operation to how it is written when operands the engine wants constant are inputs, and which of them may be."""
