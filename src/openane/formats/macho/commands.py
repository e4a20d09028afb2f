"""Load commands as plain dataclasses, and the structures they have in a file."""

from __future__ import annotations

from collections.abc import Iterator

from openane.formats.reader import ByteReader, Record, text, u8, u16, u32, u64
from openane.record_classes import dataclass

PAGE = 0x4000
SEGMENT, THREAD, IDENT, NOTE, SYMBOLS = 0x19, 0x04, 0x08, 0x31, 0x02
LIBRARY, LIBRARY_64 = 0x06, 0x40
NAME_LIMIT = 4096  # longest symbol or buffer name read; keeps a hostile symbol table from costing its square


@dataclass(frozen=True, eq=False, repr=False)
class MachOHeader(Record):
    """The file header."""

    magic: int = u32()
    cputype: int = u32()
    cpusubtype: int = u32()
    filetype: int = u32()
    ncmds: int = u32()
    sizeofcmds: int = u32()
    flags: int = u32()
    reserved: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class CommandHeader(Record):
    """What every load command begins with."""

    cmd: int = u32()
    cmdsize: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class SegmentRecord(Record):
    """A segment command, before its sections."""

    cmd: int = u32(SEGMENT)
    cmdsize: int = u32()
    name: str = text(16)
    vmaddr: int = u64()
    vmsize: int = u64()
    fileoff: int = u64()
    filesize: int = u64()
    maxprot: int = u32()
    initprot: int = u32()
    nsects: int = u32()
    flags: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class Section(Record):
    """A section. `offset` is its place in the file, filled in when written; 0 for sections without content."""

    name: str = text(16)
    segment: str = text(16)
    address: int = u64()
    size: int = u64()
    offset: int = u32()
    align: int = u32()
    reloff: int = u32()
    nreloc: int = u32()
    flags: int = u32()
    reserved1: int = u32()
    reserved2: int = u32()
    reserved3: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class LibraryRecord(Record):
    """A buffer name with a 32-bit address; `name` is the text's offset in the command."""

    cmd: int = u32(LIBRARY)
    cmdsize: int = u32()
    name: int = u32(0x14)
    minor: int = u32()
    address: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class LibraryRecord64(Record):
    """A buffer name with a 64-bit address."""

    cmd: int = u32(LIBRARY_64)
    cmdsize: int = u32()
    name: int = u32(0x18)
    minor: int = u32()
    address: int = u64()


@dataclass(frozen=True, eq=False, repr=False)
class ThreadRecord(Record):
    """A descriptor command; `count` words of state follow."""

    cmd: int = u32(THREAD)
    cmdsize: int = u32()
    flavor: int = u32()
    count: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class NoteRecord(Record):
    """A note; `offset` counts from the start of the command."""

    cmd: int = u32(NOTE)
    cmdsize: int = u32()
    owner: str = text(16)
    offset: int = u64(0x28)
    size: int = u64()


@dataclass(frozen=True, eq=False, repr=False)
class SymbolsRecord(Record):
    """Where the symbol and string tables lie in the file."""

    cmd: int = u32(SYMBOLS)
    cmdsize: int = u32(24)
    symoff: int = u32()
    nsyms: int = u32()
    stroff: int = u32()
    strsize: int = u32()


@dataclass(frozen=True, eq=False, repr=False)
class SymbolRecord(Record):
    """An entry of the symbol table; `name` is an offset in the string table."""

    name: int = u32()
    type: int = u8()
    section: int = u8()
    description: int = u16()
    value: int = u64()


@dataclass(frozen=True, eq=False, repr=False)
class RelocationRecord(Record):
    """A relocation of a section: the byte of the section to change; `target` is the number of a section or symbol in
    its low 24 bits and says in the high ones how (0x05: a 32-bit word, by the address of the section)."""

    address: int = u32()
    target: int = u32()


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of the virtual address space. `data` is its content in the file, from its first address on; `offset`
    is where that lies in the file it came from."""

    name: str
    vmaddr: int
    vmsize: int
    protection: int = 0
    flags: int = 0
    sections: tuple[Section, ...] = ()
    data: bytes | memoryview = b""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Library:
    """A named address: a buffer bound from outside. `wide`: the 64-bit command 0x40 instead of 0x06."""

    name: str
    address: int
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """A descriptor: 32-bit words of state, then strings. `offset` is the command's place in the file it came from.

    Offsets inside the state count from the start of the command, so `state` begins at 0x10.
    """

    flavor: int
    state: bytes
    strings: bytes
    offset: int = 0

    STATE = 0x10

    def reader(self) -> ByteReader:
        """The command from its state on: offset 0 is byte 0x10 of the command."""
        return ByteReader(self.state + self.strings, base=self.offset + self.STATE)


@dataclass(frozen=True, slots=True)
class Ident:
    """The compiler's identification text."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Data with an owner's name."""

    owner: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of the symbol table. `section` counts all sections of the file from 1; 0 is none."""

    name: str
    type: int
    section: int = 0
    description: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """The symbol table."""

    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A load command this module does not describe: its number and the bytes after number and size."""

    cmd: int
    payload: bytes


Command = Segment | Library | Thread | Ident | Note | SymbolTable | Unknown


@dataclass(frozen=True, slots=True)
class MachO:
    """A whole file."""

    header: MachOHeader
    commands: tuple[Command, ...]

    @property
    def segments(self) -> Iterator[Segment]:
        """The segments in command order."""
        return (command for command in self.commands if isinstance(command, Segment))

    @property
    def symbols(self) -> Iterator[Symbol]:
        """All symbols."""
        return (s for command in self.commands if isinstance(command, SymbolTable) for s in command.symbols)
