"""Second operands that come straight from memory, in generations that can broadcast them on the way.

Lowering keeps what is broadcast, and the vectors of a gain-offset, in L2, where H13 and H14 need it. From H15 on a
second operand passes through L2 with its own extents, so that the copy before it falls away. Evidence: in every record
of H15 to H18 of such an operation there is one task where H14 has a copy and a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openane.chips import Limits
from openane.compiler.buffers.uses import RESULT, BufferUses, usage
from openane.compiler.schedule.copy_elimination import Steps, plain_copy
from openane.engine import Access, Elementwise, GainOffset, PassThrough, Space

ROW, CHANNELS = 4, 1
"""The loops that elements lie along, the second where the operand is stored with channels and width swapped."""


def direct(steps: Steps, limits: Limits) -> Steps:
    """The operations, copies of second operands into L2 left out where the generation does without."""
    if not limits.streams_repeats:
        return steps
    uses = usage([operation for _, operation in steps])
    found, gone = list(steps), set()
    for position, (number, operation) in enumerate(steps):
        if not isinstance(operation, Elementwise | GainOffset) or operation.second is None \
                or operation.second.space is not Space.L2:
            continue
        copy = _only_copy(uses.get(operation.second.slot), steps, position)
        source = None if copy is None else _read_at_once(steps[copy][1], operation.second, limits)
        if copy is not None and source is not None and not _written(uses.get(source.slot), copy, position):
            found[position] = number, replace(operation, second=source)
            gone.add(copy)
    return [step for position, step in enumerate(found) if position not in gone]


def _only_copy(use: BufferUses | None, steps: Steps, reader: int) -> int | None:
    """The plain copy out of memory that makes a buffer which nothing but `reader` reads, once."""
    if use is None or use.streamed or len(use.uses) != 2:
        return None
    made, read = use.uses
    copy = steps[made.operation][1]
    alone = made.role == RESULT and read.operation == reader and read.role == "second"
    return made.operation if alone and plain_copy(copy) and isinstance(copy, PassThrough) \
        and copy.source.space is Space.MEMORY else None


def _written(use: BufferUses | None, after: int, before: int) -> bool:
    """Whether a buffer is written between two operations."""
    return use is not None and any(u.role == RESULT and after < u.operation < before for u in use.uses)


def _read_at_once(copy: object, second: Access, limits: Limits) -> Access | None:
    """The operand as it lies in memory before the copy; None where no second operand can be read so."""
    assert isinstance(copy, PassThrough)
    made, source = copy.result, copy.source
    steps = _steps(made, source)
    if second.offset != made.offset or steps is None:
        return None
    strides = []
    for extent, stride in zip(second.shape, second.strides, strict=True):
        known = steps.get((extent, stride))
        if extent > 1 and stride and known is None:
            return None
        strides.append(known if extent > 1 and stride and known is not None else 0)
    access = Access(slot=source.slot, offset=source.offset, shape=second.shape,
                    strides=tuple(strides), dtype=source.dtype)  # type: ignore[arg-type]
    return access if _legal(access, limits) else None


def _steps(made: Access, source: Access) -> Mapping[tuple[int, int], int] | None:
    """The source's stride for each extent and stride of what was made of it; None where two are alike."""
    loops = [((extent, stride), step) for extent, stride, step in
             zip(made.shape, made.strides, source.strides, strict=True) if extent > 1]
    steps = dict(loops)
    return steps if len(steps) == len(loops) and all(step for _, step in loops) else None


def _legal(access: Access, limits: Limits) -> bool:
    """Whether registers can say it: groups, depth and rows in aligned steps, elements along W or, swapped, along C."""
    unit, element = limits.memory_alignment, access.dtype.size
    aligned = [stride % unit == 0 for stride in access.strides]
    if access.offset % unit or not all(aligned[loop] for loop in (0, 2, 3)):
        return False
    row, plane = access.strides[ROW], access.strides[CHANNELS]
    return (row in (0, element) and aligned[CHANNELS]) or (plane == element and aligned[ROW])


__all__ = ["direct"]
