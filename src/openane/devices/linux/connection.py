"""An open node of the Linux driver: requests with typed errors, a limit on submissions, and an orderly end.

The driver frees nothing when a file is closed, so the descriptor outlives every buffer object made through it. A buffer
object must not be freed while the engine may still write to it: what is given back during a submission that did not
return in time waits until it does.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

from openane.devices.closing import every
from openane.devices.linux.failures import failure
from openane.devices.linux.interface import DRIVER, NAMES, SUBMIT, Structure
from openane.devices.linux.kernel import Kernel, Mapping
from openane.errors import DeviceError, DeviceHung, DeviceUnavailable

T = TypeVar("T")
S = TypeVar("S", bound=Structure)
INTERRUPTIONS = 1000
"""How often a call is made again that a signal interrupted."""
_calling = threading.local()
"""Whether a thread is inside a call, as finalizers, which run anywhere, must know."""


class Connection:
    """A node of the driver. `date` is the driver's date, `used` the bytes of the buffer objects made through it,
    `clock` the seconds runs are measured by: a simulated engine may have its own."""

    def __init__(self, kernel: Kernel, path: str, timeout: float | None = None) -> None:
        """Opens the node. DeviceUnavailable when it is not there, not permitted or another driver's; `timeout` limits
        a submission in seconds, besides the driver's own limit."""
        self.path, self.used, self._timeout = path, 0, timeout
        self._kernel = kernel
        self.clock: Callable[[], float] = getattr(kernel, "clock", time.perf_counter)
        self._fd = attempt("open", lambda: kernel.open(path))
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._closing = False
        self._late: set[threading.Thread] = set()
        self._waiting: list[Callable[[], object]] = []
        self._end = weakref.finalize(self, _close, kernel, self._fd, self._process)
        try:
            name, self.date, _ = attempt("VERSION", lambda: kernel.version(self._fd))
            if name != DRIVER:
                raise DeviceUnavailable(f"{path} belongs to the driver {name[:80]!r}, not {DRIVER!r}",
                                        "'ane devices' lists the nodes that are engines")
        except BaseException:
            self._end()
            raise

    @property
    def ours(self) -> bool:
        """Whether this is the process that opened the node; handles and memory mean nothing in a forked one."""
        return os.getpid() == self._process

    def request(self, number: int, structure: S) -> S:
        """Sends a structure and returns the driver's answer. DeviceError as `failure` says."""
        self._require_usable()
        packed = structure.pack()

        def send() -> bytearray:
            argument = bytearray(packed)
            self._kernel.ioctl(self._fd, number, argument)
            return argument

        return type(structure).unpack(attempt(NAMES[number], send, self.used))

    def map(self, length: int, offset: int) -> Mapping:
        """See `Kernel.map`."""
        self._require_usable()
        return attempt("mmap", lambda: self._kernel.map(self._fd, length, offset), self.used)

    def submit(self, packed: bytes) -> None:
        """Sends SUBMIT and waits for its end. DeviceHung when it does not come in time."""
        self._require_usable()

        def send() -> None:
            self._kernel.ioctl(self._fd, SUBMIT, bytearray(packed))

        if self._timeout is None:
            attempt(NAMES[SUBMIT], send, self.used)
        else:
            self._within(self._timeout, lambda: attempt(NAMES[SUBMIT], send, self.used))

    def when_idle(self, action: Callable[[], object]) -> None:
        """Runs `action` now, or when every submission that did not return in time has returned."""
        with self._lock:
            if self._late:
                self._waiting.append(action)
                return
        action()

    def count(self, size: int) -> None:
        """Counts the bytes of a buffer object that was made, or, below 0, freed."""
        with self._lock:
            self.used += size
            last = self._closing and not self.used
        if last:
            self._end()

    def close(self) -> None:
        """Closes the node, once, when no buffer object is left. DeviceError when the kernel complains."""
        with self._lock:
            self._closing = True
            last = not self.used
        if last:
            self._end()

    def _require_usable(self) -> None:
        if not self._end.alive:
            raise DeviceError("the device is closed")
        if not self.ours:
            raise DeviceError("a device is used by the process that opened it, not by a forked one: open it again here")
        if self._late:
            raise DeviceHung(NAMES[SUBMIT], self._timeout or 0.0, text="it still has not returned, and nothing else "
                             "can be asked for before it does")

    def _within(self, seconds: float, action: Callable[[], None]) -> None:
        """Runs `action` in a thread of its own, as a call into the kernel cannot be cut short."""
        errors: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                action()
            except BaseException as error:
                errors.append(error)
            done.set()
            self._returned()

        thread = threading.Thread(target=work, daemon=True, name="ane submission")
        thread.start()
        try:
            done.wait(seconds)
        finally:  # an interrupted wait leaves a running submission as well
            with self._lock:
                late = not done.is_set()
                if late:
                    self._late.add(thread)
        if late:
            raise DeviceHung(NAMES[SUBMIT], seconds, text="the driver has not answered; its own limit is 1 s, and it "
                             "makes clients wait for each other")
        thread.join()
        if errors:
            raise errors.pop()

    def _returned(self) -> None:
        """The end of a submission: what had to wait for it happens now."""
        with self._lock:
            self._late.discard(threading.current_thread())
            if self._late:
                return
            waiting, self._waiting = self._waiting, []
        every(waiting)


def attempt(request: str, call: Callable[[], T], used: int = 0) -> T:
    """Makes a call into the kernel, again when a signal interrupted it. DeviceError as `failure` says."""
    before, _calling.inside = inside_call(), True
    try:
        left = INTERRUPTIONS
        while True:
            try:
                return call()
            except OSError as error:
                left -= 1
                if not left or error.errno != errno.EINTR:
                    raise failure(request, error, used) from error
    finally:
        _calling.inside = before


def inside_call() -> bool:
    """Whether this thread is in the middle of a call into the kernel, where no other may begin."""
    return getattr(_calling, "inside", False)


def _close(kernel: Kernel, fd: int, process: int) -> None:
    if os.getpid() != process:
        return
    try:
        kernel.close(fd)
    except OSError as error:  # closed all the same: a second attempt could close somebody else's
        raise failure("close", error) from error
