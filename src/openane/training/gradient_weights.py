"""Weights as inputs: named constants become inputs, and operations that want constants are written with others.

MIL takes the weights of linear and of normalisations, and most biases, as constants only, and so does the engine with
the kernels of convolutions. With weights given at run time linear is a matrix product, gains and offsets are products
and sums of their own, and a convolution whose taps are not 1x1 is unfolded (Op.computed).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, Value, substituted
from openane.ops import all_ops
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Op
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


def _must_be_constant(node: Node, operand: str) -> UnsupportedError:
    known = ", ".join(other.name for other in all_ops().values() if other.computed is not None)
    return UnsupportedError(node.label, f"its operand {operand!r} must be a constant", remedy="leave it as one; "
                            f"operations whose weights can be inputs: {known}, lstm, gru, rnn")


def spelled(node: Node, names: set[str]) -> Iterable[Node]:
    """The node, some operands of which may not be constant, as nodes that take it so; `names` are taken, and new ones
    added. UnsupportedError when there is no such form."""
    op = all_ops().get(node.op)
    loose = () if op is None else _loose(op, node)  # not known: reads and writes of states
    if op is None or not loose:
        return [node]
    form, allowed = (op.computed, op.weights) if op.computed is not None else (op.expand, _weights(op, node))
    beyond = [name for name in loose if name not in allowed]
    if form is None or beyond:
        raise _must_be_constant(node, beyond[0])
    rewriter = Rewriter(node, names, node.source)
    made = form(node, rewriter)
    if made is None:  # it takes them as it is
        return [node]
    return [inner for part in rewriter.instead(made) for inner in
            (spelled(part, names) if part.op != node.op else [part])]


def _loose(op: Op, node: Node) -> tuple[str, ...]:
    """Operands that are not constants where the engine wants that, or may want it."""
    return tuple(p.name for p in op.parameters
                 if (p.const or (op.computed is not None and p.name in op.weights)) and not _fixed(node, p.name))


def _weights(op: Op, node: Node) -> tuple[str, ...]:
    """Operands an operation's expansion takes as inputs, if it has one: all but settings, which are scalars."""
    return tuple(p.name for p in op.parameters if op.expand is not None and p.kind == "tensor"
                 and (value := node.get(p.name)) is not None and value.type.rank)


def _fixed(node: Node, name: str) -> bool:
    operand = node.operands.get(name, ())
    return all(value.constant for value in (operand if isinstance(operand, tuple) else (operand,)))
