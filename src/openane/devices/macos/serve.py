"""The worker: a process of its own that owns the runtime, and does what the process that started it asks.

It ends when it is told to, or when the other side is gone: a thread watches a pipe whose other end only that process
holds. If the runtime does not return then, the process replaces itself by one that removes its directories.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from openane.devices.macos.directories import remove_abandoned
from openane.devices.macos.hosting import HostedHere, HostOptions
from openane.devices.macos.messages import DONE, ERROR, NOTE, WorkerRequest, error_state
from openane.devices.macos.routes import RuntimeRoute, open_route, open_symbols
from openane.devices.macos.shared_memory import SharedMemory
from openane.devices.macos.symbols import RuntimeSymbols

GRACE = 1.0
"""Seconds the main thread has to end by itself once the other side is gone."""
_CLEAN = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); " \
         "from openane.devices.macos.serve import clean; clean(sys.argv[2:])"


def main(channel: int, lifeline: int, paths: str) -> None:
    """Serves on the socket `channel` until told to stop; `paths` is sys.path as JSON, for the cleaning process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that started this one
    server = WorkerServer(Connection(channel))
    Thread(target=_watch, args=(lifeline, paths, server), daemon=True).start()
    try:
        server.serve()
    finally:
        server.close()


def clean(directories: list[str]) -> None:
    """Removes directories whose process is gone."""
    for directory in directories:
        remove_abandoned(Path(directory))


class WorkerServer:
    """The runtime and what is loaded, by number."""

    def __init__(self, channel: Connection) -> None:
        self.directories: set[str] = set()
        self._channel, self._sending = channel, Lock()
        self._symbols: RuntimeSymbols | None = None
        self._route: RuntimeRoute | None = None
        self._loaded: dict[int, HostedHere] = {}

    def serve(self) -> None:
        """Answers requests until CLOSE or until the other side is gone."""
        actions: dict[str, Callable[..., Any]] = {
            WorkerRequest.OPEN: self._open, WorkerRequest.LOAD: self._load, WorkerRequest.RUN: self._run,
            WorkerRequest.UNLOAD: self._unload, WorkerRequest.CLOSE: self.close}
        with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
            while True:
                kind, *arguments = self._channel.recv()
                try:
                    answer: tuple[str, Any] = (DONE, actions[kind](*arguments))
                except Exception as error:  # everything goes to the caller, defects with their traceback
                    answer = (ERROR, error_state(error))
                self._send(answer)
                if kind == WorkerRequest.CLOSE:
                    return

    def close(self) -> None:
        """Unloads everything."""
        loaded, self._loaded = self._loaded, {}
        for each in loaded.values():
            each.close()
        if self._route is not None:
            self._route.close()
        if self._symbols is not None:
            self._symbols.close()
        self._route = self._symbols = None

    def _open(self, options: HostOptions) -> Any:
        self._symbols = open_symbols(options.runtime, options.inject)
        self._route = open_route(self._symbols, options.routing(self._note))
        return self._symbols.platform

    def _load(self, number: int, program: Any, size: int) -> None:
        memory = SharedMemory(size, recv_handle(self._channel))
        memory.close()
        assert self._route is not None
        self._loaded[number] = HostedHere(program, memory.bytes, self._route.load(program))

    def _run(self, number: int) -> Any:
        return self._loaded[number].run()

    def _unload(self, number: int) -> None:
        self._loaded.pop(number).close()

    def _note(self, directory: str) -> None:
        self.directories.add(directory)
        self._send((NOTE, directory))

    def _send(self, answer: tuple[str, Any]) -> None:
        with self._sending:
            self._channel.send(answer)


def _watch(lifeline: int, paths: str, server: WorkerServer) -> None:
    """Waits for the end of the other side."""
    while os.read(lifeline, 1):
        pass
    time.sleep(GRACE)
    os.execv(sys.executable, [sys.executable, "-c", _CLEAN, paths, *server.directories])
