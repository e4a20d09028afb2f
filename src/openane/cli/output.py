"""How verbs print: lines and aligned tables for people, one JSON document for programs.

Nothing else prints: what comes from a file, a name or a message, neither commands the terminal nor fills it.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from openane.wording import line_text, message_text, without_controls

LONGEST = 120


def table(rows: Iterable[Sequence[object]], *, heading: Sequence[str] = (), indent: str = "") -> list[str]:
    """Lines of a table with aligned columns: numbers to the right, everything else to the left."""
    cells = [list(row) for row in rows]
    if not cells:
        return []
    columns = list(zip(*cells, strict=True))
    right = [all(isinstance(cell, int | float) for cell in column) for column in columns]
    text = [[_cell(cell) for cell in row] for row in cells]
    if heading:
        text.insert(0, list(heading))
    widths = [max(len(row[i]) for row in text) for i in range(len(columns))]
    return [indent + "  ".join(cell.rjust(width) if to_right else cell.ljust(width)
                               for cell, width, to_right in zip(row, widths, right, strict=True)).rstrip()
            for row in text]


def wrapped(text: str, following: str = "", width: int = LONGEST) -> list[str]:
    """Lines of at most `width` characters; all but the first begin with `following`."""
    return textwrap.wrap(text, width, subsequent_indent=following)


def say(text: str, file: TextIO | None = None, *, flush: bool = False) -> None:
    """Prints lines for people, on stdout unless a `file` is named: control characters are spelled out, and of lines
    beyond wording.LONGEST_MESSAGE the ends stay."""
    print(message_text(text), file=file, flush=flush)


def say_json(document: object, indent: int | None = 2, file: TextIO | None = None, *, flush: bool = False) -> None:
    """Prints a document for programs: ASCII, whatever characters it holds; None as `indent` makes one line of it."""
    print(as_json(document, indent), file=file, flush=flush)


def say_whole(text: str, *, flush: bool = False) -> None:
    """Prints a text as it is, without an end of its own, as a model writes it or a program is listed: only control
    characters are spelled out."""
    for line in without_controls(text).splitlines(keepends=True):  # of one long text a pipe may lose the rest unsaid
        print(line, end="", flush=flush)


def as_json(document: object, indent: int | None = 2) -> str:
    """The document as strict JSON; infinities and NaN, which JSON cannot hold, become null: where there is a number,
    there is never anything but a number."""
    return json.dumps(_finite(document), indent=indent, allow_nan=False)


def shape_text(shape: Iterable[int]) -> str:
    """`1x3x224x224`; a scalar is `scalar`."""
    return "x".join(map(str, shape)) or "scalar"


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return line_text(text, len(text))


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
