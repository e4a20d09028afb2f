"""A thread that does what it is given in order, started when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

from openane.errors import DeviceError

P = ParamSpec("P")
T = TypeVar("T")


class Submissions:
    """Calls that are made one after the other. Several threads may submit; nothing is taken once it is closed."""

    def __init__(self, owner: str) -> None:
        """`owner` is what a message calls closed: "the executable"."""
        self._owner = owner
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._lock = Lock()

    def submit(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """What the call will return. DeviceError after `close`."""
        with self._lock:
            if self._closed:
                raise DeviceError(f"{self._owner} is closed")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ane submissions")
            return self._pool.submit(call, *arguments, **named)

    def close(self) -> None:
        """Waits for what was submitted. Closing twice does nothing."""
        with self._lock:
            self._closed, pool = True, self._pool
        if pool is not None:
            pool.shutdown()
