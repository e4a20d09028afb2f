"""What a trial showed, and what a hypothesis expects of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class Ending(StrEnum):
    """How a run ended."""

    DONE = "done"
    FAILED = "failed"    # an error that need not come back
    REFUSED = "refused"  # the program was not taken
    HUNG = "hung"
    CRASHED = "crashed"  # the process that ran it ended
    UNKNOWN = "unknown"  # it was under way when everything ended


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how it ended, the digest of what came out, seconds where it was timed."""

    ending: Ending
    digest: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A trial: its runs, and the contents behind every digest that came out."""

    experiment: str
    trial: str
    program: str
    runs: tuple[Run, ...]
    contents: Mapping[str, bytes]


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Output tensors as one run of bytes, in the order of their names."""
    return b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))


def digest(content: bytes) -> str:
    """What stands for a content."""
    return hashlib.sha256(content).hexdigest()


__all__ = ["Ending", "Run", "Shown", "digest", "packed"]
