"""An ONNX graph walked in order: constants folded, every other node handed to the function for its operator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import numpy as np

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.importers.onnx import (
    activations,
    control,
    einsum,
    elementwise,
    indexing,
    layout,
    matrices,
    norms,
    quantized,
    recurrent,
    reductions,
    resize,
    transforms,
    windows,
)
from openane.importers.onnx.constants import Constants
from openane.importers.onnx.dtypes import ENGINE_NAMES, INPUT_NAMES, dtype_name
from openane.importers.onnx.fold import FOLDS, REFERENCE_FOLDS, SHAPE_ONLY, SHAPING, try_fold
from openane.importers.onnx.inline import inlined
from openane.importers.onnx.model import Proto, attribute_values, plain, read_model, tensor_array
from openane.importers.onnx.naming import renamed
from openane.importers.onnx.step import Handler, Operand, RunTimeOperandError, Step
from openane.ops.build import GraphBuilder

_MODULES = (activations, control, einsum, elementwise, indexing, layout, matrices, norms, quantized, recurrent,
            reductions, resize, transforms, windows)
OPERATORS: Mapping[str, Handler] = {name: handler for module in _MODULES for name, handler in module.OPERATORS.items()}
"""ONNX operators that become operations of the graph, by op_type. Folding knows more (see fold.FOLDS)."""

_DOMAINS = ("", "ai.onnx")
MOST_NODES = 20000
"""Nodes that all turns of all loops may come to."""


def load_onnx(source: str | Path | bytes | Proto, shapes: Mapping[str, Sequence[int]] | None = None, *,
              values: Mapping[str, np.ndarray] | None = None, saturate: bool = False) -> Graph:
    """The graph of an ONNX model: a file, its bytes, or an onnx.ModelProto.

    `shapes` gives the shape of every input that has symbolic dimensions, by name. `values` fixes inputs, by name: they
    become constants, as inputs must that decide shapes, axes or places; RunTimeOperandError names those.
    Inputs, outputs and weights in floating point become fp16, int64 becomes int32; `metadata["dtype:PORT"]` is the
    dtype the model declares. Weights that overflow fp16 are a GraphError, or with `saturate` are clamped and reported
    by a RuntimeWarning.

    FormatError for bytes that are no ONNX model, GraphError for inconsistent models, UnsupportedError naming node,
    attribute, value and what would pass for the rest.
    """
    model = read_model(source)
    model = inlined(model, OPERATORS.keys() | FOLDS.keys() | REFERENCE_FOLDS | SHAPE_ONLY.keys(), _DOMAINS)
    walk = _Walk(model.graph, _opset(model), shapes or {}, values or {}, saturate)
    walk.ports()
    for position, node in enumerate(model.graph.node):
        walk.node(node, position)
    return walk.finish()


def _opset(model: Proto) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in _DOMAINS]
    if not versions and any(node.domain in _DOMAINS for node in model.graph.node):
        raise FormatError("the model states no opset", expected='opset_import of domain ""',
                          found=[entry.domain for entry in model.opset_import])
    return int(versions[0]) if versions else 0


@dataclass(slots=True)
class _Walk:
    """State of one import: `known` maps ONNX tensor names to what they are."""

    graph: Proto
    version: int
    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, np.ndarray]
    saturate: bool
    known: dict[str, Operand] = field(default_factory=dict)
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    entries: set[int] = field(default_factory=set)
    budget: list[int] = field(default_factory=lambda: [MOST_NODES])
    builder: GraphBuilder = field(init=False)
    constants: Constants = field(init=False)
    outputs: frozenset[str] = field(init=False)
    read: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = frozenset(port.name for port in self.graph.output)
        self.read = frozenset(_read(self.graph))
        metadata = {f"dtype:{port.name}": _dtype(port, INPUT_NAMES) for port in self._inputs()
                    if port.name not in self.values}
        metadata.update({f"dtype:{port.name}": _dtype(port) for port in self.graph.output})
        self.builder = GraphBuilder("main", metadata)
        self.constants = Constants(self.builder, self.outputs, self.saturate)

    def _inputs(self) -> list[Proto]:
        """Ports that are not merely default values of initialisers."""
        initialised = {tensor.name for tensor in self.graph.initializer}
        return [port for port in self.graph.input if port.name not in initialised]

    def ports(self) -> None:
        """Defines inputs and initialisers."""
        inputs = self._inputs()
        unknown = [name for name in (*self.shapes, *self.values) if name not in {port.name for port in inputs}]
        if unknown:
            raise GraphError(f"a shape or value is given for {unknown[0]!r}, which is no input; inputs are "
                             f"{', '.join(port.name for port in inputs) or 'none'}")
        for port in inputs:
            if port.name in self.values:
                self.known[port.name] = plain(self.values[port.name], f"input {port.name!r}")
                continue
            shape = _shape(port, self.shapes.get(port.name))
            self.origins[port.name] = frozenset([port.name])
            value = self.known[port.name] = self.builder.input(
                port.name, INPUT_NAMES[_dtype(port, INPUT_NAMES)], shape)
            self.entries.add(id(value))
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
        origins = frozenset[str]().union(*(self.origins.get(name, ()) for name in _read_by(node)))
        step = Step(node.op_type, label, next(filter(None, node.output), node.op_type), self.version, node,
                    attribute_values(node, label),
                    [self._use(name, label) for name in node.input], list(node.input),
                    [name if name in self.read else "" for name in node.output], self.builder, self.constants,
                    partial(self.body, origins))
        try:
            result = _result(step)
        except RunTimeOperandError as error:
            error.inputs = error.inputs or self.origins.get(error.operand, frozenset())
            raise
        except AneError:
            raise
        except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError, KeyError) as error:
            raise GraphError(f"{label}: malformed node: {error}") from error
        results = result if isinstance(result, tuple) else (result,)
        for name, operand in zip(node.output, results, strict=False):
            if name:
                self._define(name, operand, label)
                self.origins[name] = origins if isinstance(operand, Value) else frozenset()

    def body(self, origins: frozenset[str], graph: Proto, inputs: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Imports a nested graph, which sees this one's tensors: its outputs."""
        inner = copy(self)
        inner.known, inner.origins = {**self.known, **inputs}, {**self.origins, **dict.fromkeys(inputs, origins)}
        for tensor in graph.initializer:
            inner.known[tensor.name] = tensor_array(tensor, f"initialiser {tensor.name!r}")
        for position, node in enumerate(graph.node):
            self.budget[0] -= 1
            if self.budget[0] < 0:
                raise UnsupportedError("ONNX model", "its loops are too long to unroll", limit=f"{MOST_NODES} nodes",
                                       remedy="shorten them")
            inner.node(node, position)
        found = [inner._use(port.name, f"output {port.name!r}") for port in graph.output]
        return tuple(operand for operand in found if operand is not None)

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

    def finish(self) -> Graph:
        """The graph with the model's outputs under their names."""
        if len(self.outputs) != len(self.graph.output) or not self.outputs:
            raise GraphError(f"the model must have distinct outputs, found {[port.name for port in self.graph.output]}")
        results: dict[int, str] = {}
        values = []
        for port in self.graph.output:
            operand = self._use(port.name, f"output {port.name!r}")
            if operand is None:
                raise GraphError(f"an output of the model has no name: {port.name!r}")
            if isinstance(operand, np.ndarray):
                operand = self.constants.value(operand, port.name)
            operand = self._declared_type(port, operand)
            _check_declared(port, operand)
            if operand.constant or id(operand) in self.entries or id(operand) in results:
                operand = self.builder.single("identity", f"{port.name}_port", x=operand)
            results[id(operand)] = port.name
            values.append(operand)
        return renamed(self.builder.finish(values), results)

    def _declared_type(self, port: Proto, operand: Value) -> Value:
        """An output of 8 bits or bool in the type the model declares: ports of those lie in bytes."""
        wanted = ENGINE_NAMES[_dtype(port)]
        if wanted == operand.dtype or operand.constant:
            return operand
        return self.builder.single("cast", f"{port.name}_port", x=operand, dtype=wanted)


def _result(step: Step) -> Operand | tuple[Operand, ...]:
    folded = try_fold(step)
    if folded is not None:
        return folded
    handler = OPERATORS.get(step.op)
    if handler is not None:
        return handler(step)
    if step.op in SHAPING:
        for index in range(len(step.inputs)):
            step.array(index, f"input {index}")
    if step.op in FOLDS or step.op in SHAPE_ONLY or step.op in REFERENCE_FOLDS:
        raise UnsupportedError(step.label, "this operator is supported on constants only",
                               found=", ".join(name for name, operand in zip(step.input_names, step.inputs, strict=True)
                                               if isinstance(operand, Value)),
                               remedy="export with fixed shapes, so that it is computed at import")
    near = get_close_matches(step.op, OPERATORS, n=3, cutoff=0.7)
    known = f"nearest supported: {', '.join(near)}" if near else \
        "export it in other operators (openane.importers.onnx.OPERATORS has those known), or compute it on the host"
    raise UnsupportedError(step.label, "this operator is not supported", found=step.op, remedy=known)


def _read(graph: Proto) -> Iterator[str]:
    """Names that nodes and outputs of a graph, or of the graphs inside, refer to."""
    yield from (port.name for port in graph.output)
    for node in graph.node:
        yield from _read_by(node)


def _read_by(node: Proto) -> Iterator[str]:
    """Names a node refers to."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from _read(attribute.g)


def _dtype(port: Proto, known: Mapping[str, str] = ENGINE_NAMES) -> str:
    if not port.type.HasField("tensor_type"):
        raise UnsupportedError(f"port {port.name!r}", "ports must be tensors", found=port.type.WhichOneof("value"))
    return dtype_name(port.type.tensor_type.elem_type, f"port {port.name!r}", known)


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
