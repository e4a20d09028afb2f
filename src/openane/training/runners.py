"""How the weights of a training step reach the engine: as inputs, as constants patched in place, or by compiling again.

A runner holds one graph whose weights are inputs. `set` gives it new weights, `run` everything else. The reference
runner evaluates the graph in fp32 on the host: what a training is compared with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from openane.compiler import Model, Where, compile
from openane.compiler.patch_model import in_place
from openane.compiler.precision import PrecisionMode
from openane.devices.protocol import Device, LoadedModel
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.evaluate import evaluate
from openane.training.gradient_weights import computable
from openane.training.objective import GRADIENT, with_constant_weights, with_state_weights
from openane.training.ports import packed

Arrays = dict[str, np.ndarray]
Weights = Mapping[str, np.ndarray]
TINY = float(np.finfo(np.float16).smallest_subnormal)
ROUTES = ("inputs", "patch", "recompile")


@dataclass(frozen=True)
class WorkSplit:
    """Where a graph's operations run: on the engine (tasks of its programs), and on the host, each with its reason."""

    engine: int
    tasks: int
    host: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(model: Model) -> WorkSplit:
        """That of a compiled model."""
        return WorkSplit(sum(entry.where in (Where.ENGINE, Where.FUSED) for entry in model.report),
                         sum(len(program.tasks) for program in model.programs),
                         {entry.operation: entry.reason for entry in model.host_operations})


class Runner(Protocol):
    """See the module."""

    @property
    def route(self) -> str:
        """How weights reach the device, with the reason where it is not the way that was asked for."""
        ...

    @property
    def placement(self) -> WorkSplit:
        """Where operations run."""
        ...

    @property
    def engine_seconds(self) -> float:
        """Seconds the device executed in the last run."""
        ...

    @property
    def infinities(self) -> int | None:
        """Infinities the tasks of the last run stored; None where the device does not count them."""
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
    infinities = None

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._weights: Weights = {}
        self.placement = WorkSplit(0, 0, {node.label: "the reference device" for node in graph.nodes})

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
        self.placement = WorkSplit(0, 0)

    @property
    def engine_seconds(self) -> float:
        """See `Runner.engine_seconds`."""
        return self._loaded.report.seconds if self._loaded is not None else 0.0

    @property
    def infinities(self) -> int | None:
        """See `Runner.infinities`."""
        report = self._loaded.report if self._loaded is not None else None
        return report.overflows if report is not None and report.tasks else None

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
        self.placement = WorkSplit.of(model)
        return self._loaded


class InputRunner(_Loaded):
    """Weights are persistent buffers of the device, written when they change; they and their gradients share surfaces
    (see training.ports)."""

    route = "inputs: persistent buffers"

    def __init__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> None:
        super().__init__(device)
        gradients = [value.name for value in graph.outputs if value.name.startswith(GRADIENT)]
        self._packed = packed(computable(graph), [v.name for v in graph.inputs if v.name in names], gradients, target)
        buffers = tuple(self._packed.inputs.ports)
        self._load(compile(with_state_weights(self._packed.graph, buffers), target, allow_host,
                           precision=PrecisionMode.AS_IS))

    def set(self, weights: Weights) -> None:
        """See `Runner.set`."""
        assert self._loaded is not None
        for name, array in self._packed.inputs.pack(weights).items():
            self._loaded.write(name, array)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """See `Runner.run`."""
        return self._packed.outputs.unpack(super().run(inputs))


class PatchRunner(_Loaded):
    """Weights are constants of the programs, written where they lie; those of which the compiler makes more than bytes
    (a convolution that is unfolded, a gain that is folded into several products) are persistent buffers.

    The programs are compiled for weights that are all different, because vectors that are equal when a model is
    compiled share one place.
    """

    def __init__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> None:
        super().__init__(device)
        self._target, self._allow_host = target, allow_host
        drawn = drawn_for(graph, names)
        self._buffers: tuple[str, ...] = ()
        self._related = False
        while True:
            self._names = tuple(name for name in drawn if name not in self._buffers)
            self._graph = with_state_weights(graph, self._buffers)
            self._model = self._compiled(drawn)
            refused = tuple(name for name in self._names if in_place(self._model, [name]))
            if not refused:
                break
            self._buffers += refused
        self.route, self.placement = self._way(), WorkSplit.of(self._model)

    def set(self, weights: Weights) -> None:
        """See `Runner.set`. `route` says where new numbers cannot be patched, so that the model is compiled again, and
        where the device takes no new constants, so that it is loaded again."""
        arrays = {name: present(weights[name]) for name in self._names}
        try:
            patched = self._model.patch(arrays)
        except UnsupportedError as error:  # numbers that change more than constants
            again, loaded = f"compiled again: {error.rule}", self._load(self._compiled(arrays))
            self._related = False
        else:
            self._model = patched.model
            loaded, refused = self._updated(patched.model)
            again = f"compiled again: {patched.recompiled}" if patched.recompiled else refused
        self.route = f"patch, but {again}" if again else self._way()
        with np.errstate(over="ignore"):
            for name in self._buffers:
                loaded.write(name, weights[name].astype(np.float16))

    def _updated(self, model: Model) -> tuple[LoadedModel, str]:
        """The model on the device, by new constants where one it was patched from is loaded; and what was done where
        the device takes none."""
        refused = ""
        if self._loaded is not None and self._related:
            try:
                self._loaded.update_constants(model)
                return self._loaded, ""
            except UnsupportedError as error:
                refused = f"loaded again: {error.rule}"
        loaded = self._load(model)
        self._related = True
        return loaded, refused

    def _compiled(self, weights: Weights) -> Model:
        constants = with_constant_weights(self._graph, {name: weights[name] for name in self._names})
        return compile(computable(constants), self._target, self._allow_host, precision=PrecisionMode.AS_IS)

    def _way(self) -> str:
        beside = f", {len(self._buffers)} as persistent buffers ({', '.join(self._buffers)})" if self._buffers else ""
        return f"patch: {len(self._names)} constants in place{beside}"


def drawn_for(graph: Graph, names: Collection[str]) -> dict[str, np.ndarray]:
    """fp32 numbers for the inputs of a graph that are weights, no two arrays alike: what a model is compiled for before
    its weights are known."""
    rng = np.random.default_rng(0)
    return {value.name: (rng.standard_normal(value.shape) * 0.1).astype(np.float32)
            for value in graph.inputs if value.name in names}


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
        drawn = drawn_for(graph, names)
        self._names = tuple(drawn)
        self.placement = WorkSplit.of(self._compiled(drawn))

    def set(self, weights: Weights) -> None:
        """See `Runner.set`."""
        self._load(self._compiled(weights))

    def _compiled(self, weights: Weights) -> Model:
        constants = with_constant_weights(self._graph, {name: weights[name] for name in self._names})
        return compile(computable(constants), self._target, self._allow_host, precision=PrecisionMode.AS_IS)


class RunnerMaker(Protocol):
    """Makes a runner."""

    def __call__(self, graph: Graph, names: tuple[str, ...], device: Device, target: str, allow_host: bool) -> Runner:
        """The runner for a graph whose inputs called `names` are weights."""
        ...


RUNNERS: Mapping[str, RunnerMaker] = {"inputs": InputRunner, "patch": PatchRunner, "recompile": RecompileRunner}


def open_runner(route: str, graph: Graph, names: tuple[str, ...], device: Device | None, target: str,
                allow_host: bool) -> Runner:
    """The runner of a route; without a device the reference. UnsupportedError where the engine cannot take the graph
    and `allow_host` is not given."""
    if device is None:
        return ReferenceRunner(graph)
    try:
        return RUNNERS[route](graph, names, device, target, allow_host)
    except UnsupportedError as error:
        if allow_host:
            raise
        leave = "engine.allow_host = true lets the host compute what the engine cannot, and lists it"
        remedy = f"{error.remedy}; or {leave}" if error.remedy else leave
        raise UnsupportedError(error.operation, error.rule, limit=error.limit, found=error.found,
                               remedy=remedy) from None
