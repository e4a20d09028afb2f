"""The system calls of the Linux backend (`linux.kernel.Kernel`) on a simulated driver that another process serves."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import socket
from pathlib import Path
from threading import Lock

from openane.devices.simdriver.kernel import ONLY_NODE
from openane.devices.simdriver.messages import FAMILY, LONGEST, TYPE, Action, DriverRequest, unpack_answer
from openane.devices.simdriver.reports import DriverError

GREETING_SECONDS = 10.0


class _Connection:
    """An open file: a socket, and the memory file it passed."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(FAMILY, TYPE)
        self._lock = Lock()
        self.memory = -1
        try:
            self._socket.settimeout(GREETING_SECONDS)
            self._socket.connect(path)
            message, descriptors, _, _ = socket.recv_fds(self._socket, LONGEST, 1)
            self._socket.settimeout(None)
            if descriptors:
                self.memory = descriptors[0]
                os.set_inheritable(self.memory, False)
            _checked(message)
            if self.memory < 0:
                raise DriverError(errno.EPROTO, f"{path} is not a served simulated driver")
        except TimeoutError:
            self.close()
            raise DriverError(errno.EPROTO, f"{path} is not a served simulated driver: it says nothing") from None
        except BaseException:
            self.close()
            raise

    def ask(self, request: DriverRequest, argument: bytes | bytearray = b"") -> tuple[bytes, str]:
        """One request and its answer: structure and text. OSError with the errno of the answer."""
        with self._lock:
            try:
                self._socket.send(bytes(request.pack()) + argument)
                message = self._socket.recv(LONGEST)
            except BaseException as error:
                self._socket.close()  # an answer nobody took would be taken for the next one's
                if isinstance(error, OSError):
                    raise DriverError(errno.ENODEV, f"the simulated driver is gone: {error.strerror}") from None
                raise
        return _checked(message)

    def close(self) -> None:
        """Closes both."""
        self._socket.close()
        if self.memory >= 0:
            with contextlib.suppress(OSError):
                os.close(self.memory)
            self.memory = -1


class SocketKernel:
    """Open, ioctl, mmap, close on the driver served at `path`. Every open file is a connection of its own; threads may
    share it."""

    def __init__(self, path: str | Path) -> None:
        """Nothing is connected yet."""
        self.path = str(path)
        self._files: dict[int, _Connection] = {}
        self._lock = Lock()

    def nodes(self) -> tuple[str, ...]:
        """The node."""
        return (ONLY_NODE,)

    def open(self, path: str) -> int:
        """A descriptor of the node. OSError ENOENT for other paths or when nothing is at the socket's path,
        ECONNREFUSED when nobody serves there."""
        if path != ONLY_NODE:
            raise DriverError(errno.ENOENT, f"there is no {path}; the simulated driver is {ONLY_NODE}")
        connection = _Connection(self.path)
        with self._lock:
            self._files[connection.memory] = connection
        return connection.memory

    def version(self, fd: int) -> tuple[str, str, str]:
        """Name, date and description of the driver."""
        _, text = self._file(fd).ask(DriverRequest(Action.VERSION))
        name, date, description, *_ = (*text.split("\n"), "", "", "")
        return name, date, description

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """See `SimDriver.ioctl`."""
        if len(argument) + DriverRequest.length() > LONGEST:
            raise DriverError(errno.EFAULT, f"no request of the driver takes {len(argument)} bytes")
        answer, _ = self._file(fd).ask(DriverRequest(Action.IOCTL, request), argument)
        if len(answer) != len(argument):
            raise DriverError(errno.EPROTO, f"the answer has {len(answer)} bytes, not {len(argument)}")
        argument[:] = answer

    def map(self, fd: int, length: int, offset: int) -> mmap.mmap:
        """A mapping of a buffer object. OSError EINVAL unless BO_INIT gave the offset."""
        if length < 1 or offset < 0 or max(length, offset).bit_length() > 63:
            raise DriverError(errno.EINVAL, f"{length} bytes at offset {offset} cannot be mapped")
        self._file(fd).ask(DriverRequest(Action.MAP, 0, length, offset))
        return mmap.mmap(fd, length, mmap.MAP_SHARED, offset=offset)

    def close(self, fd: int) -> None:
        """Closes the descriptor and the connection."""
        with self._lock:
            connection = self._files.pop(fd, None)
        if connection is None:
            raise DriverError(errno.EBADF, f"{fd} is no open descriptor of the simulated driver")
        connection.close()

    def _file(self, fd: int) -> _Connection:
        try:
            return self._files[fd]
        except KeyError:
            raise DriverError(errno.EBADF, f"{fd} is no open descriptor of the simulated driver") from None


def _checked(message: bytes) -> tuple[bytes, str]:
    if not message:
        raise DriverError(errno.ENODEV, "the simulated driver is gone")
    code, argument, text = unpack_answer(message)
    if code:
        raise DriverError(code, text)
    return argument, text
