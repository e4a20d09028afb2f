"""What a route into the system's runtime offers: it loads a graph program, and runs it on arrays.

Two routes take a graph: the in-memory model of the private framework (`memory_model`), and the C interface of the graph
runtime (`e5rt`). Both live in one process with the runtime they drive, normally that of a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.symbols import RuntimeSymbols, SystemSymbols
from openane.errors import BudgetExhausted, DeviceError, DeviceUnavailable
from openane.record_classes import dataclass

COMPILATIONS = 100
"""Compilations after which a process should end: below the lowest limit anyone has met (110)."""

DirectoryNoted = Callable[[str], None]
"""Told of every directory a route is about to make, so that whoever survives a crash of the process can remove it."""


class Compilations:
    """How many programs a process has compiled. Closing a device gives none of them back."""

    def __init__(self) -> None:
        self.used = 0

    def take(self, limit: int) -> None:
        """Counts one more. BudgetExhausted when none is left."""
        if self.used >= limit:
            raise BudgetExhausted("compilations of this process", limit=limit, used=self.used,
                                  remedy="use the device with worker=on, which starts a new process when one is used "
                                         "up, or keep models loaded instead of loading them again")
        self.used += 1


def compilations(symbols: RuntimeSymbols) -> Compilations:
    """The count of this process; each stand-in of the runtime has one of its own."""
    return Compilations() if symbols.platform.simulated else _of_this_process()


@cache
def _of_this_process() -> Compilations:
    return Compilations()


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """How programs are run; every field is an option of the device's name."""

    route: str = "memory"
    """"memory", "e5rt", or "precompiled" for engine programs."""
    path: int = 1
    """Which of the four ways to evaluate an in-memory model, 1 to 4 (`memory_model`)."""
    qos: int = 21
    """Quality of service of the requests, 0 to 63."""
    noted: DirectoryNoted = field(default=lambda directory: None, compare=False)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known about one run."""

    seconds: float
    """Time of the call on the host."""
    where: str
    """What carried it out, as far as the system says."""
    hardware_seconds: float | None = None
    """Time the engine says it took; None where the system gives none."""

    def __str__(self) -> str:
        said = "" if self.hardware_seconds is None else f", {self.hardware_seconds:g} s by its own account"
        return f"{self.where}{said}"


class LoadedGraph(Protocol):
    """A compiled and loaded graph program."""

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> RunFacts:
        """Runs once. Arrays by MIL name (`GraphPort.mil`), contiguous, of exactly the port's shape and
        `GraphPort.element` type; `outputs` is written. SubmitFailed with the system's code and text."""
        ...

    def close(self) -> None:
        """Unloads it and removes its files. Idempotent."""
        ...


class RuntimeRoute(Protocol):
    """A way into the runtime. Made by `Maker(symbols, options)`; the constructor loads the libraries and checks what it
    will call. DeviceUnavailable where something is missing, DeviceChanged where it is not what is known."""

    def load(self, program: GraphProgram) -> LoadedGraph:
        """Compiles and loads. DeviceRejected with the compiler's text; BudgetExhausted when the process may not compile
        more."""
        ...

    def close(self) -> None:
        """Closes what is loaded. Idempotent."""
        ...


Maker = Callable[[RuntimeSymbols, RouteOptions], RuntimeRoute]

ROUTES = {"memory": ("openane.devices.macos.memory_model", "MemoryRoute"),
          "e5rt": ("openane.devices.macos.e5rt", "E5Route"),
          "precompiled": ("openane.devices.macos.precompiled", "PrecompiledRoute")}
"""Module and class of every route, imported when asked for."""


def open_route(symbols: RuntimeSymbols, options: RouteOptions) -> RuntimeRoute:
    """The route of the options. DeviceError for a route nobody knows; DeviceUnavailable on a machine without engine."""
    if options.route not in ROUTES:
        raise DeviceError(f"no route is called {options.route!r}; there are {', '.join(ROUTES)}")
    platform = symbols.platform
    if platform.machine != "arm64":
        raise DeviceUnavailable(f"this Python runs as {platform.machine}, and the engine's runtime is for arm64",
                                "install and start a Python built for arm64: under Rosetta, translated, nothing of the "
                                "engine can be reached")
    module, name = ROUTES[options.route]
    return cast(Maker, getattr(import_module(module), name))(symbols, options)


def open_symbols(runtime: str, inject: str = "") -> RuntimeSymbols:
    """The system's symbols (`runtime` "system"), or the stand-in's ("simulated") with the failures `inject` names.

    The stand-in's package offers `open_symbols(inject: str) -> Symbols`; DeviceError lists the failures it knows.
    """
    if runtime == "system":
        return SystemSymbols()
    return cast(RuntimeSymbols, import_module("openane.devices.macos.standin").open_symbols(inject))
