"""Runs an unmodified program so that the accelerator node it opens is the simulated driver.

The program and all it starts have a seccomp filter that tells this process of every call with a path and of ioctls of
DRM drivers (`seccomp`). Calls about /dev/accel are answered (`supervisor_calls`), all others proceed in the kernel.
What escapes: programs for another machine (32 bits), calls made through io_uring, and a node reached by a symbolic
link; they see the machine as it is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Self

from openane.devices.simdriver.driver import SimDriver
from openane.devices.simdriver.seccomp import this_machine
from openane.devices.simdriver.supervisor_calls import Calls
from openane.devices.simdriver.supervisor_child import Child, start
from openane.devices.simdriver.supervisor_queue import EngineQueue
from openane.record_classes import dataclass

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
"""Forwarded unless the terminal has sent them to the program as well."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""What a shell answers for such commands."""
_SET_CHILD_SUBREAPER = 36


@dataclass
class Outcome:
    """How a program ended: its exit status (128 + n when signal n killed it; 127 or 126 when it could not be
    executed, `failure` then being the errno) and how many calls of each kind were looked at."""

    status: int
    failure: int
    counts: dict[str, int]


def supervise(driver: SimDriver, command: Sequence[str]) -> Outcome:
    """Runs a command and serves it until it and everything it has started have ended.

    Belongs into the main thread of a process of its own: it handles the signals meanwhile, and waits for every child
    the process has, orphans of the program included. DeviceUnavailable says what forbids it here.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, *(ctypes.c_ulong(n) for n in (1, 0, 0, 0)))
    with _Bell() as bell:
        service = _Service(driver, start(command), bell)
        with _signals(service, bell):
            try:
                service.run()
            finally:
                service.close()
    return service.outcome


class _Bell:
    """A pipe that wakes the loop."""

    def __init__(self) -> None:
        self.hears, self.rings = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.hears)
        os.close(self.rings)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it rings already
            os.write(self.rings, b"\0")

    def quiet(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.hears, 4096)


class _Service:
    """One program being served."""

    def __init__(self, driver: SimDriver, child: Child, bell: _Bell) -> None:
        """Takes over `child`, and ends it when there is an error."""
        self.child, self.bell = child, bell
        self.trouble: list[BaseException] = []
        self.ended, self.status, self.failure = False, 0, 0
        with ExitStack() as undo:
            undo.callback(child.close)
            undo.callback(self._end_all)
            self._queue = EngineQueue(self.alarm)
            undo.callback(self._queue.close)
            self.calls = Calls(driver, child.listener, this_machine().calls, self._queue)
            undo.pop_all()

    @property
    def outcome(self) -> Outcome:
        """What is known of the end."""
        if self.failure:
            return Outcome(NOT_FOUND if self.failure == errno.ENOENT else NOT_EXECUTABLE, self.failure,
                           self.calls.counts)
        return Outcome(self.status, 0, self.calls.counts)

    def run(self) -> None:
        """Serves until no process has the filter any more."""
        poll = select.poll()
        for source in (self.child.listener, self.calls.watch, self.child.channel, self.bell.hears):
            poll.register(source, select.POLLIN)
        self.child.go()
        while self._step(poll):
            if self.trouble:
                raise self.trouble[0]
        self.reap(0)
        self._executed()

    def _step(self, poll: select.poll) -> bool:
        """Answers what there is to answer; whether there may be more."""
        listener, channel = self.child.listener.fileno(), self.child.channel.fileno()
        ready = dict(poll.poll())
        self.calls.released()  # before any new call: an end precedes what the program did after it
        if ready.get(listener, 0) & select.POLLIN:
            asked = self.child.listener.receive()
            if asked is not None:
                self.calls.answer(asked)
        elif listener in ready:
            return False
        if channel in ready:
            poll.unregister(channel)
            self._executed()
        if self.bell.hears in ready:
            self.bell.quiet()
            self.reap(os.WNOHANG)
        return True

    def _executed(self) -> None:
        """Takes note of whether the program could be executed, once that is known."""
        self.failure = self.failure or self.child.failure()

    def reap(self, how: int) -> None:
        """Takes note of children that have ended: zombies keep the filter in use."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, how)
                if not pid:
                    break
                self._note(pid, status)

    def signal(self, number: int) -> None:
        """Forwards a signal to the program; once that has ended, one that is meant to end it ends the service."""
        if self.ended:
            self.alarm(KeyboardInterrupt())
        else:
            with suppress(ProcessLookupError):
                os.kill(self.child.pid, number)

    def alarm(self, error: BaseException) -> None:
        """Has the loop raise an error."""
        self.trouble.append(error)
        self.bell.ring()

    def close(self) -> None:
        """Ends whatever is left of the program and what it has started, and closes all descriptors."""
        self._end_all()
        self._queue.close()  # the last submission may still be running
        self.child.close()
        self.calls.close()

    def _end_all(self) -> None:
        if not self.ended:
            self.signal(signal.SIGKILL)
        while children := _children():
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            self._note(*os.waitpid(-1, 0))  # one at a time: what it leaves behind becomes ours

    def _note(self, pid: int, status: int) -> None:
        if pid == self.child.pid:
            code = os.waitstatus_to_exitcode(status)
            self.ended, self.status = True, code if code >= 0 else 128 - code


def _children() -> list[int]:
    """Children of this process; none where the kernel does not list them."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{task}/children") as listed:
            found += map(int, listed.read().split())
    return found


@contextmanager
def _signals(service: _Service, bell: _Bell) -> Iterator[None]:
    """Signals go to the program; the end of a child wakes the loop."""
    def forward(number: int, _: FrameType | None) -> None:
        if service.ended or number not in FROM_KEYBOARD or not _has_terminal():
            service.signal(number)

    wake = signal.set_wakeup_fd(bell.rings, warn_on_full_buffer=False)
    before = {number: signal.signal(number, forward) for number in (*FORWARDED, *FROM_KEYBOARD)}
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wake)


def _has_terminal() -> bool:
    """Whether this process is in the foreground of its terminal, which then signals the program as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
