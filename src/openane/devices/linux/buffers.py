"""Buffer objects of the Linux driver: made, mapped, unmapped, freed exactly once, whatever happens in between.

Freeing one that is still mapped leaves the kernel with dangling pages (the driver's source; inferred, never tried). An
array of a user's may outlive the device, so its memory is not unmapped: ordinary pages with the same contents take the
place of the driver's, and the buffer object is freed. The driver frees nothing by itself, not even when a process ends:
a finalizer does it when nobody can reach the memory any more, and at the end of the interpreter.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from openane.devices.linux.connection import Connection, inside_call
from openane.devices.linux.failures import failure
from openane.devices.linux.interface import BO_FREE, BO_INIT, BufferFree, BufferInit
from openane.devices.linux.kernel import Mapping
from openane.errors import DeviceChanged, DeviceError
from openane.rounding import round_up

GRANULE = 0x4000
"""The driver rounds sizes up to the pages of the processor, which has pages of this size."""
MREMAP_MAYMOVE, MREMAP_FIXED = 1, 2
FAILED = ctypes.c_void_p(-1).value
"""Of Linux's mmap and mremap, which Python's mmap does not offer in this form."""


class BufferObject:
    """A buffer object that is mapped: `size` bytes at `address`, `handle` for submissions. It lives as long as any
    array over its memory."""

    def __init__(self, connection: Connection, size: int, name: str = "memory") -> None:
        """At least `size` bytes, zeroed; `name` is for messages. DeviceError as `failure` says; nothing is left
        behind."""
        self.name, self.size = name, round_up(max(size, 1), GRANULE)
        self._held = _Held(connection, self.size, name)
        weakref.finalize(self, self._held.finish)
        self._root: weakref.ref[np.ndarray] | None = None
        self.array()[:] = 0

    @property
    def handle(self) -> int:
        """The driver's handle. DeviceError after `close`."""
        if not self._held.handle:
            raise DeviceError(f"the {self.name} was given back")
        return self._held.handle

    @property
    def live(self) -> bool:
        """Whether it was not given back."""
        return self._held.handle != 0

    @property
    def address(self) -> int:
        """Where the memory is in this process."""
        return self._held.address

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (self.size,), "data": (self._held.address, False)}

    def array(self) -> np.ndarray:
        """The bytes (uint8), mapped. Every array made from it keeps the memory."""
        known = None if self._root is None else self._root()
        if known is None:
            known = np.asarray(self)
            self._root = weakref.ref(known)
        return known

    def close(self) -> None:
        """Unmaps and frees; arrays that are still there keep their contents, but no longer in device memory. Closing
        twice does nothing; after an error it tries again."""
        self._held.free(exposed=self._root is not None and self._root() is not None)


class _Held:
    """What has to be given back: a handle and a mapping."""

    def __init__(self, connection: Connection, size: int, name: str) -> None:
        self._connection, self._size, self._name = connection, size, name
        self._lock = threading.RLock()
        self._mapping: Mapping | None = None
        self._private = False
        self.address = 0
        answer = connection.request(BO_INIT, BufferInit(size=size))
        if not answer.handle:
            raise DeviceChanged("the driver's BO_INIT", expected="a handle above 0", found=0)
        self.handle = answer.handle
        connection.count(size)
        try:
            self._map(answer.offset)
        except BaseException:
            twice(partial(self.free, exposed=False))
            raise

    def _map(self, offset: int) -> None:
        self._mapping = mapping = self._connection.map(self._size, offset)
        if len(mapping) < self._size:
            raise DeviceChanged("the driver's mapping", expected=f"{self._size} bytes", found=f"{len(mapping)} bytes")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))

    def free(self, exposed: bool) -> None:
        """Takes the driver's pages away, or replaces them where an array is `exposed`; then frees the handle."""
        with self._lock:
            if exposed:
                self._replace()
            else:
                self._unmap()
            self._connection.when_idle(self._give_back)

    def finish(self) -> None:
        """The end: no array is left. Does nothing in a forked process, whose parent has the memory."""
        if not self._connection.ours:
            return
        if inside_call():  # a collection in the middle of a call: another thread waits for its turn
            threading.Thread(target=self.finish, name="ane finalizer").start()
            return
        twice(partial(self.free, exposed=False))

    def _give_back(self) -> None:
        with self._lock:
            if self.handle:
                self._connection.request(BO_FREE, BufferFree(self.handle))
                self.handle = 0
                self._connection.count(-self._size)

    def _unmap(self) -> None:
        if self._mapping is None:
            return
        try:
            self._mapping.close()
        except (OSError, BufferError):  # then at least the driver's pages go; the mapping ends with its object
            self._replace()
        self._mapping = None

    def _replace(self) -> None:
        """Ordinary pages with the same contents in place of the driver's."""
        if self._mapping is None or self._private:
            return
        if not isinstance(self._mapping, mmap.mmap):
            raise DeviceError(f"an array over the {self._name} ({self._size} bytes) is still there, and this kernel's "
                              "memory cannot be taken from under it: drop the array before the device is closed")
        try:
            _anonymous(self.address, self._size)
        except OSError as error:
            raise failure("mmap", error, self._connection.used) from error
        self._private = True


def twice(action: Callable[[], None]) -> None:
    """Runs it once more after an error. DeviceError when it fails again."""
    try:
        action()
    except DeviceError:
        action()


def _anonymous(address: int, size: int) -> None:
    """Moves ordinary pages with the same contents over those at `address`, at once: no reader sees anything else."""
    system = _system()
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    fresh = system.mmap(None, size, access, kind, -1, 0)
    if fresh == FAILED:
        raise OSError(ctypes.get_errno(), "there is no memory to take the place of a mapping")
    ctypes.memmove(fresh, address, size)
    if system.mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != address:
        code = ctypes.get_errno()
        system.munmap(fresh, size)
        raise OSError(code, "the pages of a mapping could not be replaced")


@cache
def _system() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype, library.mremap.restype = address, address
    library.mmap.argtypes = (address, size, number, number, number, ctypes.c_int64)
    library.mremap.argtypes = (address, size, size, number, address)
    library.munmap.argtypes = (address, size)
    return library
