"""Files a command writes are not those it reads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from openane.errors import UnsupportedError

READ = ("model", "file", "files", "config", "sound", "a", "b")
"""Arguments that name what a command reads."""
WRITTEN = ("output", "page", "html", "csv", "trace", "record", "survey")
"""Arguments that name what it writes."""


def require_apart(options: argparse.Namespace) -> None:
    """UnsupportedError where a command would write over what it reads."""
    read = list(_paths(options, READ))
    for written in _paths(options, WRITTEN):
        same = next((path for path in read if _same(written, path)), None)
        if same is not None:
            raise UnsupportedError(f"{written}", "this would be written over what is read", found=f"{same}",
                                   remedy="name another file for what is written")


def _paths(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        value = getattr(options, name, None)
        yield from (path for path in (value if isinstance(value, list) else [value]) if isinstance(path, Path))


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there
        return False
