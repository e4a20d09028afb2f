"""What both containers share: the chain of tasks in a text, stand-in constants, and the driver's slot numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from openane.chips import Chip, NamedSlots, get_chip
from openane.errors import ProgramError
from openane.formats.reader import ByteReader
from openane.program import Buffer, Constants, Layout, Program, Role, Task
from openane.rounding import round_up

TILE = 0x4000            # granule of buffers in both containers
CONSTANT_ALIGNMENT = 16  # the driver looks for constants at the next multiple of this after the text
STAND_IN = bytes(TILE)   # what a program without constants carries in their place
INTERMEDIATE_SLOTS = (3, 2)  # the slots the Linux driver's tools give scratch, and the first they give ports
FIRST_BUFFER_SLOT = 4


def read_tasks(chip: Chip, text: ByteReader, offset: int, words: int, count: int) -> tuple[Task, ...]:
    """The chain of `count` tasks whose first has `words` words and lies at byte `offset` of the text.

    FormatError when a task leaves the text, when tasks overlap (a cycle does), or when the chain does not end after
    `count` tasks; ProgramError from the chip when a task is no task.
    """
    tasks: list[Task] = []
    room = len(text)
    while words:
        if len(tasks) == count:
            raise text.error(offset, "the chain of tasks goes on", expected=f"{count} tasks", found="one more")
        if offset % 4:
            raise text.error(offset, "a task is not aligned", expected="a multiple of 4", found=hex(offset))
        task = Task(text.words(offset, words, f"task {len(tasks)}"), offset)
        room -= task.size
        if room < 0:
            raise text.error(offset, "tasks overlap", expected=f"at most {len(text)} bytes of tasks", found="more")
        tasks.append(task)
        offset, words = chip.next_task(task.words)
    if not tasks or len(tasks) != count:
        raise text.error(offset, "the chain of tasks ends early", expected=f"{max(count, 1)} tasks", found=len(tasks))
    _check_disjoint(text, tasks)
    return tuple(tasks)


def read_frames(chip: Chip, text: ByteReader, count: int) -> tuple[Task, ...]:
    """The `count` tasks of a text in which they lie one after another, each stating its own size; frames of size 0 are
    skipped. FormatError when a task leaves the text, or when there are more or fewer."""
    alignment = chip.limits.task_alignment
    tasks: list[Task] = []
    offset = 0
    while offset + alignment <= len(text):
        words = chip.task_size(text.words(offset, 1, "the head of a task"))
        if words and len(tasks) == count:
            raise text.error(offset, "the tasks go on", expected=f"{count} tasks", found="one more")
        if words:
            tasks.append(Task(text.words(offset, words, f"task {len(tasks)}"), offset))
        offset += round_up(4 * words, alignment) or alignment
    if not tasks or len(tasks) != count:
        raise text.error(0, "the tasks end early", expected=f"{max(count, 1)} tasks", found=len(tasks))
    return tuple(tasks)


def check_tasks(chip: Chip, tasks: tuple[Task, ...]) -> None:
    """ProgramError unless a file with the tasks reads back as written: their own links lead from each to the next, or
    they lie one after another behind the first frame, each stating its size."""
    if not tasks:
        raise ProgramError("a program has at least one task")
    if not chip.linked:
        _check_frames(chip, tasks)
        return
    end = (0, 0)
    links = [(t.offset, len(t.words)) for t in tasks[1:]]
    for index, (task, expected) in enumerate(zip(tasks, [*links, end], strict=True)):
        found = chip.next_task(task.words)
        if found != expected:
            raise ProgramError(f"links to a task of {found[1]} words at 0x{found[0]:x}, but the program continues with "
                               f"{expected[1]} words at 0x{expected[0]:x}", task=index)
    for before, after in pairwise(sorted(tasks, key=lambda t: t.offset)):
        if before.offset + before.size > after.offset:
            raise ProgramError(f"tasks at 0x{before.offset:x} and 0x{after.offset:x} overlap")


def _check_frames(chip: Chip, tasks: tuple[Task, ...]) -> None:
    alignment = chip.limits.task_alignment
    end = alignment
    for index, task in enumerate(tasks):
        size = chip.task_size(task.words)
        if not size or size != len(task.words):
            raise ProgramError(f"states a size of {size} words and has {len(task.words)}", task=index)
        if task.offset < end or task.offset % alignment:
            raise ProgramError(f"lies at 0x{task.offset:x}; it must lie at a multiple of {alignment} from 0x{end:x} on",
                               task=index)
        end = task.offset + task.size


def task_slots(chip: Chip, tasks: Iterable[Task]) -> list[NamedSlots]:
    """The slots each task names."""
    return [chip.slots(task.words) for task in tasks]


def without_stand_in(constants: Constants, slot: int, slots: Iterable[NamedSlots]) -> Constants:
    """No constants where a file holds only the zeros that stand in for them: Apple's compiler writes 0x4000 zero bytes
    for a program whose tasks read none from their `slot` (every file without coefficients in the corpus)."""
    if constants == STAND_IN and not any(slot in s.reads | s.coefficients for s in slots):
        return b""
    return constants


def padded_constants(constants: Constants) -> Constants:
    """Constants as the driver's tools want them: never empty, a multiple of 16 bytes."""
    if not constants:
        return STAND_IN
    short = -len(constants) % CONSTANT_ALIGNMENT
    return b"".join((constants, bytes(short))) if short else constants


def check_buffers(program: Program) -> None:
    """ProgramError unless every buffer has a size, a slot beyond text and constants, and a layout that fits it, and
    kernel sections are where the generation has them."""
    limits = get_chip(program.chip).limits
    slots = limits.slots
    defect = program.kernels_defect()
    if defect:
        raise ProgramError(f"kernel sections begin at bytes {program.kernel_starts} of the constants; there must be "
                           f"{defect}")
    last = max(program.constant_ranges)
    if last >= slots.count:
        raise ProgramError(f"the kernel sections have slots up to {last}; there are slots up to {slots.count - 1}")
    for buffer in program.buffers:
        if buffer.slot in slots.taken or not 0 <= buffer.slot < slots.count:
            raise ProgramError(f"buffer {buffer.name!r} is bound to slot {buffer.slot}; text is slot {slots.text}, "
                               f"constants are slot {slots.constants}, buffers have the others"
                               + (f" but {slots.data_set}" if slots.data_set is not None else ""))
        if not 0 < buffer.size < limits.addresses:
            raise ProgramError(f"buffer {buffer.name!r} has {buffer.size} bytes; 1 to {limits.addresses - 1} can be "
                               "written")
        if buffer.layout is not None and misfit(buffer.layout, buffer.size):
            raise ProgramError(f"buffer {buffer.name!r}: {misfit(buffer.layout, buffer.size)}")


def misfit(layout: Layout, size: int) -> str:
    """Why a tensor of this layout cannot lie in a buffer of `size` bytes; empty when it can."""
    if min(layout.shape) < 1 or min(layout.strides) < 0 or layout.interleave < 1:
        return f"extents and strides must be positive, not {layout.shape}, {layout.strides}"
    n, c, d, h, w = layout.shape
    elements = n * c * d * h * w * layout.dtype.size
    if max(elements, layout.size) > size:
        return f"a tensor of {max(elements, layout.size)} bytes does not fit its {size} bytes"
    return ""


def for_driver(program: Program) -> Program:
    """The program as the Linux driver's tools expect it: tasks with the full kernel-DMA record, outputs from slot 4 on
    and inputs behind them, scratch in slot 3 (then 2). ProgramError when a buffer has no place in that scheme."""
    check_tasks(get_chip(program.chip), program.tasks)
    check_buffers(program)
    for state in program.with_role(Role.STATE):
        raise ProgramError(f"buffer {state.name!r} is a state; the driver's tools know inputs, outputs and scratch")
    scratch = program.with_role(Role.SCRATCH)
    if len(scratch) > len(INTERMEDIATE_SLOTS):
        raise ProgramError(f"{len(scratch)} scratch buffers; the driver's tools have {len(INTERMEDIATE_SLOTS)} slots")
    ports = (*program.outputs, *program.inputs)
    slots = program.slots
    numbers = {slots.text: slots.text, slots.constants: slots.constants}
    # A scratch buffer that already has one of the two slots keeps it.
    free = [s for s in INTERMEDIATE_SLOTS if s not in [b.slot for b in scratch]]
    numbers |= {b.slot: b.slot if b.slot in INTERMEDIATE_SLOTS else free.pop(0) for b in scratch}
    numbers |= {b.slot: FIRST_BUFFER_SLOT + i for i, b in enumerate(ports)}
    if FIRST_BUFFER_SLOT + len(ports) > slots.count:
        raise ProgramError(f"{len(ports)} inputs and outputs; {slots.count - FIRST_BUFFER_SLOT} slots can hold them")
    return compatible(program, numbers)


def compatible(program: Program, numbers: Mapping[int, int]) -> Program:
    """The program with tasks in the form the Linux driver's tools use, each with the full kernel-DMA record, so that
    no task runs with what an earlier one left there; slots are renumbered by `numbers` (old to new)."""
    emitted = get_chip(program.chip).relayout([t.words for t in program.tasks], "compat", numbers)
    return replace(program, tasks=tuple(Task(tuple(e.words), e.offset) for e in emitted),
                   buffers=tuple(replace(b, slot=numbers.get(b.slot, b.slot)) for b in program.buffers))


def command_bytes(program: Program) -> bytes:
    """What the Linux driver takes as its command buffer: the text, then the constants where the driver looks for them.
    ProgramError unless the text begins with the first task."""
    if program.tasks[0].offset:
        raise ProgramError(f"the driver starts at the beginning of the text, not at 0x{program.tasks[0].offset:x}")
    text = program.text()
    return text.ljust(round_up(len(text), CONSTANT_ALIGNMENT), b"\0") + padded_constants(program.constants)


def dense_layout(buffer: Buffer) -> Layout:
    """The buffer's layout, when N, C, H, W, a row and a plane stride state all of it, which is all that the driver's
    tools can say. ProgramError otherwise."""
    layout = buffer.layout
    if layout is None:
        raise ProgramError(f"buffer {buffer.name!r} has no layout; the driver's tools need its shape and strides")
    if layout != nchw_layout(layout.shape[0], layout.shape[1], layout.shape[3], layout.shape[4], layout.strides[1],
                             layout.strides[3]):
        raise ProgramError(f"buffer {buffer.name!r}: the driver's tools take fp16 N, C, H, W tensors with channels "
                           f"behind one another, not {layout}")
    return layout


def nchw_layout(n: int, c: int, h: int, w: int, plane: int, row: int) -> Layout:
    """A surface of two-byte elements with planes `plane` bytes and rows `row` bytes apart."""
    return Layout((n, c, 1, h, w), (c * plane, plane, c * plane, row, 2))


def _check_disjoint(text: ByteReader, tasks: list[Task]) -> None:
    for before, after in pairwise(sorted(tasks, key=lambda t: t.offset)):
        if before.offset + before.size > after.offset:
            raise text.error(after.offset, "tasks overlap", expected=f"0x{before.offset + before.size:x} or later",
                             found=hex(after.offset))
