"""Failures on demand, for tests of clients: the n-th request of a kind fails with an errno."""

from __future__ import annotations

import os
from threading import Lock

from openane.devices.linux.interface import NAMES
from openane.devices.simdriver.reports import DriverError
from openane.errors import DeviceError
from openane.record_classes import dataclass

OPEN, MAP, CLOSE = "OPEN", "MAP", "CLOSE"
KINDS = (*NAMES.values(), OPEN, MAP, CLOSE)


@dataclass(slots=True)
class _Pending:
    code: int
    after: int
    times: int


class Injections:
    """What is to fail. Thread-safe."""

    def __init__(self) -> None:
        self._pending: dict[str, list[_Pending]] = {}
        self._lock = Lock()

    def add(self, request: str, code: int, after: int, times: int) -> None:
        """Lets a kind of request fail `times` times after `after` good ones. DeviceError for an unknown kind."""
        if request not in KINDS:
            raise DeviceError(f"no request is called {request!r}; there are {', '.join(KINDS)}")
        with self._lock:
            self._pending.setdefault(request, []).append(_Pending(code, after, times))

    def strike(self, request: str) -> None:
        """Counts one request. DriverError when its turn to fail has come."""
        if not self._pending:
            return
        with self._lock:
            queue = self._pending.get(request, [])
            if not queue:
                return
            first = queue[0]
            if first.after:
                first.after -= 1
                return
            first.times -= 1
            if first.times <= 0:
                queue.pop(0)
                if not queue:
                    del self._pending[request]
        raise DriverError(first.code, f"{request}: {os.strerror(first.code)} (injected)")
