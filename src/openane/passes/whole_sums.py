"""Products whose results are rounded to whole steps of quantisation count these (`ops.whole_sums`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openane.graph import Graph, Node, Value, substituted
from openane.ops import get_op
from openane.ops import whole_sums as sums
from openane.ops.arithmetic import scalar
from openane.ops.moved import numbers_from
from openane.ops.written_steps import keeps_steps
from openane.passes.rewrite import rebuilt, taken_names
from openane.passes.rounded_before import rounded_before_movement


def whole_sums(graph: Graph) -> Graph:
    """The graph with products that count whole steps where it has such that become whole steps."""
    graph = rounded_before_movement(_rounded_once(graph))
    return rebuilt(graph, sums.whole_sums(graph, taken_names(graph)))


def _rounded_once(graph: Graph) -> Graph:
    """The graph with one rounding where several make the same steps of the same numbers: a quantised tensor is written
    down as numbers again for each of its readers, and quantised again where it was only moved."""
    outputs = {id(value) for value in graph.outputs}
    known: dict[tuple[object, ...], Value] = {}
    makers: dict[int, Node] = {}
    others: dict[int, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = substituted(node, others)
        if get_op(node.op).rounds and id(node.output) not in outputs:
            first = node["x"] if _rounded_before(node, makers) else known.setdefault(_said(node), node.output)
            if first is not node.output:
                others[id(node.output)] = first
                continue
        nodes.append(node)
        makers |= {id(value): node for value in node.outputs}
    return replace(graph, nodes=tuple(nodes)) if others else graph


def _rounded_before(node: Node, makers: Mapping[int, Node]) -> bool:
    """Whether a rounding finds each number of what it reads as it would leave it."""
    before = makers.get(id(node["x"]))
    while before is not None and (source := numbers_from(before)) is not None:
        before = makers.get(id(source))
    return before is not None and keeps_steps(node, before)


def _said(node: Node) -> tuple[object, ...]:
    """Equal where two nodes round the same."""
    return (node.op, node.output.type, *((name, _content(operand)) for name, operand in sorted(node.operands.items())
                                if isinstance(operand, Value)))


def _content(operand: Value) -> object:
    """What a constant of one element holds, another operand's identity."""
    if isinstance(operand.data, str):
        return operand.data
    number = scalar(operand)
    return id(operand) if number is None else number
