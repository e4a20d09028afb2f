"""The neural engine of a Mac for engine programs: `macos?route=precompiled`, where the system allows it.

Programs are verified and written as HWX files; a compiled model runs by its programs and host steps, as on Linux.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

import numpy as np

from openane.devices.base import ProgramDevice
from openane.devices.executable import BufferExecutable
from openane.devices.macos.device import MacDevice
from openane.devices.macos.graph_model import GraphTask
from openane.devices.macos.precompiled import file_program
from openane.devices.model import ModelExecutable
from openane.devices.protocol import DeviceInfo, Executable, LoadableModel
from openane.program import Program
from openane.program.verify import Verified


class FileDevice(MacDevice):
    """Runs engine programs by their files. Several threads may use it; their runs happen one after the other."""

    @property
    def info(self) -> DeviceInfo:
        """As `MacDevice.info`; it takes programs, and models by their programs."""
        known = super().info
        return DeviceInfo(known.name, known.chip, known.description, known.engine, ("program", "model"))

    @overload
    def load(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None = None) -> Executable: ...

    @overload
    def load(self, program: LoadableModel, buffers: Mapping[str, np.ndarray] | None = None) -> ModelExecutable: ...

    def load(self, program: Program | Verified | LoadableModel,
             buffers: Mapping[str, np.ndarray] | None = None) -> Executable | ModelExecutable:
        """See `Device.load`. UnsupportedError for buffers that persist, DeviceRejected where the system does not load
        the file."""
        return ProgramDevice.load(self, program, buffers)

    def check(self, program: Program) -> Program | Verified:
        """Verifies a program nobody has verified yet. VerifyError lists every rule it breaks."""
        return ProgramDevice.check(self, program)

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`."""
        known = program.program if isinstance(program, Verified) else program
        made = file_program(known)
        hosted = self._host.load(made)
        try:
            task = GraphTask("any", (), b"", (*known.inputs, *known.outputs), known.name, hosted=hosted,
                             ports={port.name: port for port in (*made.inputs, *made.outputs)}, what="program")
            return super().prepare(task, buffers)
        except BaseException:
            hosted.close()
            raise
