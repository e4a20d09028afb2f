"""Where commands write: not over what they read, not to standard output where that is no place for it."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from openane.errors import UnsupportedError
from openane.formats.files import write_atomically

READ = ("model", "file", "files", "config", "sound", "a", "b")
"""Arguments that name what a command reads."""
WRITTEN = ("output", "page", "html", "csv", "trace", "record", "survey", "save", "listen")
"""Arguments that name what it writes."""
FOLDERS = ("output_dir", "dump")
"""Arguments that name folders it writes into."""
STANDARD = Path("-")
"""What stands for standard output where a command can write there."""
STREAMS = "streams"
"""The default of a parser that names which of WRITTEN may be STANDARD."""


def require_no_stream(options: argparse.Namespace) -> None:
    """UnsupportedError where standard output is named for what cannot be written there."""
    for name in (*WRITTEN, *FOLDERS):
        if getattr(options, name, None) == STANDARD and name not in getattr(options, STREAMS, ()):
            raise UnsupportedError(f"--{name.replace('_', '-')} {STANDARD}", "this is not written to standard output, "
                                   "which has what the command says", remedy="give it a name")


def require_folder(path: Path) -> None:
    """OSError where a folder is neither there nor can be made: said before there is anything to write into it."""
    place = next(each for each in (path, *path.parents) if each.exists() or each.is_symlink())
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def write_out(path: Path, data: bytes) -> None:
    """Writes a file, as `write_atomically` does, or to standard output."""
    if path == STANDARD:
        sys.stdout.buffer.write(data)
    else:
        write_atomically(path, data)


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
