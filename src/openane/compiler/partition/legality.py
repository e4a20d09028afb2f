"""What must hold before a graph is lowered: its interface, known operations, and the rules those state."""

from __future__ import annotations

from collections.abc import Sequence

from openane.chips import Limits
from openane.compiler.lower.byte_types import STORED
from openane.compiler.partition.capacity import storable
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.rules import broken_rules, operands_text
from openane.passes.fold_constants import fold_constants

HOST = "allow_host=True (on the command line --allow-host) lets the host compute what the engine cannot, and lists it"
"""What is always left for a model that is refused."""
Broken = list[tuple[Node, str]]
"""Nodes and the sentence of a rule each breaks."""


def check_interface(graph: Graph) -> None:
    """GraphError for inputs and outputs that share a name and for a graph without outputs, UnsupportedError for ports
    no surface can hold."""
    names = [v.name for v in (*graph.inputs, *graph.outputs)]
    repeated = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if repeated is not None:
        raise GraphError(f"two ports are called {repeated!r}; inputs and outputs share one set of names")
    if not graph.outputs:
        raise GraphError("the graph has no outputs")
    for value in (*graph.inputs, *graph.outputs):
        if not storable(value):
            raise UnsupportedError(f"port {value.name!r}", "inputs and outputs are tensors of rank 0 to 5 of "
                                   f"{', '.join(STORED)}", found=value.type, remedy="cast or reshape outside the model")


def check_known(graph: Graph) -> None:
    """UnsupportedError for the first operation that is not described."""
    for node in graph.nodes:
        try:
            get_op(node.op)
        except UnsupportedError as error:
            raise UnsupportedError(node.label, error.rule, remedy=error.remedy) from None


def broken_composed(graph: Graph, limits: Limits) -> Broken:
    """Rules broken by the operations that a pass replaces by others, while they are there; constants are folded."""
    if all(get_op(node.op).decompose is None for node in graph.nodes):
        return []
    return broken([node for node in fold_constants(graph).nodes if get_op(node.op).decompose is not None], limits)


def broken(nodes: Sequence[Node], limits: Limits) -> Broken:
    """Every rule that every node breaks."""
    return [(node, text) for node in nodes for text in broken_rules(get_op(node.op), node, limits)]


def refuse(found: Broken) -> None:
    """Every violation of every node in one UnsupportedError, if there are any."""
    if not found:
        return
    node, text = found[0]
    more = "".join(f"\n  {other.label}: {rule}" for other, rule in found[1:])
    raise UnsupportedError(node.label, text + (f"\nand {len(found) - 1} more:{more}" if more else ""),
                           found=operands_text(node), remedy=HOST)
