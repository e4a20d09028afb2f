"""ANEC: the container of the Linux driver's tools, a header and the bytes the driver hands to the engine.

The header has no magic number, version or names: sizes, a size in 0x4000-byte tiles per base-address slot, and shape
and strides per slot. The payload (task descriptors, then constants at the next multiple of 16) follows at 0x1000
(files `anecc` writes) or 0x800 (files current `libane` reads); which of the two is told by the file's length.
"""

from __future__ import annotations

from openane.chips import NamedSlots, driver_generation, get_chip
from openane.errors import FormatError, ProgramError
from openane.formats.reader import ByteReader, Record, u32, u32s, u64, u64s
from openane.formats.tasks import (
    CONSTANT_ALIGNMENT,
    FIRST_BUFFER_SLOT,
    TILE,
    command_bytes,
    dense_layout,
    for_driver,
    misfit,
    nchw_layout,
    read_tasks,
    task_slots,
    without_stand_in,
)
from openane.program import Buffer, Constants, Layout, Program, Role
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up

HEADERS = (0x1000, 0x800)
SLOTS = 32
NUMBERS_PER_SLOT = 6  # N, C, H, W, plane stride, row stride


@dataclass(frozen=True, eq=False, repr=False)
class AnecHeader(Record):
    """The header. `size` is the payload's; `first_task` the bytes of the first task; `tiles` counts 0x4000 bytes."""

    size: int = u64()
    first_task: int = u32()
    tasks: int = u32()
    text: int = u64()
    constants: int = u64()
    inputs: int = u32()
    outputs: int = u32()
    tiles: tuple[int, ...] = u32s(SLOTS)
    nchw: tuple[int, ...] = u64s(SLOTS * NUMBERS_PER_SLOT)


def is_anec(data: Constants) -> bool:
    """Whether the sizes in the first bytes agree with each other and with the file's length."""
    try:
        _payload(ByteReader(data))
    except FormatError:
        return False
    return True


def read_anec(data: Constants) -> Program:
    """Reads either header size.

    Buffers get their roles from what the tasks do: a slot that is only read is an input, one that is only written an
    output, one that is both, or has no shape, is scratch (with a shape: an output when written before it is read).
    Inputs are called input0, input1, ... in slot order, outputs output0, ... FormatError, or ProgramError from tasks.
    """
    chip = get_chip(driver_generation())
    header, payload = _payload(ByteReader(data))
    if header.first_task % 4 or not 0 < header.first_task <= header.text:
        raise FormatError("impossible size of the first task", offset=0x08, expected="a multiple of 4 within the text",
                          found=hex(header.first_task))
    text = payload.window(0, header.text, "the task descriptors")
    tasks = read_tasks(chip, text, 0, header.first_task // 4, header.tasks)
    constants = payload.part(round_up(header.text, CONSTANT_ALIGNMENT), header.constants, "the constants")
    slots = task_slots(chip, tasks)
    start = str(hex(payload.start))
    return Program(chip.name, tasks, without_stand_in(constants, chip.limits.slots.constants, slots),
                   _buffers(header, slots, chip.limits.addresses), origin={"container": "anec", "header": start})


def write_anec(program: Program, header: int = 0x1000) -> bytes:
    """The program for the Linux driver; `header` is 0x1000 (anecc) or 0x800 (libane).

    Slots are renumbered: outputs from 4 on, then inputs, scratch in 3 and 2. Names are lost. ProgramError when a
    buffer cannot be expressed (states, layouts other than fp16 N, C, H, W) or the chip is not the driver's.
    """
    if header not in HEADERS:
        raise ProgramError(f"header is {header!r}; 0x1000 (anecc) or 0x800 (libane) can be written")
    if program.chip != driver_generation():
        raise ProgramError(f"the Linux driver runs {driver_generation()} programs, not {program.chip}")
    program = for_driver(program)
    payload, text = command_bytes(program), len(program.text())
    tiles = [0] * SLOTS
    nchw = [0] * (SLOTS * NUMBERS_PER_SLOT)
    # the driver wants more bytes than the text has
    tiles[program.slots.text] = max(ceil_div(len(payload), TILE), text // TILE + 1)
    for buffer in program.buffers:
        tiles[buffer.slot] = ceil_div(buffer.size, TILE)
        if buffer.role is not Role.SCRATCH:
            start = buffer.slot * NUMBERS_PER_SLOT
            nchw[start:start + NUMBERS_PER_SLOT] = _numbers(dense_layout(buffer))
    constants = len(payload) - round_up(text, CONSTANT_ALIGNMENT)
    record = AnecHeader(len(payload), program.tasks[0].size, len(program.tasks), text, constants,
                        len(program.inputs), len(program.outputs), tuple(tiles), tuple(nchw))
    return record.pack().ljust(header, b"\0") + payload


def _payload(file: ByteReader) -> tuple[AnecHeader, ByteReader]:
    """The header and the payload behind it, which zeros may follow; FormatError where the sizes disagree."""
    header = file.record(AnecHeader, 0, "the ANEC header")
    expected = round_up(header.text, CONSTANT_ALIGNMENT) + header.constants
    if header.size < expected:
        raise FormatError("the payload is smaller than its text and constants", offset=0, expected=hex(expected),
                          found=hex(header.size))
    start = next((start for start in HEADERS if start + header.size == len(file)), None)
    if start is None:
        raise FormatError("the file's length fits no header size", offset=0, found=hex(len(file)),
                          expected=" or ".join(f"0x{start + header.size:x}" for start in HEADERS))
    if any(file.take(start + expected, header.size - expected, "the end of the payload")):
        raise FormatError("the payload goes on after its constants", offset=start + expected, expected="zeros",
                          found=f"{header.size - expected} bytes")
    return header, file.window(start, header.size, "the payload")


def _buffers(header: AnecHeader, slots: list[NamedSlots], addresses: int) -> tuple[Buffer, ...]:
    buffers: list[Buffer] = []
    counts = dict.fromkeys(Role, 0)
    for slot in range(2, SLOTS):
        if not header.tiles[slot]:
            _check_unnamed(slot, slots)
            continue
        size = header.tiles[slot] * TILE
        if size > addresses:
            raise FormatError(f"slot {slot} is larger than the engine's address space", offset=0x28 + 4 * slot,
                              expected=f"at most {addresses // TILE} tiles", found=header.tiles[slot])
        layout = _layout(header, slot, size)
        role = _role(header, slot, layout, slots)
        buffers.append(Buffer(f"{role.value}{counts[role]}", slot, role, layout.size if layout else size, layout))
        counts[role] += 1
    return tuple(buffers)


def _check_unnamed(slot: int, slots: list[NamedSlots]) -> None:
    for index, names in enumerate(slots):
        if slot in names.reads | names.writes | names.coefficients:
            raise FormatError(f"task {index} uses slot {slot}, which has no memory", offset=0x28 + 4 * slot,
                              expected="at least one tile", found=0)


def _layout(header: AnecHeader, slot: int, size: int) -> Layout | None:
    start = slot * NUMBERS_PER_SLOT
    n, c, h, w, plane, row = header.nchw[start:start + NUMBERS_PER_SLOT]
    if not any((n, c, h, w, plane, row)):
        return None
    layout = nchw_layout(n, c, h, w, plane, row)
    reason = misfit(layout, size)
    if reason:
        raise FormatError(f"slot {slot}: {reason}", offset=0xA8 + 8 * start)
    return layout


def _numbers(layout: Layout) -> tuple[int, ...]:
    n, c, _, h, w = layout.shape
    return n, c, h, w, layout.strides[1], layout.strides[3]


def _role(header: AnecHeader, slot: int, layout: Layout | None, slots: list[NamedSlots]) -> Role:
    """What a slot is for. One that no task names takes the place the driver's numbering gives it."""
    if layout is None:
        return Role.SCRATCH
    for names in slots:
        if slot in names.reads | names.coefficients:
            written = any(slot in later.writes for later in slots)
            return Role.SCRATCH if written else Role.INPUT
        if slot in names.writes:
            return Role.OUTPUT
    return Role.OUTPUT if slot < FIRST_BUFFER_SLOT + header.outputs else Role.INPUT


__all__ = ["HEADERS", "AnecHeader", "is_anec", "read_anec", "write_anec"]
