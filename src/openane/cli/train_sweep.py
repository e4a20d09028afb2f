"""The combinations of a sweep: each in a folder of its own, and one that fails does not keep the others from theirs."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openane.cli.output import say, table
from openane.errors import AneError, BudgetExhausted

Event = dict[str, Any]
LONGEST = 120
"""Bytes of a folder's name, of the 255 file systems allow: files are written beside it under longer ones."""
UNSAFE = re.compile(r"[^A-Za-z0-9_.,=+\-]+")


def folder_of(name: str) -> str:
    """The folder of a variant: its name, or where that is no good one a part of it and a digest."""
    safe = UNSAFE.sub("_", name)
    if safe == name and len(name) <= LONGEST:
        return name
    return f"{safe[:LONGEST - 20]}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def train_all(names: Sequence[str], train: Callable[[int, Path | None], Event], output: Path | None,
              rank: int) -> list[Event]:
    """Trains variant after variant by `train(number, folder)` and gives a row for each: what its end event said of the
    test examples, or the error it ended with, which is printed, too."""
    rows: list[Event] = []
    for number, name in enumerate(names):
        row: Event = {"event": "variant", "variant": name, "rank": rank}
        try:
            last = train(number, output / folder_of(name) if output is not None else None)
            row |= {key: each for key, each in last.items() if key.startswith(("test_", "validation_"))}
        except BudgetExhausted:
            raise  # nothing that follows would have room either
        except (AneError, OSError) as error:
            row["error"] = str(error).partition("\n")[0]
            say(f"ane: error: variant {name}: {error}", file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def listing(rows: Sequence[Event]) -> str:
    """The rows as a table; what a row does not have is a dash."""
    heading = list(dict.fromkeys(key for row in rows for key in row if key not in ("event", "rank")))
    return "\n".join(table([[row.get(key, "-") for key in heading] for row in rows], heading=heading))
