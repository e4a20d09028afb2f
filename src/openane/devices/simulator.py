"""The simulator as a device: `simulator`, `simulator:h13?arithmetic=exact`, `simulator?verify=off` (no verifier)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self, overload

import numpy as np

from openane.chips import KNOWN
from openane.devices.model import ModelExecutable
from openane.devices.packer import logical_shape, pack, unpack, update
from openane.devices.protocol import Arrays, CompiledModel, DeviceInfo, Executable, Index
from openane.errors import DeviceError, VerifyError
from openane.program import Buffer, Program
from openane.program.verify import Verified, verify
from openane.simulator import LoadedProgram, Mode, RunReport, load
from openane.simulator.memory import MEMORY_LIMIT

OPTIONS = ("arithmetic", "verify")
SWITCH = {"on": True, "off": False}


class SimulatorExecutable:
    """A program in the simulator. `loaded` is the simulator's own handle, `report` tells about the last run."""

    def __init__(self, program: Program, arithmetic: str, buffers: Mapping[str, np.ndarray] | None = None) -> None:
        self.program = program
        self.report = RunReport()
        self._loaded: LoadedProgram | None = load(program, arithmetic, buffers)
        self._queue: ThreadPoolExecutor | None = None

    @property
    def loaded(self) -> LoadedProgram:
        """The loaded program. DeviceError after `close`."""
        if self._loaded is None:
            raise DeviceError("the executable is closed")
        return self._loaded

    def bind(self, name: str, memory: np.ndarray) -> None:
        """See `Executable.bind`. SimulationError when the memory is too small."""
        self.loaded.bind(name, memory)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """See `Executable.run`."""
        self._check_names(inputs)
        notes = [self._put(buffer, inputs[buffer.name]) for buffer in self.program.inputs]
        report = self.loaded.run()
        self.report = replace(report, conversions=tuple(note for note in notes if note))
        return {buffer.name: self._get(buffer) for buffer in self.program.outputs}

    def execute(self) -> None:
        """See `Executable.execute`."""
        self.report = self.loaded.run()

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Future[Arrays]:
        """See `Executable.submit`."""
        self._check_names(inputs)
        if self._queue is None:
            self._queue = ThreadPoolExecutor(max_workers=1)
        return self._queue.submit(self.run, {name: np.array(values) for name, values in inputs.items()})

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """See `Executable.patch`. DeviceError when the values do not fit the part they are written to."""
        buffer = self.program.buffer(name)
        if buffer.layout is None:
            raise DeviceError(f"buffer {name!r} has no described tensor that could be patched")
        update(buffer.layout, self.loaded.buffers[name], values, index, name=name)

    def close(self) -> None:
        """Waits for what was submitted and frees the memory."""
        if self._queue is not None:
            self._queue.shutdown()
        self._queue = self._loaded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _check_names(self, inputs: Mapping[str, np.ndarray]) -> None:
        wanted = {buffer.name: buffer for buffer in self.program.inputs}
        missing, unknown = [n for n in wanted if n not in inputs], [n for n in inputs if n not in wanted]
        if missing or unknown:
            expected = ", ".join(f"{name} {_describe(buffer)}" for name, buffer in wanted.items()) or "none"
            problems = [f"{word} {', '.join(map(repr, names))}" for word, names in
                        (("missing", missing), ("not an input:", unknown)) if names]
            raise DeviceError(f"the inputs of {self.program.name!r} are {expected}; {' and '.join(problems)}")

    def _put(self, buffer: Buffer, values: np.ndarray) -> str | None:
        store = self.loaded.buffers[buffer.name]
        if buffer.layout is not None:
            return pack(values, buffer.layout, store, buffer.name)
        data = np.asarray(values)
        if data.dtype != np.uint8 or data.size != buffer.size:
            raise DeviceError(f"{buffer.name} takes {_describe(buffer)}, not {data.dtype} {list(data.shape)}")
        store[:buffer.size] = data.reshape(-1)
        return None

    def _get(self, buffer: Buffer) -> np.ndarray:
        store = self.loaded.buffers[buffer.name]
        if buffer.layout is None:
            return store[:buffer.size].copy()
        return unpack(buffer.layout, store, logical_shape(buffer.layout), buffer.name)


class SimulatorDevice:
    """Runs programs of one generation in memory."""

    def __init__(self, chip: str | None = None, arithmetic: str = "auto", verifies: bool = True) -> None:
        """`chip` None takes programs of every generation; `verifies` False takes them unseen, for experiments."""
        self._chip, self._arithmetic, self._verifies = chip, str(Mode.of(arithmetic)), verifies
        self._executables: list[SimulatorExecutable] = []
        self._open = True

    @staticmethod
    def open(target: str, options: Mapping[str, str]) -> SimulatorDevice:
        """From the parts of a device name. DeviceError lists what is known."""
        if target and target not in KNOWN:
            raise DeviceError(f"the simulator knows no chip {target!r}; it knows {', '.join(KNOWN)}")
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise DeviceError(f"the simulator has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
        arithmetic = options.get("arithmetic", "auto")
        if arithmetic not in list(Mode):
            raise DeviceError(f"arithmetic {arithmetic!r} is not known; there are {', '.join(Mode)}")
        switch = options.get("verify", "on")
        if switch not in SWITCH:
            raise DeviceError(f"verify={switch} is not known; there are {', '.join(SWITCH)}")
        return SimulatorDevice(target or None, arithmetic, SWITCH[switch])

    @property
    def info(self) -> DeviceInfo:
        """Name, chip and arithmetic."""
        chip = self._chip or "any"
        return DeviceInfo("simulator", chip, f"simulated engine, {self._arithmetic} arithmetic")

    def allocate(self, size: int) -> np.ndarray:
        """See `Device.allocate`. DeviceError beyond the simulator's memory."""
        if not 0 <= size <= MEMORY_LIMIT:
            raise DeviceError(f"the simulator allocates up to {MEMORY_LIMIT} bytes at a time, not {size}")
        return np.zeros(size, np.uint8)

    @overload
    def load(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None = None) -> Executable: ...

    @overload
    def load(self, program: CompiledModel, buffers: Mapping[str, np.ndarray] | None = None) -> ModelExecutable: ...

    def load(self, program: Program | Verified | CompiledModel,
             buffers: Mapping[str, np.ndarray] | None = None) -> Executable | ModelExecutable:
        """See `Device.load`. DeviceError for programs of another chip; SimulationError when one cannot be run."""
        if not self._open:
            raise DeviceError("the device is closed")
        if not isinstance(program, Program | Verified):
            if not hasattr(program, "programs"):
                raise DeviceError(f"a device loads a Program or a compiled model, not {type(program).__name__}")
            return ModelExecutable(self, program)
        executable = SimulatorExecutable(self._accepted(program), self._arithmetic, buffers)
        self._executables.append(executable)
        return executable

    def _accepted(self, program: Program | Verified) -> Program:
        """The program itself, for the right chip and verified now or before."""
        known = program.program if isinstance(program, Verified) else program
        if self._chip is not None and known.chip != self._chip:
            raise DeviceError(f"the device simulates {self._chip}, the program is for {known.chip}")
        if isinstance(program, Verified):
            if not program.unchanged():
                raise DeviceError(f"program {known.name!r} is no longer what was verified")
        elif self._verifies:
            _require_verified(known)
        return known

    def close(self) -> None:
        """Closes every executable."""
        self._open = False
        for executable in self._executables:
            executable.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _describe(buffer: Buffer) -> str:
    if buffer.layout is None:
        return f"{buffer.size} bytes of uint8"
    return f"{buffer.layout.dtype} {list(logical_shape(buffer.layout))}"


def _require_verified(program: Program) -> None:
    """VerifyError with every violation, and how to look at such a program all the same."""
    try:
        verify(program)
    except VerifyError as refused:
        raise VerifyError(refused.violations,
                          "the device 'simulator?verify=off' loads it unverified, to experiment") from None
