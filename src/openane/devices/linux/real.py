"""The real kernel: open, ioctl and mmap of the nodes in /dev/accel through Python's os, fcntl and mmap.

Source of the calls: the driver's public header and libane (eiln/ane); nothing here has run on Apple hardware.
"""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from typing import Any

from openane.devices.linux.interface import DRM_VERSION, NODE, NODES, Version

LONGEST = 4096
"""Bytes of a name, date or description that are read at most."""
_DETACHED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Before Python 3.13 every mapping keeps a descriptor of its own until it is closed."""


class RealKernel:
    """See `Kernel`."""

    def nodes(self) -> tuple[str, ...]:
        """See `Kernel.nodes`."""
        return tuple(path for path in map(NODE.format, range(NODES)) if os.path.exists(path))

    def open(self, path: str) -> int:
        """See `Kernel.open`."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def version(self, fd: int) -> tuple[str, str, str]:
        """See `Kernel.version`: the first request answers the lengths, the second fills memory of these lengths, whose
        text has no zero at its end."""
        first = bytearray(Version().pack())
        self.ioctl(fd, DRM_VERSION, first)
        lengths = Version.unpack(first)
        texts = [array("B", bytes(min(length, LONGEST) + 1)) for length in
                 (lengths.name_length, lengths.date_length, lengths.description_length)]
        (name, name_size), (date, date_size), (about, about_size) = (text.buffer_info() for text in texts)
        second = Version(name_length=name_size - 1, name=name, date_length=date_size - 1, date=date,
                         description_length=about_size - 1, description=about).pack()
        self.ioctl(fd, DRM_VERSION, second)
        words = [text.tobytes().rstrip(b"\0").decode("ascii", "replace") for text in texts]
        return words[0], words[1], words[2]

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """See `Kernel.ioctl`."""
        import fcntl  # there is none on Windows, where the simulated driver still works

        fcntl.ioctl(fd, request, argument, True)

    def map(self, fd: int, length: int, offset: int) -> mmap.mmap:
        """See `Kernel.map`. The offset is a cookie of the driver's, not a place in a file."""
        return mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset, **_DETACHED)

    def close(self, fd: int) -> None:
        """See `Kernel.close`."""
        os.close(fd)
