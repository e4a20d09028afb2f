"""What of a compilation is kept for the routes of its constants to be found when somebody asks: most models are never
given new weights.

Kept are the nodes that were lowered, with what was folded into them, and which constants became which bytes. Numbers
are not: constants of the graph are those the model keeps anyway, and of others that are large only the shape stays,
but for kernels that are to be followed. So nodes whose numbers forbade a fold that others might allow are told from the
rest at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from openane.compiler.lower.provenance import Traced, keeps_weights
from openane.compiler.partition.program import CompiledPiece
from openane.graph import Data, Graph, Node, RoundedConstant, TensorType, Value, numpy_type, substituted
from openane.ops import get_op
from openane.ops.affine import may_be_affine
from openane.ops.late_constant import LateConstant, LateValue
from openane.passes.fold_affine import takes_up
from openane.passes.folded_constants import FoldedConstant
from openane.record_classes import dataclass

LARGE = 1 << 14
"""Bytes from which on the numbers of a constant that is none of the graph's are not kept."""


@dataclass(frozen=True, slots=True)
class _WithoutNumbers:
    """A constant whose numbers are not kept, whether these lay row by row, and whether others were folded into it."""

    name: str
    type: TensorType
    by_rows: bool
    folded: bool


KeptOperand = Value | _WithoutNumbers


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node that was lowered, like a `Node`; `before` and `users` are what was folded into its constants."""

    op: str
    operands: Mapping[str, KeptOperand | tuple[KeptOperand, ...]]
    outputs: tuple[Value, ...]
    name: str
    source: str
    before: KeptNode | None = None
    users: tuple[KeptNode, ...] = ()

    def node(self) -> Node:
        """The node, anything in place of numbers that are not kept."""
        before = None if self.before is None else self.before.node()
        users = tuple([user.node() for user in self.users])

        def made(value: KeptOperand) -> Value:
            if isinstance(value, Value):
                return value
            data = np.empty(value.type.shape, numpy_type(value.type.dtype), "C" if value.by_rows else "F")
            return FoldedConstant(value.name, value.type, data, before, users) if value.folded \
                else Value(value.name, value.type, data)

        operands = {name: tuple(map(made, operand)) if isinstance(operand, tuple) else made(operand)
                    for name, operand in self.operands.items()}
        return Node(self.op, operands, self.outputs, self.name, self.source)


@dataclass(frozen=True, slots=True)
class TracedNodes:
    """The nodes with constants of one engine program, and pieces of constants by the number of the node they were
    stored for; of kernels whose taps were laid out anew the nodes as they were lowered, to follow them."""

    nodes: tuple[KeptNode, ...]
    pieces: Mapping[int, Sequence[Traced]]
    kernels: Mapping[int, Node]


def traced_nodes(compiled: Sequence[CompiledPiece], graph: Graph,
                 plain: Mapping[int, Value]) -> tuple[TracedNodes, ...]:
    """What is kept of engine programs beside `graph`, which the model keeps; `plain` has constants of that graph by the
    id of what they were when it was compiled."""
    keeping = _Keeping(graph, plain)
    return tuple([_traced_nodes(piece, keeping) for piece in compiled])


def _traced_nodes(compiled: CompiledPiece, keeping: _Keeping) -> TracedNodes:
    graph, traced = compiled.lowered.graph, compiled.lowered.traced
    users, nodes, found, kernels = graph.users(), list[KeptNode](), dict[int, Sequence[Traced]](), dict[int, Node]()
    for node in graph.nodes:
        if len(node.computed()) == len(node.values()):
            continue
        nodes.append(keeping.of(node))
        pieces: Sequence[Traced] | None = traced.get(id(node))
        if not pieces:
            continue
        if keeps_weights(node) and get_op(node.op).channel_affine is None:
            readers = users.get(id(node.output), [])
            if len(readers) == 1 and may_be_affine(readers[0]) and takes_up(node, readers[0]):
                continue
            if any(each.weights is not None for each in pieces):
                weight = node["weight"]
                alone = {id(weight): Value(weight.name, weight.type, weight.data)}
                kernels[len(nodes) - 1] = substituted(node, alone)
        found[len(nodes) - 1] = pieces
    return TracedNodes(tuple(nodes), found, kernels)


class _Keeping:
    """Keeps nodes without the numbers that a model does not keep beside its graph."""

    def __init__(self, graph: Graph, plain: Mapping[int, Value]) -> None:
        self._graph, self._plain = graph, plain

    @cached_property
    def _held(self) -> set[int]:
        """The ids of the graph's constants that are large or not rounded yet, and of the memory these lie in."""
        values = {id(value): value for node in self._graph.nodes for value in node.values()
                  if _late(value) or _bytes(value.data) >= LARGE}
        return values.keys() | {id(_owner(value.data)) for value in values.values() if not _late(value)}

    def of(self, node: Node) -> KeptNode:
        """A node that was lowered, and in its constants what was folded into it."""
        folded = next((value for value in node.values() if isinstance(value, FoldedConstant) and value.before), None)
        whole = get_op(node.op).channel_affine is not None  # its numbers are small, and looked at
        operands = self._operands(node, self._in_its_type if whole else self._constant)
        if folded is None or folded.before is None:
            return KeptNode(node.op, operands, node.outputs, node.name, node.source)
        users = tuple([KeptNode(user.op, self._operands(user, self._in_its_type), user.outputs, user.name, user.source)
                       for user in folded.users])
        return KeptNode(node.op, operands, node.outputs, node.name, node.source, self.of(folded.before), users)

    @staticmethod
    def _operands(node: Node, keep: Callable[[Value], KeptOperand]) -> dict[
            str, KeptOperand | tuple[KeptOperand, ...]]:
        return {name: tuple(map(keep, operand)) if isinstance(operand, tuple) else keep(operand)
                for name, operand in node.operands.items()}

    def _in_its_type(self, value: Value) -> Value:
        return self._plain.get(id(value), value)

    def _constant(self, value: Value) -> KeptOperand:
        """A constant as the model keeps it, or without its numbers; a small one, and what is computed, as it is."""
        plain = self._plain.get(id(value))
        if plain is not None:
            return plain
        if isinstance(value, FoldedConstant):
            return _without_numbers(value, value.before is not None)
        late = _late(value)
        if (not late and _bytes(value.data) < LARGE) or id(value) in self._held:
            return value
        if late or id(_owner(value.data)) not in self._held:
            return _without_numbers(value, False)
        return value.in_its_type() if isinstance(value, RoundedConstant) else value


def _late(value: Value) -> bool:
    """Whether a constant is not rounded yet."""
    return isinstance(value, (LateConstant, LateValue)) and not value.asked


def _without_numbers(value: Value, folded: bool) -> _WithoutNumbers:
    while isinstance(value, LateValue) and not value.asked:
        value = value.before
    data = value.digits() if isinstance(value, LateConstant) and not value.asked else value.array()
    return _WithoutNumbers(value.name, value.type, data.flags.c_contiguous, folded)


def _bytes(data: Data) -> int:
    return data.nbytes if isinstance(data, np.ndarray) else 0


def _owner(data: object) -> object:
    """The array that holds the memory an array lies in."""
    while isinstance(data, np.ndarray) and isinstance(data.base, np.ndarray):
        data = data.base
    return data
