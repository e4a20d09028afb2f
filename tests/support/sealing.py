"""Folders sealed anew, for tests of what readers make of files that were changed and have right digests."""

from __future__ import annotations

from pathlib import Path

from openane.formats.sealed import SEAL, written_seal


def reseal(folder: Path, record: str = SEAL, **said: object) -> None:
    """Seals the files that are in a folder now, as `record` that says `said`."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))
             if path.is_file() and path != folder / record}
    (folder / record).write_bytes(written_seal(files, **said))
