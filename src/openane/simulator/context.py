"""What preparing a task needs besides its operation, and the scratch memory all tasks of a program share."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from openane.simulator.arithmetic import Encoder, Form, Mode
from openane.simulator.arithmetic.half import Bits, Floats
from openane.simulator.memory import Memory
from openane.simulator.report import TaskReport

_ALIGNED = 16
DEFAULT_GENERATION = "h13"


def padded(count: int) -> int:
    """Elements up to where the next array of the workspace begins: at a cache line."""
    return -(-count // _ALIGNED) * _ALIGNED


class Workspace:
    """Scratch memory that all tasks share, for they run one after another: as much as the largest of them needs."""

    def __init__(self) -> None:
        self.encoder = Encoder()
        self._floats = np.empty(0, np.float32)
        self._ends: dict[int, int] = {}
        self._reserved = 0
        self._bits = np.empty(0, np.uint16)
        self._maps: dict[int, Bits] = {}

    def shared(self, table: Bits) -> Bits:
        """An array equal to `table`, the same one for tasks that look up the same function."""
        known = self._maps.setdefault(hash(table.tobytes()), table)
        return known if np.array_equal(known, table) else table

    def reserve(self, count: int) -> None:
        """Makes the memory of `floats` as large as `count` elements when it is first made."""
        self._reserved = max(self._reserved, count)

    def floats(self, shape: tuple[int, ...], place: int = 0) -> Floats:
        """A float32 array with undefined contents, behind the last one of the place before this one. It is valid until
        the next call with the same place or one before it."""
        start = padded(self._ends.get(place - 1, 0)) if place else 0
        end = self._ends[place] = start + prod(shape)
        if end > self._floats.size:  # what lies in the old memory stays valid
            self._floats = np.empty(max(end, self._reserved), np.float32)
        return self._floats[start:end].reshape(shape)

    def bits(self, shape: tuple[int, ...]) -> Bits:
        """An array of fp16 words with undefined contents, valid until the next call."""
        count = prod(shape)
        if self._bits.size < count:
            self._bits = np.empty(count, np.uint16)
        return self._bits[:count].reshape(shape)


@dataclass(frozen=True, slots=True)
class Context:
    """One task's surroundings. `what` names the task in errors; `generation` (`h13`) decides which rules
    hold, `form` is what computes exact sums of more than a few products."""

    memory: Memory
    workspace: Workspace
    arithmetic: Mode
    report: TaskReport
    what: str
    generation: str = DEFAULT_GENERATION
    form: Form = Form.NUMPY
