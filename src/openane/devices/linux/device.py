"""The engine behind the Linux driver as a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

import numpy as np

from openane.chips import driver_generation
from openane.devices.base import ProgramDevice
from openane.devices.closing import every
from openane.devices.executable import BufferExecutable
from openane.devices.linux.buffers import BufferObject
from openane.devices.linux.connection import Connection
from openane.devices.linux.executable import LinuxExecutable
from openane.devices.linux.interface import WINDOW_SIZE
from openane.devices.linux.kernel import Kernel
from openane.devices.protocol import DeviceInfo
from openane.errors import DeviceError
from openane.program import Program
from openane.program.verify import Verified, verify

"""The only generation the driver knows."""


class LinuxDevice(ProgramDevice):
    """Runs verified programs through the driver, real or simulated. Memory is device memory, seen by the engine and
    by arrays alike."""

    def __init__(self, kernel: Kernel, path: str, name: str, *, simulated: str = "", timeout: float | None = None,
                 at_end: Callable[[], None] | None = None) -> None:
        """`simulated` says what stands in for the engine; `at_end` is called when the device is closed."""
        super().__init__(driver_generation())
        self._name, self._simulated, self._at_end = name, simulated, at_end
        self._connection = Connection(kernel, path, timeout)
        self._memory: WeakValueDictionary[int, BufferObject] = WeakValueDictionary()

    @property
    def info(self) -> DeviceInfo:
        """Name, chip, the driver's date, and whether an engine computes."""
        return describe(self._name, self._connection.path, self._connection.date, self._simulated)

    def allocate(self, size: int) -> np.ndarray:
        """See `Device.allocate`: a buffer object of its own, freed when no array over it is left or the device is
        closed; arrays that are left then keep what they hold. BudgetExhausted when there is no more."""
        self.require_open()
        if not 0 <= size <= WINDOW_SIZE:
            raise DeviceError(f"the engine's memory has {WINDOW_SIZE} bytes, {size} cannot be allocated")
        made = BufferObject(self._connection, size, "allocated memory")
        with self._lock:
            self._memory[made.address] = made
        return made.array()[:size]

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`. DeviceRejected when the driver cannot take the program."""
        verified = program if isinstance(program, Verified) else verify(program)
        return LinuxExecutable(self._connection, verified, buffers or {}, self._behind)

    def release(self) -> None:
        """See `ProgramDevice.release`. What fails is tried again once, and the error raised at the end."""
        actions: list[Callable[[], object]] = [partial(_twice, buffer.close) for buffer in list(self._memory.values())]
        actions.append(self._connection.close)
        if self._at_end is not None:
            actions.append(partial(self._connection.when_idle, self._at_end))
        every(actions)

    def _behind(self, array: np.ndarray) -> BufferObject | None:
        """The buffer object whose memory begins where an array does."""
        with self._lock:
            found = self._memory.get(array.ctypes.data)
        return found if found is not None and found.live else None


def describe(name: str, path: str, date: str, simulated: str) -> DeviceInfo:
    """What a device says about itself."""
    text = f"driver ane {date} at {path}" if not simulated else f"{simulated} behind the Linux driver's interface"
    return DeviceInfo(name, driver_generation(), text, engine=not simulated)


def _twice(action: Callable[[], None]) -> None:
    """Once more after an error, which is raised all the same."""
    try:
        action()
    except DeviceError:
        with suppress(DeviceError):
            action()
        raise
