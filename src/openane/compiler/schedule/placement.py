"""Gives every virtual buffer its place. Scratch buffers share one slot and L2 buffers share L2, each by the time they
are in use; ports get slots of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from openane.chips import Limits
from openane.compiler.buffers.intervals import Interval, allocate
from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer
from openane.compiler.buffers.uses import named_slots, operands
from openane.compiler.schedule.l2_order import allocate_l2
from openane.engine import (
    Access,
    Coefficients,
    CoefficientSection,
    NeuralOperation,
    Operation,
    Space,
    sources,
    with_operands,
)
from openane.record_classes import dataclass
from openane.rounding import round_up


@dataclass(frozen=True, slots=True)
class BufferPlacement:
    """(slot, offset) of every virtual buffer that is used, bytes of scratch and of L2 at the peak. `overflow` is the
    number of the operation from which on L2 does not hold what it is to keep, None where it does; `crowded` are the
    first and last operations of all that it does not hold."""

    places: Mapping[int, tuple[int, int]]
    scratch: int
    l2: int
    overflow: int | None = None
    crowded: tuple[tuple[int, int], ...] = ()


def place(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer], ports: Sequence[int],
          limits: Limits) -> BufferPlacement:
    """Places every virtual buffer `operations` name; `ports` get the slots for them in order."""
    lives = lifetimes(operations)
    places = {slot: (limits.slots.first_port + index, 0) for index, slot in enumerate(ports)}
    scratch = _requests(lives, blocks, BufferKind.SCRATCH, limits.memory_alignment)
    offsets, total = allocate(scratch, limits.memory_alignment)
    places |= {key: (limits.slots.scratch, offset) for key, offset in offsets.items()}
    resident = _requests(lives, blocks, BufferKind.L2, limits.l2_alignment)
    l2_offsets, peak = allocate_l2(resident, operations, limits)
    beyond = [r for r in resident if l2_offsets[r.key] + r.size > limits.l2_size] if peak > limits.l2_size else []
    worst = max(beyond, key=lambda r: l2_offsets[r.key] + r.size, default=None)
    places |= {key: (0, offset) for key, offset in l2_offsets.items()}
    return BufferPlacement(places, round_up(total, limits.page), peak, None if worst is None else worst.first,
                           tuple((r.first, r.last) for r in beyond))


def lifetimes(operations: Sequence[Operation]) -> dict[int, tuple[int, int]]:
    """First and last operation during which each virtual slot is in use: those that name it, and the one that runs at
    the same time where results are handed over directly."""
    lives: dict[int, tuple[int, int]] = {}
    for index, operation in enumerate(operations):
        handed = operation.result.space is Space.CHAIN
        taken = sources(operation)[0].space is Space.CHAIN
        for slot in named_slots(operation):
            first, last = lives.get(slot, (index, index))
            lives[slot] = min(first, index - taken), max(last, index + handed)
    return lives


def bound(operations: Sequence[Operation], places: Mapping[int, tuple[int, int]]) -> tuple[Operation, ...]:
    """The operations with real slots and offsets. What several of them share they share still."""
    known: dict[int, Access] = {}  # by id: the operations keep them alive

    def moved(access: Access) -> Access:
        if id(access) not in known:
            known[id(access)] = _moved(access, places)
        return known[id(access)]

    def streamed(section: CoefficientSection) -> CoefficientSection:
        return section.relocated(*places[section.slot]) if section.slot >= FIRST_VIRTUAL_SLOT else section

    def placed(operation: Operation) -> Operation:
        changes: dict[str, Access | Coefficients | None] = {role: moved(access) for role, access in operands(operation)}
        coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
        if coefficients is not None and any(slot >= FIRST_VIRTUAL_SLOT for slot in coefficients.slots):
            changes["coefficients"] = coefficients.relocated(streamed)
        return with_operands(operation, changes)

    return tuple([placed(operation) for operation in operations])


def _moved(access: Access, places: Mapping[int, tuple[int, int]]) -> Access:
    if access.copy is not None:
        access = replace(access, copy=_moved(access.copy, places))
    if access.slot < FIRST_VIRTUAL_SLOT:
        return access
    slot, offset = places[access.slot]
    return access.relocated(access.space, 0 if access.space is Space.L2 else slot, access.offset + offset)


def _requests(lives: Mapping[int, tuple[int, int]], blocks: Mapping[int, VirtualBuffer], kind: BufferKind,
              step: int) -> list[Interval]:
    return [Interval(slot, round_up(blocks[slot].size, step), first, last)
            for slot, (first, last) in lives.items() if blocks[slot].kind is kind]
