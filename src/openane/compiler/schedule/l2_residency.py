"""Chooses the intermediate tensors that live in L2 instead of memory.

A tensor that stays in L2 costs no memory traffic. Apple's programs keep every intermediate there that fits (softmax,
layer norm and products among the recorded programs), in a layout of its own: rows of all channels side by side, the row
of each channel padded to 16 bytes, so that the channels of one image row are neighbours.

Buffers are chosen by the traffic they save for each byte and operation they take, until the share of L2 for residents
is used up. The rest of L2 belongs to the rings of streamed operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from openane.chips import Limits
from openane.compiler.buffers.storage import BufferKind, VirtualBuffer
from openane.compiler.buffers.uses import RESULT, BufferUses, operands, usage
from openane.compiler.loops.assign import OperandRole, legal
from openane.engine import Access, Operation, Space, with_operands
from openane.engine.changing import with_fields
from openane.engine.relayout import dimensions, nested, relaid
from openane.record_classes import dataclass

ROLES = {"source": OperandRole.NEURAL_SOURCE, RESULT: OperandRole.RESULT}
"""What the operands of an operation are to it; all others are sources of the planar engine."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scratch buffer that could move: its accesses in their L2 form by (operation, role), its bytes there."""

    slot: int
    size: int
    life: tuple[int, int]
    traffic: int
    moved: Mapping[tuple[int, str], Access]

    @property
    def gain(self) -> float:
        """Bytes of traffic saved for each byte held over one operation."""
        return self.traffic / (self.size * (self.life[1] - self.life[0] + 1))


def settle(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer],
           share: int, limits: Limits,
           reserved: Sequence[int] = ()) -> tuple[list[Operation], dict[int, VirtualBuffer]]:
    """Operations and buffers with as many scratch buffers in L2 as `share` bytes allow at any time, less those that
    are `reserved` during each operation."""
    uses = usage(operations)
    held = residents(len(operations), {slot: use.life for slot, use in uses.items()}, blocks, reserved)
    candidates = [c for c in (_candidate(slot, use, blocks[slot], share, limits) for slot, use in uses.items())
                  if c is not None]
    moved: dict[tuple[int, str], Access] = {}
    table = dict(blocks)
    for candidate in sorted(candidates, key=lambda c: (-c.gain, c.slot)):
        first, last = candidate.life
        if max(held[first:last + 1]) + candidate.size > share:
            continue
        hold(held, candidate.life, candidate.size)
        moved |= candidate.moved
        table[candidate.slot] = with_fields(table[candidate.slot], {"size": candidate.size, "kind": BufferKind.L2})
    return [_replaced(number, operation, moved) for number, operation in enumerate(operations)], table


def resident_strides(access: Access, limits: Limits) -> tuple[int, tuple[int, int, int, int, int]]:
    """Bytes and strides of a tensor with an access's extents, stored in L2 as Apple's programs do: W innermost (C where
    the access has channels at element stride), then C (W), D, rows padded against bank conflicts (no
    record has a pad where there is depth), then H, N."""
    inner, plane = (1, 4) if _swapped(access) else (4, 1)
    strides = [0] * 5
    strides[inner] = access.dtype.size
    step = limits.l2_row(access.shape[inner] * access.dtype.size)
    strides[plane] = step
    step *= access.shape[plane]
    if access.shape[3] > 1 and access.shape[2] == 1:
        step += limits.banks.row_pad(step, access.shape[3])
    for axis in (2, 3, 0):
        strides[axis] = step
        step *= access.shape[axis]
    return step, (strides[0], strides[1], strides[2], strides[3], strides[4])


def residents(operations: int, lives: Mapping[int, tuple[int, int]], blocks: Mapping[int, VirtualBuffer],
              reserved: Sequence[int] = ()) -> list[int]:
    """Bytes that L2 buffers take during each of so many operations, with those `reserved`; `lives` are the first and
    last operation that name a buffer."""
    held = list(reserved) or [0] * operations
    for slot, life in lives.items():
        if blocks[slot].kind is BufferKind.L2:
            hold(held, life, blocks[slot].size)
    return held


def hold(held: list[int], life: tuple[int, int], size: int) -> None:
    """Adds `size` bytes from the first to the last operation of `life`."""
    for number in range(life[0], life[1] + 1):
        held[number] += size


def _replaced(number: int, operation: Operation, moved: Mapping[tuple[int, str], Access]) -> Operation:
    changes = {role: moved[number, role] for role, _ in operands(operation) if (number, role) in moved}
    return with_operands(operation, changes) if changes else operation


def _candidate(slot: int, use: BufferUses, block: VirtualBuffer, share: int, limits: Limits) -> Candidate | None:
    """The buffer in L2 form, or None: coefficients and interleaved operands need memory, as does what `share` bytes do
    not hold."""
    if block.kind is not BufferKind.SCRATCH or use.streamed or any(u.access.interleave > 1 or u.access.copy is not None
                                                                   for u in use.uses):
        return None
    wholes = list(dict.fromkeys(u.access for u in use.uses if _covers(u.access, block.size, limits)))
    if min([block.size, *(resident_strides(whole, limits)[0] for whole in wholes)]) > share:
        return None
    for whole in wholes:
        moved = _relaid_uses(use, whole, limits)
        if moved is not None:
            return Candidate(slot, resident_strides(whole, limits)[0], use.life, use.traffic, moved)
    kept = {(u.operation, u.role): with_fields(u.access, {"space": Space.L2}) for u in use.uses}
    return Candidate(slot, block.size, use.life, use.traffic, kept)


def _relaid_uses(use: BufferUses, whole: Access, limits: Limits) -> dict[tuple[int, str], Access] | None:
    """Every access of a buffer in the resident layout of one that covers it, or None where one has no such form."""
    resident = replace(whole, space=Space.L2, strides=resident_strides(whole, limits)[1])
    moved = {}
    for u in use.uses:
        access = relaid(u.access, whole, resident)
        if access is None or not legal(access, ROLES.get(u.role, OperandRole.PLANAR_SOURCE), limits):
            return None
        moved[u.operation, u.role] = access
    return moved


def _covers(access: Access, size: int, limits: Limits) -> bool:
    """Whether an access walks all of a buffer, each element once."""
    loops = dimensions(access)
    reach = loops[0][0] * loops[0][1] if loops else 1
    return access.offset == 0 and nested(loops) and 0 <= size - reach < limits.memory_alignment


def _swapped(access: Access) -> bool:
    return access.shape[1] > 1 and access.strides[1] == access.dtype.size
