"""The compiled functions of a language model on a device, and the states they share.

Every function has all weights it uses, packed for its own shapes. Their constants lie in files that are mapped: those
of the cache, or of a folder of the model's own. The simulator unpacks them to float32, equal ones of all functions
once; a device with memory of its own holds them once per function. `Residence.ONE` keeps one function on the device at
a time, and copies the states when functions change; `Residence.ALL` keeps all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from openane.compiler import CompiledModel, Where
from openane.compiler.cache import MappedModels, source_digest
from openane.devices import Device
from openane.devices.protocol import Index, LoadedModel
from openane.errors import GraphError
from openane.graph import Graph
from openane.models.layers import CheckpointParameters
from openane.models.steps import ModelStep

LARGE = 4 << 30
"""Bytes of fp16 weights from which one function at a time is on the device, unless asked otherwise."""


Build = Callable[[CheckpointParameters, ModelStep], Graph]
Told = Callable[[str], None]
"""Hears in a few words what is being done, for whoever waits."""


def silent(_: str) -> None:
    """Nobody waits."""


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


class CompiledSteps:
    """Compiled steps, their constants in files. Use it in a `with` statement, or `close` it when nothing of it runs."""

    def __init__(self, target: str, kept: bool | str | Path, size: int) -> None:
        """`kept`: the compile cache they are taken from and kept in (True: the user's own); `size`: bytes they will be,
        about."""
        self.models: dict[str, CompiledModel] = {}
        self.steps: list[ModelStep] = []
        self._target, self._compiler = target, MappedModels(kept, size)

    def add(self, step: ModelStep, make: Callable[[], Graph], said: str, keep: bool) -> None:
        """Compiles a step, whose graph `make` gives. UnsupportedError when an operation does not run on the engine:
        nothing is given to the host in silence.

        `said`, unless empty, tells all that the graph depends on: it is not made where the cache has the step. `keep`:
        the graph stays with it, for devices that compile it again themselves.
        """
        if said and not keep:
            model = self._compiler.compile_said(said, make, self._target)
        else:
            model = self._compiler.compile(make(), self._target)
        self.models[step.name] = model if keep else replace(model, source=_gone)
        self.steps.append(step)

    def close(self) -> None:
        """Gives the files back. Closing twice does nothing."""
        self._compiler.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is not None:
            self.close()


class ModelRunner:
    """Runs steps by name. Use `close` when done."""

    def __init__(self, device: Device, functions: CompiledSteps, one: bool) -> None:
        """`one`: whether one function at a time is loaded. `close` closes the functions, too."""
        self.usage = Usage()
        self._device, self._functions, self._one = device, functions, one
        self._loaded: LoadedModel | None = None
        self._current = ""
        if not one:
            first, *others = functions.models.values()
            self._loaded = device.load(first.with_functions(others))

    @property
    def steps(self) -> tuple[ModelStep, ...]:
        """Every function, as it was asked for."""
        return tuple(self._functions.steps)

    @property
    def models(self) -> dict[str, CompiledModel]:
        """The compiled functions by name."""
        return dict(self._functions.models)

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
        self._functions.close()

    def _any(self) -> LoadedModel:
        return self._on_device(self._current or next(iter(self._functions.models)))

    def _on_device(self, name: str) -> LoadedModel:
        if not self._one or name == self._current:
            if self._loaded is None:
                raise GraphError("the language model is closed")
            return self._loaded
        held = self._states()
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None  # before the next one asks for memory
        self._loaded, self._current = self._device.load(self._functions.models[name]), name
        self.usage.switches += 1
        for state, values in held.items():
            self._loaded.write(state, values)
        return self._loaded

    def _states(self) -> dict[str, np.ndarray]:
        if self._loaded is None:
            return {}
        return {state.name: self._loaded.read(state.name) for state in self._functions.models[self._current].states}


def runner(device: Device, parameters: CheckpointParameters, steps: Sequence[ModelStep], target: str,
           residence: Residence, build: Build, cache: bool | str | Path = False, identity: str = "",
           told: Told = silent) -> ModelRunner:
    """Every step compiled for `target`, or taken from the compile `cache`, on the device. The weights but those of
    embeddings are forgotten as soon as they are in files. `identity`, unless empty, is different for different weights:
    what is in the cache is found without them. `told` hears which function it is at.
    Errors as for `CompiledSteps.add`, and the device's."""
    size = 2 * parameters.config.weights
    one = residence is Residence.ONE or (residence is Residence.AUTO and len(steps) > 1 and size >= LARGE)
    with CompiledSteps(target, cache, size * len(steps)) as functions:
        for number, step in enumerate(steps, 1):
            told(f"function {number} of {len(steps)}: {step.name}")
            said = _said(parameters, step, identity) if identity else ""
            functions.add(step, partial(build, parameters, step), said, "program" not in device.info.takes)
        parameters.forget()
        told("onto the device")
        return ModelRunner(device, functions, one)


def _said(parameters: CheckpointParameters, step: ModelStep, identity: str) -> str:
    """Everything the graph of a step depends on."""
    return json.dumps([identity, source_digest(("models",)), parameters.precision, asdict(parameters.config),
                       asdict(step)], default=sorted)


def _gone() -> Graph:
    raise GraphError("a loaded language model does not keep its graphs; openane.models.decoder.build makes them")


def shares(models: Mapping[str, CompiledModel]) -> Iterator[tuple[str, int, int]]:
    """Per function: its name, operations on the engine (or free there) and on the host."""
    for name, model in models.items():
        host = sum(entry.where is Where.HOST for entry in model.report)
        yield name, len(model.report) - host, host
