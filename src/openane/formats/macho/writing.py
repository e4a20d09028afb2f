"""Load commands to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openane.errors import ProgramError
from openane.formats.macho.commands import (
    IDENT,
    PAGE,
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
)
from openane.rounding import round_up


def write_macho(file: MachO) -> bytes:
    """The bytes. Command counts and sizes, file offsets and the string table are worked out here; segment contents
    start at multiples of 0x4000 in command order. ProgramError when a value does not fit its field."""
    sizes = [len(_write_command(command, 0, 0)) for command in file.commands]
    start = MachOHeader.byte_size() + sum(sizes)
    table, strings = _symbol_tables([s for c in file.commands if isinstance(c, SymbolTable) for s in c.symbols])
    position = round_up(start + len(table) + len(strings), PAGE)
    body: list[bytes] = []
    contents: list[bytes | memoryview] = []
    for command in file.commands:
        content = command.data if isinstance(command, Segment) else b""
        body.append(_write_command(command, position if content else 0, start))
        if content:
            padding = -len(content) % PAGE
            contents += [content, bytes(padding)]
            position += len(content) + padding
    header = replace(file.header, ncmds=len(body), sizeofcmds=sum(sizes)).pack()
    front = b"".join((header, *body, table, strings))
    return b"".join((front.ljust(round_up(len(front), PAGE), b"\0"), *contents))


def _write_command(command: Command, position: int, symbols: int) -> bytes:
    """One load command. `position` is where its segment's content goes, `symbols` where the symbol table goes."""
    if isinstance(command, Segment):
        return _write_segment(command, position)
    if isinstance(command, Library):
        kind = LibraryRecord64 if command.wide else LibraryRecord
        return _sized(kind(address=command.address), _text(command.name))
    if isinstance(command, Thread):
        record = ThreadRecord(flavor=command.flavor, count=len(command.state) // 4)
        return _sized(record, command.state + command.strings)
    if isinstance(command, Ident):
        return _sized(CommandHeader(cmd=IDENT), _text(command.text))
    if isinstance(command, Note):
        return _sized(NoteRecord(owner=command.owner, size=len(command.data)), command.data)
    if isinstance(command, SymbolTable):
        table, strings = _symbol_tables(command.symbols)
        return SymbolsRecord(symoff=symbols, nsyms=len(command.symbols), stroff=symbols + len(table),
                              strsize=len(strings)).pack()
    return _sized(CommandHeader(cmd=command.cmd), command.payload)


def _write_segment(segment: Segment, position: int) -> bytes:
    size = SegmentRecord.byte_size() + len(segment.sections) * Section.byte_size()
    record = SegmentRecord(cmdsize=size, name=segment.name, vmaddr=segment.vmaddr, vmsize=segment.vmsize,
                            fileoff=position, filesize=round_up(len(segment.data), PAGE),
                            maxprot=segment.protection, initprot=segment.protection,
                            nsects=len(segment.sections), flags=segment.flags)
    sections = [replace(s, offset=position + s.address - segment.vmaddr if segment.data else 0)
                for s in segment.sections]
    return record.pack() + b"".join(s.pack() for s in sections)


def _sized(record: CommandHeader | LibraryRecord | LibraryRecord64 | ThreadRecord | NoteRecord,
           payload: bytes) -> bytes:
    size = round_up(record.byte_size() + len(payload), 8)
    return (replace(record, cmdsize=size).pack() + payload).ljust(size, b"\0")


def _symbol_tables(symbols: Sequence[Symbol]) -> tuple[bytes, bytes]:
    """The symbol table and its strings; the string table starts with NUL, the name of the nameless."""
    strings = bytearray(1)
    table = []
    for symbol in symbols:
        place = len(strings) if symbol.name else 0
        table.append(SymbolRecord(place, symbol.type, symbol.section, symbol.description, symbol.value).pack())
        if symbol.name:
            strings += _text(symbol.name)
    return b"".join(table), bytes(strings)


def _text(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise ProgramError(f"{value!r} cannot be written as UTF-8") from None
    if b"\0" in data:
        raise ProgramError(f"{value!r} holds a NUL character, which ends names in this format")
    return data + b"\0"
