"""The Mach-O dialect of HWX files: a header, load commands, a symbol table, segment contents.

Apple's compiler uses the 64-bit Mach-O structures under another magic number, plus load commands of its own. Here they
become plain dataclasses and back; what the commands mean to the engine is the business of `formats.hwx`. The order in
a file is header, commands, symbols, strings, then segment contents from a multiple of 0x4000 on.
"""

from openane.formats.macho.commands import (
    NAME_LIMIT,
    PAGE,
    Command,
    Ident,
    Library,
    MachO,
    MachOHeader,
    Note,
    Section,
    Segment,
    Symbol,
    SymbolTable,
    Thread,
    Unknown,
)
from openane.formats.macho.reading import read_macho, section_data
from openane.formats.macho.writing import write_macho

__all__ = [
    "NAME_LIMIT",
    "PAGE",
    "Command",
    "Ident",
    "Library",
    "MachO",
    "MachOHeader",
    "Note",
    "Section",
    "Segment",
    "Symbol",
    "SymbolTable",
    "Thread",
    "Unknown",
    "read_macho",
    "section_data",
    "write_macho",
]
