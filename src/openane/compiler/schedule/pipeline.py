"""The passes of this folder in order: from engine operations over virtual buffers to engine operations over slots and
L2 addresses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from openane.chips import Chip, EmittedTask, Limits
from openane.chips.emit.exponents import Contents
from openane.chips.emit.tiling import Tiling
from openane.compiler.buffers.storage import VirtualBuffer, VirtualBuffers
from openane.compiler.buffers.uses import operands
from openane.compiler.schedule.chaining import chain, in_place, keep
from openane.compiler.schedule.copy_elimination import Steps, forwarded
from openane.compiler.schedule.direct_operands import direct
from openane.compiler.schedule.l2_residency import settle
from openane.compiler.schedule.placement import BufferPlacement, bound, place
from openane.engine import Operation
from openane.errors import UnsupportedError
from openane.record_classes import dataclass

SHARES = (2, 4, 8)
"""Residents get 1/2 of L2; where that leaves no room for the rings of a streamed operation, less."""
EIGHTH, ATTEMPTS = 8, 12
"""Parts of L2 that are given and taken, and how often, where residents may have nearly all of it."""


@dataclass(frozen=True, slots=True)
class ScheduledOperations:
    """Operations with their final operands, the lowered operation each comes from, the same over virtual buffers, the
    buffers, where those lie, and the tasks."""

    operations: tuple[Operation, ...]
    origins: tuple[int, ...]
    virtual: tuple[Operation, ...]
    blocks: Mapping[int, VirtualBuffer]
    placement: BufferPlacement
    tasks: tuple[EmittedTask, ...]


@dataclass(frozen=True, slots=True)
class _Planned:
    """Operations over virtual buffers, the buffers, where those lie, and where those do not exceed L2 the operations
    with addresses and how they walk what they stream."""

    virtual: tuple[Operation, ...]
    blocks: Mapping[int, VirtualBuffer]
    placement: BufferPlacement
    placed: tuple[Operation, ...] = ()
    tiling: Tiling | None = None

    @property
    def room(self) -> bool:
        """Whether L2 holds what is to be kept there, and beside it what is streamed."""
        return self.tiling is not None and self.tiling.refused is None


def store(chip: Chip, operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer], ports: Sequence[int],
          labels: Sequence[str], contents: Contents | None = None, level: int = 0) -> ScheduledOperations:
    """Gives every buffer a place, keeping in L2 what fits beside the rings, and emits the tasks.

    `labels` say where each operation comes from, `contents` what the constant sections hold. UnsupportedError names the
    one that L2 cannot hold even where nothing is kept in it that could lie in memory; ProgramError one that no register
    can express.
    """
    all_blocks = VirtualBuffers(blocks)
    steps = carried_out(operations, all_blocks, chip.limits)
    origins = tuple(number for number, _ in steps)
    shares = (*(chip.limits.l2_size // part for part in SHARES), 0)
    kept = [operation for _, operation in steps]
    planned = _crowded(chip, kept, all_blocks.table, ports) if level else None
    attempts = (_planned(chip, kept, all_blocks.table, share, ports) for share in shares)
    planned = planned or next(each for share, each in zip(shares, attempts, strict=True) if each.room or share == 0)
    if planned.tiling is None or planned.tiling.refused is not None:
        raise _refusal(planned, [labels[number] for number in origins], chip.limits)
    return ScheduledOperations(planned.placed, origins, planned.virtual, planned.blocks, planned.placement,
                               chip.emit(planned.placed, tiling=planned.tiling, contents=contents))


def _crowded(chip: Chip, operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer],
             ports: Sequence[int]) -> _Planned | None:
    """The operations with residents of nearly all L2, less where some need room for their rings: those and others of
    their extents are left an eighth of L2 at first, then twice as much each time they find none. None where that does
    not end in time."""
    part = chip.limits.l2_size // EIGHTH
    forms = [(type(operation), *(access.shape for _, access in operands(operation))) for operation in operations]
    wanted: dict[Hashable, int] = {}
    for _ in range(ATTEMPTS):
        reserved = [wanted.get(form, 0) for form in forms]
        neighbours = [max(reserved[max(0, number - 1):number + 2]) for number in range(len(reserved))]
        planned = _planned(chip, operations, blocks, chip.limits.l2_size - part, ports, neighbours)
        if planned.room:
            return planned
        cramped = {number for first, last in planned.placement.crowded for number in range(first, last + 1)}
        cramped.update(() if planned.tiling is None else planned.tiling.cramped)
        for form in {forms[number] for number in cramped}:
            wanted[form] = 2 * wanted.get(form, part // 2)
    return None


def carried_out(operations: Sequence[Operation], blocks: VirtualBuffers, limits: Limits) -> Steps:
    """The operations that become tasks, each with its number among `operations`: without needless copies."""
    return direct(forwarded(list(enumerate(operations)), blocks, limits.l2_size // SHARES[0], limits), limits)


def _planned(chip: Chip, operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer], share: int,
             ports: Sequence[int], reserved: Sequence[int] = ()) -> _Planned:
    """The operations with residents of at most `share` bytes, less those `reserved` during an operation."""
    virtual, table = resident(operations, blocks, share, chip.limits, reserved)
    placement = place(virtual, table, ports, chip.limits)
    if placement.overflow is not None:
        return _Planned(tuple(virtual), table, placement)
    placed = bound(virtual, placement.places)
    return _Planned(tuple(virtual), table, placement, placed, chip.tiling(placed))


def _refusal(planned: _Planned, labels: Sequence[str], limits: Limits) -> UnsupportedError:
    """What L2 does not hold."""
    placement, tiling = planned.placement, planned.tiling
    if placement.overflow is not None:
        return UnsupportedError(labels[placement.overflow], "what is kept in L2 at one time must fit it",
                                limit=limits.l2_size, found=placement.l2)
    assert tiling is not None, "what is placed has tiles"
    assert tiling.refused is not None, "what has room is not refused"
    return UnsupportedError(labels[tiling.refused], tiling.rule, remedy="split the channels or the width")


def resident(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer],
             share: int, limits: Limits,
             reserved: Sequence[int] = ()) -> tuple[list[Operation], dict[int, VirtualBuffer]]:
    """Operations with intermediates in L2, handed over, or kept there after their first use, within `share` bytes less
    those `reserved` during an operation."""
    if share == 0:
        return list(operations), dict(blocks)
    settled, table = settle(operations, blocks, share, limits, reserved)
    all_blocks = VirtualBuffers(table)
    kept = keep(chain(settled, table), all_blocks, share, limits, reserved)
    return in_place(kept, all_blocks.table), all_blocks.table
