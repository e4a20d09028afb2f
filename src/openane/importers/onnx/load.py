"""An ONNX graph walked in order: constants folded, every other node handed to the function for its operator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.importers.onnx import elementwise, layout, matrices, reductions, windows
from openane.importers.onnx.constants import Constants
from openane.importers.onnx.dtypes import ENGINE_NAMES, dtype_name
from openane.importers.onnx.fold import FOLDS, SHAPE_ONLY, try_fold
from openane.importers.onnx.model import Proto, attribute_values, read_model, tensor_array
from openane.importers.onnx.step import Handler, Operand, Step
from openane.ops.build import GraphBuilder

OPERATORS: Mapping[str, Handler] = {
    **elementwise.OPERATORS, **layout.OPERATORS, **matrices.OPERATORS, **reductions.OPERATORS, **windows.OPERATORS}
"""ONNX operators that become operations of the graph, by op_type. Folding knows more (see fold.FOLDS)."""

_DOMAINS = ("", "ai.onnx")


def load_onnx(source: str | Path | bytes | Proto, shapes: Mapping[str, Sequence[int]] | None = None, *,
              saturate: bool = False) -> Graph:
    """The graph of an ONNX model: a file, its bytes, or an onnx.ModelProto.

    `shapes` gives the shape of every input that has symbolic dimensions, by name. Inputs, outputs and weights in
    floating point become fp16, int64 becomes int32; `metadata["dtype:PORT"]` is the dtype the model declares. Weights
    that overflow fp16 are a GraphError, or with `saturate` are clamped and reported by a RuntimeWarning.

    FormatError for bytes that are no ONNX model, GraphError for inconsistent models, UnsupportedError naming node,
    attribute, value and what would pass for the rest.
    """
    model = read_model(source)
    if model.functions:
        raise UnsupportedError("ONNX model", "functions local to a model are not expanded",
                               found=model.functions[0].name,
                               remedy="onnx.inliner.inline_local_functions(model)")
    walk = _Walk(model.graph, _opset(model), shapes or {}, saturate)
    walk.ports()
    for position, node in enumerate(model.graph.node):
        walk.node(node, position)
    return walk.finish()


def _opset(model: Proto) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in _DOMAINS]
    if not versions:
        raise FormatError("the model states no opset", expected='opset_import of domain ""',
                          found=[entry.domain for entry in model.opset_import])
    return int(versions[0])


@dataclass(slots=True)
class _Walk:
    """State of one import: `known` maps ONNX tensor names to what they are."""

    graph: Proto
    version: int
    shapes: Mapping[str, Sequence[int]]
    saturate: bool
    known: dict[str, Operand] = field(default_factory=dict)
    builder: GraphBuilder = field(init=False)
    constants: Constants = field(init=False)
    outputs: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = frozenset(port.name for port in self.graph.output)
        metadata = {f"dtype:{port.name}": _dtype(port) for port in (*self._inputs(), *self.graph.output)}
        self.builder = GraphBuilder("main", metadata)
        self.constants = Constants(self.builder, self.outputs, self.saturate)

    def _inputs(self) -> list[Proto]:
        """Ports that are not merely default values of initialisers."""
        initialised = {tensor.name for tensor in self.graph.initializer}
        return [port for port in self.graph.input if port.name not in initialised]

    def ports(self) -> None:
        """Defines inputs and initialisers."""
        inputs = self._inputs()
        unknown = [name for name in self.shapes if name not in {port.name for port in inputs}]
        if unknown:
            raise GraphError(f"a shape is given for {unknown[0]!r}, which is no input; inputs are "
                             f"{', '.join(port.name for port in inputs) or 'none'}")
        for port in inputs:
            shape = _shape(port, self.shapes.get(port.name))
            self.known[port.name] = self.builder.input(port.name, ENGINE_NAMES[_dtype(port)], shape)
        if self.graph.sparse_initializer:
            raise UnsupportedError("ONNX model", "sparse initialisers are not read", remedy="store them densely")
        for tensor in self.graph.initializer:
            self._define(tensor.name, tensor_array(tensor, f"initialiser {tensor.name!r}"), "initialiser")

    def node(self, node: Proto, position: int) -> None:
        """Imports one node."""
        label = f"ONNX {node.op_type} {node.name!r}" if node.name else f"ONNX {node.op_type} (node {position})"
        if node.domain not in _DOMAINS:
            raise UnsupportedError(label, "operators of other domains are not supported", found=node.domain,
                                   remedy="export with operators of the standard domain ai.onnx")
        step = Step(node.op_type, label, self._name(node), self.version, attribute_values(node, label),
                    [self._use(name, label) for name in node.input], list(node.input), list(node.output), self.builder,
                    self.constants)
        try:
            result = _result(step)
        except AneError:
            raise
        except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError, KeyError) as error:
            raise GraphError(f"{label}: malformed node: {error}") from error
        results = result if isinstance(result, tuple) else (result,)
        for name, operand in zip(node.output, results, strict=False):
            if name:
                self._define(name, operand, label)

    def _use(self, name: str, label: str) -> Operand | None:
        if not name:
            return None
        if name not in self.known:
            raise GraphError(f"{label}: input {name!r} has not been made at this point")
        return self.known[name]

    def _define(self, name: str, operand: Operand, who: str) -> None:
        if name in self.known:
            raise GraphError(f"{who}: the name {name!r} is taken")
        self.known[name] = operand

    def _name(self, node: Proto) -> str:
        """The name of the node's result, such that no constant made for its operands takes an output's name."""
        name = next((name for name in node.output if name), "") or node.name or node.op_type.lower()
        while any(other != name and other.startswith(f"{name}_") for other in self.outputs):
            name += "."
        return name

    def finish(self) -> Graph:
        """The graph with the model's outputs under their names."""
        if len(self.outputs) != len(self.graph.output) or not self.outputs:
            raise GraphError(f"the model must have distinct outputs, found {[port.name for port in self.graph.output]}")
        results = {}
        for port in self.graph.output:
            operand = self._use(port.name, f"output {port.name!r}")
            if isinstance(operand, np.ndarray):
                operand = self.constants.value(operand, port.name)
            if not isinstance(operand, Value):
                raise GraphError(f"an output of the model has no name: {port.name!r}")
            _check_declared(port, operand)
            results[port.name] = operand
        return self.builder.finish(results)


def _result(step: Step) -> Operand | tuple[Operand, ...]:
    folded = try_fold(step)
    if folded is not None:
        return folded
    handler = OPERATORS.get(step.op)
    if handler is not None:
        return handler(step)
    if step.op in FOLDS or step.op in SHAPE_ONLY:
        raise UnsupportedError(step.label, "this operator is supported on constants only",
                               found=", ".join(name for name, operand in zip(step.input_names, step.inputs, strict=True)
                                               if isinstance(operand, Value)),
                               remedy="export with fixed shapes, so that it is computed at import")
    near = get_close_matches(step.op, OPERATORS, n=3, cutoff=0.7)
    known = f"nearest supported: {', '.join(near)}" if near else f"supported: {', '.join(sorted(OPERATORS))}"
    raise UnsupportedError(step.label, "this operator is not supported", found=step.op, remedy=known)


def _dtype(port: Proto) -> str:
    if not port.type.HasField("tensor_type"):
        raise UnsupportedError(f"port {port.name!r}", "ports must be tensors", found=port.type.WhichOneof("value"))
    return dtype_name(port.type.tensor_type.elem_type, f"port {port.name!r}")


def _shape(port: Proto, given: Sequence[int] | None) -> tuple[int, ...]:
    """The static shape of an input: what the model declares, with `given` in place of symbolic dimensions."""
    tensor = port.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    stated = f"input {port.name!r} [{', '.join(map(str, dims))}]"
    if given is None:
        if not tensor.HasField("shape") or any(isinstance(dim, str) for dim in dims):
            example = ["1" if isinstance(dim, str) else str(dim) for dim in dims] or ["1", "3", "224", "224"]
            raise UnsupportedError(stated, "shapes are static and this input has symbolic dimensions",
                                   remedy=f"give its shape, for example --shape {port.name}={'x'.join(example)}, in "
                                          f'Python shapes={{"{port.name}": [{", ".join(example)}]}}')
        return tuple(int(dim) for dim in dims)
    fits = not tensor.HasField("shape") or (len(given) == len(dims) and all(
        isinstance(dim, str) or dim == extent for dim, extent in zip(dims, given, strict=True)))
    if not fits:
        raise GraphError(f"{stated}: the given shape {list(given)} does not fit")
    return tuple(given)


def _check_declared(port: Proto, value: Value) -> None:
    """A RuntimeWarning when the model declares another shape for an output than its nodes give: exporters leave stale
    ones behind, and runtimes ignore them too."""
    dims = port.type.tensor_type.shape.dim
    stated = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    if port.type.tensor_type.HasField("shape") and (len(stated) != value.type.rank or any(
            dim is not None and dim != extent for dim, extent in zip(stated, value.shape, strict=True))):
        warnings.warn(f"output {port.name!r}: the model declares {stated}, its nodes give {list(value.shape)}",
                      RuntimeWarning, stacklevel=4)
