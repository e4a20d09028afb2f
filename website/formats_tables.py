"""Tables of the structures in files, from the records that read and write them: a page says `<!-- record NAME -->`."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module

from openane.formats.reader import Record

ASKED = re.compile(r"<!-- record ([\w.]+) -->")
WIDTHS = {"B": (1, "u8"), "H": (2, "u16"), "I": (4, "u32"), "Q": (8, "u64"), "s": (1, "text")}


def filled(markdown: str) -> str:
    """The page with a table in place of every request."""
    return ASKED.sub(lambda match: table(match[1]), markdown)


def table(name: str) -> str:
    """Offset, type, name and usual value of every field of a record, `MODULE.CLASS` below `openane.formats`."""
    module, _, cls = name.rpartition(".")
    record = getattr(import_module(f"openane.formats.{module}"), cls)
    assert issubclass(record, Record)
    rows, offset = ["| at | type | name | written |", "|---|---|---|---|"], 0
    for field in fields(record):
        code = field.metadata["code"]
        count, kind = int(code[:-1] or 1), code[-1]
        size, word = WIDTHS[kind]
        if kind == "s":
            word, count, size = f"text of {count} bytes", 1, count
        usual = field.default if isinstance(field.default, int) and field.default else ""
        rows.append(f"| {offset:#x} | {word}{f'[{count}]' if count > 1 else ''} | `{field.name}` "
                    f"| {hex(usual) if usual else ''} |")
        offset += size * count
    end = f"{offset:#x} bytes in all; the last column has what is written where nothing else is said."
    return "\n".join([*rows, "", end])
