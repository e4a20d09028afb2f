"""Who reads and writes which virtual buffer: what the passes over engine operations ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from openane.compiler.memory import FIRST_VIRTUAL_SLOT
from openane.engine import Access, NeuralOperation, Operation, sources

RESULT = "result"


@dataclass(frozen=True, slots=True)
class Use:
    """Operation number `operation` names a buffer in its field `role` (`source`, `first`, `second`, `result`)."""

    operation: int
    role: str
    access: Access


@dataclass(slots=True)
class Usage:
    """Everything that names one virtual buffer, in order; `streamed`: operations that take coefficients from it."""

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


def operands(operation: Operation) -> Iterator[tuple[str, Access]]:
    """Fields of an operation that are accesses, sources first."""
    if isinstance(operation, NeuralOperation):
        yield "source", operation.source
    else:
        yield "first", operation.first
        if operation.second is not None:
            yield "second", operation.second
    yield RESULT, operation.result


def read_slots(operation: Operation) -> list[int]:
    """Slots of the buffers an operation reads, that of its coefficients last."""
    slots = [access.slot for access in sources(operation)]
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        slots.append(operation.coefficients.slot)
    return slots


def usage(operations: Sequence[Operation]) -> dict[int, Usage]:
    """The uses of every virtual buffer."""
    found: dict[int, Usage] = {}

    def of(slot: int) -> Usage:
        if slot not in found:
            found[slot] = Usage([], [])
        return found[slot]

    for number, operation in enumerate(operations):
        for role, access in operands(operation):
            for one in (access, access.copy):
                if one is not None and one.slot >= FIRST_VIRTUAL_SLOT:
                    of(one.slot).uses.append(Use(number, role, one))
        if isinstance(operation, NeuralOperation) and operation.coefficients is not None \
                and operation.coefficients.slot >= FIRST_VIRTUAL_SLOT:
            of(operation.coefficients.slot).streamed.append(number)
    return found


def with_operands(operation: Operation, changes: Mapping[str, Access]) -> Operation:
    """The operation with some accesses replaced."""
    return replace(operation, **changes)  # type: ignore[arg-type]
