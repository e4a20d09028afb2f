"""The system calls of the Linux backend (`linux.kernel.Kernel`) on a simulated driver in this process."""

from __future__ import annotations

import errno
import mmap
import os
from threading import Lock

from openane.devices.linux.interface import NODE
from openane.devices.simdriver.driver import SimDriver
from openane.devices.simdriver.files import DriverFile
from openane.devices.simdriver.reports import DriverError

ONLY_NODE = NODE.format(0)


class SimKernel:
    """Open, ioctl, mmap, close on the one node of a SimDriver, which stays open when this is no longer used."""

    def __init__(self, driver: SimDriver) -> None:
        self.driver, self.clock = driver, driver.clock
        self._files: dict[int, DriverFile] = {}
        self._lock = Lock()

    def nodes(self) -> tuple[str, ...]:
        """The node."""
        return (ONLY_NODE,)

    def open(self, path: str) -> int:
        """A descriptor of the node. OSError ENOENT for other paths."""
        if path != ONLY_NODE:
            raise DriverError(errno.ENOENT, f"there is no {path}; the simulated driver is {ONLY_NODE}")
        file = self.driver.open(os.getpid())
        with self._lock:
            self._files[file.memfd] = file
        return file.memfd

    def version(self, fd: int) -> tuple[str, str, str]:
        """Name, date and description of the driver. OSError EBADF for what is no descriptor of it."""
        self._file(fd)
        return self.driver.identify()

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """See `SimDriver.ioctl`."""
        self.driver.ioctl(self._file(fd), request, argument)

    def map(self, fd: int, length: int, offset: int) -> mmap.mmap:
        """A mapping of a buffer object. OSError EINVAL unless BO_INIT gave the offset."""
        self.driver.mappable(self._file(fd), length, offset)
        return mmap.mmap(fd, length, mmap.MAP_SHARED, offset=offset)

    def close(self, fd: int) -> None:
        """Closes the descriptor."""
        with self._lock:
            file = self._files.pop(fd, None)
        if file is None:
            raise DriverError(errno.EBADF, f"{fd} is no open descriptor of the simulated driver")
        self.driver.close_file(file)

    def _file(self, fd: int) -> DriverFile:
        try:
            return self._files[fd]
        except KeyError:
            raise DriverError(errno.EBADF, f"{fd} is no open descriptor of the simulated driver") from None
