"""The record of a training in its folder: one JSON object per line for every event, and the loss curve.

A training that is resumed forgets what was written after its checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.formats.files import write_atomically
from openane.training.plot import loss_plot, require

LOG, PLOT = "log.jsonl", "loss.svg"
Event = Mapping[str, Any]


def as_line(event: Event) -> str:
    """An event as one line of strict JSON; infinities and NaN, which JSON cannot hold, become strings."""
    return json.dumps({key: [json_value(part) for part in each] if isinstance(each, list) else json_value(each)
                       for key, each in event.items()}, allow_nan=False)


def json_value(value: Any) -> Any:
    """The value, a number that JSON cannot hold as a string."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Journal:
    """Appends events to the record in `folder`."""

    def __init__(self, folder: Path, step: int) -> None:
        """What an earlier run wrote up to `step` is kept. AneError where matplotlib is missing: before a training, not
        at its end."""
        require()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._points: list[tuple[float, float]] = []
        kept = [event for event in _events(folder / LOG) if event.get("step", 0) <= step] if step else []
        for event in kept:
            self._see(event)
        write_atomically(folder / LOG, "".join(as_line(event) + "\n" for event in kept).encode())
        self._file = (folder / LOG).open("a", encoding="utf-8")

    def write(self, event: Event) -> None:
        """One event."""
        self._see(event)
        self._file.write(as_line(event) + "\n")
        self._file.flush()

    def close(self, title: str) -> Path:
        """Ends the record and draws the loss curve, whose path is returned."""
        self._file.close()
        write_atomically(self._folder / PLOT, loss_plot({"training": self._points}, title))
        return self._folder / PLOT

    def _see(self, event: Event) -> None:
        if event.get("event") == "step" and isinstance(event.get("loss"), float):
            self._points.append((float(event["step"]), event["loss"]))


def _events(path: Path) -> list[dict[str, Any]]:
    """The record's events; a line that was cut short by the end of a process is left out."""
    found = []
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("step"), int):
            found.append(event)
    return found
