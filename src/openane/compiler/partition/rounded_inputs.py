"""Inputs that a model rounds to steps of quantisation.

A quantised model begins with a rounding: its fp32 inputs become whole steps. The engine reads fp16, and of the numbers
that fp16 rounds some would become the step beside the right one. The host has all digits while it packs the inputs, so
it takes those steps, and the engine's first operation is the one that reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openane.compiler.partition.hosting import HostPolicy
from openane.graph import Graph, Node, TensorType, Value, substituted
from openane.ops import get_op
from openane.ops.moved import numbers_from
from openane.ops.step_values import rounds

ROUNDED = "The model rounds an input to whole steps, of which fp16 would change some; the host has all of its digits."

WIDE = ("fp32", "fp64")
"""Types a model may declare for an input, some of which no array has, that hold more digits than fp16."""


def with_rounded_inputs(graph: Graph, hosted: Mapping[int, str], policy: HostPolicy) -> dict[int, str]:
    """By id, why more nodes run on the host: those that round inputs the model states in more digits than fp16 has, and
    what only moves such inputs on the way there. Nothing where the host may not, or where nothing is left to the
    engine."""
    wide = {id(value) for value in graph.inputs if _is_wide(graph, value)}
    movers: dict[int, Node] = {}
    found: dict[int, str] = {}
    for node in graph.nodes:
        x = _only_tensor(node)
        if x is None or id(x) not in wide or id(node) in hosted:
            continue
        if get_op(node.op).rounds and policy.rounds(node):
            found |= dict.fromkeys(map(id, (node, *_way(x, movers))), ROUNDED)
        elif numbers_from(node, beside_constants=True) is x:
            wide.add(id(node.output))
            movers[id(node.output)] = node
    left = {id(node) for node in graph.nodes} - found.keys() - hosted.keys()
    return found if left else {}


def may_round_inputs(graph: Graph) -> bool:
    """Whether a graph, before any pass, has what `with_rounded_inputs` looks for: inputs in many digits, and something
    that rounds."""
    return any(_is_wide(graph, value) for value in graph.inputs) and any(map(rounds, graph.nodes))


def with_all_digits(node: Node) -> Node:
    """An operation on real numbers as the host computes it: of numbers in fp32, to numbers in fp32. Buffers keep their
    names."""
    real = {id(value): replace(value, type=TensorType("fp32", value.shape))
            for value in (*node.values(), *node.outputs) if not value.constant and value.dtype == "fp16"}
    return replace(substituted(node, real), outputs=tuple(real.get(id(value), value) for value in node.outputs))


def _is_wide(graph: Graph, value: Value) -> bool:
    """Whether an input has digits that fp16 does not hold."""
    return graph.metadata.get(f"dtype:{value.name}", value.dtype) in WIDE


def _way(value: Value, movers: Mapping[int, Node]) -> list[Node]:
    """What moves an input until it is this value."""
    way = []
    while (node := movers.get(id(value))) is not None:
        way.append(node)
        before = numbers_from(node, beside_constants=True)
        assert before is not None, "movers has no others"
        value = before
    return way


def _only_tensor(node: Node) -> Value | None:
    """What a node reads that is no constant, where that is one value."""
    read = node.computed()
    return read[0] if len(read) == 1 else None
