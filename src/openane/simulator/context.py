"""What preparing a task needs besides its operation, and the scratch memory all tasks of a program share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from math import prod

import numpy as np

from openane.chips import Chip
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up
from openane.simulator.arithmetic import HalfEncoder, Mode, SumForm
from openane.simulator.arithmetic.half import Bits, Floats
from openane.simulator.kernels import Kernels
from openane.simulator.memory import Memory
from openane.simulator.report import TaskReport
from openane.simulator.sharing import SharedWeights
from openane.simulator.threads import WORTH, Helpers, product_threads

_ALIGNED = 16


def padded(count: int) -> int:
    """Elements up to where the next array of the workspace begins: at a cache line."""
    return round_up(count, _ALIGNED)


@dataclass(slots=True)
class Lookup:
    """A function of one fp16 operand: its results for every word once they are known, and for how many elements it was
    computed before that."""

    table: Bits | None = None
    computed: int = 0


LOOKUPS = 64
"""Tables of functions a workspace shares at most, 128 KiB each: programs whose tables are patched make new ones."""


class Workspace:
    """Scratch memory that all tasks share, for they run one after another: as much as the largest of them needs."""

    def __init__(self, weights: SharedWeights | None = None, products: int = 0) -> None:
        """`weights`: where weights that are constants are looked up, among those of other programs; `products`: how
        many a run makes in fast arithmetic."""
        self.encoder = HalfEncoder()
        self.kernels: Kernels | None = None  # until they are brought
        self.threads = product_threads().allowed if products >= WORTH else 1
        """That share a run."""
        self.helpers: Helpers | None = None
        """They, while a run lasts that they share."""
        self.weights = weights or SharedWeights()
        self.memory = np.empty(0, np.float32)
        """What `floats` gives parts of."""
        self.held: object = None
        """Whose decoded source elements lie in `memory`, while they do."""
        self._ends: dict[int, int] = {}
        self._reserved = 0
        self._bits = np.empty(0, np.uint16)
        self._lookups: dict[Hashable, Lookup] = {}
        self._apart: dict[tuple[int, ...], Floats] = {}
        self._slots: dict[int, Floats] = {}

    def lookup(self, key: Hashable) -> Lookup:
        """The table of a function, one for all tasks that compute it with the same `key`."""
        if key not in self._lookups and len(self._lookups) >= LOOKUPS:
            self._lookups.pop(next(iter(self._lookups)))  # tasks that have it keep it
        return self._lookups.setdefault(key, Lookup())

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Threads share the work of a run meanwhile, if there are several."""
        if self.threads == 1:
            yield
            return
        with product_threads().left_out(), Helpers(self.threads) as self.helpers:
            try:
                yield
            finally:
                self.helpers = None

    def slot(self, number: int, count: int) -> Floats:
        """So many float32 with undefined contents, of the memory of one of the parts that threads share, which is valid
        until the next part of this number."""
        if self._slots.get(number, self.memory[:0]).size < count:
            self._slots[number] = np.empty(max(count, self._reserved), np.float32)
        return self._slots[number][:count]

    def reserve(self, count: int) -> None:
        """Makes the memory of `floats` as large as `count` elements when it is first made."""
        self._reserved = max(self._reserved, count)

    def floats(self, shape: tuple[int, ...], place: int = 0) -> Floats:
        """A float32 array with undefined contents, behind the last one of the place before this one. It is valid until
        the next call with the same place or one before it."""
        start = padded(self._ends.get(place - 1, 0)) if place else 0
        end = self._ends[place] = start + prod(shape)
        if end > self.memory.size:  # what lies in the old memory stays valid
            self.memory = np.empty(max(end, self._reserved), np.float32)
        return self.memory[start:end].reshape(shape)

    def apart(self, shape: tuple[int, ...]) -> Floats:
        """A float32 array of its own, the same one for all tasks that ask for this shape."""
        if shape not in self._apart:
            self._apart[shape] = np.empty(shape, np.float32)
        return self._apart[shape]

    def halves(self, shape: tuple[int, ...], place: int) -> Bits:
        """The same of fp16 words."""
        count = prod(shape)
        return self.floats((ceil_div(count, 2),), place).view(np.uint16)[:count].reshape(shape)

    def bits(self, shape: tuple[int, ...]) -> Bits:
        """An array of fp16 words with undefined contents, valid until the next call."""
        count = prod(shape)
        if self._bits.size < count:
            self._bits = np.empty(count, np.uint16)
        return self._bits[:count].reshape(shape)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """One task's surroundings. `what` names the task in errors; `chip` decides which rules hold and how
    coefficients lie, `form` is what computes exact sums of more than a few products, `row_sums` what reductions add by
    where the engine is not as believed."""

    memory: Memory
    workspace: Workspace
    arithmetic: Mode
    report: TaskReport
    what: str
    chip: Chip
    form: SumForm = SumForm.NUMPY
    row_sums: Callable[[np.ndarray], np.ndarray] | None = None

    def stores(self, slot: int) -> np.ndarray:
        """The bytes behind the slot of a task's coefficients."""
        return self.memory.bytes_of(slot, f"{self.what} coefficients")
