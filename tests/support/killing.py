"""Processes that are killed at a random moment, as a reader of what they leave behind must bear."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import openane

FOLDERS = (Path(openane.__file__).parents[1], Path(__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}
"""What a test can import, its processes can."""


def run_and_kill(commands: Sequence[Sequence[str]], rng: random.Random, longest: float, complaint: str) -> None:
    """Starts all commands together and, once each has said `ready`, kills them one after another within `longest`
    seconds of each other; `complaint` says what it means when one has ended by itself."""
    running = [subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) for command in commands]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in running:
        time.sleep(rng.uniform(0, longest))
        assert process.poll() is None, complaint
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
