"""One training per folder: a lock on a file in it, which the kernel gives back however the process ends.

The file stays, for it is the lock on it that counts: one that is removed could be locked by two.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

from openane.errors import AneError

NAME = ".lock"
LONGEST = 300
"""Bytes of the file that are read: who has the lock."""


class FolderInUse(AneError):
    """Another training writes to the folder; `holder` says which, as "process NUMBER on HOST"."""

    def __init__(self, folder: Path, holder: str) -> None:
        self.holder = holder
        super().__init__(f"{folder} is in use: {holder} trains into it\nhint: give another --output, or end that "
                         "training first (its checkpoints stay, --resume goes on from them)")


class FolderLock:
    """Held from its making to `close`, or the end of the process, even one by force."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder where there is none. FolderInUse when somebody holds its lock, OSError where no file can be
        made. `held` is False on a file system that knows no locks."""
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "this is a file, and a folder is needed", str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        self.held = True
        self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except BlockingIOError:
            said = os.pread(self._file, LONGEST, 0).decode("utf-8", "replace").strip()
            self.close()
            raise FolderInUse(folder, said if said.isprintable() and said else "another process") from None
        except OSError as error:
            self.held = False
            self.close()
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise

    def close(self) -> None:
        """Gives the lock back. Closing twice does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
