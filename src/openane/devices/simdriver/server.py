"""Serves a simulated driver to other processes over a Unix socket, one thread per open file.

A client that dies, however, is seen by its connection closing: its file is closed as the kernel would close it. Only
this user can connect. Whoever can, has what the node of the real driver gives: everybody's memory.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from openane.devices.simdriver.driver import SimDriver
from openane.devices.simdriver.files import DriverFile
from openane.devices.simdriver.messages import (
    FAMILY,
    LONGEST,
    TYPE,
    Action,
    pack_answer,
    unpack_request,
)
from openane.errors import DeviceError

MOST_FILES = 256
"""Connections at a time; further ones get EMFILE."""
PAUSE = 0.05
"""Seconds until it is tried again to take a connection for which there were no descriptors."""


class DriverServer:
    """Serves `driver` at `path` until it is closed. The driver stays the caller's."""

    def __init__(self, driver: SimDriver, path: str | Path) -> None:
        """DeviceError when no socket can be made there."""
        self.driver, self.path = driver, Path(path)
        self._lock = Lock()
        self._connections: dict[socket.socket, Thread] = {}
        self._open = True
        self._listener = socket.socket(FAMILY, TYPE)
        try:
            self._listener.bind(str(path))
            self._inode = self.path.lstat().st_ino
            self.path.chmod(0o600)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            hint = "; remove it if no server runs there" if error.errno == errno.EADDRINUSE else ""
            raise DeviceError(f"no socket can be made at {path}: {error.strerror or error}{hint}") from None
        self._thread = Thread(target=self._accept, name="simdriver", daemon=True)
        self._thread.start()

    @property
    def clients(self) -> int:
        """Open connections."""
        with self._lock:
            return len(self._connections)

    def close(self) -> None:
        """Closes every connection and its file, and removes the socket. Closing twice does nothing."""
        with self._lock:
            was_open, self._open = self._open, False
        if not was_open:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in connections.values():
            thread.join()
        with contextlib.suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while self._open:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._open:
                    time.sleep(PAUSE)
                continue
            with self._lock:
                if not self._open or len(self._connections) >= MOST_FILES:
                    _refuse(connection)
                    continue
                thread = Thread(target=self._serve, args=(connection,), name="simdriver client", daemon=True)
                self._connections[connection] = thread
            try:
                thread.start()
            except RuntimeError:  # no more threads
                with self._lock:
                    del self._connections[connection]
                _refuse(connection)

    def _serve(self, connection: socket.socket) -> None:
        """One client, from its first message to its end."""
        file: DriverFile | None = None
        try:
            file = self._greet(connection)
            while file is not None:
                message = connection.recv(LONGEST + 1)
                if not message:
                    break
                connection.send(self._answer(file, message))
        except OSError:
            pass  # the client is gone
        finally:
            if file is not None:
                with contextlib.suppress(OSError):  # an injected failure
                    self.driver.close_file(file)
            with self._lock:
                self._connections.pop(connection, None)
            connection.close()

    def _greet(self, connection: socket.socket) -> DriverFile | None:
        """Opens the client's file and passes its memory file on."""
        try:
            file = self.driver.open(_process(connection))
        except OSError as error:
            connection.send(pack_answer(error.errno or errno.EIO, text=error.strerror or ""))
            return None
        try:
            socket.send_fds(connection, [pack_answer(0)], [file.memfd])
        except OSError:
            self.driver.close_file(file)
            raise
        return file

    def _answer(self, file: DriverFile, message: bytes) -> bytes:
        text, argument = "", bytearray()
        try:
            request, argument = unpack_request(message)
            if request.action == Action.IOCTL:
                self.driver.ioctl(file, request.number, argument)
            elif request.action == Action.MAP:
                self.driver.mappable(file, request.size, request.offset)
            else:
                text = "\n".join(self.driver.identify())
        except OSError as error:
            return pack_answer(error.errno or errno.EIO, text=error.strerror or str(error))
        return pack_answer(0, argument, text)


def _refuse(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.send(pack_answer(errno.EMFILE, text=f"the server has {MOST_FILES} clients, or is closing"))
    connection.close()


def _process(connection: socket.socket) -> int:
    """The client's process number, the first of three C ints the kernel tells."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(told[:4], sys.byteorder)
