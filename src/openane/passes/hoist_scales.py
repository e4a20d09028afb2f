"""A product with one number moves through reshapes and transposes to the convolution or product before them, whose
weights take it up: the scale of attention costs nothing, and no score is computed larger than it will be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openane.graph import Graph, Node, TensorType, Value
from openane.ops import get_op
from openane.ops.affine import factor
from openane.ops.rewriter import fresh_name
from openane.ops.spec import Movement
from openane.passes.folded_once import made_once
from openane.passes.rewrite import only_user, rebuilt, taken_names


@made_once
def hoist_scales(graph: Graph) -> Graph:
    """The graph with scalar products directly behind the products they can be folded into."""
    scaling = list(filter(_scales, graph.nodes))
    return _with_hoisted(graph, scaling) if scaling else graph


def _with_hoisted(graph: Graph, scaling: Sequence[Node]) -> Graph:
    """The graph with those of these products that can be so."""
    users, outputs, producers = graph.users(), set(map(id, graph.outputs)), graph.producers()
    names = taken_names(graph)
    replaced: dict[int, tuple[Node, ...]] = {}

    def maker(value: Value) -> Node | None:
        """What makes a value that nobody else reads."""
        return None if only_user(users, outputs, value) is None else producers.get(id(value))

    for node in scaling:
        value, chain = node["x"], list[Node]()
        while (before := maker(value)) is not None and _moves(before) and id(before) not in replaced:
            chain.append(before)
            value = before["x"]
        if chain and before is not None and _takes_scales(before):
            replaced.update(dict.fromkeys(map(id, chain), ()))
            replaced[id(node)] = tuple(_hoisted(node, value, chain[::-1], names))
    return rebuilt(graph, [part for node in graph.nodes for part in replaced.get(id(node), (node,))])


def _scales(node: Node) -> bool:
    """A product of x with one constant number."""
    number = factor(node)
    if number is None or not number.constant or node["x"].constant:
        return False
    return number.type.elements == 1 and node.output.type == node["x"].type


def _takes_scales(node: Node) -> bool:
    """Whether the node's weights or operands take up a scale that stands right behind it. A conv_transpose could, but
    no model at hand has one before a reshape and a scale."""
    product = get_op(node.op).product
    return product is not None and product.kept


def _moves(node: Node) -> bool:
    """Whether the node's result has the elements of x in some order, in the same type."""
    op = get_op(node.op)
    view = op.moves is Movement.DIMENSIONS or op.views(node)
    return view and not node["x"].constant and node["x"].dtype == node.output.dtype


def _hoisted(scale: Node, value: Value, chain: list[Node], names: set[str]) -> list[Node]:
    """The scale of `value`, then what `chain` did to it, up to the result the scale had."""
    made = Value(fresh_name(f"{value.name}_scaled", names), value.type)
    number = Value(scale["y"].name, TensorType(scale["y"].dtype, ()), scale["y"].array().reshape(()))
    nodes = [replace(scale, operands={"x": value, "y": number}, outputs=(made,))]
    for position, node in enumerate(chain):
        last = position == len(chain) - 1
        result = scale.output if last else Value(fresh_name(f"{node.output.name}_scaled", names), node.output.type)
        nodes.append(replace(node, operands={**node.operands, "x": made}, outputs=(result,)))
        made = result
    return nodes
