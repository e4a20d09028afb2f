"""Learning from inotify that a driver file's memory file is open nowhere any more but in the driver.

Only closing a description opened anew through /proc/self/fd is told (Linux has no events for a memory file's own
description), and it is told when the last descriptor and the last mapping of it have gone.
"""

from __future__ import annotations

import ctypes
import os

from openane.devices.simdriver.files import DriverFile

_CLOSES = (0x08, 0x10)  # IN_CLOSE_WRITE, IN_CLOSE_NOWRITE
_RECORD = 4  # numbers of 4 bytes: watch, events, cookie, bytes of a name (none, as files and not folders are watched)


class Watch:
    """Driver files whose ends are waited for."""

    def __init__(self) -> None:
        """OSError when there are too many inotify instances."""
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        self._files: dict[int, DriverFile] = {}

    def fileno(self) -> int:
        """For `select.poll`: readable when a file may have ended."""
        return self._descriptor

    def add(self, file: DriverFile) -> None:
        """Waits for the end of a file that nobody has opened anew yet. OSError when there are too many watches."""
        path = f"/proc/self/fd/{file.memfd}".encode()
        self._files[self._checked(self._library.inotify_add_watch(self._descriptor, path, sum(_CLOSES)))] = file

    def remove(self, file: DriverFile) -> None:
        """Stops waiting for a file."""
        for number in [number for number, known in self._files.items() if known is file]:
            del self._files[number]
            self._library.inotify_rm_watch(self._descriptor, number)

    def ended(self) -> list[DriverFile]:
        """Files that have ended since the last call; they are waited for no more."""
        found: list[DriverFile] = []
        while True:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return found
            numbers = memoryview(data).cast("I")
            for watch, events in zip(numbers[::_RECORD], numbers[1::_RECORD], strict=True):
                if events in _CLOSES and watch in self._files:
                    found.append(self._files[watch])
                    self.remove(self._files[watch])

    def all(self) -> list[DriverFile]:
        """Files that have not ended."""
        return list(self._files.values())

    def close(self) -> None:
        """Stops waiting."""
        os.close(self._descriptor)
        self._files = {}

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result
