"""Operations at device addresses: what a task's accesses mean once the driver has said where the slots are.

Addresses are added without wrapping around: what lies beyond 32 bits counts as not mapped. Whether an engine would wrap
is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from openane.devices.linux.interface import COMMAND_CHANNEL, CONSTANT_CHANNEL
from openane.devices.simdriver.chain import Submission
from openane.devices.simdriver.reports import FaultReport, ReportKind
from openane.devices.simdriver.space import AddressSpace
from openane.engine import (
    Access,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    NeuralOperation,
    Operation,
    Space,
)
from openane.record_classes import dataclass

ANYWHERE = 2
"""The slot of the placed operations: all of the device's memory. Constants keep theirs, so that the simulator prepares
their weights once."""


@dataclass(frozen=True, slots=True)
class PlacedOperand:
    """An operand of a task: what it is called, the access relative to its slot, and whether it is written."""

    operand: str
    access: Access
    writes: bool = False


def touches(operation: Operation) -> Iterator[PlacedOperand]:
    """The memory accesses of an operation, copies included."""
    if isinstance(operation, NeuralOperation):
        named = [PlacedOperand("source", operation.source)]
    else:
        named = [PlacedOperand("first", operation.first)]
        named += [] if operation.second is None else [PlacedOperand("second", operation.second)]
    for touch in (*named, PlacedOperand("result", operation.result, True)):
        if touch.access.space is Space.MEMORY:
            yield touch
        if touch.access.copy is not None and touch.access.copy.space is Space.MEMORY:
            yield PlacedOperand(f"{touch.operand} (copy)", touch.access.copy, True)


def streams(operation: Operation) -> list[tuple[int, CoefficientStream]]:
    """Slot and stream of all an operation's coefficients."""
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    sections = () if coefficients is None else coefficients.sections
    return [(section.slot, stream) for section in sections for stream in section.streams]


@dataclass(frozen=True, slots=True)
class Reach:
    """Ranges of device addresses, [low, high): all that the tasks of a submission touch; and those whose bytes the
    simulator takes when it prepares them, not when it runs them. `steady`: no task writes the constants, so that their
    weights are among those."""

    all: tuple[tuple[int, int], ...]
    prepared: tuple[tuple[int, int], ...]
    steady: bool

    @classmethod
    def of(cls, operations: Sequence[Operation], submission: Submission) -> Reach:
        """What the operations of a submission touch."""
        everything: list[tuple[int, int]] = []
        written: list[tuple[int, int]] = []
        weights: list[tuple[int, int]] = []
        tables: list[tuple[int, int]] = []
        for operation in operations:
            for touch in touches(operation):
                base, (low, high) = submission.base(touch.access.slot), touch.access.span
                (written if touch.writes else everything).append((base + low, base + high))
            for slot, stream in streams(operation):
                start = submission.base(slot) + stream.offset
                everything.append((start, start + stream.size))
                if not _weighted(operation):
                    tables.append(everything[-1])
                elif slot == CONSTANT_CHANNEL:
                    weights.append(everything[-1])
        steady = not any(low < top and bottom < high for low, high in weights for bottom, top in written)
        return cls((*everything, *written), (*tables, *(weights if steady else ())), steady)


def placed(operation: Operation, submission: Submission, origin: int, *, prepared: bool) -> Operation:
    """The operation with offsets counted from `origin`. `prepared`: nobody writes its constants during the run."""
    changes: dict[str, Access | Coefficients] = {}
    for name in ("source", "first", "second", "result"):
        access = getattr(operation, name, None)
        if isinstance(access, Access):
            changes[name] = _access(access, submission, origin)
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        changes["coefficients"] = _coefficients(operation.coefficients, submission, origin, prepared)
    return _replaced(operation, changes)


def _replaced(operation: Operation, changes: Mapping[str, Access | Coefficients]) -> Operation:
    return replace(operation, **changes)  # type: ignore[arg-type]


def _access(access: Access, submission: Submission, origin: int) -> Access:
    copy = None if access.copy is None else _access(access.copy, submission, origin)
    if access.space is not Space.MEMORY:
        return replace(access, copy=copy)
    return replace(access, slot=ANYWHERE, offset=submission.base(access.slot) + access.offset - origin, copy=copy)


def _weighted(operation: Operation) -> bool:
    """Whether an operation reads weights."""
    return isinstance(operation, NeuralOperation) and operation.coefficients is not None \
        and operation.coefficients.weights is not None


def _coefficients(coefficients: Coefficients, submission: Submission, origin: int, prepared: bool) -> Coefficients:
    def there(section: CoefficientSection) -> CoefficientSection:
        slot = CONSTANT_CHANNEL if section.slot == CONSTANT_CHANNEL and prepared else ANYWHERE
        return section.relocated(slot, submission.base(section.slot) - origin)

    return coefficients.relocated(there)


def unmapped(operation: Operation, submission: Submission, space: AddressSpace, index: int) -> FaultReport | None:
    """The first access of a task that reaches an address where nothing is mapped."""
    for touch in touches(operation):
        base = submission.base(touch.access.slot)
        hole = space.stray(replace(touch.access, offset=base + touch.access.offset))
        if hole is not None:
            return _unmapped(submission, index, touch.operand, touch.access.slot, hole)
    for slot, stream in streams(operation):
        start = submission.base(slot) + stream.offset
        hole = space.unmapped(start, start + stream.size)
        if hole is not None:
            return _unmapped(submission, index, f"coefficients of core {stream.core}", slot, hole)
    return None


def _unmapped(submission: Submission, index: int, operand: str, slot: int, hole: int) -> FaultReport:
    item = submission.bound(slot)
    handle, beyond = (None, 0) if item is None else (item.handle, _distance(hole, hole + 1, item.address, item.end))
    return FaultReport(ReportKind.UNMAPPED, submission.client,
                       f"reaches {hole:#x} through slot {slot}, where nothing is "
                       "mapped", index, operand, hole, handle, beyond)


def misplaced(operation: Operation, submission: Submission, space: AddressSpace, index: int) -> FaultReport | None:
    """The first access of a task that leaves the buffer its slot is bound to, that has none, or that writes to the
    commands or constants: what strict mode refuses. A buffer ends where the client asked for it to end."""
    for touch in touches(operation):
        low, high = touch.access.span
        report = _misplaced(submission, space, index, touch.operand, touch.access.slot, low, high, touch.writes)
        if report is not None:
            return report
    for slot, stream in streams(operation):
        report = _misplaced(submission, space, index, f"coefficients of core {stream.core}", slot, stream.offset,
                            stream.offset + stream.size, False)
        if report is not None:
            return report
    return None


def _misplaced(submission: Submission, space: AddressSpace, index: int, operand: str, slot: int, low: int, high: int,
               writes: bool) -> FaultReport | None:
    item = submission.bound(slot)
    if item is None:
        return FaultReport(ReportKind.UNBOUND, submission.client, f"uses slot {slot}, to which no buffer is bound",
                           index, operand)
    start = submission.base(slot)
    bottom, top = start, item.address + item.size
    beyond = _distance(start + low, start + high, bottom, top)
    if beyond:
        address = start + low if start + low < bottom else max(top, start + low)
        hit = space.at(address)
        what = "writes" if writes else "reads"
        return FaultReport(ReportKind.BOUNDS, submission.client, f"{what} bytes {low:#x} to {high:#x} of slot {slot}, "
                           f"{beyond} bytes outside {item}, which has {top - start:#x} there (at {address:#x})", index,
                           operand, address, item.handle, beyond, None if hit is None else str(hit))
    if writes and slot in (COMMAND_CHANNEL, CONSTANT_CHANNEL):
        what = "the commands" if slot == COMMAND_CHANNEL else "the constants"
        return FaultReport(ReportKind.PROTECTED, submission.client, f"writes to slot {slot}, {what}", index, operand,
                           start + low, item.handle)
    return None


def _distance(low: int, high: int, bottom: int, top: int) -> int:
    """By how many bytes [low, high) leaves [bottom, top) on the side where it leaves it further."""
    return max(bottom - low, high - top, 0)
