"""The Linux accel driver `ane` without the kernel and the hardware: its files, handles, addresses, errors and hangs.

Requests are the bytes the real driver takes (devices/linux/interface.py). `faithful` mode does what the driver does
with wrong clients: nothing. One address space, buffers next to each other, an overrun lands in the neighbour, an
access where nothing is mapped hangs, what is not freed stays. `strict` mode finds out: gaps between buffers, poisoned
fresh memory, a report of every wrong access (which is then not executed, errno EFAULT), of leaks and of use after free,
and everything of a closed file is reclaimed.
"""

from __future__ import annotations

import errno
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, RLock
from types import TracebackType
from typing import Self

from openane.devices.linux import interface
from openane.devices.linux.interface import BufferFree, BufferInit, Structure, Submit, Version
from openane.devices.other_engine import OtherEngine
from openane.devices.simdriver.chain import Submission, SubmissionFault
from openane.devices.simdriver.engine import SimulatedEngine
from openane.devices.simdriver.files import DriverFile
from openane.devices.simdriver.injection import CLOSE, MAP, OPEN, Injections
from openane.devices.simdriver.reports import DriverError, FaultReport, LeakReport, Report, ReportKind, StaleReport
from openane.devices.simdriver.space import AddressSpace, SimulatedBufferObject
from openane.errors import DeviceError, DeviceUnavailable
from openane.rounding import round_up
from openane.simulator import Mode

MODES = ("strict", "faithful")
DATE, DESCRIPTION = "20230103", "Apple Neural Engine driver"
"""What VERSION answers; of the description only the length is known."""
PAGE = 16384
"""Of the kernels for these machines."""
MEMORY = 2 << 30
KEPT_REPORTS = 1000
WINDOW = (interface.WINDOW_BASE, interface.WINDOW_SIZE)
IOCTL_TYPE = "d"


class SimDriver:
    """A device node and the driver behind it. Any number of threads may use it at once."""

    def __init__(self, mode: str = "strict", arithmetic: str = "auto", *, window: tuple[int, int] = WINDOW,
                 memory: int = MEMORY, hang_seconds: float = 0.0, recovers: bool = True,
                 other: OtherEngine | None = None) -> None:
        """`window`: first device address and bytes. `memory`: bytes of all buffer objects together, beyond which
        ENOMEM. `hang_seconds`: how long a submission that hangs keeps its caller waiting; the driver's time-out is
        1 s, and counts the engine's time, not the simulator's. `recovers`: whether submissions after a hang work; the
        driver only clears the queue's status, so a real engine may stay stuck (not known). `other`: the engine, where
        it is not as believed; the driver's clock is then its.

        DeviceError for another mode or window, SimulationError for another arithmetic, DeviceUnavailable on other
        systems, OSError ENOMEM when there is no address space for the window.
        """
        _require_possible(mode, window)
        (base, size), computes = window, Mode.of(arithmetic)
        self.mode, self.strict = mode, mode == "strict"
        self._memory, self._hang_seconds, self._recovers = memory, hang_seconds, recovers
        self._reports: deque[Report] = deque(maxlen=KEPT_REPORTS)
        self._space = AddressSpace(base, size, PAGE if self.strict else 0)
        self._engine = SimulatedEngine(self._space, computes, self._tell, strict=self.strict, other=other)
        self.clock = time.perf_counter if other is None else other.clock
        self._files: dict[int, DriverFile] = {}
        self.leaked: list[SimulatedBufferObject] = []
        self._injections = Injections()
        self._running, self._state = Lock(), RLock()  # taken in this order
        self._handlers: Mapping[int, tuple[type[Structure], Callable[[DriverFile, bytearray], None]]] = {
            interface.BO_INIT: (BufferInit, self._init), interface.BO_FREE: (BufferFree, self._free),
            interface.SUBMIT: (Submit, self._submit), interface.DRM_VERSION: (Version, self._version)}
        self._open = True
        self.stuck = False
        self.submissions = 0

    @property
    def reports(self) -> tuple[Report, ...]:
        """What clients did wrong, the latest last."""
        with self._state:
            return tuple(self._reports)

    @property
    def files(self) -> tuple[DriverFile, ...]:
        """Open files."""
        with self._state:
            return tuple(self._files.values())

    @property
    def used(self) -> int:
        """Bytes of all buffer objects, leaked ones included."""
        return self._space.used

    @property
    def version(self) -> tuple[str, str, str]:
        """What the VERSION request answers: name, date, description."""
        return interface.DRIVER, DATE, DESCRIPTION

    def identify(self) -> tuple[str, str, str]:
        """A VERSION request of a client without the structure: `version`. DriverError when it is to fail."""
        self._injections.strike(interface.NAMES[interface.DRM_VERSION])
        return self.version

    def open(self, client: int) -> DriverFile:
        """A new file of a client (its process number, say). OSError ENODEV when the driver is closed."""
        self._injections.strike(OPEN)
        with self._state:
            if not self._open:
                raise DriverError(errno.ENODEV, "the driver is closed")
            file = DriverFile(client, reuses=not self.strict)
            self._files[file.inode] = file
            return file

    def file_of(self, inode: int) -> DriverFile | None:
        """The open file whose memory file has this inode."""
        with self._state:
            return self._files.get(inode)

    def ioctl(self, file: DriverFile, request: int, argument: bytearray) -> None:
        """Takes the structure `argument` and leaves the answer in it. DriverError (an OSError) with the driver's errno;
        its `reports` say more where there is more to say."""
        if not file.open:
            raise DriverError(errno.EBADF, "the file is closed")
        handler = self._handlers.get(request)
        if handler is None:
            foreign = request < 0 or request.bit_length() > 32 or request.to_bytes(4, "little")[1] != ord(IOCTL_TYPE)
            raise DriverError(errno.ENOTTY if foreign else errno.EINVAL, f"the driver has no request {request:#x}")
        structure, answer = handler
        if len(argument) != structure.length():
            raise DriverError(errno.EFAULT, f"{interface.NAMES[request]} takes {structure.length()} bytes, not "
                                            f"{len(argument)}")
        if request != interface.SUBMIT:
            self._injections.strike(interface.NAMES[request])
        answer(file, argument)

    def mappable(self, file: DriverFile, length: int, offset: int) -> None:
        """What the driver checks when a buffer object is mapped. DriverError EINVAL unless BO_INIT gave the offset and
        the length is within the buffer object."""
        self._injections.strike(MAP)
        with self._state:
            if not file.open:
                raise DriverError(errno.EBADF, "the file is closed")
            file.live(offset, length)

    def inject(self, request: int | str, code: int, *, after: int = 0, times: int = 1) -> None:
        """Lets a request fail: after `after` more that do not, `times` times. `request` is a number or name of
        `interface.NAMES`, "OPEN", "MAP" or "CLOSE". SUBMIT with ETIMEDOUT is a hang, `stuck` and waiting included."""
        self._injections.add(interface.NAMES.get(request, "") if isinstance(request, int) else request, code, after,
                             times)

    def close_file(self, file: DriverFile) -> None:
        """Closes a file, whose client may be gone. What it did not free stays in faithful mode; strict mode reclaims it
        and reports it, and memory used after it was freed. Closing twice does nothing."""
        with self._running, self._state:
            if not file.open:
                return
            left = list(file.handles.values())
            if self.strict:
                self._tell(*file.stale())
            if left:
                self._tell(LeakReport(file.client, tuple((item.handle, item.size) for item in left), self.strict))
            for item in left:
                if self.strict:
                    self._remove(file, item)
                else:
                    self.leaked.append(item)
            self._files.pop(file.inode, None)
            file.close()
        self._injections.strike(CLOSE)

    def close(self) -> None:
        """Closes every file and gives all memory back. Closing twice does nothing."""
        with self._state:
            was_open, self._open = self._open, False
        if not was_open:
            return
        for file in self.files:
            with suppress(DriverError):  # an injected failure
                self.close_file(file)
        with self._running, self._state:
            self._engine.close()
            self._space.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _version(self, file: DriverFile, argument: bytearray) -> None:
        """The lengths; whoever has the caller's memory at hand writes the names to its pointers."""
        answer = Version.unpack(argument)
        answer.major, answer.minor, answer.patch = 1, 0, 0
        answer.name_length, answer.date_length, answer.description_length = map(len, self.version)
        argument[:] = answer.pack()

    def _init(self, file: DriverFile, argument: bytearray) -> None:
        request = BufferInit.unpack(argument)
        if request.pad:
            raise DriverError(errno.EINVAL, "BO_INIT: pad must be 0")
        length = round_up(request.size, PAGE)
        if not length:
            raise DriverError(errno.ENOSPC, "BO_INIT: a buffer object of 0 bytes")
        with self._state:
            if self._space.used + length > self._memory:
                raise DriverError(errno.ENOMEM, f"BO_INIT: {length} bytes, when {self._space.used} of "
                                                f"{self._memory} are in use")
            if not file.open:
                raise DriverError(errno.EBADF, "the file is closed")
            item = file.create(request.size, length, poisoned=self.strict)
            try:
                self._space.insert(item, file.memfd)
            except DriverError:
                file.forget(item)
                raise
            file.handles[item.handle] = item
        request.handle, request.offset = item.handle, item.offset
        argument[:] = request.pack()

    def _free(self, file: DriverFile, argument: bytearray) -> None:
        """Waits for the engine; the real driver would take the memory away from under a run."""
        request = BufferFree.unpack(argument)
        if request.pad:
            raise DriverError(errno.EINVAL, "BO_FREE: pad must be 0")
        with self._state:
            used = file.object(request.handle) in self._engine.running
        with self._running, self._state:
            item = file.object(request.handle)
            if self.strict and used:
                self._tell(StaleReport(file.client, item.handle, item.offset, "it was freed while a submission used "
                                       "it; the real driver would take the memory from under the engine"))
            if self.strict and file.mapped(item, self._space.host_address(item.address)):
                self._tell(StaleReport(file.client, item.handle, item.offset, "it was freed while it was mapped; the "
                                       "real driver would corrupt the kernel's memory"))
            del file.handles[item.handle]
            self._remove(file, item)

    def _tell(self, *reports: Report) -> None:
        with self._state:
            self._reports.extend(reports)

    def _remove(self, file: DriverFile, item: SimulatedBufferObject) -> None:
        self._engine.forget(item)
        self._space.remove(item)
        file.forget(item)

    def _submit(self, file: DriverFile, argument: bytearray) -> None:
        key = file.inode, bytes(argument)
        with self._running:
            if not file.open:
                raise DriverError(errno.EBADF, "the file is closed")
            work = self._engine.known(key) or self._checked(file, Submit.unpack(argument))
            self._strike()
            self._engine.take(work)
            if self.stuck and not self._recovers:
                self._hang(FaultReport(ReportKind.STUCK, file.client,
                                       "the engine is stuck since an earlier submission"))
            try:
                if isinstance(work, Submission):
                    work = self._engine.prepare(key, work)
                self._engine.execute(work)
            except SubmissionFault as fault:
                self._hang(fault.report)
            except MemoryError:
                raise DriverError(errno.ENOMEM, "SUBMIT: the simulator has not enough memory for the tasks") from None
            self.stuck = False
            self.submissions += 1

    def _checked(self, file: DriverFile, request: Submit) -> Submission:
        """What the driver checks of a submission, all EINVAL, and the buffer objects it binds."""
        handles = request.handles
        for wrong, text in ((request.pad, "pad must be 0"), (not request.text_size, "the tasks have 0 bytes"),
                            (not request.task_count, "there are 0 tasks"),
                            (not request.first_task_size, "the first task has 0 bytes"),
                            (not handles[interface.COMMAND_CHANNEL], "channel 0, the commands, has no handle"),
                            (handles[interface.CONSTANT_CHANNEL], "channel 1, the constants, has a handle; the driver "
                                                                  "computes its address"),
                            (not request.bootstrap, "the bootstrap has no handle")):
            if wrong:
                raise DriverError(errno.EINVAL, f"SUBMIT: {text}")
        with self._state:
            channels = tuple(file.object(handle) if handle else None for handle in handles)
            submission = Submission(file.client, request, channels, file.object(request.bootstrap))
        if request.text_size >= submission.commands.length:
            raise DriverError(errno.EINVAL, f"SUBMIT: the tasks take {request.text_size} bytes and must be fewer than "
                                            f"the {submission.commands.length} of channel 0")
        return submission

    def _strike(self) -> None:
        try:
            self._injections.strike(interface.NAMES[interface.SUBMIT])
        except DriverError as error:
            if error.errno == errno.ETIMEDOUT:
                self.stuck = True
                time.sleep(self._hang_seconds)
            raise

    def _hang(self, report: FaultReport) -> None:
        """The end of a submission that does not end: DriverError ETIMEDOUT, or EFAULT for what strict mode did not let
        happen."""
        self._tell(report)
        if report.kind in (ReportKind.BOUNDS, ReportKind.UNBOUND, ReportKind.PROTECTED):
            raise DriverError(errno.EFAULT, str(report), report)
        self.stuck = True
        time.sleep(self._hang_seconds)
        raise DriverError(errno.ETIMEDOUT, f"the engine did not end: {report}", report)


def _require_possible(mode: str, window: tuple[int, int]) -> None:
    if not sys.platform.startswith("linux"):
        raise DeviceUnavailable("the simulated driver needs Linux: its buffers are memory files",
                                "the device 'simulator' runs the same programs everywhere")
    if mode not in MODES:
        raise DeviceError(f"mode {mode!r} is not known; there are {', '.join(MODES)}")
    base, size = window
    if base % PAGE or size % PAGE or base < 0 or not 0 < size <= interface.WINDOW_SIZE:
        raise DeviceError(f"the window must be whole pages of {PAGE} bytes, at most {interface.WINDOW_SIZE} bytes, "
                          f"not {size} bytes from {base}")


__all__ = ["MODES", "DriverFile", "SimDriver"]
