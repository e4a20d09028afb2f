"""Which constants of a model are weights: told by what an operation does with them, not by their names.

Kernels, matrices, biases, gains and offsets are; masks added to the logits of attention, tables of angles, the mean and
the variance of a normalisation, and what an input is standardised by are not.
"""

from __future__ import annotations

import numpy as np

from openane.graph import Graph, Node, Value
from openane.training.gradient_weights import SPELLED

PRODUCTS = ("conv", "conv_transpose", "linear", "matmul", "gather")
ROLES = {**{op: allowed for op, (_, allowed) in SPELLED.items()}, "matmul": ("x", "y"), "gather": ("x",)}
"""Operation to the operands that are weights where they are constants."""
LAYOUT = ("identity", "reshape", "transpose", "expand_dims", "squeeze", "cast", "slice_by_index")
ONES = (-1, 0, 1)


def candidates(graph: Graph) -> dict[str, np.ndarray]:
    """Every constant of real numbers that is an array of more than one, or an operand that can be a weight."""
    found = dict[str, np.ndarray]()
    for node in graph.nodes:
        named = {id(value) for name in ROLES.get(node.op, ()) if (value := node.get(name)) is not None}
        for value in node.values():
            data = value.data
            if isinstance(data, np.ndarray) and data.dtype.kind == "f" and (
                    data.size > 1 or (data.ndim and id(value) in named)):
                found[value.name] = data
    return found


def chosen(graph: Graph) -> tuple[str, ...]:
    """The names of the weights among the candidates, in the order of their use."""
    known, made, found = candidates(graph), graph.producers(), dict[str, None]()
    learnt: set[int] = set()
    for node in graph.nodes:
        for name in ROLES.get(node.op, ()):
            value = node.get(name)
            if value is not None and value.name in known and not _selects(node, value):
                found[value.name] = None
        if node.op in ("mul", "add", "sub") and (pair := _pair(node, known)) is not None:
            constant, other = pair
            if _gain(node, constant, id(other) in learnt) or _offset(node, constant, made.get(id(_root(other, made))),
                                                                     found):
                found[constant.name] = None
        if any(value.name in found or id(value) in learnt for value in node.values()) or node.op.endswith("_norm"):
            learnt.update(id(value) for value in node.outputs)
    return tuple(found)


def _pair(node: Node, known: dict[str, np.ndarray]) -> tuple[Value, Value] | None:
    """The constant and the other operand, where one is a constant that counts."""
    x, y = node.get("x"), node.get("y")
    if x is None or y is None or x.constant == y.constant:
        return None
    constant, other = (x, y) if x.constant else (y, x)
    return (constant, other) if constant.name in known else None


def _selects(node: Node, value: Value) -> bool:
    """Whether a constant matrix picks elements or turns them about: nothing that was learnt. One of zeros alone does
    not, it is how some weights begin."""
    array = value.array()
    return node.op == "matmul" and bool(array.any() and np.isin(array, ONES).all())


def _vector(value: Value) -> bool:
    return sum(extent > 1 for extent in value.shape) == 1


def _gain(node: Node, constant: Value, learnt: bool) -> bool:
    """Whether a factor is a gain: one number per channel or column, of something weights or a normalisation made."""
    return node.op == "mul" and learnt and _vector(constant)


def _offset(node: Node, constant: Value, before: Node | None, found: dict[str, None]) -> bool:
    """Whether a summand is a bias: what it is added to is a product with a weight, or has a gain."""
    if node.op == "mul" or before is None:
        return False
    weighted = any(value.name in found for value in before.values() if value.constant)
    return before.op.endswith("_norm") or (weighted and (before.op in PRODUCTS or before.op == "mul"))


def _root(value: Value, made: dict[int, Node]) -> Value:
    """What a value is, laid out anew or not."""
    while (node := made.get(id(value))) is not None and node.op in LAYOUT:
        value = node["x"]
    return value
