"""The simulator as a device: `simulator`, `simulator:h13?arithmetic=exact`, `simulator?verify=off` (no verifier)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.chips import described_generations
from openane.devices.base import ProgramDevice
from openane.devices.executable import BufferExecutable
from openane.devices.options import choose, refuse_unknown
from openane.devices.protocol import DeviceInfo
from openane.errors import DeviceError, VerifyError
from openane.formats.mapping import let_go
from openane.program import Constants, Program
from openane.program.patch import ByteRange
from openane.program.verify import Passed, Verified, verify_now
from openane.simulator import LoadedProgram, Mode, RunReport, load
from openane.simulator.bodies import follower
from openane.simulator.memory import MEMORY_LIMIT
from openane.simulator.sharing import SharedWeights

OPTIONS = ("arithmetic", "verify")
SWITCH = {"on": True, "off": False}


WORTH = 32
"""Tasks of a program from which it takes less time to find out that it has passed the verifier than to ask it."""


class SimulatorExecutable(BufferExecutable):
    """A program in the simulator. `loaded` is the simulator's own handle, `report` tells about the last run."""

    def __init__(self, program: Program | Verified, arithmetic: str, buffers: Mapping[str, np.ndarray] | None = None,
                 verified: bool = True, weights: SharedWeights | None = None) -> None:
        """Executables with the same `weights` hold equal ones once."""
        plain = program.program if isinstance(program, Verified) else program
        super().__init__(plain, verified)
        self._loaded: LoadedProgram | None = load(program, arithmetic, buffers, weights)
        if self._loaded.unpacked:
            let_go(plain.constants)

    @property
    def loaded(self) -> LoadedProgram:
        """The loaded program. DeviceError after `close`."""
        if self._loaded is None:
            raise DeviceError("the executable is closed")
        return self._loaded

    def stores(self) -> Mapping[str, np.ndarray]:
        """See `BufferExecutable.stores`."""
        return self.loaded.buffers

    def execute_buffers(self) -> RunReport:
        """See `BufferExecutable.execute_buffers`."""
        unpacks = not self.loaded.unpacked
        report = self.loaded.run()
        if unpacks:
            let_go(self.program.constants)
        return report

    def rebind(self, name: str, memory: np.ndarray) -> None:
        """See `BufferExecutable.rebind`. SimulationError when the memory is too small."""
        self.loaded.bind(name, memory)

    def rewrite(self, constants: Constants, ranges: Sequence[ByteRange]) -> None:
        """See `BufferExecutable.rewrite`. SimulationError, or ProgramError of a table, where a task can make nothing of
        them."""
        self.loaded.write_constants(constants, ranges)

    def release(self) -> None:
        """Frees the memory."""
        self._loaded = None


class SimulatorDevice(ProgramDevice):
    """Runs programs of one generation in memory."""

    def __init__(self, chip: str | None = None, arithmetic: str = "auto", verifies: bool = True) -> None:
        """`chip` None takes programs of every generation; `verifies` False takes them unseen, for experiments."""
        super().__init__(chip)
        self._arithmetic, self._verifies = str(Mode.of(arithmetic)), verifies
        self._weights = SharedWeights()
        self.passed: Passed | None = None
        """Who remembers programs that were verified before."""

    @property
    def settings(self) -> tuple[str | None, str, bool]:
        """What another one is made with to be the same: chip, arithmetic, whether it verifies."""
        return self._chip, self._arithmetic, self._verifies

    @property
    def info(self) -> DeviceInfo:
        """Name, chip and arithmetic."""
        return DeviceInfo("simulator", self._chip or "any", f"simulated engine, {self._arithmetic} arithmetic")

    def allocate(self, size: int) -> np.ndarray:
        """See `Device.allocate`. DeviceError beyond the simulator's memory."""
        self.require_open()
        if not 0 <= size <= MEMORY_LIMIT:
            raise DeviceError(f"the simulator allocates up to {MEMORY_LIMIT} bytes at a time, not {size}")
        return np.zeros(size, np.uint8)

    def check(self, program: Program) -> Program | Verified:
        """Verifies, and says how to look at a refused program all the same."""
        if not self._verifies:
            return program
        try:
            return verify_now(program, self.passed if len(program.tasks) >= WORTH else None,
                              follower(len(program.constants)))
        except VerifyError as refused:
            raise VerifyError(refused.violations,
                              "the device 'simulator?verify=off' loads it unverified, to experiment") from None

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`. SimulationError when a program cannot be run."""
        return SimulatorExecutable(program, self._arithmetic, buffers, self._verifies, self._weights)

    def release(self) -> None:
        """See `ProgramDevice.release`: it holds nothing."""


def open_kind(target: str, options: Mapping[str, str]) -> SimulatorDevice:
    """See `openane.devices.DeviceKind`."""
    if target and target not in described_generations():
        raise DeviceError(f"the simulator knows no chip {target!r}; it knows {', '.join(described_generations())}")
    refuse_unknown("the simulator", options, OPTIONS)
    return SimulatorDevice(target or None, choose(options, "arithmetic", list(Mode), "auto"),
                           SWITCH[choose(options, "verify", list(SWITCH), "on")])


def discover() -> tuple[DeviceInfo, ...]:
    """The simulator is everywhere."""
    return (SimulatorDevice().info,)
