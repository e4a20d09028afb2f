"""The neural engine of a Mac as a device: compiled models run by the system's own compiler and runtime.

The system takes graphs, not tasks: a model is loaded by the graph it was compiled from, and what openane's compiler
made of it is not used. Where a run was carried out is in its report.
"""

from __future__ import annotations

import platform as python_platform
import sys
from collections.abc import Mapping
from typing import cast, overload

import numpy as np

from openane.chips.machines import find
from openane.devices.base import ProgramDevice, refuse_buffers
from openane.devices.executable import BufferExecutable
from openane.devices.macos.graph_model import GraphExecutable, GraphFunction, GraphTask, graph_function
from openane.devices.macos.graph_program import dialect, graph_program
from openane.devices.macos.hosting import Host, Hosted, HostOptions, InProcess
from openane.devices.macos.symbols import Platform
from openane.devices.macos.worker import Worker
from openane.devices.model import ModelExecutable
from openane.devices.protocol import DeviceInfo, Executable, LoadableModel
from openane.errors import DeviceError, DeviceUnavailable, UnsupportedError
from openane.program import Program
from openane.program.verify import Verified

LARGEST = 1 << 34
"""Bytes of one allocation."""


class MacDevice(ProgramDevice):
    """Runs compiled models by their graphs. Several threads may use it; their runs happen one after the other."""

    def __init__(self, options: HostOptions, worker: bool = True) -> None:
        """Opens the runtime, in a process of its own unless `worker` is False. DeviceUnavailable where this machine
        has none, DeviceChanged where it is not the one that is known."""
        super().__init__(None)
        if options.runtime == "system":
            require_mac(sys.platform, python_platform.machine())
        self._options = options
        self._host: Host = Worker(options) if worker else InProcess(options)

    @property
    def info(self) -> DeviceInfo:
        """Name, generation of the engine, and which system runs it by which route."""
        return info_of(self._host.platform, self._options)

    def allocate(self, size: int) -> np.ndarray:
        """See `Device.allocate`. It is memory of the host: the runtime has surfaces of its own."""
        self.require_open()
        if not 0 <= size <= LARGEST:
            raise DeviceError(f"the device allocates up to {LARGEST} bytes at a time, not {size}")
        return np.zeros(size, np.uint8)

    @overload
    def load(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None = None) -> Executable: ...

    @overload
    def load(self, program: LoadableModel, buffers: Mapping[str, np.ndarray] | None = None) -> ModelExecutable: ...

    def load(self, program: Program | Verified | LoadableModel,
             buffers: Mapping[str, np.ndarray] | None = None) -> Executable | ModelExecutable:
        """See `Device.load`. UnsupportedError names what the route cannot take, DeviceRejected has the compiler's
        words; DeviceError for an engine program, which this route does not take."""
        self.require_open()
        if isinstance(program, GraphTask):
            return super().load(program, buffers)
        if isinstance(program, Program | Verified):
            raise DeviceError(
                f"{self.info.name} runs models by their graphs, and this is an engine program without one: load the "
                "compiled model or its bundle (.ane), run the program on the simulator or on Linux, or try "
                "route=precompiled")
        if not hasattr(program, "functions"):
            raise DeviceError(f"a device loads a Program or a compiled model, not {type(program).__name__}")
        refuse_buffers(buffers)
        return self._loaded(program)

    def check(self, program: Program) -> Program | Verified:
        """Graphs are checked by the system's compiler."""
        return program

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`."""
        task = cast(GraphTask, program)
        known = {buffer.name: self.allocate(buffer.size) for buffer in task.buffers}
        return GraphExecutable(task, known | dict(buffers or {}))

    def release(self) -> None:
        """See `ProgramDevice.release`."""
        self._host.close()

    def _loaded(self, model: LoadableModel) -> ModelExecutable:
        """Every function compiled and loaded; nothing stays loaded when one is refused."""
        opset = dialect(self._host.platform.version)
        hosted: list[Hosted] = []
        try:
            made: list[GraphFunction] = []
            for each in model.functions.values():
                program = graph_program(each, opset)
                hosted.append(self._host.load(program))
                made.append(graph_function(each, program, hosted[-1]))
            first, *others = made
            return super().load(GraphFunction(first.name, first.programs, first.steps, first.inputs, first.outputs,
                                              first.states, tuple(others)))
        except BaseException:
            for loaded in hosted:
                loaded.close()
            raise


def info_of(platform: Platform, options: HostOptions) -> DeviceInfo:
    """What a device on this platform says about itself."""
    try:
        chip = find(platform.processor.removeprefix("Apple ")).generation
    except UnsupportedError:
        chip = "any"
    system = " ".join(word for word in (platform.system, platform.version, platform.build) if word)
    what = "stand-in of the neural engine's runtime" if platform.simulated else "neural engine"
    where = f" on {platform.processor}" if platform.processor else ""
    return DeviceInfo("macos", chip, f"{what}{where}, {system}, route {options.route}", not platform.simulated,
                      ("model",))


def require_mac(system: str, machine: str) -> None:
    """DeviceUnavailable unless this is a Python for arm64 on macOS; `system` and `machine` as Python's own modules give
    them."""
    if system != "darwin":
        raise DeviceUnavailable(f"the neural engine's runtime is a part of macOS, and this is {system}",
                                "'macos?runtime=simulated' runs on a stand-in of it, 'simulator' on the simulator")
    if machine != "arm64":
        raise DeviceUnavailable(f"this Python runs as {machine}, and the engine's runtime is for arm64",
                                "start a Python built for arm64: translated by Rosetta, nothing of the engine can be "
                                "reached, and Intel Macs have none")
