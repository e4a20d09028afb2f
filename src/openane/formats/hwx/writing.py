"""Writing HWX: from a Program to load commands, in one of two file layouts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openane.chips import Chip, get_chip
from openane.errors import ProgramError
from openane.formats.hwx.descriptors import checked_name, program_thread, tensor_thread
from openane.formats.hwx.image import (
    BASE,
    CPU_TYPE,
    FILE_TYPE,
    FIXED,
    FLAGS,
    LAYOUTS,
    MAGIC,
    FileLayout,
    buffer_segment,
    kernel_segment,
    text_segment,
)
from openane.formats.hwx.symbols import EXTERNAL_SYMBOL, SECTION_SYMBOL, tensor_symbols, type_symbols
from openane.formats.hwx.wide import text_bytes, wide_program_thread
from openane.formats.macho import (
    PAGE,
    Command,
    Ident,
    Library,
    MachO,
    MachOHeader,
    Segment,
    Symbol,
    SymbolTable,
    write_macho,
)
from openane.formats.tasks import (
    STAND_IN,
    check_buffers,
    check_tasks,
    dense_layout,
    for_driver,
    padded_constants,
)
from openane.program import Buffer, Constants, Program, Role
from openane.version import __version__

CONVERTIBLE_WORDS = 157
_CONVERTIBLE = re.compile(r"[ -9;-~]+")  # printable ASCII without the colon that ends a stab's name


def write_hwx(program: Program, layout: str = "macos26") -> bytes:
    """A complete HWX file.

    `macos26` arranges the file as Apple's current compiler does and keeps tasks and slots as they are: reading it back
    gives an equal program. `compat` is what the Linux driver's converter (`anecc`) and older readers take: tasks of
    0x274 bytes with the full kernel-DMA record, outputs in the first slots, text first; slots are renumbered and
    constants padded to 16 bytes. ProgramError when the program cannot be expressed.
    """
    if layout not in LAYOUTS:
        raise ProgramError(f"layout is {layout!r}; {' or '.join(LAYOUTS)} can be written")
    arrangement = LAYOUTS[layout]
    if layout == "compat":
        program = _convertible(program)
    chip = get_chip(program.chip)
    check_tasks(chip, program.tasks)
    check_buffers(program)
    slots = chip.limits.slots
    own = program.constants_of(slots.constants)
    constants = padded_constants(own) if layout == "compat" else own or STAND_IN
    segments, buffers = _segments(program, text_bytes(program, chip), arrangement, constants)
    addresses = {b.slot: s.vmaddr for s, b in zip(segments, buffers, strict=True) if b}
    text = next(s for s, b in zip(segments, buffers, strict=True) if b is None)
    addresses |= {slots.text: text.vmaddr, slots.constants: text.sections[1].address}
    for slot in [slot for slot in program.constant_ranges if slot != slots.constants]:
        address = segments[-1].vmaddr + segments[-1].vmsize
        segments.append(kernel_segment(len(segments) - len(buffers), program.constants_of(slot), address))
        addresses[slot] = address
    if segments[-1].vmaddr + segments[-1].vmsize > chip.limits.addresses:
        raise ProgramError("the buffers do not fit the engine's addresses")
    commands = _commands(program, chip, arrangement, segments, buffers, addresses)
    header = MachOHeader(MAGIC, CPU_TYPE, chip.facts.subtype, FILE_TYPE, flags=FLAGS)
    return write_macho(MachO(header, tuple(commands)))


def _commands(program: Program, chip: Chip, arrangement: FileLayout, segments: Sequence[Segment],
              buffers: Sequence[Buffer | None], addresses: dict[int, int]) -> list[Command]:
    """Load commands of a file; `addresses` of its buffers, tasks and constants by slot."""
    start = addresses[chip.limits.slots.text]
    ports = [b for b in buffers if b and b.role is not Role.SCRATCH]
    commands: list[Command] = [Segment("__PAGEZERO", 0, PAGE, 0, FIXED), *segments]
    commands += [Library(checked_name(b.name), addresses[b.slot], arrangement.wide_names) for b in ports]
    commands.append(program_thread(program, addresses, start, arrangement.tags) if chip.linked
                    else wide_program_thread(program, chip, addresses, start))
    commands += [tensor_thread(program, b) for b in sorted(ports, key=lambda b: b.name) if b.layout]
    commands.append(Ident(f"ANEC v1\nopenane v{__version__}\n\t-t {program.chip}\n"))
    commands.append(SymbolTable(tuple(_symbols(segments[:len(buffers)], buffers, arrangement))))
    return commands


def _segments(program: Program, text: bytes, layout: FileLayout,
              constants: Constants) -> tuple[list[Segment], list[Buffer | None]]:
    """The segments back to back, each with its buffer (None: the text).

    Apple's current compiler puts scratch first, then ports by slot, then the text. The driver's converter wants the
    text first, and inputs before outputs whatever their slots.
    """
    scratch = list(program.with_role(Role.SCRATCH))
    ports = list(program.with_role(Role.INPUT, Role.OUTPUT, Role.STATE))
    order: list[Buffer | None] = [*scratch, *ports, None]
    if layout.text_first:
        order = [None, *scratch, *program.inputs, *program.outputs]
    segments: list[Segment] = []
    address = BASE
    for buffer in order:
        segment = buffer_segment(buffer, address) if buffer else text_segment(text, constants, address)
        segments.append(segment)
        address += segment.vmsize
    return segments, order


def _symbols(segments: Sequence[Segment], buffers: Sequence[Buffer | None], layout: FileLayout) -> list[Symbol]:
    """Buffers (inputs, states, outputs, scratch), types, tensors."""
    ordinal = 1
    rows: list[tuple[int, Buffer, Symbol]] = []
    order = {Role.INPUT: 0, Role.STATE: 1, Role.OUTPUT: 2, Role.SCRATCH: 3}
    for segment, buffer in zip(segments, buffers, strict=True):
        if buffer:
            kind = SECTION_SYMBOL if buffer.role is Role.SCRATCH else EXTERNAL_SYMBOL
            description = layout.input_description if buffer.role is Role.INPUT else 0
            symbol = Symbol(checked_name(buffer.name), kind, ordinal, description, segment.vmaddr)
            rows.append((order[buffer.role], buffer, symbol))
        ordinal += len(segment.sections)
    rows.sort(key=lambda row: row[0])
    symbols = [symbol for _, _, symbol in rows]
    described = [b for _, b, _ in rows if not (layout.text_first and b.role is Role.SCRATCH)]
    symbols += type_symbols(layout.types)
    return symbols + list(tensor_symbols(described, layout.types + 1))


def _convertible(program: Program) -> Program:
    """The program in the driver's slots, when its converter can take it. ProgramError names what it cannot."""
    program = for_driver(program)
    if len(program.with_role(Role.SCRATCH)) > 1:
        raise ProgramError("the driver's converter takes one scratch buffer; write ANEC or layout='macos26' instead")
    if not program.inputs or not program.outputs:
        raise ProgramError("the driver's converter wants at least one input and one output")
    if len(program.tasks[0].words) != CONVERTIBLE_WORDS:
        raise ProgramError(f"the driver's converter wants a first task of {CONVERTIBLE_WORDS} words", task=0)
    limits = get_chip(program.chip).limits
    for buffer in (*program.inputs, *program.outputs):
        layout = dense_layout(buffer)
        _, _, _, h, w = layout.shape
        row = limits.memory_row(layout.dtype.size * w)
        if layout.strides[3] != row or layout.strides[1] != row * h:
            raise ProgramError(f"buffer {buffer.name!r}: the driver's converter wants rows of {row} bytes and planes "
                               f"of {row * h}, not {layout.strides[3]} and {layout.strides[1]}")
        if not _CONVERTIBLE.fullmatch(buffer.name):
            raise ProgramError(f"buffer {buffer.name!r}: the driver's converter reads names of printable ASCII without "
                               "colons; rename it or use layout='macos26'")
        if "ctx_" in buffer.name and len(program.inputs) > 1:
            raise ProgramError(f"buffer {buffer.name!r}: the driver's converter takes 'ctx_' for the mark of an "
                               "unresolved layer; rename it or use layout='macos26'")
    return program
