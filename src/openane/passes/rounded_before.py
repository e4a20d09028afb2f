"""Numbers are rounded to whole steps before they are moved, so that what makes them counts these (`ops.whole_sums`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.rewriter import fresh_name
from openane.ops.spec import Movement
from openane.ops.written_steps import unclamped
from openane.passes.dead_code import remove_dead_code
from openane.passes.rewrite import only_user, rebuilt, taken_names

ALL = (Movement.SHAPE, Movement.DIMENSIONS, Movement.REPEATS, Movement.ORDER)
"""Movements that leave out no element: nothing is rounded that nobody reads."""


def rounded_before_movement(graph: Graph) -> Graph:
    """The graph with roundings in front of movements whose results they alone read; a relu or clip before these bounds
    them."""
    if not any(get_op(node.op).rounds for node in graph.nodes):
        return graph
    users, makers, names = graph.users(), graph.producers(), taken_names(graph)
    outputs = {id(value) for value in graph.outputs}
    changed: dict[int, list[Node]] = {}
    for node in graph.nodes:
        chain = _movements(node, users, makers, outputs)
        if chain:
            changed |= {id(each): [] for each in chain}
            changed[id(node)] = _turned(node, chain, makers, names)
    found = rebuilt(graph, [made for node in graph.nodes for made in changed.get(id(node), [node])])
    return remove_dead_code(found) if changed else graph


def _movements(node: Node, users: Mapping[int, list[Node]], makers: Mapping[int, Node], outputs: set[int]
               ) -> list[Node]:
    """The movements a rounding alone reads, the last one first; none where what is moved has other readers, or is
    rounded already."""
    chain: list[Node] = []
    if not get_op(node.op).rounds or "units" not in node.operands or {"y", "axes"} & node.operands.keys():
        return chain
    value = node["x"]
    while (before := makers.get(id(value))) is not None and get_op(before.op).moves in ALL \
            and before.computed() == (before["x"],) and only_user(users, outputs, value) is not None:
        chain.append(before)
        value = before["x"]
    rounded = before is not None and get_op(before.op).rounds
    return [] if rounded or only_user(users, outputs, value) is None else chain


def _turned(node: Node, chain: list[Node], makers: Mapping[int, Node], names: set[str]) -> list[Node]:
    """The rounding, then the movements."""
    source = chain[-1]["x"]
    rounded = Value(fresh_name(f"{source.name}_rounded", names), source.type)
    made = [unclamped(replace(node, operands={**node.operands, "x": source}, outputs=(rounded,)), makers)]
    for movement in reversed(chain):
        last = movement is chain[0]
        outputs = node.outputs if last else (Value(fresh_name(f"{movement.output.name}_rounded", names),
                                                   movement.output.type),)
        made.append(replace(movement, operands={**movement.operands, "x": made[-1].output}, outputs=outputs))
    return made
