"""What the devices that run engine programs share: who may be loaded, what is loaded, and closing all of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from threading import RLock
from types import TracebackType
from typing import Self, overload

import numpy as np

from openane.devices.closing import every
from openane.devices.executable import BufferExecutable
from openane.devices.model import ModelExecutable
from openane.devices.pipeline import Pipeline
from openane.devices.protocol import DeviceInfo, Executable, LoadableModel
from openane.devices.targets import own_model
from openane.errors import DeviceError
from openane.program import Program
from openane.program.verify import Verified, verify_now


class ProgramDevice(ABC):
    """See `Device`. A subclass allocates, and makes executables of verified programs; both may be asked for by several
    threads at once."""

    def __init__(self, chip: str | None) -> None:
        """`chip` None takes programs of every generation."""
        self._chip = chip
        self._executables: list[BufferExecutable] = []
        self._lock = RLock()
        self._open = True

    @property
    @abstractmethod
    def info(self) -> DeviceInfo:
        """Name, chip and a description."""

    @abstractmethod
    def allocate(self, size: int) -> np.ndarray:
        """See `Device.allocate`."""

    @abstractmethod
    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """An executable of what `check` has passed."""

    @abstractmethod
    def release(self) -> None:
        """Gives back what the device itself holds; called once, after every executable is closed."""

    def check(self, program: Program) -> Program | Verified:
        """Verifies a program nobody has verified yet. VerifyError lists every rule it breaks."""
        return verify_now(program)

    @overload
    def load(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None = None) -> Executable: ...

    @overload
    def load(self, program: LoadableModel, buffers: Mapping[str, np.ndarray] | None = None) -> ModelExecutable: ...

    def load(self, program: Program | Verified | LoadableModel,
             buffers: Mapping[str, np.ndarray] | None = None) -> Executable | ModelExecutable:
        """See `Device.load`. Of a model for several generations the device takes its own; DeviceError for programs of
        another chip."""
        self.require_open()
        if not isinstance(program, Program | Verified):
            if not hasattr(program, "programs"):
                raise DeviceError(f"a device loads a Program or a compiled model, not {type(program).__name__}")
            refuse_buffers(buffers)
            return ModelExecutable(self, self._own(program))
        with self._lock:  # closed ones still hold their programs; they go before the next asks for memory
            self._executables = [known for known in self._executables if not known.closed]
        executable = self.prepare(self._accepted(program), buffers)
        with self._lock:
            still_open = self._open
            if still_open:
                self._executables.append(executable)
        if not still_open:  # closed by another thread meanwhile
            executable.close()
            self.require_open()
        return executable

    def pipeline(self, models: Sequence[LoadableModel], depth: int = 2) -> Pipeline:
        """See `Device.pipeline`."""
        stages: list[ModelExecutable] = []
        try:
            models = [self._own(model) for model in models]
            for model in models:
                stages.append(self.load(model))
            return Pipeline(models, stages, depth)
        except BaseException:
            every(stage.close for stage in stages)
            raise

    def require_open(self) -> None:
        """DeviceError after `close`."""
        if not self._open:
            raise DeviceError("the device is closed")

    def close(self) -> None:
        """Closes every executable and the device. Closing twice does nothing."""
        with self._lock:
            was_open, self._open = self._open, False
            executables, self._executables = self._executables, []
        every([executable.close for executable in executables] + ([self.release] if was_open else []))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _own(self, model: LoadableModel) -> LoadableModel:
        """The model as it was compiled for this device. DeviceError where it was not."""
        return own_model(model, self._chip, self.info.name)

    def _accepted(self, program: Program | Verified) -> Program | Verified:
        """The program, for the right chip and verified now or before."""
        known = program.program if isinstance(program, Verified) else program
        if self._chip is not None and known.chip != self._chip:
            raise DeviceError(f"{self.info.name} is {self._chip}, the program is for {known.chip}")
        if not isinstance(program, Verified):
            return self.check(known)
        if not program.unchanged():
            raise DeviceError(f"program {known.name!r} is no longer what was verified")
        return program


def refuse_buffers(buffers: Mapping[str, np.ndarray] | None) -> None:
    """DeviceError when memory is given with a model."""
    if buffers:
        raise DeviceError("a model has memory of its own: load it, then put yours behind a port or state with bind()")
