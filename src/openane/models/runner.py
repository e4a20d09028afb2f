"""The compiled functions of a language model on a device, and the states they share.

A function holds all weights it uses, so that two functions of a large model are twice its weights, in the simulator
six times (it multiplies in float32). `Residence.ONE` keeps one function on the device at a time: the constants of the
others wait in files, states are copied when functions change. `Residence.ALL` keeps all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from openane.compiler import Model, compile
from openane.compiler.model import Where
from openane.devices import Device
from openane.devices.protocol import Index, LoadedModel
from openane.errors import GraphError
from openane.graph import Graph
from openane.models.layers import Parameters
from openane.models.steps import Step

LARGE = 512 << 20
"""Bytes of fp16 weights from which one function at a time is on the device, unless asked otherwise."""


Build = Callable[[Parameters, Step], Graph]


class Residence(StrEnum):
    """How many functions are on the device at a time."""

    ALL = "all"
    ONE = "one"
    AUTO = "auto"


@dataclass(slots=True)
class Usage:
    """What was done since the model was loaded. Seconds of the engine are those the device reports; bytes are those
    the host wrote into states between steps (`placed`) and handed over as inputs and outputs (`passed`)."""

    steps: int = 0
    switches: int = 0
    placed: int = 0
    passed: int = 0
    engine_seconds: float = 0.0
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A compiled step. `model` is without its constants while they wait in `files`."""

    step: Step
    model: Model
    files: tuple[Path, ...] = ()

    def whole(self) -> Model:
        """The model with its constants."""
        if not self.files:
            return self.model
        programs = tuple(replace(program, constants=file.read_bytes())
                         for program, file in zip(self.model.programs, self.files, strict=True))
        return replace(self.model, programs=programs)


class Runner:
    """Runs steps by name. Use `close` when done."""

    def __init__(self, device: Device, functions: Sequence[Function], folder: tempfile.TemporaryDirectory[str] | None
                 ) -> None:
        """`folder`: where constants wait; given, one function at a time is loaded. It is removed by `close`."""
        self.usage = Usage()
        self._device, self._folder = device, folder
        self._functions = {function.step.name: function for function in functions}
        self._loaded: LoadedModel | None = None
        self._current = ""
        self._written: dict[str, np.ndarray] = {}
        if folder is None:
            first, *others = [function.whole() for function in functions]
            self._loaded = device.load(first.with_functions(others))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every function, as it was asked for."""
        return tuple(function.step for function in self._functions.values())

    @property
    def models(self) -> dict[str, Model]:
        """The compiled functions by name (without constants where those wait in files)."""
        return {name: function.model for name, function in self._functions.items()}

    def run(self, name: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs one step and counts it. Errors of the device."""
        executable = self._on_device(name)
        outputs = executable.run(inputs, name)
        usage, report = self.usage, executable.report
        usage.steps += 1
        usage.tasks += len(report.tasks)
        usage.engine_seconds += report.seconds
        usage.passed += sum(array.nbytes for array in (*inputs.values(), *outputs.values()))
        return outputs

    def write(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """Writes part of a state."""
        self._any().write(name, values, index)
        self.usage.placed += values.nbytes

    def read(self, name: str) -> np.ndarray:
        """A copy of a state."""
        return self._any().read(name)

    def close(self) -> None:
        """Gives everything back. Closing twice does nothing."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _any(self) -> LoadedModel:
        return self._on_device(self._current or next(iter(self._functions)))

    def _on_device(self, name: str) -> LoadedModel:
        if self._folder is None or name == self._current:
            if self._loaded is None:
                raise GraphError("the language model is closed")
            return self._loaded
        held = self._states()
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None  # before the next one asks for memory
        self._loaded, self._current = self._device.load(self._functions[name].whole()), name
        self.usage.switches += 1
        for state, values in held.items():
            self._loaded.write(state, values)
        return self._loaded

    def _states(self) -> dict[str, np.ndarray]:
        if self._loaded is None:
            return {}
        return {state.name: self._loaded.read(state.name) for state in self._functions[self._current].model.states}


def runner(device: Device, parameters: Parameters, steps: Sequence[Step], target: str, residence: Residence,
           build: Build) -> Runner:
    """Every step compiled for `target`, on the device.

    UnsupportedError when an operation does not run on the engine: nothing is given to the host in silence. Graphs are
    kept for devices that compile them again themselves.
    """
    one = residence is Residence.ONE or (residence is Residence.AUTO and len(steps) > 1
                                         and 2 * parameters.config.weights >= LARGE)
    folder = tempfile.TemporaryDirectory(prefix="openane-") if one else None
    try:
        keep = "program" not in device.info.takes
        functions = [_function(build(parameters, step), step, target, folder, keep) for step in steps]
        return Runner(device, functions, folder)
    except BaseException:
        if folder is not None:
            folder.cleanup()
        raise


def _function(graph: Graph, step: Step, target: str, folder: tempfile.TemporaryDirectory[str] | None,
              keep: bool) -> Function:
    def gone() -> Graph:
        raise GraphError("a loaded language model does not keep its graphs; openane.models.decoder.build makes them")

    model = replace(compile(graph, target), source=graph if keep else gone, lowered=(), patchable=None)
    if folder is None:
        return Function(step, model)
    files = []
    for number, program in enumerate(model.programs):
        files.append(Path(folder.name) / f"{step.name}-{number}.constants")
        files[-1].write_bytes(program.constants)
    return Function(step, replace(model, programs=tuple(replace(p, constants=b"") for p in model.programs)),
                    tuple(files))


def shares(models: Mapping[str, Model]) -> Iterator[tuple[str, int, int]]:
    """Per function: its name, operations on the engine (or free there) and on the host."""
    for name, model in models.items():
        host = sum(entry.where is Where.HOST for entry in model.report)
        yield name, len(model.report) - host, host
