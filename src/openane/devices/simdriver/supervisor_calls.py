"""Answers to the system calls of watched programs: which are about accelerator nodes, and what the driver says.

A node is opened as a fresh open file description of the driver file's memory file, so the kernel itself tells when the
last descriptor and mapping of it has gone, whatever was duplicated, inherited, passed on or killed meanwhile: an
inotify event then closes the driver file, as the kernel calls a driver's release.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from openane.devices.linux.interface import BO_FREE, DRM_VERSION, NAMES, NODE, SUBMIT, Version
from openane.devices.simdriver import supervisor_memory as memory
from openane.devices.simdriver.driver import DriverFile, SimDriver
from openane.devices.simdriver.seccomp import Call, Listener, Notification, argument_size, signed, unsigned
from openane.devices.simdriver.supervisor_queue import EngineQueue
from openane.devices.simdriver.supervisor_watch import Watch

FOLDER = str(Path(NODE).parent)
_NODES = re.compile(re.escape(NODE).replace(r"\{\}", r"\d+"))
_WORD = Path(FOLDER).name.encode()
LIKE_A_NODE = "/dev/null"
"""Questions about the node are answered as the kernel answers them about this character device that all may open."""


class Calls:
    """Answers notifications of one listener from one driver. What waits for the engine is answered by `queue`, all
    else at once."""

    def __init__(self, driver: SimDriver, listener: Listener, calls: dict[int, Call], queue: EngineQueue) -> None:
        """`calls` are the system calls by number."""
        self.driver, self.listener, self._calls, self._queue = driver, listener, calls, queue
        self.watch = Watch()
        self.counts: dict[str, int] = {}
        self._listing: TemporaryDirectory[str] | None = None
        self._kernel: Callable[..., int] = ctypes.CDLL(None, use_errno=True).syscall

    def close(self) -> None:
        """Closes every file that is still open in the driver: no watched process is left."""
        for file in (*self.watch.ended(), *self.watch.all()):
            self.driver.close_file(file)
        self.watch.close()
        if self._listing is not None:
            self._listing.cleanup()

    def released(self) -> None:
        """Closes in the driver what no process has open any more."""
        for file in self.watch.ended():
            self._do(lambda file=file: self.driver.close_file(file))  # type: ignore[misc]

    def answer(self, asked: Notification) -> None:
        """Answers a call, or sees to it that it is answered."""
        call = self._calls[asked.number]
        self.counts[call.name] = self.counts.get(call.name, 0) + 1
        try:
            if call.name != "ioctl":
                self._about_a_path(call, asked)
                return
            file = self._file(asked)
            if file is None:
                self.listener.proceed(asked)
            elif (request := unsigned(asked.arguments[1])) == SUBMIT:
                self._queue.put(lambda: self.control(file, asked))
            elif request == BO_FREE:
                self._do(lambda: self.control(file, asked))
            else:
                self.control(file, asked)
        except OSError as error:
            self.listener.refuse(asked, error.errno or errno.EIO)

    def _do(self, action: Callable[[], None]) -> None:
        """Does at once what must not run along with a submission, unless there is one."""
        if self._queue.idle:
            action()
        else:
            self._queue.put(action)

    def control(self, file: DriverFile, asked: Notification) -> None:
        """Answers an ioctl on a driver file."""
        thread, request, address = asked.thread, unsigned(asked.arguments[1]), asked.arguments[2]
        try:
            size = argument_size(request) if request in NAMES else 0  # the kernel asks the driver before it copies
            argument = memory.read_all(thread, address, size)
            if not self.listener.waits(asked):
                return
            try:
                wanted = bytes(argument)
                self.driver.ioctl(file, request, argument)
                if request == DRM_VERSION:
                    self._write_texts(asked, Version.unpack(wanted))
            finally:
                if self.listener.waits(asked):  # the kernel copies the structure back after a failure as well
                    memory.write_all(thread, address, argument)
        except OSError as error:
            self.listener.refuse(asked, error.errno or errno.EIO)
        else:
            self.listener.answer(asked)

    def _write_texts(self, asked: Notification, wanted: Version) -> None:
        """The texts of VERSION, to the pointers the caller gives and as far as it says there is room."""
        for field, text in zip(("name", "date", "description"), self.driver.version, strict=True):
            address, room = getattr(wanted, field), getattr(wanted, f"{field}_length")
            if address and room:
                memory.write_all(asked.thread, address, text.encode()[:room])

    def _file(self, asked: Notification) -> DriverFile | None:
        """The driver file behind a call's descriptor, None when it is another file."""
        found = memory.inode_of(asked.thread, signed(asked.arguments[0]))
        if found is None:
            return None
        file = self.driver.file_of(found[1])
        return file if file is not None and os.fstat(file.memfd).st_dev == found[0] else None

    def _about_a_path(self, call: Call, asked: Notification) -> None:
        """Answers a call with a path: ours when it names an accelerator node or their folder."""
        name = memory.name_of(call, asked, _WORD)
        if name is not None and self._listing is not None and (name + "/").startswith(self._listing.name + "/"):
            name = FOLDER + name.removeprefix(self._listing.name)
        if name is None or not (name == FOLDER or _NODES.fullmatch(name)):
            self.listener.proceed(asked)
        elif not self.listener.waits(asked):
            return
        elif name not in (FOLDER, NODE.format(0)):
            raise FileNotFoundError(errno.ENOENT, "there is one simulated node")
        elif call.name == "ask":
            self._ask(call, asked, FOLDER if name == FOLDER else LIKE_A_NODE)
        else:
            self._open(name, self._flags(call, asked), asked)

    def _flags(self, call: Call, asked: Notification) -> int:
        if call.flags is not None:
            return signed(asked.arguments[call.flags])
        how = memory.read_all(asked.thread, asked.arguments[2], 8)  # openat2 has its flags in a structure
        return int.from_bytes(how, "little")

    def _open(self, name: str, flags: int, asked: Notification) -> None:
        """Hands over a descriptor of the node, or of a folder that lists it."""
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "the node exists")
        if flags & os.O_PATH:
            raise OSError(errno.EOPNOTSUPP, "a simulated node cannot be opened without opening the device")
        rights = flags & os.O_ACCMODE
        if name == FOLDER:
            if rights != os.O_RDONLY:
                raise IsADirectoryError(errno.EISDIR, "a folder")
            self._hand_over(asked, os.open(self._folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), flags)
            return
        if flags & os.O_DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "a device node")
        file = self.driver.open(memory.process_of(asked.thread))
        self.watch.add(file)
        try:
            own = os.open(f"/proc/self/fd/{file.memfd}", rights | os.O_CLOEXEC)
        except OSError:
            self.watch.remove(file)
            self.driver.close_file(file)
            raise
        self._hand_over(asked, own, flags)  # when it fails nobody has it open, and `released` closes it

    def _hand_over(self, asked: Notification, descriptor: int, flags: int) -> None:
        try:
            self.listener.hand_over(asked, descriptor, flags & os.O_CLOEXEC)
        finally:
            os.close(descriptor)

    def _folder(self) -> str:
        """A real folder that lists the node, made when somebody asks."""
        if self._listing is None:
            self._listing = TemporaryDirectory(prefix="openane-accel-")
            Path(self._listing.name, Path(NODE.format(0)).name).touch()
        return self._listing.name

    def _ask(self, call: Call, asked: Notification, like: str) -> None:
        """Answers stat, access and their relatives as the kernel does for the path `like`."""
        if like == FOLDER:
            like = self._folder()
        arguments = [ctypes.c_long(value) for value in (*asked.arguments,)]
        answer = ctypes.create_string_buffer(max(call.size, 1))
        arguments[call.path] = ctypes.c_char_p(os.fsencode(like))  # type: ignore[call-overload]
        if call.answer is not None:
            arguments[call.answer] = ctypes.byref(answer)  # type: ignore[call-overload]
        if self._kernel(ctypes.c_long(asked.number), *arguments) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if call.answer is not None:
            memory.write_all(asked.thread, asked.arguments[call.answer], answer.raw)
        self.listener.answer(asked)
