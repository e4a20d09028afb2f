"""The Backend and the representation of a prepared model; see the package."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.compiler import Model, compile
from openane.devices import run
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Value, numpy_type
from openane.importers.onnx import RunTimeOperandError, load_onnx
from openane.importers.onnx.model import read_model
from openane.importers.onnx.nodes import Proto
from openane.importers.onnx.package import package
from openane.onnx_backend.numbers import EXACT_INTEGERS, check_input, check_numbers, held_exactly
from openane.onnx_backend.tolerance import Tolerance, tolerance
from openane.ops import all_ops, get_op

package()
from onnx.backend.base import Backend, BackendRep, namedtupledict  # noqa: E402  (said above when it is missing)


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A model compiled for one set of values of its constant inputs."""

    graph: Graph
    model: Model
    tolerance: Tolerance

    @property
    def constant(self) -> bool:
        """Whether the outputs depend on constants alone: the engine merely copies them."""
        return not self.graph.inputs


class Representation(BackendRep):
    """A prepared model. `last` is what the last run used."""

    def __init__(self, model: Proto, device: str | None, target: str, checked: bool) -> None:
        self._model, self._device, self._target, self._checked = model, device, target, checked
        initialised = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [port for port in model.graph.input if port.name not in initialised]
        self._prepared: dict[tuple[object, ...], PreparedModel] = {}
        self._fixed: frozenset[str] = frozenset()
        self.last: PreparedModel | None = None

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs by name and place, in the types the model declares. `inputs`: arrays in the model's order, or by
        name. AneError when the engine cannot do it, or not exactly for these integers."""
        feeds = self._feeds(inputs)
        prepared = self.last = self._ready(feeds)
        ports = {value.name: _portable(feeds[value.name], value) for value in prepared.graph.inputs}
        if self._checked:
            check_numbers(prepared.graph, ports)
        found = run(prepared.model, ports, self._device)
        names = [port.name for port in self._model.graph.output]
        results = [_declared(_without_filling(prepared.graph, port.name, found[port.name]), port)
                   for port in self._model.graph.output]
        outputs: tuple[Any, ...] = namedtupledict("Outputs", names)(*results)
        return outputs

    def _feeds(self, inputs: Any) -> dict[str, np.ndarray]:
        names = [port.name for port in self._inputs]
        if not isinstance(inputs, Mapping):
            given = inputs if isinstance(inputs, list | tuple) else [inputs]
            inputs = dict(zip(names, given, strict=False))
        missing = [name for name in names if name not in inputs]
        if missing:
            raise GraphError(f"input {missing[0]!r} is missing; the model takes {', '.join(names)}")
        for name in names:
            if not isinstance(inputs[name], np.ndarray | np.generic | int | float | bool):
                raise UnsupportedError(f"input {name!r}", "inputs must be tensors", found=type(inputs[name]).__name__)
        return {name: np.asarray(inputs[name]) for name in names}

    def _ready(self, feeds: Mapping[str, np.ndarray]) -> PreparedModel:
        """The model compiled for the shapes of `feeds` and the values of what must be constant."""
        fixed = self._fixed | {name for name, array in feeds.items() if not array.size}
        while True:
            key = tuple((name, array.dtype.str, array.shape, array.tobytes() if name in fixed else b"")
                        for name, array in feeds.items())
            if key in self._prepared:
                return self._prepared[key]
            try:
                self._prepared[key] = self._compiled(feeds, fixed)
            except RunTimeOperandError as error:
                more = _deciding(error, feeds) - fixed
                if not more:
                    raise
                fixed |= more
                self._fixed |= more

    def _compiled(self, feeds: Mapping[str, np.ndarray], fixed: frozenset[str]) -> PreparedModel:
        values = {name: feeds[name] for name in fixed}
        shapes = {name: array.shape for name, array in feeds.items() if name not in fixed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            graph = load_onnx(self._model, shapes, values=values, saturate=True, lookups=False)
        return PreparedModel(graph, compile(graph, target=self._target, allow_host=_on_the_host()), tolerance(graph))


def _on_the_host() -> frozenset[str]:
    """Operations that only the host computes: they read bits of integers, or go where data says."""
    return frozenset(op.name for op in all_ops().values() if op.sees_bits or op.positions)


def _without_filling(graph: Graph, name: str, array: np.ndarray) -> np.ndarray:
    """An output as ONNX has it where ours has rows of -1 behind what was found."""
    maker = next((node for node in graph.nodes for value in node.outputs if value.name == name), None)
    return array[array[:, 0] >= 0] if maker is not None and get_op(maker.op).fills_up else array


def _deciding(error: RunTimeOperandError, feeds: Mapping[str, np.ndarray]) -> frozenset[str]:
    """Inputs that may be constants of the run: integers, booleans, single numbers, and what is the operand itself."""
    fitting = all(feeds[name].dtype.kind in "iub" or feeds[name].size == 1 or name == error.operand
                  for name in error.inputs)
    return error.inputs if fitting else frozenset()


def _portable(array: np.ndarray, value: Value) -> np.ndarray:
    """An input in a type that is packed for its port. UnsupportedError for numbers the engine does not hold."""
    check_input(value.name, array)
    wanted = numpy_type(value.dtype)
    return array.astype(np.float32 if wanted.kind == "f" else wanted, copy=False)


def _declared(array: np.ndarray, port: Proto) -> np.ndarray:
    """An output in the type the model declares. UnsupportedError when an integer may have been rounded."""
    import onnx.helper
    wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
    if wanted.kind in "iu" and array.dtype.kind in "iuf" and not held_exactly(array):
        raise UnsupportedError(f"output {port.name!r}", "integers are computed in fp16",
                               limit=f"exact to {EXACT_INTEGERS}", found=f"{np.abs(array).max():g}",
                               remedy="compute large integers on the host")
    return array.astype(wanted, copy=False)


class AneBackend(Backend):
    """See the module. Options of `prepare` and `run_*`: `ane_device`, a device's name; `target`, a chip;
    `check_numbers` (true), whether every run is first held against what fp16 can do, see `check_numbers`."""

    @classmethod
    def prepare(cls, model: Proto, device: str = "CPU", **kwargs: Any) -> Representation:
        """A representation that compiles for the shapes and values it is given. AneError when the model is malformed
        or states something the importer refuses whatever the inputs are."""
        if not cls.supports_device(device):
            raise UnsupportedError(f"device {device!r}", "the backend takes its arrays from the CPU", remedy="CPU")
        return Representation(read_model(model), kwargs.get("ane_device"), str(kwargs.get("target", DEFAULT_TARGET)),
                              bool(kwargs.get("check_numbers", True)))

    @classmethod
    def run_node(cls, node: Proto, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """Runs one node; element types of its outputs are inferred, or taken from `outputs_info`."""
        feeds = _named(node, inputs)
        model = _node_model(node, feeds, outputs_info, kwargs.pop("opset_version", None))
        return cls.prepare(model, device, **kwargs).run(feeds)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Arrays are numpy's: CPU."""
        return device.partition(":")[0] == "CPU"


def _named(node: Proto, inputs: Any) -> dict[str, np.ndarray]:
    """A node's inputs by name: given so, one for each place, or one for each name."""
    names = [name for name in node.input if name]
    if not isinstance(inputs, Mapping):
        given = list(inputs)
        inputs = dict(zip(names if len(given) == len(names) else dict.fromkeys(names), given, strict=False))
    missing = [name for name in names if name not in inputs]
    if missing:
        raise GraphError(f"input {missing[0]!r} is missing; the node takes {', '.join(names)}")
    return {name: np.asarray(inputs[name]) for name in dict.fromkeys(names)}


def _node_model(node: Proto, feeds: Mapping[str, np.ndarray], outputs_info: Any, version: int | None) -> Proto:
    """A model of one node."""
    import onnx
    from onnx import helper, shape_inference
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in feeds.items()]
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype, _ in outputs_info or ()]
    results = [helper.make_tensor_value_info(name, types[place], None) if types else
               helper.make_empty_tensor_value_info(name) for place, name in enumerate(node.output) if name]
    graph = helper.make_graph([node], "node", ports, results)
    opset = helper.make_opsetid(node.domain, version or onnx.defs.onnx_opset_version())
    model = helper.make_model(graph, opset_imports=[opset])
    if not types:
        inferred = shape_inference.infer_shapes(model)
        for port, known in zip(model.graph.output, inferred.graph.output, strict=True):
            port.CopyFrom(known)
    return model
