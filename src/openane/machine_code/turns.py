"""One process at a time compiles the same loops: others wait, or go on without them, and find what it kept.

Files that processes lock stay, for it is the lock that counts, which ends with the process that holds it. Nobody waits
for ever: whoever has waited long compiles, too, and where there are no locks all do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE = 120.0
"""Seconds after which another process is not waited for any more: compiling takes it twenty."""
PAUSE = 0.1


@contextmanager
def turn(places: Iterable[Path]) -> Iterator[None]:
    """Waits until no other process holds the lock on a file, the first of `places` that can be made; then holds it."""
    file = _opened(places)
    try:
        end = time.monotonic() + PATIENCE
        while file is not None and not _locked(file) and time.monotonic() < end:
            time.sleep(PAUSE)
        yield
    finally:
        if file is not None:
            _given_back(file)


def is_taken(places: Iterable[Path]) -> bool:
    """Whether somebody holds that lock now."""
    file = _opened(places)
    if file is None:
        return False
    try:
        return not _locked(file)
    finally:
        _given_back(file)


def _opened(places: Iterable[Path]) -> int | None:
    if fcntl is not None:
        for place in places:
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                return os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return None


def _locked(file: int) -> bool:
    """Whether the lock is ours now, or there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _given_back(file: int) -> None:
    """A child that was forked meanwhile has the file open still, so that closing it is not enough."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)
