"""Threads that share the work of one run: neither loops nor products hold the interpreter, so that they run side by
side.

numpy's products bring threads of their own, which wait for the next product by turning round, in the way of everything
else, and which round sums otherwise than a single one does. Where a run shares its work they are told to stay out of
it, and parts of a product are handed to the run's own threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from itertools import count, pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from openane.rounding import round_up

SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
"""What numpy's products go by: a run takes as many threads."""
MOST = 4
"""Threads beyond which loops wait for memory, not for processors. Inferred."""
WORTH = 1 << 24
"""Products of a run from which its work is shared: fewer take less than a millisecond."""
SHARE = 1 << 16
"""Elements that are worth the twenty microseconds that handing them to another thread takes."""
PRODUCTS = 16
"""Products take as long as reading or storing one element."""
EVEN = 12
"""OpenBLAS computes so many channels at a time: sums of parts that begin at a multiple are rounded as those of all."""

FEWEST = 128
"""Positions of a tile that threads share: products of fewer are slow."""

Cut = tuple[slice, slice]
"""Groups and channels of an operand."""
Gives = TypeVar("Gives")


def lanes_for(elements: int, threads: int) -> int:
    """How many threads share the work of so many elements: one where it is not worth it."""
    return max(1, min(threads, elements // SHARE))


def cuts(groups: int, channels: int, elements: int, threads: int) -> list[Cut]:
    """Parts of an operand of so many elements for threads to share, each one run of [groups, channels]."""
    lanes = lanes_for(elements, threads)
    if groups > 1:
        return [(part, slice(0, channels)) for part in portions(groups, lanes)]
    return [(slice(0, groups), part) for part in portions(channels, lanes, EVEN)]


def portions(extent: int, lanes: int, even: int = 1) -> list[slice]:
    """Up to so many parts, which begin at multiples of `even`, none but an only one smaller than that."""
    units = max(1, extent // even)
    lanes = min(lanes, units)
    bounds = [units * number // lanes * even for number in range(lanes)] + [extent]
    return [slice(first, end) for first, end in pairwise(bounds)]


def even_tiles(tiles: int, rows: int, columns: int, elements: int, threads: int) -> int:
    """How many tiles of so many rows threads share evenly, at least so many; as many where the work of so many elements
    is not worth it, or tiles would be too small."""
    if threads == 1 or elements < threads * SHARE:
        return tiles
    even = round_up(tiles, threads)
    return even if rows // even * columns >= FEWEST else tiles


class ProductThreads:
    """The threads of numpy's products, of which there is one set in a process."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limited: Any = None
        self._controller = _controller()

    @property
    def allowed(self) -> int:
        """How many threads a run may use: as many as there are processors, or as the settings of numpy's products say;
        one where these cannot be told to stay out of it."""
        if self._controller is None:
            return 1
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        said = next((os.environ[name] for name in SETTINGS if os.environ.get(name, "").isdecimal()), None)
        return max(1, min(MOST, processors if said is None else int(said)))

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """No thread but the caller computes a product meanwhile, in the whole process."""
        with self._lock:
            self._users += 1
            if self._users == 1 and self._controller is not None:
                self._limited = self._controller.limit(limits=1)
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users and self._limited is not None:
                    self._limited.restore_original_limits()
                    self._limited = None


def _controller() -> Any:
    """What tells numpy's products how many threads they have; None where nothing does, and where there are no loops to
    share, for numpy alone is fastest with its own threads."""
    if find_spec("numba") is None:
        return None
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
    except ImportError:
        return None
    found = ThreadpoolController().select(user_api="blas")
    return found if found.lib_controllers else None


@cache
def product_threads() -> ProductThreads:
    """Those of this process."""
    return ProductThreads()


class _Helper:
    """A thread that does what it is given, one thing after the other."""

    def __init__(self) -> None:
        self._given, self._done = SimpleQueue[Callable[[], object] | None](), SimpleQueue[BaseException | None]()
        self._thread = Thread(target=self._work, name="ane simulator", daemon=True)
        self._thread.start()

    def give(self, action: Callable[[], object]) -> None:
        """It begins at once."""
        self._given.put(action)

    def wait(self) -> BaseException | None:
        """Until it is done; what it raised."""
        return self._done.get()

    def end(self) -> None:
        """Until it has ended."""
        self._given.put(None)
        self._thread.join()

    def _work(self) -> None:
        with np.errstate(all="ignore"):
            while (action := self._given.get()) is not None:
                try:
                    action()
                except BaseException as error:  # the run's own thread raises it
                    self._done.put(error)
                else:
                    self._done.put(None)


class Helpers:
    """Other threads that work while one run lasts. They are started when they are needed first."""

    def __init__(self, threads: int) -> None:
        """So many threads, with the run's own."""
        self._threads = threads
        self._helpers = list[_Helper]()

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        for each in self._helpers:
            each.end()

    def share(self, lanes: Sequence[Callable[[], Gives]]) -> list[Gives]:
        """Does all of them, each by one of the threads; what they gave."""
        others = min(len(lanes), self._threads) - 1
        while len(self._helpers) < others:
            self._helpers.append(_Helper())
        found, numbers = dict[int, Gives](), count()
        work = partial(_take, lanes, numbers, found)
        busy = self._helpers[:others]
        for each in busy:
            each.give(work)
        work()
        for error in [each.wait() for each in busy]:
            if error is not None:
                raise error
        return [found[number] for number in range(len(lanes))]


def _take(lanes: Sequence[Callable[[], Gives]], numbers: Iterator[int], found: dict[int, Gives]) -> None:
    """Takes one after the other that nobody has taken."""
    for number in numbers:
        if number >= len(lanes):
            return
        found[number] = lanes[number]()
