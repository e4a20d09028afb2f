"""Who reads and writes which virtual buffer: the questions that the passes over engine operations ask."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT
from openane.engine import Access, NeuralOperation, Operation, sources
from openane.record_classes import dataclass

RESULT = "result"


class Use(NamedTuple):
    """Operation number `operation` names a buffer in its field `role` (`source`, `first`, `second`, `result`)."""

    operation: int
    role: str
    access: Access


@dataclass(slots=True)
class BufferUses:
    """Every use of one virtual buffer as an operand, in order, and in `streamed` the operations that take coefficients
    from it."""

    uses: list[Use]
    streamed: list[int]

    @property
    def life(self) -> tuple[int, int]:
        """First and last operation that names the buffer."""
        numbers = [use.operation for use in self.uses] + self.streamed
        return min(numbers), max(numbers)

    @property
    def traffic(self) -> int:
        """Bytes its operands move."""
        return sum(use.access.elements * use.access.dtype.size for use in self.uses)


def operands(operation: Operation) -> tuple[tuple[str, Access], ...]:
    """Fields of an operation that are accesses, sources first."""
    if isinstance(operation, NeuralOperation):
        return ("source", operation.source), (RESULT, operation.result)
    if operation.second is None:
        return ("first", operation.first), (RESULT, operation.result)
    return ("first", operation.first), ("second", operation.second), (RESULT, operation.result)


def named_slots(operation: Operation) -> list[int]:
    """Slots of the virtual buffers an operation names, one for each operand, copy and its coefficients."""
    accesses = (*sources(operation), operation.result)
    slots = [access.slot for access in accesses]
    slots += [access.copy.slot for access in accesses if access.copy is not None]
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        slots += operation.coefficients.slots
    return [slot for slot in slots if slot >= FIRST_VIRTUAL_SLOT]


class BufferLife(NamedTuple):
    """The first and the last operation that name a virtual buffer, and how many times it is named in all."""

    first: int
    last: int
    times: int


def lives(operations: Sequence[Operation]) -> dict[int, BufferLife]:
    """When each virtual buffer is in use."""
    named: dict[int, list[int]] = {}
    for number, operation in enumerate(operations):
        for slot in named_slots(operation):
            named.setdefault(slot, []).append(number)
    return {slot: BufferLife(numbers[0], numbers[-1], len(numbers)) for slot, numbers in named.items()}


def read_slots(operation: Operation) -> list[int]:
    """Slots of the buffers an operation reads, that of its coefficients last."""
    slots = [access.slot for access in sources(operation)]
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        slots += operation.coefficients.slots
    return slots


def usage(operations: Sequence[Operation]) -> dict[int, BufferUses]:
    """The uses of every virtual buffer."""
    found: defaultdict[int, BufferUses] = defaultdict(lambda: BufferUses([], []))
    for number, operation in enumerate(operations):
        for role, access in operands(operation):
            if access.slot >= FIRST_VIRTUAL_SLOT:
                found[access.slot].uses.append(Use(number, role, access))
            if access.copy is not None and access.copy.slot >= FIRST_VIRTUAL_SLOT:
                found[access.copy.slot].uses.append(Use(number, role, access.copy))
        coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
        for slot in coefficients.slots if coefficients is not None else ():
            if slot >= FIRST_VIRTUAL_SLOT:
                found[slot].streamed.append(number)
    return dict(found)
