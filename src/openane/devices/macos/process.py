"""One worker process: started, asked, watched, and ended so that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from pathlib import Path
from time import monotonic
from typing import IO, Any, cast

from openane.devices.macos.directories import remove_abandoned
from openane.devices.macos.hosting import HostOptions
from openane.devices.macos.messages import DONE, NOTE, WorkerRequest, received_error
from openane.devices.macos.symbols import Platform
from openane.errors import DeviceHung, DeviceUnavailable, SubmitFailed

START_TIMEOUT = 60.0
STOP_TIMEOUT = 5.0
LAST_WORDS = 2000
"""Bytes of what a dead worker wrote last that are quoted."""
_CODE = "import sys, json; sys.path[:] = json.loads(sys.argv[3]); " \
        "from openane.devices.macos.serve import main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"


class WorkerProcess:
    """A process that owns the runtime. It is spawned, never forked: the runtime's connections do not survive a fork."""

    def __init__(self, options: HostOptions) -> None:
        """Starts it and opens the runtime in it. Errors as `hosting.InProcess`, and DeviceUnavailable when no process
        can be started."""
        self.compilations = 0
        self._owner, self._directories = os.getpid(), set[str]()
        ours, theirs = socket.socketpair()
        listening, lifeline = os.pipe()
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = _spawn(theirs.fileno(), listening, self._words)
        except OSError as error:
            self._words.close()
            os.close(lifeline)
            ours.close()
            raise DeviceUnavailable(f"no worker process can be started: {error.strerror}",
                                    "worker=off runs the engine in this process") from None
        finally:
            theirs.close()
            os.close(listening)
        self._channel = Connection(ours.detach())
        self._end = weakref.finalize(self, _end, self._owner, self._process, self._channel, lifeline, self._words,
                                     self._directories)
        try:
            self.platform = cast(Platform, self.ask("starting the worker", START_TIMEOUT, WorkerRequest.OPEN, options))
        except BaseException:
            self._end()
            raise

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._end.alive and self._process.poll() is None

    def ask(self, what: str, timeout: float, *message: Any, descriptor: int | None = None) -> Any:
        """The worker's answer. What it raises is raised here; DeviceHung when it does not answer within `timeout`
        seconds, SubmitFailed with its last words when it dies: in both cases it is gone afterwards."""
        if os.getpid() != self._owner:
            raise DeviceUnavailable("the device was opened before this process was forked",
                                    "open it after the fork, or start processes with the 'spawn' method")
        deadline = monotonic() + timeout
        try:
            self._channel.send(message)
            if descriptor is not None:
                self._hand_over(descriptor)
            while True:
                if not self._channel.poll(max(0.0, deadline - monotonic())):
                    self._end()
                    raise DeviceHung(what, timeout, text="the worker was killed and starts anew with the next request")
                kind, value = self._channel.recv()
                if kind == NOTE:
                    self._directories.add(value)
                elif kind == DONE:
                    return value
                else:
                    break
        except (EOFError, OSError):
            raise self._died(what) from None
        except BaseException:  # an interrupt leaves an answer on its way that the next question must not take for its
            self._end()
            raise
        raise received_error(value)

    def close(self) -> None:
        """Ends it in good order, or kills it. Closing twice does nothing."""
        if self.alive:
            with contextlib.suppress(DeviceHung, SubmitFailed, DeviceUnavailable):
                self.ask("ending the worker", STOP_TIMEOUT, WorkerRequest.CLOSE)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(STOP_TIMEOUT)
        self._end()

    def _hand_over(self, descriptor: int) -> None:
        """Gives the worker a descriptor. EOFError when it does not take it."""
        try:
            send_handle(self._channel, descriptor, self._process.pid)
        except RuntimeError as error:  # macOS has the other side acknowledge it
            raise EOFError from error

    def _died(self, what: str) -> SubmitFailed:
        """What is known about a worker that is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT)
        code = self._process.poll()
        words = _last_words(self._words)
        self._end()
        names = {each.value: each.name for each in signal.Signals}
        how = "was lost" if code is None else f"ended with status {code}" if code >= 0 else \
            f"ended by {names.get(-code, f'signal {-code}')}"
        return SubmitFailed(what, domain="worker", code=abs(code or 0),
                            text=f"the worker {how}{': ' + words if words else ''}")


def _spawn(channel: int, lifeline: int, words: IO[bytes]) -> subprocess.Popen[bytes]:
    """The process; it inherits the two descriptors and where to look for modules."""
    command = [sys.executable, "-X", "utf8", "-c", _CODE, str(channel), str(lifeline), json.dumps(sys.path)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words,
                            pass_fds=(channel, lifeline))


def _last_words(words: IO[bytes]) -> str:
    """The end of what the worker wrote to its standard error."""
    size = words.seek(0, os.SEEK_END)
    words.seek(max(0, size - LAST_WORDS))
    return " ".join(words.read().decode("utf-8", "replace").split())


def _end(owner: int, process: subprocess.Popen[bytes], channel: Connection, lifeline: int, words: IO[bytes],
         directories: set[str]) -> None:
    """Kills the process if it still runs, and removes what it cannot remove itself any more."""
    steps: list[Callable[[], object]] = [channel.close, lambda: os.close(lifeline), words.close]
    if os.getpid() == owner:
        steps = [process.kill, process.wait, *steps,
                 *(partial(remove_abandoned, Path(directory)) for directory in directories)]
    for step in steps:
        with contextlib.suppress(OSError):
            step()
