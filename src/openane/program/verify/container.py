"""Rules about the program as a whole: words, buffers, layouts, slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openane.chips import Breach, get_chip
from openane.engine import Access
from openane.errors import ProgramError
from openane.program.model import Layout, Program
from openane.program.verify.context import VerifyContext
from openane.program.verify.regions import access_regions
from openane.program.verify.violation import Found

WORD = 1 << 32


def well_formed(program: Program) -> Found:
    """A program must be made of bytes, 32-bit words and whole numbers, and have as many tasks as their numbers can
    count."""
    most = get_chip(program.chip).limits.tasks
    if not 1 <= len(program.tasks) <= most:
        yield None, Breach("tasks", len(program.tasks), f"1 to {most}")
    defect = program.kernels_defect()
    if defect:
        yield None, Breach("kernel sections", str(program.kernel_starts), defect)
    if not read_only(program.constants):
        yield None, Breach("constants", type(program.constants).__name__, "bytes nobody can write")
    for index, task in enumerate(program.tasks):
        if not _whole((task.offset, *task.words)) or not _words(task.words):
            yield index, Breach("words", "values outside a word", f"0 to {WORD - 1:#x}")
    for buffer in program.buffers:
        layout = buffer.layout
        numbers = (buffer.slot, buffer.size, *((*layout.shape, *layout.strides, layout.interleave) if layout else ()))
        if not _whole(numbers) or (layout and (len(layout.shape), len(layout.strides)) != (5, 5)):
            yield None, Breach(f"buffer {buffer.name}", "values of another kind", "whole numbers, five extents")


def _words(words: Sequence[int]) -> bool:
    """Whether numbers fit a word each."""
    return min(words, default=0) >= 0 and max(words, default=0) < WORD


def slots(context: VerifyContext) -> Found:
    """A buffer must have a slot of its own, not that of text or constants, that a task can name; so must a kernel
    section."""
    known = context.slots
    taken: set[int] = set()
    for slot in context.constants:
        if slot >= known.count:
            yield None, Breach("kernel section slot", slot, f"at most {known.count - 1}")
    for buffer in context.program.buffers:
        if buffer.slot in known.taken or not 0 <= buffer.slot < known.count:
            yield None, Breach(f"buffer {buffer.name} slot", buffer.slot,
                               f"0 to {known.count - 1} but {' and '.join(map(str, known.taken))}")
        if buffer.slot in taken:
            yield None, Breach(f"buffer {buffer.name} slot", buffer.slot, "a slot no other buffer has")
        taken.add(buffer.slot)


def sizes(context: VerifyContext) -> Found:
    """A buffer must have a size, and all memory of a program together must be within reach of addresses."""
    program = context.program
    for buffer in program.buffers:
        if buffer.size < 1:
            yield None, Breach(f"buffer {buffer.name} size", buffer.size, "at least 1")
    total = len(program.constants) + sum(max(buffer.size, 0) for buffer in program.buffers)
    if total > context.chip.limits.addresses:
        yield None, Breach("buffer sizes", total, context.chip.limits.addresses)


def layouts(context: VerifyContext) -> Found:
    """The tensor a layout describes must lie inside its buffer, no element on another."""
    for buffer in context.program.buffers:
        if buffer.layout is None:
            continue
        try:
            access = layout_access(buffer.layout)
        except ProgramError as error:
            yield None, Breach(f"buffer {buffer.name} layout", str(error), "positive extents")
            continue
        low, high = access.span
        if low < 0 or high > buffer.size:
            yield None, Breach(f"buffer {buffer.name} layout", f"bytes {low:#x} to {high:#x}", f"{buffer.size:#x}")
        elif not access_regions(access)[1]:
            yield None, Breach(f"buffer {buffer.name} layout", f"strides {buffer.layout.strides}", "nested strides")


def bound_slots(context: VerifyContext) -> Found:
    """A base slot that a task enables must be bound to a buffer; the text is never an operand. One slot may be enabled
    without being used or bound: where tasks are linked that of scratch memory, which compilers name for tensors that
    stay in L2, elsewhere that of data sets."""
    idle = context.slots.scratch if context.chip.linked else context.slots.data_set
    for view in context.tasks:
        if view.fields is None:
            continue
        enabled = context.chip.enabled_slots(view.fields)
        used = view.used_slots() if view.operation is not None else set(enabled.values())
        bound = [slot for slot in sorted(context.memory) if slot != context.slots.text]
        for name, slot in enabled.items():
            if slot not in bound and (slot in used or slot != idle):
                yield view.index, Breach(name, slot, "one of " + ", ".join(map(str, bound)))


def layout_access(layout: Layout) -> Access:
    """The elements of a surface as an access. ProgramError when an extent is not positive."""
    return Access(shape=layout.shape, strides=layout.strides, dtype=layout.dtype, interleave=layout.interleave)


def _whole(values: Iterable[object]) -> bool:
    return all(type(value) is int for value in values)


def read_only(data: object) -> bool:
    """Whether these are bytes in a row that cannot be written here: in memory, or mapped from a file."""
    return isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly and data.format == "B"
                                       and data.ndim == 1 and data.c_contiguous)
