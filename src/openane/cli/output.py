"""How verbs print: aligned tables for people, one JSON document for programs."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence

from openane.wording import line_text

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


def wrapped(text: str, following: str = "") -> list[str]:
    """Lines of at most 120 characters; all but the first begin with `following`."""
    return textwrap.wrap(text, LONGEST, subsequent_indent=following)


def as_json(document: object) -> str:
    """The document as strict JSON; infinities and NaN, which JSON cannot hold, become null: where there is a number,
    there is never anything but a number."""
    return json.dumps(_finite(document), indent=2, allow_nan=False)


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
