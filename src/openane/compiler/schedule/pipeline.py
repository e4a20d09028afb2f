"""Engine operations over virtual buffers to engine operations over slots and L2 addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openane.chips import Chip, EmittedTask, Limits
from openane.compiler.buffers.storage import VirtualBuffer, VirtualBuffers
from openane.compiler.schedule.chaining import chain, in_place, keep
from openane.compiler.schedule.copy_elimination import forwarded
from openane.compiler.schedule.l2_residency import settle
from openane.compiler.schedule.placement import BufferPlacement, bound, place
from openane.engine import Operation
from openane.errors import ProgramError, UnsupportedError

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


def store(chip: Chip, operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer], ports: Sequence[int],
          labels: Sequence[str], name: str) -> ScheduledOperations:
    """Gives every buffer a place, keeping in L2 what fits beside the rings, and emits the tasks.

    `labels` say where each operation comes from. UnsupportedError names the one no register or memory can hold.
    """
    all_blocks = VirtualBuffers(blocks)
    steps = forwarded(list(enumerate(operations)), all_blocks, chip.limits.l2_size // SHARES[0], chip.limits)
    origins = tuple(number for number, _ in steps)
    own = [labels[number] for number in origins]
    refusal: UnsupportedError | None = None
    for share in (*(chip.limits.l2_size // s for s in SHARES), 0):
        virtual, table = resident([operation for _, operation in steps], all_blocks.table, share, chip.limits)
        try:
            placement = place(virtual, table, ports, chip.limits, own)
            placed = bound(virtual, placement.places)
            return ScheduledOperations(placed, origins, tuple(virtual), table, placement, chip.emit(placed))
        except ProgramError as error:
            label = own[error.task] if error.task is not None else name
            refusal = UnsupportedError(label, f"no register can express its lowering: {error}")
        except UnsupportedError as error:
            refusal = error
    assert refusal is not None, "every attempt ends in a return or a refusal"
    raise refusal


def resident(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer],
             share: int, limits: Limits) -> tuple[list[Operation], dict[int, VirtualBuffer]]:
    """Operations with intermediates in L2, handed over, or kept there after their first use, within `share` bytes."""
    if share == 0:
        return list(operations), dict(blocks)
    settled, table = settle(operations, blocks, share, limits)
    all_blocks = VirtualBuffers(table)
    kept = keep(chain(settled, table), all_blocks, share, limits)
    return in_place(kept, all_blocks.table), all_blocks.table
