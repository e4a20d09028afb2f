"""An open file of the simulated driver: a memory file of its own in which every buffer object is a slice.

The offset BO_INIT answers is the offset in that file, so a plain mmap of the descriptor shows the buffer object. Slices
are never used twice and have gaps between them: whatever is touched outside a live slice is a client's mistake.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import deque

from openane.devices.simdriver import host
from openane.devices.simdriver.reports import DriverError, StaleReport
from openane.devices.simdriver.space import SimulatedBufferObject

FIRST_OFFSET = 1 << 32
"""As with the real driver's offsets, 32 bits do not hold them."""
POISON = 0x7F
"""Fresh memory in strict mode: fp16 NaN, int8 127."""
MOST_FREED = 1 << 16
"""Freed buffer objects of a file that are watched."""
POISON_BLOCK = bytes([POISON]) * (1 << 20)


class DriverFile:
    """One open file. `memfd` is its memory file, `inode` tells it from all others on this machine."""

    def __init__(self, client: int, *, reuses: bool) -> None:
        """`reuses`: the lowest free handle is given out, as the kernel does; otherwise none is given out twice."""
        self.client = client
        self.memfd = os.memfd_create("ane", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # No client can take pages from under the engine, nor keep the driver from its own file.
        fcntl.fcntl(self.memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        self.inode = os.fstat(self.memfd).st_ino
        self.open = True
        self.handles: dict[int, SimulatedBufferObject] = {}
        self._reuses = reuses
        self._newest = 0
        self._end = FIRST_OFFSET
        self._freed: deque[SimulatedBufferObject] = deque(maxlen=MOST_FREED)

    def object(self, handle: int) -> SimulatedBufferObject:
        """The buffer object of a handle. DriverError EINVAL when there is none."""
        try:
            return self.handles[handle]
        except KeyError:
            raise DriverError(errno.EINVAL, f"handle {handle} is no buffer object of this file") from None

    def create(self, size: int, length: int, *, poisoned: bool) -> SimulatedBufferObject:
        """A buffer object with its slice of the memory file, not yet known by its handle; `poisoned`: filled so that
        what nobody has written is seen. DriverError ENOMEM when there is no memory."""
        offset = self._end
        self._end = offset + length + host.PAGE
        handle = self._newest + 1
        if self._reuses:
            handle = next(number for number in range(1, len(self.handles) + 2) if number not in self.handles)
        item = SimulatedBufferObject(self.client, handle, size, length, offset)
        try:
            if os.fstat(self.memfd).st_size < offset + length:
                os.ftruncate(self.memfd, offset + length)
            if poisoned:
                self._poison(item)
        except OSError as error:
            raise DriverError(errno.ENOMEM, f"BO_INIT: {error.strerror}") from None
        self._newest = max(self._newest, handle)
        return item

    def _poison(self, item: SimulatedBufferObject) -> None:
        try:
            for start in range(0, item.length, len(POISON_BLOCK)):
                os.pwrite(self.memfd, POISON_BLOCK[:item.length - start], item.offset + start)
        except OSError:
            host.punch(self.memfd, item.offset, item.length)
            raise

    def forget(self, item: SimulatedBufferObject) -> None:
        """Gives the memory of a freed buffer object back; its slice is not used again."""
        self._freed.append(item)
        host.punch(self.memfd, item.offset, item.length)

    def stale(self) -> list[StaleReport]:
        """Freed buffer objects whose slices were touched since, by whatever mapping."""
        found = []
        for item in self._freed:
            at = host.touched(self.memfd, item.offset, item.offset + item.length)
            if at is not None:
                found.append(StaleReport(self.client, item.handle, at, "its memory was used after it was freed, at "
                                                                       f"byte {at - item.offset} or in that page"))
        return found

    def mapped(self, item: SimulatedBufferObject, engine: int) -> bool:
        """Whether the client has a part of a buffer object mapped; the engine's own mapping, at the address `engine` of
        this process, does not count."""
        own = self.client == os.getpid()
        return any(offset < item.offset + item.length and item.offset < offset + size
                   for address, offset, size in host.mappings(self.client, self.inode)
                   if not own or address != engine)

    def live(self, offset: int, length: int) -> SimulatedBufferObject:
        """The buffer object that may be mapped so. DriverError EINVAL unless the offset is one that BO_INIT gave and
        the length within it."""
        for item in self.handles.values():
            if item.offset == offset and 0 < length <= item.length:
                return item
        raise DriverError(errno.EINVAL, f"offset {offset:#x} with {length} bytes is no buffer object of this file")

    def close(self) -> None:
        """Closes the memory file."""
        self.open, self.handles = False, {}
        os.close(self.memfd)
