"""A kernel that writes down everything it is asked, on its way to another kernel."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from openane.devices.linux.interface import BO_FREE, BO_INIT, SUBMIT, BufferFree, BufferInit, Submit
from openane.devices.linux.kernel import Kernel, Mapping
from openane.devices.linux.trace import Event, TraceWriter
from openane.version import __version__


class RecordingKernel:
    """See `Kernel`. The trace is complete when `finish` is called; `abandon` leaves none."""

    def __init__(self, kernel: Kernel, path: Path, **header: str) -> None:
        """`header`: what else the first line of the trace says. DeviceError when the file cannot be written."""
        self._kernel = kernel
        self._writer = TraceWriter(path, {"openane": __version__, "machine": platform.machine(),
                                          "system": platform.platform(), **header})
        self._files: dict[int, int] = {}
        self._objects: dict[tuple[int, int], Mapping] = {}
        self._cookies: dict[tuple[int, int], int] = {}
        self._contents: dict[tuple[int, int], str] = {}
        self._opened = 0
        self._lock = RLock()
        self._finished = False

    def nodes(self) -> tuple[str, ...]:
        """See `Kernel.nodes`; not recorded."""
        return self._kernel.nodes()

    def open(self, path: str) -> int:
        """See `Kernel.open`."""
        with self._lock:
            try:
                fd = self._kernel.open(path)
            except OSError as error:
                self._writer.add(Event("open", self._opened, path=path, error=error.errno or 0))
                raise
            self._files[fd] = self._opened
            self._writer.add(Event("open", self._opened, path=path))
            self._opened += 1
            return fd

    def version(self, fd: int) -> tuple[str, str, str]:
        """See `Kernel.version`."""
        with self._lock:
            texts = self._kernel.version(fd)
            self._writer.add(Event("version", self._files[fd], texts=texts))
            return texts

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """See `Kernel.ioctl`. What a submission's buffer objects hold is kept before and after it."""
        with self._lock:
            sent = bytes(argument)
            handles = self._handles(fd, sent) if request == SUBMIT else []
            event: dict[str, Any] = {"request": request, "argument": sent, "before": self._changed(fd, handles)}
            start = time.perf_counter()
            try:
                self._kernel.ioctl(fd, request, argument)
            except OSError as error:
                self._writer.add(Event("ioctl", self._files[fd], error=error.errno or 0, **event,
                                       seconds=time.perf_counter() - start))
                raise
            seconds = time.perf_counter() - start
            self._writer.add(Event("ioctl", self._files[fd], answer=bytes(argument), seconds=seconds,
                                   after=self._changed(fd, handles), **event))
            self._note(fd, request, bytes(argument))

    def map(self, fd: int, length: int, offset: int) -> Mapping:
        """See `Kernel.map`."""
        with self._lock:
            mapping = self._kernel.map(fd, length, offset)
            self._writer.add(Event("map", self._files[fd], length=length, offset=offset))
            handle = self._cookies.get((fd, offset))
            if handle is not None:
                self._objects[fd, handle] = mapping
            return mapping

    def close(self, fd: int) -> None:
        """See `Kernel.close`."""
        with self._lock:
            self._kernel.close(fd)
            self._writer.add(Event("close", self._files.pop(fd)))

    def finish(self) -> None:
        """Writes the trace."""
        with self._lock:
            if not self._finished:
                self._finished = True
                self._writer.close()

    def abandon(self) -> None:
        """Leaves no trace."""
        with self._lock:
            if not self._finished:
                self._finished = True
                self._writer.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.finish()

    def _note(self, fd: int, request: int, answer: bytes) -> None:
        if request == BO_INIT:
            made = BufferInit.unpack(answer)
            self._cookies[fd, made.offset] = made.handle
        elif request == BO_FREE:
            handle = BufferFree.unpack(answer).handle
            for known in (self._objects, self._contents):
                known.pop((fd, handle), None)

    def _handles(self, fd: int, argument: bytes) -> list[int]:
        """The mapped buffer objects of a submission."""
        asked = Submit.unpack(argument)
        return [handle for handle in dict.fromkeys((*asked.handles, asked.bootstrap)) if (fd, handle) in self._objects]

    def _changed(self, fd: int, handles: list[int]) -> dict[int, str]:
        """The blobs of those whose contents are not what they were when last looked at."""
        found = {}
        for handle in handles:
            with memoryview(self._objects[fd, handle]) as view:
                blob = self._writer.blob(view)
            if self._contents.get((fd, handle)) != blob:
                self._contents[fd, handle] = found[handle] = blob
        return found
