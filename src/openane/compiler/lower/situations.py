"""What the lowering of a node may depend on: its operation, what it is given, where that lies and where the results go,
and who reads these.

Two nodes in equal situations become the same engine operations, but for slots and for places of constants (see
`repeats`). What a situation does not say, no `lower` function sees.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from openane.compiler.buffers.storage import BufferKind
from openane.compiler.lower.allocation import Allocation
from openane.compiler.lower.fusion import Fusion
from openane.compiler.lower.values import Reshaped, Values
from openane.engine import DType
from openane.graph import Node, Operand, Value
from openane.ops import get_op
from openane.ops.lowering import Tensor
from openane.record_classes import dataclass

LARGEST = 1 << 13
"""Bytes of a constant up to which it is compared number by number."""
DEEPEST = 6
"""Readers one behind the other that a lowering may look at."""
Told = Hashable


@dataclass(frozen=True, slots=True)
class Situation:
    """`told` is what is compared. Beside it stands what is another thing for each node: the slots of the tensors that
    are there, in the order in which they were come upon, the values that may be given a place, the nodes that may be
    carried out in the same task. `as_they_are`: the program holds weights as they are, which are told by shape.
    """

    told: Told
    slots: tuple[int, ...]
    values: tuple[Value, ...]
    readers: tuple[Node, ...]
    as_they_are: bool


class _Unlike(Exception):
    """Nothing else is like this one, or it would take long to say so."""


class Situations(Allocation, Fusion, Values):
    """Tells the situation of a node before it is lowered."""

    def situation(self, node: Node) -> Situation | None:
        """The node's; None where it is not worth telling, as where it has large constants that are no weights."""
        found = _Found(self, node)
        try:
            told = found.told()
        except _Unlike:
            return None
        return Situation((self.settings, told), tuple(found.slots), tuple(found.values.values()), tuple(found.readers),
                         found.as_they_are)

    @cached_property
    def settings(self) -> Told:
        """What all nodes of a graph have in common."""
        return self.chip, self.kernel_slot, self.level, self.close_functions

    @cached_property
    def constants_told(self) -> dict[tuple[int, bool], Told]:
        """What was said of constants of the graph, by their ids and whether they are held as they are."""
        return {}

    def place_of(self, value: Value) -> Tensor | Reshaped | None:
        """Where a value lies so far."""
        return self._known.get(id(value))

    def assigned(self, value: Value) -> Tensor | None:
        """Where a value is to be written, if that is known: a port."""
        return self._assigned.get(id(value))

    def entered(self, value: Value) -> list[Node]:
        """What is done to a value as it is read."""
        return self._entering.get(id(value), [])


class _Found:
    """The situation of one node while it is told."""

    def __init__(self, here: Situations, node: Node) -> None:
        self._here, self._node = here, node
        self.as_they_are = keeps_constants(node)
        self.slots: dict[int, int] = {}
        self.values: dict[int, Value] = {}
        self.readers: list[Node] = []

    def told(self) -> Told:
        """What is compared. _Unlike where that is too much."""
        operands = [(name, self._operand(operand)) for name, operand in self._node.operands.items()]
        function = get_op(self._node.op).lower
        return self._node.op, function, tuple(operands), tuple([self._result(value, 0) for value in self._node.outputs])

    def _operand(self, operand: Operand) -> Told:
        if isinstance(operand, tuple):
            return tuple([self._value(value) for value in operand])
        return self._value(operand)

    def _value(self, value: Value) -> Told:
        if value.data is None:
            return self._tensor(value)
        if self._here.place_of(self._here.trace.latest(value)) is not None:
            raise _Unlike  # stored for another node
        return self._constant(value, self.as_they_are)

    def _constant(self, value: Value, as_they_are: bool) -> Told:
        """A constant: all of its numbers, or how they lie where these do not matter."""
        known, key = self._here.constants_told, (id(value), as_they_are)
        if key not in known:
            known[key] = _constant(value, as_they_are)
        return known[key]

    def _tensor(self, value: Value) -> Told:
        """A value the program computes: where it lies, and what is done to it as it is read."""
        entered = self._here.entered(value)
        if entered:
            steps = tuple([_step(node) for node in entered])
            return steps, self._value(entered[0]["x"])
        known = self._here.place_of(value)
        self.values[id(value)] = value
        if isinstance(known, Reshaped):
            return value.dtype, value.shape, known.shape, self._place(known.tensor)
        if known is None:
            raise _Unlike
        return value.dtype, value.shape, self._place(known)

    def _place(self, tensor: Tensor) -> Told:
        block = self._here.blocks.table.get(tensor.slot)
        if block is None or tensor.dtype is not DType.FLOAT16:
            raise _Unlike
        number = self.slots.setdefault(tensor.slot, len(self.slots))
        port = block.kind is BufferKind.PORT
        return (number, port, port and self._here.is_output(tensor.slot), tensor.offset, tensor.shape, tensor.strides,
                tensor.alignment, tensor.space)

    def _result(self, value: Value, depth: int) -> Told:
        """Where a result goes, and the one node that reads it."""
        if depth > DEEPEST:
            raise _Unlike
        place, reader = self._here.assigned(value), self._here.only_user(value)
        self.values[id(value)] = value
        return (value.dtype, value.shape, None if place is None else self._place(place),
                None if reader is None else self._reader(reader, value, depth))

    def _reader(self, reader: Node, read: Value, depth: int) -> Told:
        """A node that may be carried out in the same task, and those behind it; of one that may not be, the numbers of
        its constants say nothing."""
        self.readers.append(reader)
        op = get_op(reader.op)
        ends = op.post is None and op.unary is None and op.arithmetic is None
        kept = ends or keeps_constants(reader)
        operands = [(name, tuple([self._read(value, read, kept) for value in operand]) if isinstance(operand, tuple)
                     else self._read(operand, read, kept)) for name, operand in reader.operands.items()]
        return reader.op, tuple(operands), None if ends else tuple([self._result(value, depth + 1)
                                                                    for value in reader.outputs])

    def _read(self, value: Value, read: Value, kept: bool) -> Told:
        """An operand of a node that reads the result `read`."""
        if value.data is None:
            return value is read, value.dtype, value.shape
        return self._constant(value, kept)


def keeps_constants(node: Node) -> bool:
    """Whether a node's weights, or all its constants, are held as they are, whatever they are: its operations do not
    depend on their numbers."""
    op = get_op(node.op)
    return op.stores or (op.product is not None and op.product.kept)


def _step(node: Node) -> Told:
    return node.op, tuple([(name, _constant(value, False)) for name, value in node.operands.items()
                           if isinstance(value, Value) and value.constant])


def _constant(value: Value, as_they_are: bool) -> Told:
    """A constant: all of its numbers, or how they lie where these do not matter."""
    data = value.data
    if not isinstance(data, np.ndarray):
        return data
    if as_they_are and data.size > 1 and data.dtype.kind == "f":
        return data.dtype, data.shape, data.strides
    if data.nbytes > LARGEST:
        raise _Unlike
    return data.dtype, data.shape, data.strides, data.tobytes()
