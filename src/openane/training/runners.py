"""How the weights of a training step reach the engine: as inputs, as constants patched in place, or by compiling again.

A runner holds one graph whose weights are inputs. `set` gives it new weights, `run` everything else. The reference
runner evaluates the graph in fp32 on the host: what a training is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from openane.compiler import Model, compile
from openane.compiler.model import Where
from openane.compiler.patching import in_place
from openane.devices.protocol import Device, LoadedModel
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.evaluate import evaluate
from openane.training.objective import with_constant_weights, with_state_weights

Arrays = dict[str, np.ndarray]
Weights = Mapping[str, np.ndarray]
TINY = float(np.finfo(np.float16).smallest_subnormal)
ROUTES = ("inputs", "patch", "recompile")


@dataclass(frozen=True)
class Placement:
    """Where a graph's operations run: on the engine (tasks of its programs), and on the host, each with its reason."""

    engine: int
    tasks: int
    host: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(model: Model) -> Placement:
        """That of a compiled model."""
        return Placement(sum(entry.where in (Where.ENGINE, Where.FUSED) for entry in model.report),
                         sum(len(program.tasks) for program in model.programs),
                         {entry.operation: entry.reason for entry in model.host_operations})


class Runner(Protocol):
    """See the module."""

    @property
    def route(self) -> str:
        """How weights reach the device, with the reason where it is not the way that was asked for."""
        ...

    @property
    def placement(self) -> Placement:
        """Where operations run."""
        ...

    @property
    def engine_seconds(self) -> float:
        """Seconds the device executed in the last run."""
        ...

    def set(self, weights: Weights) -> None:
        """New weights, fp32, rounded to fp16 on their way to the device."""
        ...

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs for everything that is no weight."""
        ...

    def close(self) -> None:
        """Gives the device's memory back."""
        ...


class ReferenceRunner:
    """Evaluates the graph in fp32 on the host, weights not rounded."""

    route = "fp32 reference on the host"
    engine_seconds = 0.0

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._weights: Weights = {}
        self.placement = Placement(0, 0, {node.label: "the reference device" for node in graph.nodes})

    def set(self, weights: Weights) -> None:
        """See `Runner.set`."""
        self._weights = {value.name: weights[value.name] for value in self._graph.inputs if value.name in weights}

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """See `Runner.run`."""
        return evaluate(self._graph, {**inputs, **self._weights})

    def close(self) -> None:
        """See `Runner.close`."""


class _Loaded:
    """A model on a device."""

    route = ""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded: LoadedModel | None = None
        self.placement = Placement(0, 0)

    @property
    def engine_seconds(self) -> float:
        """See `Runner.engine_seconds`."""
        return self._loaded.report.seconds if self._loaded is not None else 0.0

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """See `Runner.run`."""
        assert self._loaded is not None, "weights are set first"
        return self._loaded.run(inputs)

    def close(self) -> None:
        """See `Runner.close`."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()

    def _load(self, model: Model) -> LoadedModel:
        """The model in the place of the one before."""
        self.close()
        self._loaded = self._device.load(model)
        self.placement = Placement.of(model)
        return self._loaded


class InputRunner(_Loaded):
    """Weights are persistent buffers of the device, written when they change."""

    route = "inputs: persistent buffers"

    def __init__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> None:
        super().__init__(device)
        own = tuple(value.name for value in graph.inputs if value.name in names)
        self._names = own
        self._load(compile(with_state_weights(graph, own), target, allow_host))

    def set(self, weights: Weights) -> None:
        """See `Runner.set`."""
        assert self._loaded is not None
        with np.errstate(over="ignore"):
            for name in self._names:
                self._loaded.write(name, weights[name].astype(np.float16))


class PatchRunner(_Loaded):
    """Weights are constants of the programs, written where they lie; those of which the compiler makes more than bytes
    (a convolution that is unfolded, a gain that is folded into several products) are persistent buffers.

    The programs are compiled for weights that are all different, because vectors that are equal when a model is
    compiled share one place.
    """

    def __init__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> None:
        super().__init__(device)
        self._target, self._allow_host = target, allow_host
        rng = np.random.default_rng(0)
        drawn = {value.name: (rng.standard_normal(value.shape) * 0.1).astype(np.float32)
                 for value in graph.inputs if value.name in names}
        self._buffers: tuple[str, ...] = ()
        while True:
            self._names = tuple(name for name in drawn if name not in self._buffers)
            self._graph = with_state_weights(graph, self._buffers)
            self._model = self._compiled(drawn)
            refused = tuple(name for name in self._names if in_place(self._model, [name]))
            if not refused:
                break
            self._buffers += refused
        self.route, self.placement = self._way(), Placement.of(self._model)

    def set(self, weights: Weights) -> None:
        """See `Runner.set`. Where new numbers cannot be patched the model is compiled again, which `route` says."""
        arrays = {name: present(weights[name]) for name in self._names}
        try:
            patched = self._model.patch(arrays)
            again, model = patched.recompiled, patched.model
            self._model = model
        except UnsupportedError as error:  # numbers that change more than constants: gains of ones alone
            again, model = error.rule, self._compiled(arrays)
        self.route = f"patch, but compiled again: {again}" if again else self._way()
        loaded = self._load(model)
        with np.errstate(over="ignore"):
            for name in self._buffers:
                loaded.write(name, weights[name].astype(np.float16))

    def _compiled(self, weights: Weights) -> Model:
        constants = with_constant_weights(self._graph, {name: weights[name] for name in self._names})
        return compile(constants, self._target, self._allow_host)

    def _way(self) -> str:
        beside = f", {len(self._buffers)} as persistent buffers ({', '.join(self._buffers)})" if self._buffers else ""
        return f"patch: {len(self._names)} constants in place{beside}"


def present(array: np.ndarray) -> np.ndarray:
    """The array, or where fp16 holds nothing of it but zeros one with the least number fp16 has (6e-8) in front: a
    vector of zeros would make an operation disappear, which is more than new constants can do."""
    if float(np.abs(array).max(initial=0)) >= TINY:
        return array
    made = np.zeros_like(array)
    made.flat[0] = TINY
    return made


class RecompileRunner(_Loaded):
    """The graph is compiled again for every set of weights."""

    route = "recompile"

    def __init__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> None:
        super().__init__(device)
        self._graph, self._target, self._allow_host = graph, target, allow_host
        self._names = {value.name for value in graph.inputs if value.name in names}

    def set(self, weights: Weights) -> None:
        """See `Runner.set`."""
        constants = with_constant_weights(self._graph, {name: weights[name] for name in self._names})
        self._load(compile(constants, self._target, self._allow_host))


class Maker(Protocol):
    """Makes a runner."""

    def __call__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> Runner:
        """The runner for a graph whose inputs called `names` are weights."""
        ...


RUNNERS: Mapping[str, Maker] = {"inputs": InputRunner, "patch": PatchRunner, "recompile": RecompileRunner}


def open_runner(route: str, graph: Graph, names: tuple[str, ...], device: Device | None, target: str,
                allow_host: bool) -> Runner:
    """The runner of a route; without a device the reference. UnsupportedError where the engine cannot take the graph
    and `allow_host` is not given."""
    if device is None:
        return ReferenceRunner(graph)
    return RUNNERS[route](graph, names, device, target, allow_host)
