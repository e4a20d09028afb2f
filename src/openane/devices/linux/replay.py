"""A trace in the place of a driver: it answers our own backend with what was recorded, and refuses the first request
that is not the recorded one, byte by byte."""

from __future__ import annotations

import mmap
import os
from threading import RLock

from openane.devices.linux.interface import BO_FREE, BufferFree
from openane.devices.linux.kernel import Mapping
from openane.devices.linux.trace import Difference, Event, Trace, first_difference
from openane.errors import DeviceError, FormatError


class ReplayKernel:
    """See `Kernel`. DeviceError at the first call that is not the recorded one; after it nothing is compared any more,
    so that what was opened can be given back."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._next = 0
        self._diverged = False
        self._objects: dict[tuple[int, int], mmap.mmap] = {}
        self._lock = RLock()

    @property
    def finished(self) -> bool:
        """Whether everything recorded was asked for."""
        return not self._diverged and self._next == len(self._trace.events)

    def nodes(self) -> tuple[str, ...]:
        """The node the trace was recorded at."""
        return tuple(dict.fromkeys(event.path for event in self._trace.events if event.kind == "open"))

    def open(self, path: str) -> int:
        """See `Kernel.open`."""
        event = self._expect("open", path=path)
        if event is not None and event.error:
            raise OSError(event.error, os.strerror(event.error), path)
        return 0 if event is None else event.file

    def version(self, fd: int) -> tuple[str, str, str]:
        """See `Kernel.version`."""
        event = self._expect("version", file=fd)
        name, date, description = (*(() if event is None else event.texts), "", "", "")[:3]
        return name, date, description

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """See `Kernel.ioctl`."""
        with self._lock:
            event = self._expect("ioctl", file=fd, request=request, argument=bytes(argument))
            if event is None:
                return
            for handle, blob in event.before.items():
                self._compare(fd, handle, self._trace.blob(blob))
            for handle, blob in event.after.items():
                data = self._trace.blob(blob)
                with memoryview(self._object(fd, handle, len(data))) as view:
                    view[:len(data)] = data
            if event.error:
                raise OSError(event.error, os.strerror(event.error))
            argument[:] = event.answer
            if request == BO_FREE:
                self._objects.pop((fd, BufferFree.unpack(event.answer).handle), None)

    def map(self, fd: int, length: int, offset: int) -> Mapping:
        """See `Kernel.map`: memory of this process. DeviceError for a length no recorded buffer object has."""
        with self._lock:
            event = self._expect("map", file=fd, length=length, offset=offset)
            mapping = mmap.mmap(-1, length)
            if event is not None:
                self._objects[fd, self._trace.mapped(self._next, fd, offset)] = mapping
            return mapping

    def close(self, fd: int) -> None:
        """See `Kernel.close`."""
        self._expect("close", file=fd)

    def _expect(self, kind: str, **values: object) -> Event | None:
        """The next recorded event, which must be this one. None after the first difference."""
        with self._lock:
            if self._diverged:
                return None
            event = self._trace.events[self._next] if self._next < len(self._trace.events) else None
            if event is None or event.kind != kind or any(getattr(event, k) != v for k, v in values.items()):
                self._fail("the call", "the end of the trace" if event is None else event.describe(),
                           Event(kind, **{"file": 0, **values}).describe())  # type: ignore[arg-type]
            self._next += 1
            return event

    def _compare(self, fd: int, handle: int, expected: bytes) -> None:
        with memoryview(self._object(fd, handle, len(expected))) as view:
            different = first_difference(view, expected)
        if different is not None:
            self._fail(f"buffer object {handle} at byte {different:#x}", f"SHA-256 of {len(expected)} bytes",
                       "other bytes")

    def _object(self, fd: int, handle: int, size: int) -> mmap.mmap:
        """The memory of a buffer object that holds `size` bytes."""
        found = self._objects.get((fd, handle))
        if found is None or found.closed or len(found) < size:
            raise FormatError(f"{self._trace.path}: event {self._next - 1} has {size} bytes of buffer object {handle}, "
                              "which is not mapped or smaller")
        return found

    def _fail(self, what: str, expected: str, found: str) -> None:
        self._diverged = True
        raise DeviceError(f"the run is not the recorded one: {Difference(self._next, what, expected, found)}")
