"""Functions whose small results count: sigmoids that leave the model as scores, or that are small themselves.

A table errs by as much for every result: half a thousandth of 1 is a third of a score of 0.0015. Where a function has a
composition that errs by a share of its result (spec.Unary.small), it is taken for these, also where the function is
written as a difference with 1 (ops.written_differences).
"""

from __future__ import annotations

from dataclasses import replace

from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.unary import SMALL
from openane.ops.written_differences import difference_of
from openane.ops.written_differences import written_out as as_written
from openane.passes.ranges import Ranges
from openane.passes.rewrite import rebuilt, taken_names

USUAL = 2.0 ** -2
"""Results whose root mean square is smaller have less error by a share of them."""


def may_be_marked(graph: Graph) -> bool:
    """Whether there is a function that may be marked."""
    return any(map(_may_be_marked, graph.nodes))


def keep_small_results(graph: Graph, ranges: Ranges) -> Graph:
    """The graph with such functions marked; itself where there are none. Where functions are not to be close, as those
    of models that were made for the engine, it takes one task more: these are marked where results are small alone."""
    may_be = [node for node in graph.nodes if _may_be_marked(node)]
    if not may_be:
        return graph
    leaving = _leaving(graph) if graph.metadata.get(FUNCTIONS) == CLOSE else set[int]()

    def counts(node: Node) -> bool:
        seen = ranges.get(id(node.output))
        return id(node.output) in leaving or (seen is not None and 0 < seen.usual < USUAL)

    counting = set(map(id, filter(counts, may_be)))
    return rebuilt(graph, [_marked(node) if id(node) in counting else node for node in graph.nodes])


def differences(graph: Graph) -> Graph:
    """The graph with functions that are written as differences with 1 as nodes, so that they may be marked."""
    producers = {id(value): node for node in graph.nodes for value in node.outputs}

    def read(node: Node) -> Node:
        found = difference_of(node, producers)
        if found is None:
            return node
        return replace(node, op=found[0], operands={"x": found[1]})

    return rebuilt(graph, map(read, graph.nodes))


def written_out(graph: Graph) -> Graph:
    """The graph with those that are not marked as they were written: their parts can join what stands beside them."""
    names = taken_names(graph)

    return rebuilt(graph, [part for node in graph.nodes for part in as_written(node, names) or (node,)])


def _may_be_marked(node: Node) -> bool:
    unary = get_op(node.op).unary
    return unary is not None and unary.small is not None and node.get(SMALL) is None


def _marked(node: Node) -> Node:
    yes = GraphBuilder(node.label).constant(True, f"{node.output.name}_{SMALL}")
    return replace(node, operands={**node.operands, SMALL: yes})


def _leaving(graph: Graph) -> set[int]:
    """The values whose numbers are results of the graph: outputs, and what is only moved to them."""
    found = set(map(id, graph.outputs))
    for node in reversed(graph.nodes):
        if get_op(node.op).moves is not None and found & set(map(id, node.outputs)):
            found |= set(map(id, node.values()))
    return found
