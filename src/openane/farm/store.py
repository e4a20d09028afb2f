"""The file of results, SQLite: a row for each job and action, written as soon as it is known."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from openane.errors import FormatError
from openane.farm.job import FarmJob, Result

FORMAT = 1
"""Number of this layout, which the file states as its `user_version`."""
TABLE = """CREATE TABLE IF NOT EXISTS results (key TEXT, action TEXT, model TEXT, options TEXT, found TEXT,
           error_type TEXT, error TEXT, seconds REAL, PRIMARY KEY (key, action))"""
WAIT = 60.0
"""Seconds another process may be writing."""


class Results:
    """The results in a file, which is made where there is none. FormatError where it is something else."""

    def __init__(self, path: Path) -> None:
        try:
            self._path, self._file = path, sqlite3.connect(path, timeout=WAIT)
        except sqlite3.OperationalError as error:
            raise FormatError(f"{path} cannot be used for results: {error}") from None
        try:
            stated, = self._file.execute("PRAGMA user_version").fetchone()
            tables = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if (tables and stated != FORMAT) or stated not in (0, FORMAT):
                raise FormatError(f"{path} holds no results of ane farm, or those of another version",
                                  expected=f"user_version {FORMAT}", found=stated)
            with self._file:
                self._file.execute(TABLE)
                self._file.execute(f"PRAGMA user_version = {FORMAT}")
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise FormatError(f"{path} cannot be used for results: {error}") from None
        except FormatError:
            self._file.close()
            raise

    def __enter__(self) -> Results:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._file.close()

    def add(self, job: FarmJob, results: Iterable[Result]) -> None:
        """Keeps what became of a job; it is on the disk when this returns. OSError where it cannot be."""
        options = json.dumps(job.options.document(), sort_keys=True)
        rows = [(job.key, each.action, _text(job.model), options, each.found_text, each.error_type, _text(each.error),
                 each.seconds) for each in results]
        try:
            with self._file:
                self._file.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path} cannot be written: {error}") from None

    def of(self, job: FarmJob) -> Mapping[str, Result]:
        """What is kept of a job, by action."""
        rows = self._file.execute("SELECT action, found, error_type, error, seconds FROM results WHERE key = ?",
                                  (job.key,))
        return {action: Result(action, json.loads(found), error_type, error, seconds)
                for action, found, error_type, error, seconds in rows}


def _text(text: str) -> str:
    """The text as SQLite can hold it: bytes of names of files that are no UTF-8 are spelled out."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
