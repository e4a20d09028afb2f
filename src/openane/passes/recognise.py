"""Operations that are written out in others become one node or few (Op.recognise), and take up what stands behind them.

Normalisations then close their statistics in one reduction, and constants that are multiplied or added behind them
become their gamma and beta.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, RoundedConstant, Value
from openane.ops import arguments, get_op
from openane.ops.affine import factor, summand
from openane.ops.endings import endings
from openane.ops.moment_reading import PlacedGraph
from openane.ops.written_cosines import written_cosines
from openane.ops.written_functions import written_functions
from openane.ops.written_norms import written_norms
from openane.ops.written_phases import written_phases
from openane.ops.written_spreads import written_roots, written_variances
from openane.passes.dead_code import remove_dead_code
from openane.passes.folded_once import made_once
from openane.passes.rewrite import only_user, rebuilt, taken_names

TAKES = {"gamma": factor, "beta": summand}
"""What an operand that is taken up is to the result (Op.takes_up)."""


@made_once
def recognise(graph: Graph) -> Graph:
    """The graph with operations that were written out in others as themselves."""
    names, placed = taken_names(graph), PlacedGraph(graph)
    for written in (written_norms, written_cosines, written_roots, written_variances, written_functions,
                    written_phases):
        changed = rebuilt(graph, written(placed, names))
        if changed is not graph:
            graph = remove_dead_code(changed)
            placed = PlacedGraph(graph)
    producers = placed.producers
    nodes: list[Node] = []
    for node in graph.nodes:
        looks = endings(node)
        if looks:
            found = (made for look in looks if (made := look(node, names, producers)) is not None)
            nodes += next(found, (node,))
        else:
            nodes.append(node)
    changed = rebuilt(graph, nodes)
    return _taking_up(graph if changed is graph else remove_dead_code(changed))


def _taking_up(graph: Graph) -> Graph:
    """Products with and sums of constants over the normalised dimensions go into the norm before them."""
    if not any(get_op(node.op).takes_up for node in graph.nodes):
        return graph
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        for name in get_op(node.op).takes_up:
            user = only_user(users, outputs, node.output)
            vector = None if user is None else _vector(user, node, name)
            if user is None or vector is None or node.get(name) is not None or \
                    (name == "gamma" and node.get("beta") is not None):
                continue
            gone.add(id(user))
            node = replace(node, operands={**node.operands, name: vector}, outputs=user.outputs)
        nodes.append(node)
    return rebuilt(graph, nodes)


def _vector(user: Node, norm: Node, name: str) -> Value | None:
    """The constant `user` multiplies or adds, spread over the normalised dimensions."""
    constant = TAKES[name](user, norm.output)
    if constant is None or user.output.type != norm.output.type:
        return None
    axes = arguments(norm).axes("axes", norm.output.type.rank)
    if axes is None:
        axes = tuple(range(norm.output.type.rank))
    if not constant.constant or any(e != 1 and d not in axes for d, e in _dimensions(constant, norm.output)):
        return None
    shape = tuple(norm.output.shape[axis] if axis in axes else 1 for axis in range(norm.output.type.rank))
    extents = [norm.output.shape[axis] for axis in axes]

    def full(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(array, shape).reshape(extents))

    made = Value(constant.name, replace(constant.type, shape=tuple(extents)), full(constant.array()))
    return made if not isinstance(constant, RoundedConstant) else \
        RoundedConstant(made.name, made.type, made.data, stated=full(constant.digits()))


def _dimensions(constant: Value, result: Value) -> list[tuple[int, int]]:
    """(dimension of the result, extent) of a constant broadcast to it."""
    first = result.type.rank - constant.type.rank
    return [(first + i, extent) for i, extent in enumerate(constant.shape)]
