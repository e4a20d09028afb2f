"""Reading HWX: from load commands to a Program.

What a slot is follows from the program descriptor (slot to address) and the segment at that address; nothing is
assumed about slot numbers. Names come from the buffer-name commands, then from symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, count
from typing import Any

from openane.chips import Chip, described_generations, generation_of, get_chip
from openane.chips.limits import Limits
from openane.errors import FormatError
from openane.formats.hwx.descriptors import PROGRAM, TENSOR, read_program, read_tensor
from openane.formats.hwx.image import CONSTANT_SECTION, KERNEL_SEGMENTS, MAGIC, TEXT_SECTION, buffer_role
from openane.formats.hwx.symbols import EXTERNAL_SYMBOL, SECTION_SYMBOL, read_tensors
from openane.formats.hwx.wide import WIDE_PROGRAM, read_wide_program
from openane.formats.macho import Ident, Library, MachO, Section, Segment, Thread, read_macho, section_data
from openane.formats.tasks import misfit, read_frames, read_tasks, task_slots, without_stand_in
from openane.program import Buffer, Constants, Layout, Program, Role, Task


def read_hwx(data: Constants) -> Program:
    """The program in an HWX file of any compiler from zin 4 (2020) to zin 9 (macOS 26), or written by openane.

    FormatError names the byte that breaks the format; ProgramError comes from task descriptors that are none.
    """
    file = read_macho(data, MAGIC)
    chip = get_chip(_generation(file))
    thread = _program_thread(file, chip)
    tasks, addresses, name = (_linked if chip.linked else _framed)(file, chip, thread)
    slots = task_slots(chip, tasks)
    step = 8 if chip.linked else 16
    known = chip.limits.slots
    kernels = _kernels(file, addresses)
    buffers = _Buffers(file, thread, step, chip.limits).read(
        [0 if slot in kernels else address for slot, address in enumerate(addresses)])
    start = thread.offset + Thread.STATE
    _check_kernels(kernels, known.first_kernels(b.slot for b in buffers), known.count,
                   lambda slot: {"offset": start + step * slot, "found": hex(addresses[slot])})
    bound = {b.slot for b in buffers} | {known.text, known.constants, *kernels}
    for index, names in enumerate(slots):
        for slot in (names.reads | names.writes | names.coefficients) - bound:
            raise FormatError(f"task {index} uses slot {slot}, which points nowhere",
                              offset=start + step * slot, expected="an address", found=0)
    sections = [without_stand_in(_constants(file), known.constants, slots), *kernels.values()]
    starts = tuple(accumulate(map(len, sections)))[:-1]
    constants = sections[0] if len(sections) == 1 else b"".join(sections)
    return Program(chip.name, tasks, constants, buffers, name, _origin(file), starts)


def _check_kernels(kernels: Iterable[int], first: int | None, slots: int,
                   where: Callable[[int], dict[str, Any]]) -> None:
    """FormatError unless the sections that the kernel DMA reads have the slots from `first` on; `where` says of a slot
    at which byte it stands, and what is found there."""
    for slot, expected in zip(kernels, count(slots if first is None else first), strict=False):
        if slot != expected or slot >= slots:
            raise FormatError(f"a kernel section in slot {slot}", **where(slot),
                              expected="none: the kernel DMA reads the constants" if first is None
                              else f"those sections in slots from {first} on")


def _generation(file: MachO) -> str:
    name, described = generation_of(file.header.cpusubtype), described_generations()
    if name not in described:
        known = ", ".join(f"{get_chip(each).facts.subtype} ({each})" for each in described)
        raise FormatError("a generation of the engine openane does not describe", offset=0x08, expected=known,
                          found=f"{file.header.cpusubtype} ({name or 'unknown'})")
    return name


def _program_thread(file: MachO, chip: Chip) -> Thread:
    flavor = PROGRAM if chip.linked else WIDE_PROGRAM
    threads = [c for c in file.commands if isinstance(c, Thread) and c.flavor == flavor]
    if len(threads) != 1:
        raise FormatError(f"a file holds one program of {chip.name}", offset=0x10,
                          expected=f"one program descriptor (flavor {flavor})", found=len(threads))
    return threads[0]


_Contents = tuple[tuple[Task, ...], tuple[int, ...], str]
"""Tasks, the address of each slot, the program's name."""


def _linked(file: MachO, chip: Chip, thread: Thread) -> _Contents:
    """A program whose tasks name their successors."""
    descriptor, name = read_program(thread)
    segment, section = _section(file, *TEXT_SECTION)
    offset = _in_text(section, thread, descriptor.first_task)
    tasks = read_tasks(chip, section_data(segment, section), offset, descriptor.first_task_words + 1, descriptor.tasks)
    return tasks, descriptor.slots, name


def _framed(file: MachO, chip: Chip, thread: Thread) -> _Contents:
    """A program whose tasks lie one after another."""
    descriptor = read_wide_program(thread)
    segment, section = _section(file, *TEXT_SECTION)
    if _in_text(section, thread, descriptor.text):
        raise FormatError("the text does not begin with its section", offset=thread.offset + 0x810,
                          expected=hex(section.address), found=hex(descriptor.text))
    return read_frames(chip, section_data(segment, section), descriptor.tasks), descriptor.slots, descriptor.name


def _in_text(section: Section, thread: Thread, address: int) -> int:
    offset = address - section.address
    if not 0 <= offset < max(section.size, 1):
        raise FormatError("the first task lies outside the text", offset=thread.offset + 0x810,
                          expected=f"0x{section.address:x} to 0x{section.address + section.size:x}", found=hex(address))
    return offset


def _section(file: MachO, segment_name: str, section_name: str) -> tuple[Segment, Section]:
    for segment in file.segments:
        for section in segment.sections:
            if (segment.name, section.name) == (segment_name, section_name):
                return segment, section
    raise FormatError(f"there is no section {segment_name},{section_name}", offset=0x20)


def _constants(file: MachO) -> Constants:
    try:
        segment, section = _section(file, *CONSTANT_SECTION)
    except FormatError:
        return b""
    reader = section_data(segment, section)
    return reader.part(0, len(reader), "the constants")


def _kernels(file: MachO, addresses: Sequence[int]) -> dict[int, Constants]:
    """What the kernel DMA reads from sections of its own, by the slot that points to each, in slot order."""
    found: dict[int, Constants] = {}
    for segment in file.segments:
        if not segment.name.startswith(KERNEL_SEGMENTS):
            continue
        if len(segment.sections) != 1 or not segment.sections[0].size:
            raise FormatError(f"segment {segment.name} holds what the kernel DMA reads", offset=segment.offset,
                              expected="one section that is not empty", found=f"{len(segment.sections)} sections")
        section = segment.sections[0]
        slot = addresses.index(section.address) if section.address in addresses else None
        if slot is None or slot in found:
            raise FormatError(f"no slot of its own points to {segment.name}", offset=segment.offset,
                              expected=f"a slot with 0x{section.address:x}", found="none" if slot is None else slot)
        reader = section_data(segment, section)
        found[slot] = reader.part(0, len(reader), "a kernel section")
    return dict(sorted(found.items()))


def _origin(file: MachO) -> dict[str, str]:
    lines = next((c.text.splitlines() for c in file.commands if isinstance(c, Ident)), [])
    compiler = lines[1].strip() if len(lines) > 1 else "unknown"
    return {"container": "hwx", "compiler": compiler}


class _Buffers:
    """Finds what is behind the slots of a program descriptor."""

    def __init__(self, file: MachO, thread: Thread, step: int, limits: Limits) -> None:
        """`step`: bytes from one slot of the descriptor to the next."""
        self._thread, self._step, self._limits = thread, step, limits
        self._segments = [(s, role) for s in file.segments if (role := buffer_role(s))]
        self._names = {s.value: s.name for s in file.symbols
                       if s.type in (EXTERNAL_SYMBOL, SECTION_SYMBOL) and s.name}
        self._names |= {c.address: c.name for c in file.commands if isinstance(c, Library)}
        ports = [read_tensor(c) for c in file.commands if isinstance(c, Thread) and c.flavor == TENSOR]
        self._layouts = {port.name: port.layout for port in ports}
        for name, layout in read_tensors(file.symbols).items():
            interleave = self._layouts.get(name, layout).interleave
            self._layouts[name] = replace(layout, interleave=interleave)

    def read(self, addresses: Sequence[int]) -> tuple[Buffer, ...]:
        """A buffer for every slot that points to one; `addresses` are those of the slots in order."""
        slots = self._limits.slots
        used = [(slot, address) for slot, address in enumerate(addresses)
                if address and slot not in (slots.text, slots.constants)]
        starts = {address: slot for slot, address in used}
        if len(used) != len(starts) or max(starts.values(), default=0) >= slots.count:
            raise self._error(max(starts.values(), default=0), f"different addresses in slots below {slots.count}",
                              "others")
        counts = dict.fromkeys(Role, 0)
        buffers = []
        for address, slot in starts.items():
            segment, role = self._at(address, slot)
            end = segment.sections[0].address + segment.sections[0].size
            following = [a for a in starts if address < a < end]
            name = self._names.get(address) or f"{role.value}{counts[role]}"
            counts[role] += 1
            size = min([*following, end]) - address
            buffers.append(Buffer(name, slot, role, size, self._layout(name, size)))
        self._check_complete(starts)
        return tuple(buffers)

    def _at(self, address: int, slot: int) -> tuple[Segment, Role]:
        for segment, role in self._segments:
            section = segment.sections[0]
            inside = section.address <= address < section.address + section.size
            if inside and segment.vmaddr + segment.vmsize <= self._limits.addresses:
                return segment, role
        raise self._error(slot, "the address of a buffer", hex(address))

    def _layout(self, name: str, size: int) -> Layout | None:
        layout = self._layouts.get(name)
        reason = misfit(layout, size) if layout else ""
        if reason:
            raise FormatError(f"buffer {name}: {reason}", offset=self._thread.offset)
        return layout

    def _check_complete(self, starts: dict[int, int]) -> None:
        for segment, role in self._segments:
            section = segment.sections[0]
            if not any(section.address <= a < section.address + section.size for a in starts):
                raise FormatError(f"no slot points to the {role.value} at 0x{section.address:x}",
                                  offset=self._thread.offset + Thread.STATE)

    def _error(self, slot: int, expected: str, found: str) -> FormatError:
        offset = self._thread.offset + Thread.STATE + self._step * slot
        return FormatError(f"slot {slot} does not point to a buffer", offset=offset, expected=expected, found=found)
