"""Bytes to load commands, every offset and count checked before it is used."""

from __future__ import annotations

from openane.errors import FormatError
from openane.formats.macho.commands import (
    IDENT,
    LIBRARY,
    LIBRARY_64,
    NAME_LIMIT,
    NOTE,
    SEGMENT,
    SYMBOLS,
    THREAD,
    Command,
    CommandHeader,
    Ident,
    Library,
    LibraryRecord,
    LibraryRecord64,
    MachO,
    MachOHeader,
    Note,
    NoteRecord,
    Section,
    Segment,
    SegmentRecord,
    Symbol,
    SymbolRecord,
    SymbolsRecord,
    SymbolTable,
    Thread,
    ThreadRecord,
    Unknown,
)
from openane.formats.reader import ByteReader, Bytes


def read_macho(data: Bytes, magic: int) -> MachO:
    """Reads header, commands, symbols and segment contents. FormatError names the byte that breaks the format."""
    file = ByteReader(data)
    header = file.record(MachOHeader, 0, "the file header")
    if header.magic != magic:
        raise file.error(0, "wrong magic number", expected=hex(magic), found=hex(header.magic))
    area = file.window(MachOHeader.byte_size(), header.sizeofcmds, "the load commands")
    if header.ncmds * CommandHeader.byte_size() > len(area):
        raise file.error(0x10, "more load commands than their space holds",
                         expected=f"at most {len(area) // CommandHeader.byte_size()}", found=header.ncmds)
    commands: list[Command] = []
    offset = 0
    for _ in range(header.ncmds):
        entry = area.record(CommandHeader, offset, "a load command")
        if entry.cmdsize < CommandHeader.byte_size() or entry.cmdsize % 4:
            raise area.error(offset + 4, "a load command has an impossible size",
                             expected="at least 8, a multiple of 4", found=entry.cmdsize)
        commands.append(_read_command(file, area.window(offset, entry.cmdsize, "a load command"), entry.cmd))
        offset += entry.cmdsize
    return MachO(header, tuple(commands))


def _read_command(file: ByteReader, command: ByteReader, cmd: int) -> Command:
    if cmd == SEGMENT:
        return _read_segment(file, command)
    if cmd in (LIBRARY, LIBRARY_64):
        kind: type[LibraryRecord | LibraryRecord64] = LibraryRecord if cmd == LIBRARY else LibraryRecord64
        record = command.record(kind, 0, "a buffer name")
        name = command.string(record.name, "a buffer name", NAME_LIMIT)
        return Library(name, record.address, cmd == LIBRARY_64)
    if cmd == THREAD:
        thread = command.record(ThreadRecord, 0, "a descriptor")
        state = command.take(Thread.STATE, 4 * thread.count, "a descriptor's state")
        start = Thread.STATE + len(state)
        return Thread(thread.flavor, state, command.take(start, len(command) - start, "strings"), command.start)
    if cmd == IDENT:
        return Ident(command.string(CommandHeader.byte_size(), "the identification"))
    if cmd == NOTE:
        note = command.record(NoteRecord, 0, "a note")
        return Note(note.owner, command.take(note.offset, note.size, "a note's data"))
    if cmd == SYMBOLS:
        return _read_symbols(file, command.record(SymbolsRecord, 0, "the symbol table"))
    start = CommandHeader.byte_size()
    return Unknown(cmd, command.take(start, len(command) - start, "a load command"))


def _read_segment(file: ByteReader, command: ByteReader) -> Segment:
    record = command.record(SegmentRecord, 0, "a segment")
    start = SegmentRecord.byte_size()
    command.check(start, record.nsects * Section.byte_size(), f"segment {record.name}: the sections")
    count = range(record.nsects)
    sections = tuple(command.record(Section, start + i * Section.byte_size(), "a section") for i in count)
    what = f"segment {record.name}: the content"
    data = file.part(record.fileoff, record.filesize, what) if record.filesize else b""
    if record.filesize > record.vmsize:
        raise command.error(0x30, f"segment {record.name} has more content than addresses",
                            expected=f"at most 0x{record.vmsize:x}", found=hex(record.filesize))
    for section in sections:
        low, high = record.vmaddr, record.vmaddr + record.vmsize
        if not low <= section.address <= section.address + section.size <= high:
            raise command.error(start, f"section {section.name} lies outside segment {record.name}",
                                expected=f"0x{low:x} to 0x{high:x}",
                                found=f"0x{section.address:x} to 0x{section.address + section.size:x}")
    return Segment(record.name, record.vmaddr, record.vmsize, record.initprot, record.flags, sections, data,
                   record.fileoff)


def _read_symbols(file: ByteReader, record: SymbolsRecord) -> SymbolTable:
    table = file.window(record.symoff, record.nsyms * SymbolRecord.byte_size(), "the symbol table")
    strings = file.window(record.stroff, record.strsize, "the string table")
    symbols = []
    for offset in range(0, len(table), SymbolRecord.byte_size()):
        entry = table.record(SymbolRecord, offset, "a symbol")
        name = strings.string(entry.name, "a symbol's name", NAME_LIMIT) if entry.name else ""
        symbols.append(Symbol(name, entry.type, entry.section, entry.description, entry.value))
    return SymbolTable(tuple(symbols))


def section_data(segment: Segment, section: Section) -> ByteReader:
    """The content of a section. FormatError when the file does not hold all of it."""
    start = section.address - segment.vmaddr
    found = len(segment.data) - start
    if found < section.size:
        raise FormatError(f"section {section.name} is not in the file", offset=segment.offset + len(segment.data),
                          expected=f"{section.size} bytes", found=f"{max(found, 0)} bytes")
    return ByteReader(segment.data, start, start + section.size, segment.offset)
