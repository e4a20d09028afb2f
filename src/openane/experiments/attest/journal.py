"""What was done so far, in a file that outlives hangs, crashes and power cuts: lines that are only ever appended.

Before a trial is begun a line says so, and when it ended another has all of its result; each is on the disk before
anything else happens. A trial that was begun and has no end was under way when everything ended. It may have hung the
engine: one of a form that Apple's programs have is tried once more, any other is not.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from openane.errors import DeviceError
from openane.experiments.outcome import Ending, Run, Shown

Line = dict[str, Any]
HEAD, BEGUN, ENDED = "head", "begun", "ended"


def as_line(shown: Shown) -> Line:
    """A trial's result as plain data."""
    return {"experiment": shown.experiment, "trial": shown.trial, "program": shown.program,
            "runs": [{"ending": str(run.ending), "digest": run.digest, "seconds": run.seconds} for run in shown.runs],
            "contents": {name: base64.b64encode(zlib.compress(content, 9)).decode()
                         for name, content in shown.contents.items()}}


class AttestJournal:
    """An open journal. Only one process may have it open."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        """Begins one, or goes on with the one that is there. DeviceError when that is of something else than `head`
        says. A last line that was not finished is cut off."""
        self.lines: list[Line] = []
        whole = 0
        with suppress(FileNotFoundError):
            for line, end in _finished(path.read_bytes()):
                self.lines.append(line)
                whole = end
        self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(whole)
        self._file.seek(whole)
        if self.lines and self.lines[0] != {HEAD: dict(head)}:
            self._file.close()
            raise DeviceError(f"{path.name} was begun on another machine, device or version of the experiments; "
                              "name another file with -o, or remove it to begin anew")
        if not self.lines:
            self.append({HEAD: dict(head)})
            with suppress(OSError):  # the folder's entry, too
                descriptor = os.open(path.resolve().parent, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)

    def append(self, line: Line) -> None:
        """Adds a line; it is on the disk when this returns."""
        self._file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.lines.append(line)

    def begun(self, experiment: str, trial: str) -> None:
        """Says that a trial begins."""
        self.append({BEGUN: [experiment, trial]})

    def ended(self, shown: Shown) -> None:
        """Says that it ended, and how."""
        self.append({ENDED: as_line(shown)})

    def results(self) -> dict[tuple[str, str], Line]:
        """What ended, by experiment and trial."""
        return {(line[ENDED]["experiment"], line[ENDED]["trial"]): line[ENDED] for line in self.lines if ENDED in line}

    def unfinished(self, experiment: str, trial: str) -> int:
        """How often a trial was begun and did not end."""
        name = [experiment, trial]
        begun = sum(1 for line in self.lines if line.get(BEGUN) == name)
        ended = [line[ENDED] for line in self.lines if ENDED in line]
        return begun - sum(1 for line in ended if [line["experiment"], line["trial"]] == name)

    def give_up(self, experiment: str, trial: str, program: str) -> None:
        """Says of a trial that was under way when everything ended that it is not begun again."""
        self.ended(Shown(experiment, trial, program, (Run(Ending.UNKNOWN),), {}))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _finished(data: bytes) -> Iterator[tuple[Line, int]]:
    """Lines that were written whole, and where each ends."""
    end = 0
    for part in data.split(b"\n")[:-1]:
        try:
            line = json.loads(part)
        except (ValueError, RecursionError):
            return
        if not isinstance(line, dict):
            return
        end += len(part) + 1
        yield line, end


__all__ = ["AttestJournal", "as_line"]
