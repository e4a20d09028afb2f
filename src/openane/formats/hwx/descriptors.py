"""The program and tensor descriptors of an HWX file: LC_THREAD commands of flavor 1 and 3.

Offsets to strings count from the start of the load command. Constants of the program descriptor without a known
meaning carry the values every file of Apple's has; `0x850` and `0x858` vary (see `ProgramDescriptor`).
"""

from __future__ import annotations

from openane.engine import DType
from openane.errors import ProgramError
from openane.formats.macho import NAME_LIMIT, Thread
from openane.formats.reader import ByteReader, Record, u32, u32s, u64, u64s
from openane.program import Buffer, Layout, Program, Role
from openane.record_classes import dataclass

PROGRAM, TENSOR = 1, 3
SLOTS = 256
TENSOR_STATE_WORDS = 0x34A  # zin 5 and later; 4 has 0x1e, the words between are zero
ELEMENT_TYPES = {DType.INT8: 2, DType.UINT8: 3, DType.FLOAT16: 5}  # also the type numbers of the symbol table
BINDINGS = {Role.INPUT: 1, Role.OUTPUT: 2, Role.STATE: 3}
OUTPUT_SUFFIX = "@output"
LONGEST_NAME = NAME_LIMIT // 2  # leaves room for the tensor stab around it


@dataclass(frozen=True, eq=False, repr=False)
class ProgramDescriptor(Record):
    """State of flavor 1, from byte 0x10 of the command: where slots point, where tasks start and how many there are."""

    slots: tuple[int, ...] = u64s(SLOTS)
    first_task: int = u64()
    first_task_words: int = u32()  # minus one
    tasks: int = u32()
    unknown_820: int = u32()
    unknown_824: int = u32(0xFFFF)
    unknown_828: tuple[int, ...] = u32s(5)
    name: int = u32()
    unknown_840: tuple[int, ...] = u32s(4)
    unknown_850: int = u32(0x11)  # 0x11 for programs of one task, 0x07 for one of two, 0x17 with debug information
    unknown_854: int = u32()
    unknown_858: int = u32(4)     # 3 for programs of one task of zin 4 and 5, otherwise 4
    unknown_85c: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class Tag(Record):
    """Tag records end the state from zin 7 on: their number, then tag, size and that many bytes each."""

    count: int = u64(1)
    tag: int = u32(9)
    size: int = u32(8)
    value: int = u64()


@dataclass(frozen=True, eq=False, repr=False)
class TensorDescriptor(Record):
    """State of flavor 3, from byte 0x10 of the command: one port's shape and strides."""

    kind: int = u32(TENSOR)
    binding: int = u32()
    procedure: int = u32()
    unknown_1c: int = u32()
    symbol: int = u32()
    element_type: int = u32()
    n: int = u32()
    c: int = u32()
    h: int = u32()
    w: int = u32()
    d: int = u32()
    unknown_3c: tuple[int, ...] = u32s(5)
    batch_stride: int = u64()
    plane_stride: int = u64()
    row_stride: int = u64()
    element_size: int = u64()
    total: int = u64()
    interleave: int = u32(1)
    name: int = u32()
    used: int = u64()


@dataclass(frozen=True, slots=True)
class TensorPort:
    """A tensor descriptor read: the buffer it belongs to and how the tensor lies in it."""

    name: str
    layout: Layout


def read_program(thread: Thread) -> tuple[ProgramDescriptor, str]:
    """The descriptor and the procedure's name."""
    reader = thread.reader()
    descriptor = reader.record(ProgramDescriptor, 0, "the program descriptor")
    return descriptor, _string(reader, descriptor.name)


def read_tensor(thread: Thread) -> TensorPort:
    """The port a flavor-3 descriptor describes. FormatError when its type or extents are none."""
    reader = thread.reader()
    record = reader.record(TensorDescriptor, 0, "a tensor descriptor")
    return TensorPort(_string(reader, record.name), _layout(reader, record))


def program_thread(program: Program, slots: dict[int, int], text: int, tags: bool) -> Thread:
    """The descriptor of a program whose slots point to `slots` and whose text starts at address `text`."""
    table = [0] * SLOTS
    for slot, address in slots.items():
        table[slot] = address
    first = program.tasks[0]
    tail = Tag().pack() if tags else b""
    single = len(program.tasks) == 1
    descriptor = ProgramDescriptor(
        slots=tuple(table), first_task=text + first.offset, first_task_words=len(first.words) - 1,
        tasks=len(program.tasks), unknown_850=0x11 if single else 0x07, unknown_858=3 if single and not tags else 4,
        name=Thread.STATE + ProgramDescriptor.byte_size() + len(tail))
    return Thread(PROGRAM, descriptor.pack() + tail, _strings(program.name))


def tensor_thread(program: Program, buffer: Buffer) -> Thread:
    """The descriptor of a port with a layout."""
    layout = buffer.layout
    if layout is None:
        raise ProgramError(f"buffer {buffer.name!r} has no layout to describe")
    n, c, d, h, w = layout.shape
    symbol = buffer.name
    if buffer.role is Role.OUTPUT and not symbol.endswith(OUTPUT_SUFFIX):
        symbol += OUTPUT_SUFFIX
    start = Thread.STATE + 4 * TENSOR_STATE_WORDS
    strings = [_strings(program.name), _strings(symbol), _strings(buffer.name)]
    record = TensorDescriptor(
        binding=BINDINGS[buffer.role], procedure=start, symbol=start + len(strings[0]),
        element_type=ELEMENT_TYPES[layout.dtype], n=n, c=c, h=h, w=w, d=d, batch_stride=layout.strides[0],
        plane_stride=layout.strides[1], row_stride=layout.strides[3], element_size=layout.strides[4],
        total=layout.size, interleave=layout.interleave, name=start + len(strings[0]) + len(strings[1]),
        used=layout.size)
    return Thread(TENSOR, record.pack().ljust(4 * TENSOR_STATE_WORDS, b"\0"), b"".join(strings))


def checked_name(value: str) -> str:
    """The name, when a file can hold it. ProgramError otherwise."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ProgramError(f"the name {value!r} cannot be written as UTF-8") from None
    if not value or "\0" in value or size > LONGEST_NAME:
        raise ProgramError(f"the name {value[:40]!r} must have 1 to {LONGEST_NAME} bytes, none of them NUL")
    return value


def element_type(number: int) -> DType | None:
    """The element type with this number; None for those the engine does not move."""
    return next((dtype for dtype, code in ELEMENT_TYPES.items() if code == number), None)


def _layout(reader: ByteReader, record: TensorDescriptor) -> Layout:
    dtype = element_type(record.element_type)
    if dtype is None:
        raise reader.error(0x24 - Thread.STATE, "an element type the engine does not move",
                           expected=", ".join(f"{n} ({d.value})" for d, n in ELEMENT_TYPES.items()),
                           found=record.element_type)
    depth = record.batch_stride if record.d == 1 else record.plane_stride * record.c
    strides = (record.batch_stride, record.plane_stride, depth, record.row_stride, record.element_size)
    return Layout((record.n, record.c, record.d, record.h, record.w), strides, dtype, record.interleave)


def _string(reader: ByteReader, offset: int) -> str:
    return reader.string(offset - Thread.STATE, "a descriptor's name", NAME_LIMIT)


def _strings(value: str) -> bytes:
    return checked_name(value).encode() + b"\0"
