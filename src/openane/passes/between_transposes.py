"""Functions of single elements between a transposition and its inverse are computed in the layout before: no tensor is
transposed then, and constants, which alone lie in the other layout, are turned once.

So channels that Keras has last, with convolutions that want them first, cost nothing where only activations, sums and
products stand between two convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Movement
from openane.ops.transpose import inverted, permutation
from openane.passes.dead_code import remove_dead_code
from openane.passes.merge_movement import merge_movement
from openane.passes.remove_identities import remove_identities
from openane.passes.rewrite import rebuilt, taken_names

Permutation = tuple[int, ...]


def between_transposes(graph: Graph) -> Graph:
    """The graph with such regions in the layout before. A region is turned where everything it reads is a constant or
    transposed the same way, and everything it makes is transposed back."""
    turned = {id(node.output): permutation(node.operands) for node in graph.nodes if _transposes(node)}
    region = _region(graph, turned) if turned else {}
    if not region:
        return graph
    names = taken_names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _turned(node, region[id(node)], names) if id(node) in region else (node,)
    return remove_dead_code(remove_identities(merge_movement(rebuilt(graph, nodes))))


def _transposes(node: Node) -> bool:
    return get_op(node.op).moves is Movement.DIMENSIONS and not node["x"].constant


def _region(graph: Graph, turned: Mapping[int, Permutation]) -> dict[int, Permutation]:
    """Nodes, by id, with how what they read is transposed."""
    layouts, found = dict(turned), dict[int, Permutation]()
    for node in graph.nodes:
        perm = _layout(node, layouts)
        if perm is not None:
            found[id(node)] = layouts[id(node.output)] = perm
    if not found:
        return found
    users, producers, outputs = graph.users(), graph.producers(), {id(value) for value in graph.outputs}
    for node in reversed(graph.nodes):
        if id(node) in found and not _left_again(node, found, turned, users, outputs):
            _give_up(node, found, users, producers)
    return found


def _layout(node: Node, layouts: Mapping[int, Permutation]) -> Permutation | None:
    """How all that a function of single elements reads is transposed; None where it is not, or differs."""
    perms = set(map(layouts.get, map(id, node.computed())))
    if len(perms) != 1 or None in perms or not _by_element(node):
        return None
    return perms.pop() if all(value.shape == node.output.shape for value in node.computed()) else None


def _by_element(node: Node) -> bool:
    """Whether a node is arithmetic of two tensors, or a function of one with settings that are single numbers."""
    op = get_op(node.op)
    single = all(value.type.elements == 1 for value in node.values() if value.constant)
    return len(node.outputs) == 1 and (op.arithmetic is not None or (op.unary is not None and single))


def _left_again(node: Node, region: Mapping[int, Permutation], turned: Mapping[int, Permutation],
                users: Mapping[int, list[Node]], outputs: set[int]) -> bool:
    """Whether all that read a result are in the region or transpose it back."""
    perm, readers = region[id(node)], users.get(id(node.output), [])
    back = inverted(perm)
    return bool(readers) and id(node.output) not in outputs and all(
        id(user) in region or (_transposes(user) and turned[id(user.output)] == back) for user in readers)


def _give_up(node: Node, region: dict[int, Permutation], users: Mapping[int, list[Node]],
             producers: Mapping[int, Node]) -> None:
    """Takes a node out of the region, with all it is joined to there: what it reads is read outside then."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if region.pop(id(node), None) is None:
            continue
        waiting += users.get(id(node.output), [])
        waiting += [producers[id(value)] for value in node.values() if id(value) in producers]


def _turned(node: Node, perm: Permutation, names: set[str]) -> tuple[Node, ...]:
    """The node in the layout before, between transpositions that meet those around it."""
    rewriter = Rewriter(node, names)
    back = inverted(perm)

    def before(value: Value) -> Value:
        if value.type.elements == 1:
            return value
        if value.type.rank < len(perm):
            value = rewriter.single("reshape", x=value, shape=(1,) * (len(perm) - value.type.rank) + value.shape)
        return rewriter.single("transpose", x=value, perm=back)

    operands: dict[str, Any] = {name: before(operand) if isinstance(operand, Value) else operand
                                for name, operand in node.operands.items()}
    return rewriter.instead([rewriter.single("transpose", x=rewriter.single(node.op, **operands), perm=perm)])
