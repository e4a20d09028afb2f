"""Channels of sums that only a logarithm reads, each times a power of two of its own.

A logarithm shows the digits of small numbers as it does those of large ones. Bands of a spectrum differ by thousands,
so that one exponent for all (passes.exponent_choice) leaves the quiet ones below what products are rounded to. What the
constant weights of a band take up is taken back behind the logarithm, where it is something that is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.engine import Binary
from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.arithmetic import scalar
from openane.ops.build import Given
from openane.ops.evaluate import evaluate
from openane.ops.exponents import Relation, exponents
from openane.ops.half_bits import to_half
from openane.ops.rewriter import Rewriter
from openane.passes.fold_affine import fold_affine
from openane.passes.rewrite import only_user, rebuilt, taken_names
from openane.passes.weight_room import LARGEST
from openane.record_classes import dataclass

KEPT_BELOW = 2
"""By which power of two the largest number of a channel is left smaller than that of all, at the least."""
MOST = 15
"""The largest exponent whose power of two is a number of fp16."""
WORTH = 4
"""The exponent from which on a channel gains enough for what it costs."""
BESIDE = (Binary.MAXIMUM, Binary.ADD)
"""Of the sums and one positive number, what may stand between them and the logarithm."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """Sums with constant weights, what is done to them alone, and their logarithm; the dimension of their channels."""

    sums: Node
    between: tuple[Node, ...]
    logarithm: Node
    axis: int


def even_channels(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> tuple[Graph, int]:
    """The graph in which such channels are about as large as the largest one on samples, and of how many sums; itself
    where there are none."""
    chains = list(_chains(graph))
    if not chains:
        return graph, 0
    largest = _largest(graph, chains, samples)
    wanted = {id(chain.sums): _exponents(chain, largest[id(chain.sums)]) for chain in chains}
    changed = [chain for chain in chains if wanted[id(chain.sums)].max() >= WORTH]
    if not changed:
        return graph, 0
    work = _Writing(graph)
    for chain in changed:
        work.take(chain, wanted[id(chain.sums)])
    return fold_affine(work.result(), digits=True), len(changed)


def _chains(graph: Graph) -> list[_Chain]:
    if not any(_logarithm(node) for node in graph.nodes if get_op(node.op).unary is not None):
        return []
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    found = []
    for node in graph.nodes:
        product = get_op(node.op).product
        between, user = [], None if product is None else only_user(users, outputs, node.output)
        while user is not None and _beside(user):
            between.append(user)
            user = only_user(users, outputs, user.output)
        if product is not None and user is not None and _logarithm(user) and _sums(node):
            found.append(_Chain(node, tuple(between), user, product.axis % node.output.type.rank))
    return found


def _sums(node: Node) -> bool:
    """Whether a node has constant weights, and channels."""
    return exponents(node).relation is Relation.LINEAR and node.output.type.rank > 1


def _beside(node: Node) -> bool:
    """Whether a node adds one positive number to every other, or keeps all above it."""
    arithmetic = get_op(node.op).arithmetic
    if arithmetic is None or arithmetic.planar not in BESIDE or node["x"].constant:
        return False
    number = scalar(node["y"]) if node["y"].constant else None
    return number is not None and number >= 0 and (arithmetic.planar is Binary.MAXIMUM or arithmetic.function is np.add)


def _logarithm(node: Node) -> bool:
    epsilon = node.get("epsilon")
    return exponents(node).relation is Relation.LOWERING and (epsilon is None or not epsilon.array().any())


def _largest(graph: Graph, chains: Sequence[_Chain], samples: Sequence[Mapping[str, np.ndarray]]
             ) -> dict[int, np.ndarray]:
    """The largest number of every channel, by id of the sums."""
    known = {id(chain.sums): chain for chain in chains}
    found: dict[int, np.ndarray] = {}

    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> None:
        if id(node) in known:
            array, axis = arrays[id(node.output)], known[id(node)].axis
            most = array.max(axis=tuple(d for d in range(array.ndim) if d != axis), initial=0)
            found[id(node)] = np.maximum(found.get(id(node), most), most)

    for sample in samples:
        evaluate(graph, sample, seen)
    return found


def _exponents(chain: _Chain, largest: np.ndarray) -> np.ndarray:
    """What each channel is raised by: up to the largest one, and as far as its weights have room."""
    product = get_op(chain.sums.op).product
    assert product is not None
    form = product.form(chain.sums, chain.sums.output.name)
    assert form is not None
    view, shape = product.by_channel(form["weight"].array(), largest.size)
    weights = np.abs(view).max(axis=tuple(d for d in range(view.ndim) if shape[d] == 1)).reshape(-1).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        lacking = np.floor(np.log2(largest.max() / largest)) - KEPT_BELOW
        room = np.floor(np.log2(LARGEST / weights))
    found = np.minimum(lacking, room).clip(0, MOST)
    return np.where(largest > 0, found, 0.0)


class _Writing:
    """A graph whose chains are written with exponents of their channels."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._names = graph, taken_names(graph)
        self._instead: dict[int, tuple[Node, ...]] = {}

    def take(self, chain: _Chain, exponents_of: np.ndarray) -> None:
        """Writes a chain."""
        shape = [1] * chain.sums.output.type.rank
        shape[chain.axis] = exponents_of.size
        gains = (2.0 ** exponents_of).reshape(shape)
        for node in chain.between:
            number = scalar(node["y"])
            assert number is not None
            rewriter = Rewriter(node, self._names)
            self._put(node, rewriter, rewriter.single(node.op, x=node["x"], y=to_half(number * gains)))
        self._then(chain.sums, "mul", gains)
        self._then(chain.logarithm, "add", -exponents(chain.logarithm).step * exponents_of.reshape(shape))

    def _then(self, node: Node, op: str, numbers: np.ndarray) -> None:
        """Writes a node and an operation of its result and constant numbers."""
        rewriter, operands = Rewriter(node, self._names), dict[str, Given](node.operands)
        made = rewriter.single(node.op, node.name, **operands)
        self._put(node, rewriter, rewriter.single(op, x=made, y=to_half(numbers)))

    def _put(self, node: Node, rewriter: Rewriter, made: Value) -> None:
        self._instead[id(node)] = rewriter.instead((made,))

    def result(self) -> Graph:
        """The graph."""
        return rebuilt(self._graph, [each for node in self._graph.nodes
                                     for each in self._instead.get(id(node), (node,))])
