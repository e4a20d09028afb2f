"""Ctrl-C, and the signal by which clusters end a job: a training finishes its step, and writes a checkpoint."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

from openane.cli.output import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STDERR = 2



class Stopping:
    """While it is entered the first such signal is noted in `asked`, and the second does what it would have done."""

    def __init__(self, wanted: bool = True) -> None:
        """Nothing changes where it is not `wanted`, or where this is not the thread that gets signals."""
        self.asked: int = 0
        self._before: dict[int, Any] = {}
        self._wanted = wanted and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._wanted:
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *about: object) -> None:
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(self, step: int, output: Path | None) -> None:
        """Ends the training as the signal asks for: KeyboardInterrupt, or SystemExit with the status of a process that
        was ended by it."""
        kept = "nothing is kept: no --output was given" if output is None else "--resume goes on from there"
        say(f"ane: stopped after step {step}; {kept}", file=sys.stderr, flush=True)
        if self.asked == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + self.asked)

    def _note(self, number: int, frame: FrameType | None) -> None:
        with suppress(OSError):  # a signal may come in the middle of a print
            os.write(STDERR, b"ane: stopping after this step; once more stops at once\n")
        self.asked = number
        self.__exit__()
