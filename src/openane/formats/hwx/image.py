"""What the numbers in an HWX file mean: header values, protections, section kinds, address layout.

Buffers are segments without content whose protection says who may do what: 1 an input, 2 an output, 3 scratch; bit 1
of the flags marks a segment bound from outside. A state, bound from outside and both read and written, is written as
protection 3 with that bit; no file of Apple's with one was seen. Segments lie back to back from 0x30000000 on, those of
what the kernel DMA reads (`__KERN_0` and on) behind the text.
"""

from __future__ import annotations

from openane.formats.macho import PAGE, Section, Segment
from openane.program import Buffer, Constants, Role
from openane.record_classes import dataclass
from openane.rounding import round_up

MAGIC = 0xBEEFFACE
CPU_TYPE, FILE_TYPE, FLAGS = 0x80, 2, 0x200000
BASE = 0x30000000

EXTERNAL, FIXED = 0x2, 0x4  # segment flags: bound from outside; without relocations
READABLE, WRITABLE = 0x1, 0x2
TEXT_PROTECTION = 5
TEXT_SECTION = ("__TEXT", "__text")
CONSTANT_SECTION = ("__TEXT", "__const")
KERNEL_SEGMENTS, KERNEL_SECTIONS = "__KERN_", "__kern_"  # and their number; from H16 on
SECTION_ALIGNMENT = 14      # 2^14
CONSTANT_ALIGNMENT = 6      # 2^6
TEXT_FLAGS, CONSTANT_FLAGS, INPUT_FLAGS, OUTPUT_FLAGS, SCRATCH_FLAGS = 0x28, 0x26, 0x21, 0x23, 0x01


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How one family of compilers arranges a file.

    `text_first`: text before the buffers, otherwise scratch, ports in slot order, text. `wide_names`: command 0x40
    instead of 0x06. `types`: how many type symbols. `tags`: the program descriptor ends with tag records.
    `input_description`: nlist description of inputs.
    """

    text_first: bool
    wide_names: bool
    types: int
    tags: bool
    input_description: int


LAYOUTS = {
    # zin 9 (macOS 26), compiled without debug information
    "macos26": FileLayout(text_first=False, wide_names=True, types=23, tags=True, input_description=0),
    # zin 5, the newest that the driver's converter reads without swapping inputs and outputs
    "compat": FileLayout(text_first=True, wide_names=False, types=15, tags=False, input_description=2),
}


def buffer_segment(buffer: Buffer, address: int) -> Segment:
    """The segment that stands for a buffer."""
    name, section, protection, flags, kind = {
        Role.INPUT: ("__FVMLIB", "__const", READABLE, EXTERNAL | FIXED, INPUT_FLAGS),
        Role.OUTPUT: ("__FVMLIB", "__data", WRITABLE, EXTERNAL | FIXED, OUTPUT_FLAGS),
        Role.STATE: ("__FVMLIB", "__data", READABLE | WRITABLE, EXTERNAL | FIXED, OUTPUT_FLAGS),
        Role.SCRATCH: ("__DATA", "__bss", READABLE | WRITABLE, FIXED, SCRATCH_FLAGS),
    }[buffer.role]
    part = Section(section, name, address, buffer.size, align=SECTION_ALIGNMENT, flags=kind)
    return Segment(name, address, round_up(buffer.size, PAGE), protection, flags, (part,))


def buffer_role(segment: Segment) -> Role | None:
    """What a segment stands for; None when it is no buffer."""
    if not segment.sections or segment.data:
        return None
    if segment.protection == READABLE | WRITABLE:
        return Role.STATE if segment.flags & EXTERNAL else Role.SCRATCH
    if not segment.flags & EXTERNAL:
        return None
    return {READABLE: Role.INPUT, WRITABLE: Role.OUTPUT}.get(segment.protection)


def text_segment(text: bytes, constants: Constants, address: int) -> Segment:
    """Tasks and, at the next multiple of 64, constants."""
    start = round_up(len(text), 1 << CONSTANT_ALIGNMENT)
    data = text.ljust(start, b"\0") + constants
    sections = (
        Section(TEXT_SECTION[1], TEXT_SECTION[0], address, len(text), align=SECTION_ALIGNMENT, flags=TEXT_FLAGS),
        Section(CONSTANT_SECTION[1], CONSTANT_SECTION[0], address + start, len(constants), align=CONSTANT_ALIGNMENT,
                flags=CONSTANT_FLAGS))
    return Segment("__TEXT", address, round_up(len(data), PAGE), TEXT_PROTECTION, FIXED, sections, data)


def kernel_segment(number: int, data: Constants, address: int) -> Segment:
    """What the kernel DMA reads through a slot of its own."""
    name = f"{KERNEL_SEGMENTS}{number}"
    part = Section(f"{KERNEL_SECTIONS}{number}", name, address, len(data), align=CONSTANT_ALIGNMENT,
                   flags=CONSTANT_FLAGS)
    return Segment(name, address, round_up(len(data), PAGE), READABLE, FIXED, (part,), bytes(data))
