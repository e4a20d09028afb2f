"""Which constants of a model are weights: told by what an operation does with them, not by their names.

Kernels, matrices, biases, gains and offsets are; masks added to the logits of attention, tables of angles, the mean and
the variance of a normalisation, and what an input is standardised by are not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops import all_ops
from openane.ops.affine import factor, term
from openane.ops.spec import Movement, Op

ONES = (-1, 0, 1)


def candidates(graph: Graph) -> dict[str, np.ndarray]:
    """Every constant of real numbers that is an array of more than one, or an operand that can be a weight."""
    found = dict[str, np.ndarray]()
    for node in graph.nodes:
        named = {id(value) for name in _weights(node) if (value := node.get(name)) is not None}
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
        for name in _weights(node):
            value = node.get(name)
            if value is not None and value.name in known and not _selects(node, value):
                found[value.name] = None
        if (pair := _pair(node, known)) is not None:
            constant, other = pair
            if _gain(node, other, learnt) or _offset(node, other, made.get(id(_root(other, made))), found):
                found[constant.name] = None
        if any(value.name in found or id(value) in learnt for value in node.values()) or _normalises(node):
            learnt.update(map(id, node.outputs))
    return tuple(found)


def _op(node: Node) -> Op | None:
    """What is known of its operation; None of reads and writes of states."""
    return all_ops().get(node.op)


def _weights(node: Node) -> tuple[str, ...]:
    """The operands that are weights where they are constants."""
    op = _op(node)
    return () if op is None else op.weights


def _normalises(node: Node) -> bool:
    op = _op(node)
    return op is not None and op.normalises


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
    array, op = value.array(), _op(node)
    either = op is not None and op.product is not None and "weight" not in op.weights  # a product of any two matrices
    return either and bool(array.any() and np.isin(array, ONES).all())


def _gain(node: Node, other: Value, learnt: set[int]) -> bool:
    """Whether a constant is a gain: one number per channel or column, times something weights or a normalisation
    made."""
    gain = factor(node, other)
    return gain is not None and id(other) in learnt and sum(extent > 1 for extent in gain.shape) == 1


def _offset(node: Node, other: Value, before: Node | None, found: dict[str, None]) -> bool:
    """Whether a constant is a bias: what it is added to is a product with a weight, or has a gain."""
    if term(node, other) is None or before is None:
        return False
    op, weighted = _op(before), any(value.name in found for value in before.values() if value.constant)
    product = op is not None and (op.product is not None or (op.moves is not None and op.weights != ()))
    return _normalises(before) or (weighted and (product or factor(before) is not None))


def _root(value: Value, made: Mapping[int, Node]) -> Value:
    """What a value is, laid out anew or not."""
    while (node := made.get(id(value))) is not None and _laid_out(node):
        value = node["x"]
    return value


def _laid_out(node: Node) -> bool:
    """Whether it has nothing but elements of its operand x, at places that are known."""
    op = _op(node)
    return op is not None and (op.moves not in (None, Movement.MIX) or op.casts)
