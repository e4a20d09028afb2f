"""Kernels for tests of the Linux backend: one without an engine, one that counts what is held and lets calls fail."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from openane.devices.linux.interface import (
    BO_FREE,
    BO_INIT,
    NAMES,
    NODE,
    SUBMIT,
    BufferFree,
    BufferInit,
)
from openane.devices.linux.kernel import Kernel

CALLS = ("nodes", "open", "VERSION", "BO_INIT", "mmap", "SUBMIT", "munmap", "BO_FREE", "close")
Strike = Callable[[str], None]


class IdleKernel:
    """The driver without an engine: buffer objects are anonymous memory, submissions end at once."""

    def __init__(self, name: str = "ane") -> None:
        self.name = name
        self._handles: dict[int, int] = {}
        self._next = 1

    def nodes(self) -> tuple[str, ...]:
        return (NODE.format(0),)

    def open(self, path: str) -> int:
        self._next += 1
        return self._next

    def version(self, fd: int) -> tuple[str, str, str]:
        return self.name, "20230103", "Apple Neural Engine driver"

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        if request == BO_INIT:
            wanted = BufferInit.unpack(argument)
            wanted.handle, wanted.offset = self._next, self._next << 20
            self._handles[self._next] = wanted.size
            self._next += 1
            argument[:] = wanted.pack()
        elif request == BO_FREE and self._handles.pop(BufferFree.unpack(argument).handle, None) is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def map(self, fd: int, length: int, offset: int) -> mmap.mmap:
        return mmap.mmap(-1, length)

    def close(self, fd: int) -> None:
        pass


class CountedMapping(mmap.mmap):
    """A mapping that tells when it is closed."""

    told: Callable[[], None]

    def close(self) -> None:
        self.told()
        super().close()


class CountingKernel:
    """Another kernel, its open descriptors, handles and mappings counted. `fail(call, code, after)` lets one call fail
    before it does anything, but for `close`, which closes all the same, as Linux does."""

    def __init__(self, inner: Kernel) -> None:
        self.inner = inner
        self.descriptors: set[int] = set()
        self.handles: set[tuple[int, int]] = set()
        self.mappings: WeakSet[Any] = WeakSet()
        self.calls: dict[str, int] = dict.fromkeys(CALLS, 0)
        self._pending: tuple[str, int, int] | None = None
        self.submitted: Callable[[], object] = lambda: None

    @property
    def held(self) -> tuple[int, int, int]:
        """Descriptors, handles and mappings that were not given back."""
        mapped = [mapping for mapping in self.mappings if not mapping.closed]
        return len(self.descriptors), len(self.handles), len(mapped)

    @property
    def struck(self) -> bool:
        """Whether the failure has happened."""
        return self._pending is None

    def fail(self, call: str, code: int, after: int = 0) -> None:
        """Lets a call of the kind `call` fail once, after `after` good ones."""
        self._pending = call, code, after

    def nodes(self) -> tuple[str, ...]:
        self._strike("nodes")
        return self.inner.nodes()

    def open(self, path: str) -> int:
        self._strike("open")
        fd = self.inner.open(path)
        self.descriptors.add(fd)
        return fd

    def version(self, fd: int) -> tuple[str, str, str]:
        self._strike("VERSION")
        return self.inner.version(fd)

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        assert fd in self.descriptors
        self._strike(NAMES[request])
        self.inner.ioctl(fd, request, argument)
        if request == BO_INIT:
            self.handles.add((fd, BufferInit.unpack(argument).handle))
        elif request == BO_FREE:
            self.handles.remove((fd, BufferFree.unpack(argument).handle))
        elif request == SUBMIT:
            self.submitted()

    def map(self, fd: int, length: int, offset: int) -> CountedMapping:
        assert fd in self.descriptors
        self._strike("mmap")
        if isinstance(self.inner, IdleKernel):
            mapping = CountedMapping(-1, length)
        else:
            self.inner.map(fd, length, offset).close()  # what the driver checks
            mapping = CountedMapping(fd, length, mmap.MAP_SHARED, offset=offset)
        mapping.told = lambda: self._strike("munmap")
        self.mappings.add(mapping)
        return mapping

    def close(self, fd: int) -> None:
        assert not any(owner == fd for owner, _ in self.handles), "nobody can free them any more"
        self.inner.close(fd)
        self.descriptors.remove(fd)
        self._strike("close")

    def _strike(self, call: str) -> None:
        self.calls[call] += 1
        if self._pending is None or self._pending[0] != call:
            return
        _, code, after = self._pending
        self._pending = (call, code, after - 1) if after else None
        if not after:
            raise OSError(code, os.strerror(code))
