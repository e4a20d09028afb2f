"""An ONNX graph walked in order: constants folded, every other node handed to the function for its operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field
from functools import partial
from pathlib import Path

import numpy as np

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.graph.budget import Budget
from openane.importers.onnx.chosen import RowsOfMasks
from openane.importers.onnx.constants import OnnxConstants
from openane.importers.onnx.dtypes import ENGINE_NAMES, INPUT_NAMES
from openane.importers.onnx.dynamic import RelativeNumbers, relative_numbers
from openane.importers.onnx.fold import FOLDS, REFERENCE_FOLDS, SHAPE_ONLY, try_fold
from openane.importers.onnx.inline import inlined
from openane.importers.onnx.known import computed_now
from openane.importers.onnx.model import attribute_values, numpy_array, opened, tensor_array
from openane.importers.onnx.naming import renamed
from openane.importers.onnx.nodes import Proto, StatedNode, nodes_of
from openane.importers.onnx.operators import OPERATORS
from openane.importers.onnx.ports import (
    check_declared,
    check_shapes,
    is_data,
    is_setting,
    port_dtype,
    port_shape,
    port_value,
)
from openane.importers.onnx.positions import positions
from openane.importers.onnx.references import lasts
from openane.importers.onnx.refusals import CLASSICAL, no_result, other_classical, other_domain, too_many_turns
from openane.importers.onnx.step import OnnxStep, Operand, Result, RunTimeOperandError
from openane.importers.onnx.storage import Storage, is_stored, require_memory
from openane.importers.shapes import only_inputs
from openane.importers.step import MALFORMED, malformed
from openane.ops.accuracy import CLOSE_IF_SAFE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.record_classes import dataclass

NOTHING = frozenset[str]()
_DOMAINS = ("", "ai.onnx")
"""The domain of models that are no networks: scikit-learn's."""
MOST_NODES = 20000
"""Nodes that all turns of all loops may come to."""


def load_onnx(source: str | Path | bytes | Proto, shapes: Mapping[str, Sequence[int]] | None = None, *,
              values: Mapping[str, np.ndarray] | None = None, saturate: bool = False, lookups: bool = True,
              limit: int | None = None) -> Graph:
    """The graph of an ONNX model: a file, its bytes, or an onnx.ModelProto.

    `shapes` gives the shape of every input that has symbolic dimensions, by name. `values` fixes inputs, by name: they
    become constants, as inputs must that decide shapes or axes; RunTimeOperandError names those. Positions of elements
    that gathers and scatters read and write may be computed, and are then the host's to look up; with `lookups` False
    they must be constants too. `limit`: bytes of constants that may be computed from others (see graph.budget).
    Inputs, outputs and weights in floating point become fp16, int64 becomes int32; `metadata["dtype:PORT"]` is the
    dtype the model declares. Weights that overflow fp16 are a GraphError, or with `saturate` are clamped and reported
    by a RuntimeWarning.

    FormatError for bytes that are no ONNX model, GraphError for inconsistent models, UnsupportedError naming node,
    attribute, value and what would pass for the rest.
    """
    with opened(source) as (stated, nodes, storage):
        relative = relative_numbers(stated.graph)
        known = OPERATORS.keys() | FOLDS.keys() | REFERENCE_FOLDS | SHAPE_ONLY.keys()
        model = inlined(stated, known if relative.quantised else known - {"DynamicQuantizeLinear"}, _DOMAINS)
        nodes = nodes if model is stated else nodes_of(model.graph)
        walk = _Import(model.graph, nodes, _opset(model), shapes or {}, values or {}, saturate, storage, lookups,
                       relative, positions(nodes, model.graph.initializer) if lookups else NOTHING, model.producer_name,
                       folding=Budget(stated=limit))
        walk.ports()
        for position, (node, spent) in enumerate(zip(nodes, lasts(nodes, walk.outputs), strict=True)):
            walk.node(node, position)
            walk.release(spent)
        return walk.finish()


def _opset(model: Proto) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in _DOMAINS]
    if not versions and any(node.domain in _DOMAINS for node in model.graph.node):
        raise FormatError("the model states no opset", expected='opset_import of domain ""',
                          found=[entry.domain for entry in model.opset_import])
    return int(versions[0]) if versions else 0


@dataclass(slots=True)
class _Import:
    """State of one import: `known` maps ONNX tensor names to what they are, `waiting` to initialisers that are read
    when they are first used, and `spent` are those that nothing will use again. `relative` are results that need not
    be rounded, `positions` those that are computed as integers. `origins` names the inputs a tensor depends on."""

    graph: Proto
    nodes: Sequence[StatedNode]
    version: int
    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, np.ndarray]
    saturate: bool
    storage: Storage
    lookups: bool
    relative: RelativeNumbers
    positions: frozenset[str]
    producer: str
    known: dict[str, Operand] = field(default_factory=dict)
    waiting: dict[str, Proto] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    entries: set[int] = field(default_factory=set)
    budget: list[int] = field(default_factory=lambda: [MOST_NODES])
    folding: Budget = field(default_factory=Budget)
    builder: GraphBuilder = field(init=False)
    constants: OnnxConstants = field(init=False)
    inputs: list[Proto] = field(init=False)
    outputs: frozenset[str] = field(init=False)
    read: frozenset[str] = field(init=False)
    rows: RowsOfMasks | None = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = frozenset(port.name for port in self.graph.output)
        self.rows = RowsOfMasks.of(self.nodes)
        self.read = self.outputs.union(*[node.reads for node in self.nodes])
        initialised = {tensor.name for tensor in self.graph.initializer}
        self.inputs = [port for port in self.graph.input if port.name not in initialised]  # others have default values
        metadata = {f"dtype:{port.name}": port_dtype(port, INPUT_NAMES) for port in self.inputs
                    if port.name not in self.values}
        metadata.update({f"dtype:{port.name}": port_dtype(port) for port in self.graph.output})
        self.builder = GraphBuilder("main", metadata | {FUNCTIONS: CLOSE_IF_SAFE})
        self.constants = OnnxConstants(self.builder, self.outputs, self.saturate)

    def ports(self) -> None:
        """Defines inputs and initialisers."""
        only_inputs((*self.shapes, *self.values), [port.name for port in self.inputs], "a shape or value")
        check_shapes([port for port in self.inputs if port.name not in {*self.shapes, *self.values}])
        for port in self.inputs:
            if port.name in self.values:
                self.known[port.name] = port_value(port, numpy_array(self.values[port.name], f"input {port.name!r}"))
                continue
            shape = port_shape(port, self.shapes.get(port.name))
            self.origins[port.name] = frozenset([port.name])
            value = self.known[port.name] = self.builder.input(
                port.name, INPUT_NAMES[port_dtype(port, INPUT_NAMES)], shape)
            self.entries.add(id(value))
        if self.graph.sparse_initializer:
            raise UnsupportedError("ONNX model", "sparse initialisers are not read", remedy="store them densely")
        require_memory(self.graph.initializer)
        for tensor in self.graph.initializer:
            self._initialise(tensor)
        self.constants.prepare(self.nodes, self.known)

    def _initialise(self, tensor: Proto) -> None:
        """Defines an initialiser: read when it is used where it is kept in a file, but checked if nothing uses it."""
        name: str = tensor.name
        if name not in self.read:
            self._define(name, self._array(tensor), "initialiser")
            self.release([name])
        elif is_stored(tensor):
            self._require_free(name, "initialiser")
            self.waiting[name] = tensor
        else:
            self._define(name, self._array(tensor), "initialiser")

    def _array(self, tensor: Proto) -> np.ndarray:
        array = tensor_array(tensor, f"initialiser {tensor.name!r}", self.storage)
        self.folding.read(array)
        return array

    def release(self, names: Iterable[str]) -> None:
        """Gives up the arrays of tensors that nothing will use again."""
        for name in names:
            if isinstance(self.known.get(name), np.ndarray):
                del self.known[name]
                self.spent.add(name)

    def node(self, node: StatedNode, position: int) -> None:
        """Imports one node."""
        label = f"ONNX {node.kind} {node.name!r}" if node.name else f"ONNX {node.kind} (node {position})"
        origins = _united({known for name in node.reads if (known := self.origins.get(name))})
        outputs, step = node.outputs, self._step(node, label, origins)
        try:
            result = self._result(step, node.reads) if self.relative.rounded.isdisjoint(outputs) else step.operand(0)
        except RunTimeOperandError as error:
            if error.inputs:
                raise
            raise self._explained(error) from None
        except MALFORMED as error:
            raise malformed(label, "malformed node", error) from error
        for name, operand in zip(outputs, result if isinstance(result, tuple) else (result,), strict=False):
            if name:
                self._define(name, operand, label)
                self.origins[name] = origins if isinstance(operand, Value) else NOTHING

    def _explained(self, error: RunTimeOperandError) -> RunTimeOperandError:
        """The error with the inputs that the operand comes of."""
        origins = self.origins.get(error.operand, frozenset())
        return error.of(origins, self._inputs_that(is_data, origins))

    def _result(self, step: OnnxStep, reads: Sequence[str]) -> Result:
        return _result(step) if self.rows is None else self.rows.result(step, reads, _result)

    def _step(self, node: StatedNode, label: str, origins: frozenset[str]) -> OnnxStep:
        """A node with its operands, which are read where they wait for that."""
        operator, outputs, fine = self._operator(node, label), node.outputs, self.relative.fine
        if not self.waiting.keys().isdisjoint(node.reads):
            self._fetch(node.reads)
        used = outputs if self.read.issuperset(outputs) else [name if name in self.read else "" for name in outputs]
        return OnnxStep(label, next(filter(None, outputs), node.kind), self.builder, operator, self.version, node.proto,
                        attribute_values(node, label, self.storage), self._operands(node.inputs, label), node.inputs,
                        used, self.constants, partial(self.body, origins), self._is_set, self.lookups,
                        bool(self.positions) and not self.positions.isdisjoint(outputs),
                        bool(fine) and not (fine.isdisjoint(node.inputs) and fine.isdisjoint(outputs)),
                        self.folding, self.producer)

    def _fetch(self, names: Sequence[str]) -> None:
        """Reads those that wait for it, of nested graphs too: they see this graph's tensors."""
        for name in names:
            if name in self.waiting:
                self.known[name] = self._array(self.waiting.pop(name))

    def _operands(self, names: Sequence[str], label: str) -> list[Operand | None]:
        """What a node's inputs are, None for those left out."""
        known = self.known
        try:
            return [known[name] if name else None for name in names]
        except KeyError as error:
            raise GraphError(f"{label}: input {error.args[0]!r} has not been made at this point") from None

    def _inputs_that(self, are: Callable[[Operand], bool], names: Iterable[str]) -> frozenset[str]:
        """Those of the inputs of the model that are so."""
        return frozenset(name for name in names if are(self.known[name]))

    def _is_set(self, name: str) -> bool:
        """Whether a tensor comes of nothing but settings."""
        origins = self.origins.get(name, frozenset())
        return bool(origins) and self._inputs_that(is_setting, origins) == origins

    def _operator(self, node: StatedNode, label: str) -> str:
        """The name a node's handler has: the operator, behind its domain where that is not the standard one."""
        operator = node.kind if node.domain in _DOMAINS else f"{node.domain}:{node.kind}"
        if operator not in OPERATORS and node.domain == CLASSICAL:
            raise other_classical(label, node.kind)
        if operator not in OPERATORS and node.domain not in _DOMAINS:
            raise other_domain(label, node.domain)
        if operator == "DynamicQuantizeLinear" and self.relative.quantised.isdisjoint(node.outputs):
            raise UnsupportedError(label, "a scale that is measured inside of a branch or loop is not supported",
                                   remedy="use the model as it was before it was quantised")
        return operator

    def body(self, origins: frozenset[str], graph: Proto, inputs: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Imports a nested graph, which sees this one's tensors: its outputs."""
        inner = copy(self)
        inner.known, inner.origins = {**self.known, **inputs}, {**self.origins, **dict.fromkeys(inputs, origins)}
        for tensor in graph.initializer:
            inner.known[tensor.name] = self._array(tensor)
        nodes = nodes_of(graph)
        inner.rows = self.rows or RowsOfMasks.of(nodes)
        for position, node in enumerate(nodes):
            self.budget[0] -= 1
            if self.budget[0] < 0:
                raise too_many_turns(MOST_NODES, len(nodes))
            inner.node(node, position)
        found = [inner._use(port.name, f"output {port.name!r}") for port in graph.output]
        return tuple(operand for operand in found if operand is not None)

    def _use(self, name: str, label: str) -> Operand | None:
        """What an output of a graph is."""
        error = None if self.rows is None else self.rows.unfixed(name, label)
        if error is not None:
            raise self._explained(error)
        return self._operands([name], label)[0]

    def _define(self, name: str, operand: Operand, who: str) -> None:
        self._require_free(name, who)
        self.known[name] = operand

    def _require_free(self, name: str, who: str) -> None:
        if name in self.known or name in self.waiting or name in self.spent:
            raise GraphError(f"{who}: the name {name!r} is taken")

    def finish(self) -> Graph:
        """The graph with the model's outputs under their names."""
        if len(self.outputs) != len(self.graph.output) or not self.outputs:
            raise GraphError(f"the model must have distinct outputs, found {[port.name for port in self.graph.output]}")
        results: dict[int, str] = {}
        values = []
        for port in self.graph.output:
            self._fetch([port.name])
            operand = self._use(port.name, f"output {port.name!r}")
            if operand is None:
                raise GraphError(f"an output of the model has no name: {port.name!r}")
            if isinstance(operand, np.ndarray):
                operand = self.constants.value(operand, port.name)
            operand = self._declared_type(port, operand)
            check_declared(port, operand)
            if operand.constant or id(operand) in self.entries or id(operand) in results:
                operand = self.builder.single("identity", f"{port.name}_port", x=operand)
            results[id(operand)] = port.name
            values.append(operand)
        self.folding.state(self.builder.metadata)
        return renamed(self.builder.finish(values), results)

    def _declared_type(self, port: Proto, operand: Value) -> Value:
        """An output of 8 bits or bool in the type the model declares: ports of those lie in bytes."""
        wanted = ENGINE_NAMES[port_dtype(port)]
        if wanted == operand.dtype or operand.constant:
            return operand
        return self.builder.single("cast", f"{port.name}_port", x=operand, dtype=wanted)


def _united(sets: set[frozenset[str]]) -> frozenset[str]:
    """All that is in one of the sets."""
    return sets.pop() if len(sets) == 1 else NOTHING.union(*sets)


def _result(step: OnnxStep) -> Result:
    """What a node gives: known now where its operands are, otherwise what its handler adds to the graph."""
    computed = any(isinstance(operand, Value) for operand in step.inputs)
    folded = try_fold(step, computed)
    if folded is not None:
        return folded
    handler = OPERATORS.get(step.op)
    if handler is not None:
        known = None if computed else computed_now(step, handler)
        return handler(step) if known is None else known
    raise no_result(step)
