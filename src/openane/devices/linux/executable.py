"""A program on the Linux driver: its commands, a buffer object per slot its tasks name, one submission per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openane.devices.closing import every
from openane.devices.executable import BufferExecutable
from openane.devices.linux.buffers import BufferObject
from openane.devices.linux.commands import Commands, bound_slots, for_channels
from openane.devices.linux.connection import Connection
from openane.errors import DeviceError
from openane.program import Buffer, Constants, Role
from openane.program.patch import ByteRange
from openane.program.verify import Verified
from openane.simulator import RunReport

Find = Callable[[np.ndarray], BufferObject | None]


def _check_bytes(buffer: Buffer, given: np.ndarray) -> None:
    """DeviceError unless an array can be the memory of a buffer."""
    if given.dtype != np.uint8 or given.ndim != 1 or not given.flags.c_contiguous or given.size < buffer.size:
        raise DeviceError(f"buffer {buffer.name!r} needs {buffer.size} bytes as a contiguous one-dimensional uint8 "
                          f"array, not {given.dtype} {list(given.shape)}")


class LinuxExecutable(BufferExecutable):
    """See `BufferExecutable`."""

    def __init__(self, connection: Connection, verified: Verified, buffers: Mapping[str, np.ndarray],
                 find: Find) -> None:
        """`find` is the buffer object whose memory an array begins with. Whatever fails, nothing is left behind."""
        program = verified.program
        super().__init__(program)
        unknown = [name for name in buffers if name not in {buffer.name for buffer in program.buffers}]
        if unknown:
            raise DeviceError(f"program {program.name!r} has no buffer {unknown[0]!r}; it has "
                              f"{', '.join(buffer.name for buffer in program.buffers) or 'none'}")
        self._connection, self._find = connection, find
        self._own: dict[str, BufferObject] = {}
        self._bound: dict[str, BufferObject] = {}
        self._stores: dict[str, np.ndarray] = {}
        self._commands: Commands | None = None
        try:
            for buffer in program.buffers:
                self._place(buffer, buffers.get(buffer.name))
            fitting = for_channels(verified)
            self._slots = bound_slots(fitting)
            self._commands = Commands(connection, fitting)
            self._submission = self._channels(self._commands)
        except BaseException:
            self.release()
            raise

    def stores(self) -> Mapping[str, np.ndarray]:
        """See `BufferExecutable.stores`."""
        return self._stores

    def execute_buffers(self) -> RunReport:
        """See `BufferExecutable.execute_buffers`. The driver tells nothing about the tasks; the seconds are those of
        the request. DeviceHung and SubmitFailed when it fails."""
        if self._commands is None:
            raise DeviceError("the executable is closed")
        self._commands.check()
        start = self._connection.clock()
        self._connection.submit(self._submission)
        return RunReport(seconds=self._connection.clock() - start)

    def rebind(self, name: str, memory: np.ndarray) -> None:
        """See `BufferExecutable.rebind`."""
        if self._commands is None:
            raise DeviceError("the executable is closed")
        buffer = next((known for known in self.program.buffers if known.name == name), None)
        if buffer is None:
            raise DeviceError(f"no buffer is called {name!r}; there are {', '.join(self._stores)}")
        before = self._own.get(name)
        self._place(buffer, memory)
        self._submission = self._channels(self._commands)
        if before is not None:
            del self._own[name]
            before.close()

    def rewrite(self, constants: Constants, ranges: Sequence[ByteRange]) -> None:
        """See `BufferExecutable.rewrite`: they are written into the command buffer, which lies mapped in this process
        as when it was filled. No run is under way meanwhile."""
        if self._commands is None:
            raise DeviceError("the executable is closed")
        self._commands.rewrite(constants, ranges)

    def release(self) -> None:
        """See `BufferExecutable.release`: memory that others share is theirs to give back."""
        self._stores, self._bound = {}, {}
        own, commands = list(self._own.values()), self._commands
        self._own, self._commands = {}, None
        every([buffer.close for buffer in own] + ([commands.close] if commands is not None else []))

    def _place(self, buffer: Buffer, given: np.ndarray | None) -> None:
        """Memory behind a buffer: `given`, or its own."""
        if given is None:
            made = self._own[buffer.name] = BufferObject(self._connection, buffer.size, f"buffer {buffer.name!r}")
            self._bound[buffer.name], self._stores[buffer.name] = made, made.array()[:buffer.size]
            return
        _check_bytes(buffer, given)
        found = self._find(given)
        if found is None:
            raise DeviceError(f"buffer {buffer.name!r} needs memory that allocate() of this device gave, from its "
                              "beginning: the engine reaches no other")
        sharing = [other for other in self.program.buffers
                   if other is not buffer and self._bound.get(other.name) is found]
        if any(other.role is not Role.INPUT for other in sharing) or (sharing and buffer.role is not Role.INPUT):
            raise DeviceError(f"buffer {buffer.name!r} cannot lie in the memory of {sharing[0].name!r}: the program "
                              "was verified with memory of its own behind everything it writes")
        self._bound[buffer.name], self._stores[buffer.name] = found, given

    def _channels(self, commands: Commands) -> bytes:
        slots = {buffer.slot: self._bound[buffer.name].handle for buffer in self.program.buffers}
        return commands.submission({slot: handle for slot, handle in slots.items() if slot in self._slots})
