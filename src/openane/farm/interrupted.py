"""Ctrl-C, which a terminal sends to all processes of a farm on this machine, is for the farm to obey: it ends its
workers. By themselves they, or dask in the midst of starting them, would end with tracebacks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


def dask_setup(_: object) -> None:
    """Called by dask in the process of a worker, which is started with this module."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C within the block is obeyed at its end; processes and threads that are started in it never see it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    asked: list[int] = []
    resource_tracker.ensure_running()  # which otherwise lets the signal through to the first process
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if asked:
        raise KeyboardInterrupt
