"""Rules about where operands lie: inside their memory, in memory of the right role, within the engine's limits."""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips import Breach
from openane.engine import Access, Space
from openane.program.model import Role
from openane.program.verify.context import TaskOperand, VerifyContext
from openane.program.verify.regions import access_regions
from openane.program.verify.violation import Found
from openane.rounding import round_up


def extents(context: VerifyContext) -> Found:
    """Every byte of an operand must lie inside its memory."""
    for task, operand, size in _placed(context):
        low, high = operand.access.span
        if low < 0 or high > size:
            yield task, Breach(context.chip.register(operand.part, operand.access.space),
                               f"bytes {low:#x} to {high:#x}", f"{size:#x} bytes")


def bursts(context: VerifyContext) -> Found:
    """Rows in memory are moved in whole bursts of 64 bytes: the last one must end inside the buffer too."""
    burst = context.chip.limits.burst
    for task, operand, size in _placed(context):
        high = operand.access.span[1]
        moved = round_up(high, burst)
        if operand.access.space is Space.MEMORY and high <= size < moved:
            yield task, Breach(context.chip.register(operand.part, Space.MEMORY), f"bytes up to {moved:#x}",
                               f"{size:#x} bytes")


def ring_extents(context: VerifyContext) -> Found:
    """The L2 ring that an operand passes through must lie inside L2."""
    size = context.chip.limits.l2_size
    for view in context.tasks:
        for passage in view.passages:
            if passage.high > size:
                yield view.index, Breach(context.chip.register(passage.operand, Space.L2),
                                         f"bytes {passage.low:#x} to {passage.high:#x}", f"{size:#x} bytes")


def _operand_role(context: VerifyContext, operand: TaskOperand) -> Iterator[Breach]:
    """What an operand of a task must neither write nor read."""
    access, text = operand.access, context.slots.text
    memory = context.memory.get(access.slot)
    if access.space is not Space.MEMORY or memory is None:
        return
    register = context.chip.register(operand.part, access.space)
    if operand.writes and (access.slot == text or access.slot in context.constants or memory.role is Role.INPUT):
        yield Breach(register, f"a write to {memory.name}", "a write to an output, scratch or state")
    elif access.slot == text:
        yield Breach(register, "the program text", "a buffer or the constants")


def roles(context: VerifyContext) -> Found:
    """Inputs, constants and text are never written, and text is never read; coefficients are never taken from an
    output."""
    text = context.slots.text
    for view in context.tasks:
        for operand in view.operands:
            yield from ((view.index, breach) for breach in _operand_role(context, operand))
        for slot in view.coefficients.slots if view.coefficients is not None else ():
            source = context.memory.get(slot)
            if source and (source.role is Role.OUTPUT or slot == text):
                yield view.index, Breach(context.chip.register("coefficients", Space.MEMORY), source.name,
                                         "constants, an input, scratch or state")


def result_elements(context: VerifyContext) -> Found:
    """No two elements of a result may lie on the same bytes: each stride is at least what the loops inside it span."""
    for view in context.tasks:
        for operand in view.operands:
            access = operand.access
            if operand.copy or not operand.writes or access.space is Space.CHAIN or access_regions(access)[1]:
                continue
            yield view.index, Breach(context.chip.register(operand.part, access.space), str(access),
                                     "elements at different bytes")


def _placed(context: VerifyContext) -> Iterator[tuple[int, TaskOperand, int]]:
    """Task, operand and bytes of the memory it lies in, for every operand in L2 or in memory that is bound."""
    for view in context.tasks:
        for operand in view.operands:
            size = _size(context, operand.access)
            if size is not None:
                yield view.index, operand, size


def _size(context: VerifyContext, access: Access) -> int | None:
    if access.space is Space.CHAIN:
        return None
    if access.space is Space.L2:
        return context.chip.limits.l2_size
    memory = context.memory.get(access.slot)
    return None if memory is None or access.slot == context.slots.text else memory.size
