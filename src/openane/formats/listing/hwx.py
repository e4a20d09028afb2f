"""Items of an HWX file: what each of its bytes is, as far as it is described.

Unlike the reader, which refuses a file that breaks the format, this goes on: what cannot be described stays a gap, and
the listing shows gaps as bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from openane.chips import Chip, described_generations, generation_of, get_chip
from openane.errors import AneError, FormatError
from openane.formats.hwx.descriptors import PROGRAM, TENSOR, ProgramDescriptor, Tag, TensorDescriptor
from openane.formats.hwx.image import CONSTANT_SECTION, KERNEL_SEGMENTS, TEXT_SECTION
from openane.formats.hwx.wide import WIDE_PROGRAM, TextHead, WideDescriptor, WideTag
from openane.formats.listing.claims import Claims
from openane.formats.macho.commands import (
    IDENT,
    LIBRARY,
    LIBRARY_64,
    NAME_LIMIT,
    NOTE,
    SEGMENT,
    SYMBOLS,
    THREAD,
    CommandHeader,
    LibraryRecord,
    LibraryRecord64,
    MachOHeader,
    NoteRecord,
    RelocationRecord,
    Section,
    SegmentRecord,
    SymbolRecord,
    SymbolsRecord,
    ThreadRecord,
)
from openane.formats.reader import ByteReader
from openane.rounding import round_up

LARGEST_IDENT = 1 << 16
MOST_ENTRIES = 1 << 16  # of a table; the rest of a longer table is shown as bytes


def generation(data: bytes) -> str:
    """The generation a file's header names; a number where openane has no name for it."""
    number = ByteReader(data).record(MachOHeader, 0, "the file header").cpusubtype
    return generation_of(number) or f"subtype{number}"


def chip_of(name: str) -> Chip | None:
    """The generation's tables, when there are any."""
    return get_chip(name) if name in described_generations() else None


def claim_hwx(claims: Claims) -> None:
    """Claims everything in the file that can be described. FormatError when not even the header is there."""
    file = ByteReader(claims.data)
    header = file.record(MachOHeader, 0, "the file header")
    claims.record("macho", 0, MachOHeader)
    walk = _Walk(claims, file)
    offset = MachOHeader.byte_size()
    for _ in range(min(header.ncmds, len(file) // CommandHeader.byte_size())):
        try:
            entry = file.record(CommandHeader, offset, "a load command")
            command = file.window(offset, max(entry.cmdsize, CommandHeader.byte_size()), "a load command")
        except FormatError:
            break
        with contextlib.suppress(FormatError):
            walk.command(command, entry.cmd)
        offset += len(command)
    walk.tasks()


class _Walk:
    """One pass over the load commands."""

    def __init__(self, claims: Claims, file: ByteReader) -> None:
        self._claims, self._file = claims, file
        self._text: tuple[SegmentRecord, Section] | None = None
        self._constants: tuple[SegmentRecord, Section] | None = None
        self._kernels: list[tuple[SegmentRecord, Section]] = []
        self._others: list[tuple[SegmentRecord, Section]] = []
        self._program: ProgramDescriptor | None = None
        self._framed = False

    def command(self, command: ByteReader, cmd: int) -> None:
        """Claims one load command and what it points to. FormatError where it leads nowhere."""
        at = command.start
        if cmd == SEGMENT:
            self._segment(command)
        elif cmd in (LIBRARY, LIBRARY_64):
            kind: type[LibraryRecord | LibraryRecord64] = LibraryRecord if cmd == LIBRARY else LibraryRecord64
            record = command.record(kind, 0, "a buffer name")
            self._claims.record("buffer" if cmd == LIBRARY else "buffer64", at, kind, "name of a buffer")
            self._claims.string(command, record.name)
        elif cmd == THREAD:
            self._thread(command)
        elif cmd == IDENT:
            self._claims.record("command", at, CommandHeader, "identification of the compiler")
            self._claims.string(command, CommandHeader.byte_size(), LARGEST_IDENT)
        elif cmd == NOTE:
            note = command.record(NoteRecord, 0, "a note")
            self._claims.record("note", at, NoteRecord)
            self._claims.data_item(command.window(note.offset, note.size, "a note's data"), "data of the note")
        elif cmd == SYMBOLS:
            self._symbols(command)
        else:
            self._claims.record("command", at, CommandHeader, "not described")

    def _segment(self, command: ByteReader) -> None:
        record = command.record(SegmentRecord, 0, "a segment")
        self._claims.record("segment", command.start, SegmentRecord)
        offset = SegmentRecord.byte_size()
        for _ in range(min(record.nsects, len(command) // Section.byte_size())):
            section = command.record(Section, offset, "a section")
            self._claims.record("section", command.start + offset, Section)
            names = (record.name, section.name)
            if names == TEXT_SECTION and self._text is None:
                self._text = record, section
            elif names == CONSTANT_SECTION and self._constants is None:
                self._constants = record, section
            elif record.name.startswith(KERNEL_SEGMENTS):
                self._kernels.append((record, section))
            else:
                self._others.append((record, section))
            self._relocations(section)
            offset += Section.byte_size()

    def _relocations(self, section: Section) -> None:
        size = RelocationRecord.byte_size()
        for index in range(min(section.nreloc, len(self._file) // size, MOST_ENTRIES)):
            self._claims.record("relocation", section.reloff + index * size, RelocationRecord, inline=True)

    def _thread(self, command: ByteReader) -> None:
        thread = command.record(ThreadRecord, 0, "a descriptor")
        titles = dict.fromkeys((PROGRAM, WIDE_PROGRAM), "the program descriptor") | {TENSOR: "a tensor descriptor"}
        self._claims.record("thread", command.start, ThreadRecord, titles.get(thread.flavor, "not described"))
        start = ThreadRecord.byte_size()
        end = start + 4 * thread.count
        if thread.flavor == PROGRAM:
            program = command.record(ProgramDescriptor, start, "the program descriptor")
            self._claims.record("program", command.start + start, ProgramDescriptor)
            if end == start + ProgramDescriptor.byte_size() + Tag.byte_size():
                self._claims.record("tag", command.start + start + ProgramDescriptor.byte_size(), Tag)
            self._program = self._program or program
            self._claims.string(command, program.name)
        elif thread.flavor == WIDE_PROGRAM:
            self._wide_program(command, start, end)
        elif thread.flavor == TENSOR:
            tensor = command.record(TensorDescriptor, start, "a tensor descriptor")
            self._claims.record("tensor", command.start + start, TensorDescriptor)
            for name in (tensor.procedure, tensor.symbol, tensor.name):
                self._claims.string(command, name)

    def _wide_program(self, command: ByteReader, start: int, end: int) -> None:
        program = command.record(WideDescriptor, start, "the program descriptor")
        self._claims.record("program4", command.start + start, WideDescriptor)
        last = min(end, len(command)) - WideTag.byte_size()  # the stated end may lie far behind the command's
        for offset in range(start + WideDescriptor.byte_size(), last + 1, WideTag.byte_size()):
            self._claims.record("tag4", command.start + offset, WideTag)
        self._framed = True
        self._claims.string(command, program.name)

    def _symbols(self, command: ByteReader) -> None:
        record = command.record(SymbolsRecord, 0, "the symbol table")
        self._claims.record("symbols", command.start, SymbolsRecord)
        table = self._file.window(record.symoff, record.nsyms * SymbolRecord.byte_size(), "the symbol table")
        strings = self._file.window(record.stroff, record.strsize, "the string table")
        if not self._claims.free(table.start, table.end):
            return
        for offset in range(0, min(len(table), MOST_ENTRIES * SymbolRecord.byte_size()), SymbolRecord.byte_size()):
            symbol = table.record(SymbolRecord, offset, "a symbol")
            name = ""
            with contextlib.suppress(FormatError):
                name = strings.string(symbol.name, "a symbol's name", NAME_LIMIT) if symbol.name else ""
            self._claims.record("symbol", table.start + offset, SymbolRecord, name, inline=True)
        self._claims.text(strings, "names of the symbols")

    def tasks(self) -> None:
        """Claims task descriptors, constants and what other sections hold, once all commands are known."""
        for place in (self._text, self._constants):
            if place is not None:
                with contextlib.suppress(FormatError):
                    content = self._content(*place)
                    if place is self._constants:
                        self._claims.constants(content)
                    elif self._program is not None:
                        first = self._program.first_task - place[1].address
                        self._chain(content, first, self._program.first_task_words + 1, self._program.tasks)
                    elif self._framed:
                        self._claims.record("texthead", content.start, TextHead, "the frame before the tasks")
                        self._chain(content, 0, 0, 0)
        for segment, section in self._kernels:
            with contextlib.suppress(FormatError):
                self._claims.constants(self._content(segment, section), "what the kernel DMA reads")
        for segment, section in self._others:
            if segment.filesize:
                with contextlib.suppress(FormatError):
                    self._claims.data_item(self._content(segment, section), f"{segment.name},{section.name}")

    def _content(self, segment: SegmentRecord, section: Section) -> ByteReader:
        content = self._file.window(segment.fileoff, segment.filesize, "a segment's content")
        return content.window(section.address - segment.vmaddr, section.size, "a section")

    def _chain(self, text: ByteReader, offset: int, words: int, count: int) -> None:
        self._claims.text_start = text.start
        for task_offset, task_words in chain(self._claims.chip, text, offset, words, count):
            if not self._claims.task(text, task_offset, task_words):
                return


def chain(chip: Chip | None, text: ByteReader, offset: int, words: int, count: int) -> Iterator[tuple[int, int]]:
    """Offset and words of the tasks that follow one another, as far as they lie in the text."""
    if chip is not None and not chip.linked:
        yield from _frames(chip, text)
        return
    for _ in range(min(count, len(text) // 4)):
        if offset % 4 or not 0 <= offset <= offset + 4 * words <= len(text):
            return
        yield offset, words
        if chip is None:
            return
        try:
            offset, words = chip.next_task(text.words(offset, words, "a task"))
        except AneError:
            return
        if not words:
            return


def _frames(chip: Chip, text: ByteReader) -> Iterator[tuple[int, int]]:
    """The tasks of a text in which they lie one after another, each stating its own size."""
    alignment = chip.limits.task_alignment
    offset = 0
    while offset + alignment <= len(text):
        try:
            words = chip.task_size(text.words(offset, 1, "the head of a task"))
        except AneError:
            return
        if offset + 4 * words > len(text):
            return
        if words:
            yield offset, words
        offset += round_up(4 * words, alignment) or alignment
