"""A case: what computes one thing on a device for a target, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from openane.compiler import compile
from openane.devices.protocol import Device
from openane.devices.simulator import SimulatorDevice
from openane.graph import Graph
from openane.ops.evaluate import evaluate
from openane.program import Program
from openane.program.verify import Verified, violations

Arrays = Mapping[str, np.ndarray]
LEAST_COSINE = 0.999


@dataclass(frozen=True, slots=True)
class Case:
    """`outputs` compiles for a target, strict, and runs once on a device. `expected` are the same outputs in float32
    from elsewhere; their cosine is at least `least`, None where nothing is said about it."""

    outputs: Callable[[str, Device], Arrays]
    expected: Callable[[], Arrays]
    least: float | None = LEAST_COSINE


class WatchedDevice(SimulatorDevice):
    """A simulator that takes programs which break rules, too, and counts tasks and broken rules of all it is given."""

    def __init__(self, arithmetic: str) -> None:
        super().__init__(None, arithmetic, verifies=False)
        self.programs = self.tasks = 0
        self.broken: list[str] = []

    def check(self, program: Program) -> Program:
        """Lists the rules a program breaks."""
        self.programs += 1
        self.tasks += len(program.tasks)
        self.broken += map(str, violations(program))
        return program

    def _accepted(self, program: Program | Verified) -> Program | Verified:
        """What was verified before is looked at here all the same."""
        return super()._accepted(program.program if isinstance(program, Verified) else program)


def graph_case(make: Callable[[], Graph], feeds: Callable[[Graph], Arrays], least: float | None = LEAST_COSINE) -> Case:
    """A graph beside the references of its operations."""
    graph = make()
    given = feeds(graph)

    def outputs(target: str, device: Device) -> Arrays:
        return compiled_outputs(graph, given, target, device)

    return Case(outputs, lambda: evaluate(graph, given), least)


def compiled_outputs(graph: Graph, feeds: Arrays, target: str, device: Device) -> Arrays:
    """A graph compiled, loaded, run and closed."""
    loaded = device.load(compile(graph, target))
    try:
        return {name: np.array(array) for name, array in loaded.run(feeds).items()}
    finally:
        loaded.close()
