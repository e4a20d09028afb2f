"""The passes of this folder in order: from engine operations over virtual buffers to engine operations over slots and
L2 addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openane.chips import Chip, EmittedTask, Limits
from openane.chips.emit.exponents import Contents
from openane.chips.emit.tiling import Tiling
from openane.compiler.buffers.storage import VirtualBuffer, VirtualBuffers
from openane.compiler.schedule.chaining import chain, in_place, keep
from openane.compiler.schedule.copy_elimination import forwarded
from openane.compiler.schedule.direct_operands import direct
from openane.compiler.schedule.l2_residency import settle
from openane.compiler.schedule.placement import BufferPlacement, bound, place
from openane.engine import Operation
from openane.errors import UnsupportedError

SHARES = (2, 4, 8)
"""Residents get 1/2 of L2; where that leaves no room for the rings of a streamed operation, less."""


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
          labels: Sequence[str], contents: Contents | None = None) -> ScheduledOperations:
    """Gives every buffer a place, keeping in L2 what fits beside the rings, and emits the tasks.

    `labels` say where each operation comes from, `contents` what the constant sections hold. UnsupportedError names the
    one that L2 cannot hold even where nothing is kept in it that could lie in memory; ProgramError one that no register
    can express.
    """
    all_blocks = VirtualBuffers(blocks)
    steps = forwarded(list(enumerate(operations)), all_blocks, chip.limits.l2_size // SHARES[0], chip.limits)
    steps = direct(steps, chip.limits)
    origins = tuple(number for number, _ in steps)
    shares = (*(chip.limits.l2_size // part for part in SHARES), 0)
    attempts = (_planned(chip, [operation for _, operation in steps], all_blocks.table, share, ports)
                for share in shares)
    planned = next(each for share, each in zip(shares, attempts, strict=True) if each.room or share == 0)
    if planned.tiling is None or planned.tiling.refused is not None:
        raise _refusal(planned, [labels[number] for number in origins], chip.limits)
    return ScheduledOperations(planned.placed, origins, planned.virtual, planned.blocks, planned.placement,
                               chip.emit(planned.placed, tiling=planned.tiling, contents=contents))


def _planned(chip: Chip, operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer], share: int,
             ports: Sequence[int]) -> _Planned:
    """The operations with residents of at most `share` bytes."""
    virtual, table = resident(operations, blocks, share, chip.limits)
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
             share: int, limits: Limits) -> tuple[list[Operation], dict[int, VirtualBuffer]]:
    """Operations with intermediates in L2, handed over, or kept there after their first use, within `share` bytes."""
    if share == 0:
        return list(operations), dict(blocks)
    settled, table = settle(operations, blocks, share, limits)
    all_blocks = VirtualBuffers(table)
    kept = keep(chain(settled, table), all_blocks, share, limits)
    return in_place(kept, all_blocks.table), all_blocks.table
