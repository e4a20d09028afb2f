"""Who runs graph programs for a device: this process (`InProcess`), or a worker (`worker.Worker`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.routes import LoadedGraph, RouteOptions, RunFacts, open_route, open_symbols
from openane.devices.macos.shared_memory import Tensors, needed, tensors
from openane.devices.macos.symbols import Platform
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What a host is started with; every field is an option of the device's name."""

    runtime: str = "system"
    """"system", or "simulated" for the stand-in."""
    inject: str = ""
    """Failures of the stand-in."""
    route: str = "memory"
    path: int = 1
    qos: int = 21
    timeout: float = 10.0
    """Seconds a run may take; a worker that takes longer is killed."""
    compile_timeout: float = 300.0
    """Seconds compiling and loading may take."""

    def routing(self, noted: Callable[[str], None]) -> RouteOptions:
        """The options of the route."""
        return RouteOptions(self.route, self.path, self.qos, noted)


class Hosted(Protocol):
    """A loaded program with the memory of its tensors, by MIL name."""

    @property
    def inputs(self) -> Tensors:
        """What a run reads."""
        ...

    @property
    def outputs(self) -> Tensors:
        """What a run writes."""
        ...

    def run(self) -> RunFacts:
        """Runs once. SubmitFailed, DeviceHung."""
        ...

    def close(self) -> None:
        """Unloads. Idempotent."""
        ...


class Host(Protocol):
    """Runs graph programs."""

    @property
    def platform(self) -> Platform:
        """The machine."""
        ...

    def load(self, program: GraphProgram) -> Hosted:
        """Compiles and loads. Errors as `Route.load`."""
        ...

    def close(self) -> None:
        """Unloads everything. Idempotent."""
        ...


class InProcess:
    """The runtime in this process: no time-out is enforced, and an Objective-C exception ends the process."""

    def __init__(self, options: HostOptions) -> None:
        """DeviceUnavailable, DeviceChanged as the route's maker."""
        self._symbols = open_symbols(options.runtime, options.inject)
        try:
            self._route = open_route(self._symbols, options.routing(lambda directory: None))
        except BaseException:
            self._symbols.close()
            raise

    @property
    def platform(self) -> Platform:
        """See `Host.platform`."""
        return self._symbols.platform

    def load(self, program: GraphProgram) -> HostedHere:
        """See `Host.load`."""
        return HostedHere(program, np.zeros(needed(program), np.uint8), self._route.load(program))

    def close(self) -> None:
        """See `Host.close`."""
        try:
            self._route.close()
        finally:
            self._symbols.close()


class HostedHere:
    """See `Hosted`; also what a worker has of a program."""

    def __init__(self, program: GraphProgram, memory: np.ndarray, loaded: LoadedGraph) -> None:
        """A loaded program and the bytes its tensors lie in."""
        self.inputs, self.outputs = tensors(program, memory)
        self._loaded = loaded

    def run(self) -> RunFacts:
        """See `Hosted.run`."""
        return self._loaded.run(self.inputs, self.outputs)

    def close(self) -> None:
        """See `Hosted.close`."""
        self._loaded.close()
