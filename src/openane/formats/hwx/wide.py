"""What HWX files hold otherwise from H14 on: the program descriptor (LC_THREAD of flavor 4) and the head of the text.

The text begins with a frame of 16 bytes that is no task; tasks follow at multiples of 16 bytes, each stating its size.
The descriptor's slots are 16 bytes apart, its sizes count words of the whole text. Its form is the one that records of
Apple's compiler for H14 to H18 share; what is called unknown carries the values they have.
"""

from __future__ import annotations

from collections.abc import Mapping

from openane.chips import Chip
from openane.formats.hwx.descriptors import checked_name
from openane.formats.macho import NAME_LIMIT, Thread
from openane.formats.reader import Record, u32, u32s, u64, u64s
from openane.program import Program, Role
from openane.record_classes import dataclass

WIDE_PROGRAM = 4
SLOTS = 128
CYCLES_TAG, LIMIT_TAG = 9, 7
CYCLES, EVENTS = "Header.Cycles.ExeCycles", "Header.DebugLogEvents.Events"
NO_LIMIT = 0x461C4000  # 10000.0


@dataclass(frozen=True, eq=False, repr=False)
class TextHead(Record):
    """The frame a text begins with; where a task states its size it has 0."""

    signature: int = u32(1)
    unknown_4: tuple[int, ...] = u32s(3)


@dataclass(frozen=True, eq=False, repr=False)
class WideDescriptor(Record):
    """State of flavor 4, from byte 0x10 of the command: where slots point, the text and its tasks."""

    slots: tuple[int, ...] = u64s(2 * SLOTS)  # address, 0
    text: int = u64()
    unknown_818: int = u64()
    unknown_820: int = u32(4)
    words: int = u32()
    unknown_828: int = u64()
    tasks: int = u32()
    unknown_834: int = u32()
    unknown_838: int = u64((1 << 64) - 1)
    unknown_840: int = u32()
    unknown_844: int = u32(0xFFFF)
    name: int = u32()
    unknown_84c: tuple[int, ...] = u32s(3)
    scratch: int = u64()          # bytes of scratch; in one recorded program without any those of its input
    events: int = u64()           # how many events all tasks log
    unknown_868: int = u64(4)     # H14 3, H15 5, later 4
    tags: int = u64()


@dataclass(frozen=True, eq=False, repr=False)
class WideTag(Record):
    """A tag: its number, and the bytes of its value."""

    tag: int = u32()
    size: int = u32(8)
    value: int = u64()


@dataclass(frozen=True, slots=True)
class WideProgram:
    """A descriptor read: slot to address, the address of the text, its tasks, the procedure's name."""

    slots: tuple[int, ...]
    text: int
    tasks: int
    name: str


def read_wide_program(thread: Thread) -> WideProgram:
    """The program a flavor-4 descriptor describes."""
    reader = thread.reader()
    record = reader.record(WideDescriptor, 0, "the program descriptor")
    name = reader.string(record.name - Thread.STATE, "a descriptor's name", NAME_LIMIT)
    return WideProgram(record.slots[::2], record.text, record.tasks, name)


def wide_program_thread(program: Program, chip: Chip, slots: Mapping[int, int], text: int) -> Thread:
    """The descriptor of a program whose slots point to `slots` and whose text starts at address `text`."""
    table = [0] * (2 * SLOTS)
    for slot, address in slots.items():
        table[2 * slot] = address
    headers = [chip.decode(task.words).values for task in program.tasks]
    cycles = max(int(values[CYCLES]) for values in headers)
    events = sum(int(values[EVENTS]).bit_count() + chip.facts.task_events for values in headers)
    tags = [WideTag(LIMIT_TAG, value=NO_LIMIT)] if chip.facts.limited else []
    tail = b"".join(tag.pack() for tag in (*tags, WideTag(CYCLES_TAG, value=cycles)))
    record = WideDescriptor(
        slots=tuple(table), text=text, words=len(program.text()) // 4, tasks=len(program.tasks),
        scratch=sum(b.size for b in program.with_role(Role.SCRATCH)), events=events,
        unknown_868=chip.facts.unknown_868, tags=len(tags) + 1,
        name=Thread.STATE + WideDescriptor.byte_size() + len(tail))
    return Thread(WIDE_PROGRAM, record.pack() + tail, checked_name(program.name).encode() + b"\0")


def text_bytes(program: Program, chip: Chip) -> bytes:
    """The text as a file holds it: from H14 on the frame that is no task comes first."""
    text = program.text()
    return text if chip.linked else TextHead().pack() + text[TextHead.byte_size():]


__all__ = ["SLOTS", "WIDE_PROGRAM", "TextHead", "WideDescriptor", "WideProgram", "WideTag", "read_wide_program",
           "text_bytes", "wide_program_thread"]
