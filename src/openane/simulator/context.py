"""What preparing a task needs besides its operation, and the scratch memory all tasks of a program share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.simulator.arithmetic import Encoder, Mode
from openane.simulator.arithmetic.half import Bits, Floats
from openane.simulator.memory import Memory
from openane.simulator.report import TaskReport


class Workspace:
    """Scratch arrays that grow to the largest task's needs; tasks run one after another and share them."""

    def __init__(self) -> None:
        self.encoder = Encoder()
        self._floats: dict[int, Floats] = {}
        self._bits = np.empty(0, np.uint16)

    def floats(self, shape: tuple[int, ...], place: int = 0) -> Floats:
        """A float32 array with undefined contents, valid until the next call with the same `place`."""
        count = int(np.prod(shape))
        known = self._floats.get(place)
        if known is None or known.size < count:
            known = self._floats[place] = np.empty(count, np.float32)
        return known[:count].reshape(shape)

    def bits(self, shape: tuple[int, ...]) -> Bits:
        """An array of fp16 words with undefined contents, valid until the next call."""
        count = int(np.prod(shape))
        if self._bits.size < count:
            self._bits = np.empty(count, np.uint16)
        return self._bits[:count].reshape(shape)


@dataclass(frozen=True, slots=True)
class Context:
    """One task's surroundings. `what` names the task in errors."""

    memory: Memory
    workspace: Workspace
    arithmetic: Mode
    report: TaskReport
    what: str
