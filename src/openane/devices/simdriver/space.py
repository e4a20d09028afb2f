"""Device addresses: one space for all clients, and memory behind it that really lies at those addresses.

The whole window is reserved once in this process; the pages of a buffer object are mapped at its device address, so a
task that leaves its buffer reaches whatever lies there. Nothing is touched that is not mapped.
"""

from __future__ import annotations

import errno
from bisect import bisect_right

import numpy as np

from openane.devices.simdriver import host
from openane.devices.simdriver.reports import DriverError
from openane.engine import Access
from openane.record_classes import dataclass

MOST_PARTS = 1 << 14
"""Parts an access is taken apart into to see whether it steps over holes; beyond that it counts as not mapped."""


@dataclass(eq=False, slots=True)
class SimulatedBufferObject:
    """Memory of one client. `size` is what was asked for, `length` whole pages; `offset` is where it lies in the
    client's memory file, `address` where the device sees it."""

    client: int
    handle: int
    size: int
    length: int
    offset: int
    address: int = 0

    @property
    def end(self) -> int:
        """Device address behind its last page."""
        return self.address + self.length

    def __str__(self) -> str:
        return f"handle {self.handle} of client {self.client}"


class AddressSpace:
    """Buffer objects by device address. Not thread-safe."""

    def __init__(self, base: int, size: int, guard: int) -> None:
        """`guard` bytes are left free behind each buffer object. OSError ENOMEM without address space."""
        self.base, self.size, self._guard = base, size, guard
        self._starts: list[int] = []
        self._objects: list[SimulatedBufferObject] = []
        self.used = 0
        self._host = host.reserve(size)
        self.bytes: np.ndarray = host.as_array(self._host, size)

    @property
    def objects(self) -> tuple[SimulatedBufferObject, ...]:
        """Everything that is mapped, by address."""
        return tuple(self._objects)

    def host_address(self, address: int) -> int:
        """Where a device address lies in this process."""
        return self._host + address - self.base

    def insert(self, item: SimulatedBufferObject, fd: int) -> None:
        """Finds an address for a buffer object and maps its pages there. DriverError ENOSPC when there is none,
        ENOMEM when the pages cannot be mapped."""
        index, address = self._hole(item.length)
        item.address = address
        try:
            host.map_file(self.host_address(address), item.length, fd, item.offset)
        except OSError as error:
            raise DriverError(errno.ENOMEM, f"the pages could not be mapped: {error.strerror}") from None
        self._starts.insert(index, address)
        self._objects.insert(index, item)
        self.used += item.length

    def remove(self, item: SimulatedBufferObject) -> None:
        """Takes a buffer object away; its addresses are free again."""
        index = self._objects.index(item)
        host.unmap_file(self.host_address(item.address), item.length)
        del self._objects[index], self._starts[index]
        self.used -= item.length

    def at(self, address: int) -> SimulatedBufferObject | None:
        """What lies at a device address."""
        index = bisect_right(self._starts, address) - 1
        return self._objects[index] if index >= 0 and address < self._objects[index].end else None

    def unmapped(self, low: int, high: int) -> int | None:
        """The first address in [low, high) at which nothing is mapped; None when all of it is."""
        while low < high:
            item = self.at(low)
            if item is None:
                return low
            low = item.end
        return None

    def objects_in(self, low: int, high: int) -> tuple[SimulatedBufferObject, ...]:
        """What lies between two addresses."""
        first = max(bisect_right(self._starts, low) - 1, 0)
        found = []
        for item in self._objects[first:]:
            if item.address >= high:
                break
            if item.end > low:
                found.append(item)
        return tuple(found)

    def stray(self, access: Access) -> int | None:
        """An address without memory that an access (its offset a device address) touches; None when there is none.

        Holes that the strides step over do not count. The access is halved along the dimension that reaches furthest
        until each part is mapped or not; one that does not come apart so counts as reaching into the hole.
        """
        extents = access.shape if access.interleave == 1 else access.blocks
        run = min(access.interleave, access.shape[access.packed]) * access.dtype.size
        pending = [(access.offset, tuple(zip(extents, access.strides, strict=True)))]
        for _ in range(MOST_PARTS):
            if not pending:
                return None
            start, loops = pending.pop()
            low = start + sum((n - 1) * s for n, s in loops if s < 0)
            high = start + sum((n - 1) * s for n, s in loops if s > 0) + run
            hole = self.unmapped(low, high)
            if hole is None:
                continue
            n, stride = furthest = max(loops, key=lambda loop: (loop[0] - 1) * abs(loop[1]))
            if n == 1 or not stride:
                return hole
            axis = loops.index(furthest)
            for first, count in ((0, n // 2), (n // 2, n - n // 2)):
                pending.append((start + first * stride, (*loops[:axis], (count, stride), *loops[axis + 1:])))
        return self.unmapped(*access.span)

    def close(self) -> None:
        """Gives the window back."""
        self.bytes = np.empty(0, np.uint8)
        self._objects, self._starts, self.used = [], [], 0
        host.release(self._host, self.size)

    def _hole(self, length: int) -> tuple[int, int]:
        """(place in the list, address) of the smallest hole that takes `length` bytes, the lowest of equals. The
        kernel's range allocator does so by default (inferred for this driver)."""
        best: tuple[int, int, int] | None = None
        start = self.base
        for index in range(len(self._objects) + 1):
            last = index == len(self._objects)
            end = self.base + self.size if last else self._starts[index]
            room = end - start - (0 if last else self._guard)
            if length <= room and (best is None or room < best[0]):
                best = room, index, start
            if not last:
                start = self._objects[index].end + self._guard
        if best is None:
            raise DriverError(errno.ENOSPC, f"no {length} contiguous bytes of device addresses are free: {self.used} "
                                            f"of {self.size} are in use")
        return best[1], best[2]
