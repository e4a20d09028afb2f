"""Advice about where operands and results lie: memory or L2, and how rows fill the bursts they move in."""

from __future__ import annotations

from collections.abc import Iterator

from openane.engine import Access, Operation, Space, sources
from openane.program import Role
from openane.report.explain.context import AdviceContext
from openane.report.explain.layers import ProfiledLayer, ProfiledTask
from openane.report.explain.model import Change, Finding
from openane.report.explain.retiming import gone, in_full_bursts, in_l2, used, with_accesses
from openane.timing import EnginePart
from openane.timing.operation import bytes_moved

RELAYOUT = ("lay out an operand anew",
            "write the operand in the layout it is read in; where that is the compiler's choice, nothing")
"""What is said of copies of an operation that says nothing about them itself (Op.relayout)."""
WASTED = 2.0
"""Times the bytes needed from which rows count as short."""


def only_movement(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """An operation of the model that only moves elements."""
    if not all(task.copies_only for task in layer.tasks):
        return None
    return Finding(layer.subject, "moves elements and computes nothing", "keep one layout: fewer transposes, "
                   "concatenations and slices of the last axis, channels before rows", layer.changed(gone))


def laid_out_anew(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Tasks of a computing operation that bring its operands into the order it needs; of norms see planar."""
    copies, op = [task for task in layer.tasks if task.copies_only], layer.record
    known = None if op is None else op.relayout
    if not copies or len(copies) == len(layer.tasks) or not layer.kind or (known and op is not None and op.normalises):
        return None
    what, remedy = known or RELAYOUT
    return Finding(layer.subject, f"{len(copies)} of its {len(layer.tasks)} tasks {what}", remedy,
                   layer.changed(gone, copies))


def short_rows(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Rows that fill a small part of the bursts they move in."""
    waiting = [task for task in layer.tasks if task.row.bound is EnginePart.TILE]
    accesses = [access for task in waiting for access in _through_memory(task)]
    burst = context.limits.burst
    needed, taken = sum(map(used, accesses)), sum(bytes_moved(access, burst) for access in accesses)
    if not needed or taken < WASTED * needed:
        return None
    return Finding(layer.subject, f"moves {taken / needed:.1f} times the bytes it needs: rows are short of {burst} "
                   "bytes", f"make the last axis the long one ({burst // 2} fp16 elements or a multiple)",
                   layer.changed(in_full_bursts, waiting))


def beyond_l2(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Intermediate tensors larger than the chip keeps in L2, and large operands read from memory again and again."""
    return _from_memory(layer, context, large=True, what=f"waits for memory: tensors of {context.l2_size / 2**20:g} "
                        "MiB and more do not stay in L2",
                        remedy="smaller resolution, batch or tiles, so that they stay on the chip")


def without_room(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Intermediate tensors that would fit L2 but come from or go to memory."""
    return _from_memory(layer, context, large=False, what="waits for intermediate results in memory",
                        remedy="fewer and smaller tensors that live at once (residuals), so that L2 has room for these")


def _from_memory(layer: ProfiledLayer, context: AdviceContext, large: bool, what: str, remedy: str) -> Finding | None:
    changes: dict[tuple[int, int], Change] = {}
    seen: set[Access] = set()
    for task in layer.tasks:
        operands, result = _avoidable(task, context, large, seen)
        seen.update(task.reads)
        if task.row.bound is EnginePart.TILE and (operands or result):
            def change(operation: Operation, operands: tuple[int, ...] = operands, result: bool = result) -> Operation:
                known = sources(operation)
                return with_accesses(operation, {number: in_l2(known[number]) for number in operands
                                                 if number < len(known)},
                                     in_l2(operation.result) if result else None)
            changes[task.place] = change
    return Finding(layer.subject, what, remedy, changes) if changes else None


def _avoidable(task: ProfiledTask, context: AdviceContext, large: bool, seen: set[Access]) -> tuple[tuple[int, ...],
                                                                                                    bool]:
    """Operands that could be in L2, and whether the result could: no ports read or written once, no constants, no
    weights of products."""
    def wanted(access: Access) -> bool:
        role = context.layers.role(task.place, access)
        return access.space is Space.MEMORY and (role is Role.SCRATCH or (role is Role.INPUT and access in seen)) \
            and (used(access) >= context.l2_size) is large
    operands = tuple(number for number, access in enumerate(task.reads) if wanted(access))
    return operands, wanted(task.operation.result) and not context.layers.becomes_weights(task)


def _through_memory(task: ProfiledTask) -> Iterator[Access]:
    """Operands and results in memory, those that are broadcast apart."""
    for access in (*task.reads, task.operation.result):
        if access.space is Space.MEMORY and not access.repeats:
            yield access
