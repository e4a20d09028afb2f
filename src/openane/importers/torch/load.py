"""An exported PyTorch program walked in order: constants computed, every other operator handed to its function."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from pathlib import Path
from typing import Any

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.graph.budget import Budget
from openane.importers.shapes import agreeing
from openane.importers.step import TypedErrors
from openane.importers.torch.chosen import ChosenRows
from openane.importers.torch.experts import expert_order
from openane.importers.torch.exported import Program, needed, package, read, taken_apart, with_shapes
from openane.importers.torch.operators import OPERATORS
from openane.importers.torch.refusals import NO_PLACES, PLACES_ALONE, unknown
from openane.importers.torch.states import States
from openane.importers.torch.step import (
    DEQUANTISE,
    UNROUNDED_ALONE,
    ComplexValue,
    ExpertNumbers,
    Handler,
    MeasuredScale,
    TorchConstants,
    TorchStep,
    Unrounded,
    kind_prefix,
)
from openane.importers.unpooling import PooledPlaces
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.operands import MAXIMUM_ELEMENTS
from openane.record_classes import dataclass

PRODUCTS = frozenset({"mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "einsum", "convolution", "conv1d", "conv2d"})
"""Operators that multiply more often than their result has elements."""
WRITTEN = "_written"
"""Behind the name of an input that a program writes in place: what is called so is an output, the input afterwards."""
_TYPES = {"float16": "fp16", "bfloat16": "fp16", "float32": "fp32", "float64": "fp64", "int8": "int8", "int16": "int16",
          "int32": "int32", "int64": "int64", "uint8": "uint8", "bool": "bool"}


def is_exported(source: object) -> bool:
    """Whether an object is a program of `torch.export`, told without importing PyTorch."""
    return any(kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.export")
               for kind in type(source).__mro__)


def load_torch(source: str | Path | Program, shapes: Mapping[str, Sequence[int]] | None = None,
               limit: int | None = None) -> Graph:
    """The graph of a program of `torch.export`: the ExportedProgram, or a file `torch.export.save` wrote.

    `shapes` fixes the dimensions a program leaves open (dynamic_shapes), by the name of the input; others it may only
    repeat. Buffers that the program writes are states of the model. `limit`: bytes of constants that may be computed
    from others (see graph.budget). FormatError for files PyTorch cannot read,
    GraphError for weights that overflow fp16, UnsupportedError naming operator, argument, value and what would pass for
    the rest, and where PyTorch is not installed.
    """
    torch = package()
    program = read(torch, Path(source)) if isinstance(source, str | Path) else source
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # PyTorch's own, about its own ways
        program = taken_apart(torch, with_shapes(torch, program, shapes or {}))
        wanted = needed(program.graph_module.graph.nodes)
        rows = ChosenRows.of(program.graph_module.graph.nodes, wanted)
        walk = _Import(torch, program, Budget(_held_bytes(program), stated=limit), rows)
        for node in program.graph_module.graph.nodes:
            if node.op == "placeholder" or node.name in wanted:
                walk.node(node)
        return agreeing(walk.finish(), shapes or {}, "the program")


@dataclass(slots=True)
class _Import:
    """State of one import: `known` maps nodes to what they are."""

    torch: Any
    program: Program
    budget: Budget
    rows: ChosenRows
    known: dict[str, Any] = field(default_factory=dict)
    ordering: dict[str, str] = field(init=False)
    states: States = field(init=False)
    builder: GraphBuilder = field(init=False)
    constants: TorchConstants = field(init=False)

    def __post_init__(self) -> None:
        self.ordering = expert_order(self.program.graph_module.graph.nodes)
        self.builder = GraphBuilder("main", {FUNCTIONS: CLOSE})
        self.constants = TorchConstants(self.builder, self.budget)
        self.states = States(self.builder, self.constants, set(self.program.graph_signature.user_inputs))

    def node(self, node: Any) -> None:
        """Imports one node of the program."""
        if node.op == "placeholder":
            self.known[node.name] = self._placeholder(node)
        elif node.op == "call_function":
            self.known[node.name] = self._call(node)
        else:
            raise UnsupportedError(f"PyTorch {node.op} {node.name!r}", "modules and control flow are not imported",
                                   found=node.target, remedy="write it with torch.where, or unroll it")

    def _placeholder(self, node: Any) -> Any:
        spec = next(spec for spec in self.program.graph_signature.input_specs
                    if getattr(spec.arg, "name", None) == node.name)
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            state, constants = self.program.state_dict, self.program.constants
            held = state[spec.target] if spec.target in state else constants[spec.target]
            written = spec.target in self.program.graph_signature.buffers_to_mutate.values()
            return self.states.read(spec.target, held) if written else held
        if kind == "TOKEN":
            raise UnsupportedError("PyTorch program", "operators that check, print or assert are not imported",
                                   found="one that is ordered by a token", remedy="leave the checks out of forward()")
        if kind != "USER_INPUT":
            raise UnsupportedError(f"PyTorch input {node.name!r}", "inputs are tensors", found=kind.lower(),
                                   remedy="export a module whose forward() takes tensors alone")
        fake = node.meta.get("val")
        if not hasattr(fake, "shape"):
            return getattr(spec.arg, "value", None)
        label = f"PyTorch input {node.name!r}"
        name = _type_name(fake, label)
        self.builder.metadata[f"dtype:{node.name}"] = name
        stored = {"fp32": "fp16", "fp64": "fp16", "int64": "int32"}.get(name, name)
        return self.builder.input(node.name, stored, _shape(fake.shape, label))

    def _call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self._item(node)
        label = f"PyTorch {node.target} {node.name!r}"
        if not hasattr(node.target, "_schema"):
            raise UnsupportedError(label, "this operator is not supported", found=node.target,
                                   remedy="export with fixed shapes, without control flow")
        if node.name in self.rows.makers:
            self.rows.begin(node, self._resolved(self.rows.makers[node.name]))
        simple = self._rows_known(node)
        if simple is not None:
            return simple
        arguments = self._arguments(node)
        if node.name in self.ordering:
            return self._unordered(node, arguments)
        op = node.target._schema.name.removeprefix("aten::")
        fake = node.meta["val"][0] if isinstance(node.meta.get("val"), tuple | list) else node.meta.get("val")
        if not _computed(arguments.values()) and not self.rows.end(node):
            return self._folded(node, label, op, fake, arguments)
        shape = _shape(self.rows.shape(fake), label) if hasattr(fake, "shape") else ()
        if not prod(shape) and hasattr(node.meta.get("val"), "shape"):
            return self.torch.empty(shape, dtype=fake.dtype)  # nothing is computed for no elements
        kind = _kind(fake)
        name = kind_prefix(arguments.values(), kind) + op
        step = TorchStep(label, node.name, self.builder, op, arguments, shape, kind, self.constants, *_in_memory(node),
                         str(getattr(fake, "dtype", "")).removeprefix("torch."))
        with TypedErrors(label, "its arguments are not understood"):
            found = self.rows.computed(node, step)
            return _checked(step, self._handler(node, label, name)(step) if found is None else found)

    def _handler(self, node: Any, label: str, name: str) -> Handler:
        handler = OPERATORS.get(name)
        if handler is None:
            self._refuse_random(node, label)
            raise unknown(label, name)
        return handler

    def _rows_known(self, node: Any) -> Any:
        """How many rows a mask chose, or their positions, where a node asks for them; None for other nodes."""
        places = self.rows.positions(node)
        return self.rows.known(node) if places is None else self.torch.from_numpy(places)

    def _unordered(self, node: Any, arguments: Mapping[str, Any]) -> Any:
        """The chosen experts as they are, and the order they are in, in place of what sorts and counts them."""
        given = arguments[next(iter(arguments))]
        if self.ordering[node.name] == "numbers":
            return given
        value = given if isinstance(given, Value) else self.constants.value(given, f"PyTorch {node.name!r}")
        return ExpertNumbers(value), self.torch.arange(value.shape[-1])

    def _arguments(self, node: Any) -> dict[str, Any]:
        """Arguments by the names of the operator's schema, defaults filled in, nodes resolved."""
        declared = node.target._schema.arguments
        given = dict(zip((argument.name for argument in declared), node.args, strict=False)) | dict(node.kwargs)
        return {argument.name: self._resolved(given[argument.name]) if argument.name in given
                else argument.default_value for argument in declared}

    def _resolved(self, argument: Any) -> Any:
        if isinstance(argument, list | tuple):
            return [self._resolved(each) for each in argument]
        return self.known[argument.name] if hasattr(argument, "meta") else argument

    def _item(self, node: Any) -> Any:
        fake = node.meta.get("val")
        if hasattr(fake, "shape") and any(isinstance(extent, int) and not extent for extent in fake.shape):
            return self.torch.empty(tuple(fake.shape), dtype=fake.dtype)
        found = self.known[node.args[0].name][node.args[1]]
        if found is None and node.users:
            raise UnsupportedError(f"PyTorch {node.name!r}", f"result {node.args[1]} cannot be computed",
                                   found=node.args[0].target, remedy="leave the result unused")
        return found

    def _refuse_random(self, node: Any, label: str) -> None:
        if self.torch.Tag.nondeterministic_seeded in node.target.tags:
            raise UnsupportedError(label, "random numbers cannot be drawn", found=node.target,
                                   remedy="export the model for inference (model.eval()), or pass them as an input")

    def _folded(self, node: Any, label: str, op: str, fake: Any, arguments: Mapping[str, Any]) -> Any:
        """The result of an operator whose arguments are all known, computed by PyTorch."""
        if arguments.get("dropout_p") != 0:
            self._refuse_random(node, label)
        known = [extent for extent in getattr(fake, "shape", ()) if isinstance(extent, int)]
        if prod(known) > MAXIMUM_ELEMENTS:
            raise UnsupportedError(label, "a constant holds too many elements", limit=MAXIMUM_ELEMENTS,
                                   found=prod(known))
        self.budget.take(label, sum(map(_bytes, _several(node.meta.get("val")))), _work(op, arguments, known))
        try:
            found = node.target(*self._resolved(node.args), **{k: self._resolved(v) for k, v in node.kwargs.items()})
        except Exception as error:  # whatever the operator meets
            raise GraphError(f"{label}: cannot be computed: {error}") from None
        return found.zero_() if "empty" in str(node.target) else found  # never whatever memory held

    def finish(self) -> Graph:
        """The graph, its outputs called as the program calls them, numbered where it returns an input or the same
        twice. What buffers hold afterwards is written to their states; what inputs would, where the program writes
        them, are outputs behind the others."""
        results: dict[str, Value] = {}
        written: dict[str, Value] = {}
        for number, spec in enumerate(self.program.graph_signature.output_specs):
            name = str(getattr(spec.arg, "name", ""))
            found, label = self.known.get(name), f"PyTorch output {number}"
            if found is None:
                continue
            if isinstance(found, PooledPlaces):
                raise UnsupportedError(label, PLACES_ALONE, remedy=NO_PLACES)
            if isinstance(found, Unrounded | MeasuredScale):
                raise UnsupportedError(label, UNROUNDED_ALONE, remedy=DEQUANTISE)
            value = found if isinstance(found, Value) else self.constants.value(found, label)
            if spec.kind.name == "BUFFER_MUTATION":
                self.states.write(spec.target, value)
            elif spec.kind.name == "USER_INPUT_MUTATION":
                written[self._declared(spec.target + WRITTEN, name, label)] = value
            elif spec.kind.name == "USER_OUTPUT":
                taken = name in results or name in self.program.graph_signature.user_inputs
                results[self._declared(f"{name}_output{number}" if taken else name, name, label)] = value
            else:
                raise UnsupportedError(label, "a program returns tensors, or writes its buffers and inputs",
                                       found=f"{spec.kind.name.lower()} of {spec.target!r}", remedy="return the tensor")
        self.budget.state(self.builder.metadata)
        return self.builder.finish(results | written)

    def _declared(self, key: str, name: str, label: str) -> str:
        """The name of an output, whose element type in the program the graph's metadata keeps."""
        node = next(node for node in self.program.graph_module.graph.nodes if node.name == name)
        self.builder.metadata[f"dtype:{key}"] = _type_name(node.meta.get("val"), label)
        return key


def _held_bytes(program: Program) -> int:
    """Bytes of the tensors that a program comes with."""
    return sum(map(_bytes, (*program.state_dict.values(), *program.constants.values())))


def _several(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple | list) else (found,)


def _bytes(tensor: Any) -> int:
    """What a tensor takes, or will; nothing where it is none, or its extents are not known."""
    extents = getattr(tensor, "shape", ())
    size = getattr(getattr(tensor, "dtype", None), "itemsize", 0)
    return prod(extents) * size if all(isinstance(extent, int) for extent in extents) else 0


def _work(op: str, arguments: Mapping[str, Any], result: Sequence[int]) -> float:
    """Multiplications of an operator that sums products, no fewer than there are."""
    largest = max((prod(each.shape) for each in arguments.values() if hasattr(each, "shape")), default=0)
    return float(largest) * (result[-1] if result else 1) if op in PRODUCTS else 0.0


def _computed(arguments: Any) -> bool:
    """Whether any argument is a value of the graph."""
    return any(isinstance(each, Value | ComplexValue | ExpertNumbers | PooledPlaces | Unrounded | MeasuredScale)
               or (isinstance(each, list | tuple) and _computed(each)) for each in arguments)


def _checked(step: TorchStep, result: Any) -> Any:
    """The result, whose first part must have the shape PyTorch states."""
    first = result[0] if isinstance(result, tuple) else result
    if isinstance(first, Value) and first.shape != step.shape:
        raise UnsupportedError(step.label, "its result takes another shape here", found=list(first.shape),
                               limit=list(step.shape))
    return result


def _shape(shape: Sequence[Any], label: str) -> tuple[int, ...]:
    if any(str(extent).startswith("u") for extent in shape):
        raise UnsupportedError(label, "how many elements a result has cannot depend on the data",
                               found=[str(extent) for extent in shape],
                               remedy="keep every element, and choose with torch.where; rows that a mask chooses are "
                                      "taken where each is worked on by itself, and put back by it or summed")
    if any(not isinstance(extent, int) for extent in shape):
        raise UnsupportedError(label, "shapes are static and this one has symbolic dimensions",
                               found=[str(extent) for extent in shape],
                               remedy="give the shapes of inputs: load_graph(..., shapes={name: shape}), or --shape")
    return tuple(shape)


def _in_memory(node: Any) -> tuple[tuple[int, ...], int]:
    """Strides of the first tensor an operator is given, and where in its memory it begins."""
    first = node.args[0] if node.args else None
    fake: Any = getattr(first, "meta", {}).get("val")
    return (tuple(fake.stride()), int(fake.storage_offset())) if hasattr(fake, "stride") else ((), 0)


def _type_name(fake: Any, label: str) -> str:
    name = str(getattr(fake, "dtype", None)).removeprefix("torch.")
    if name not in _TYPES:
        raise UnsupportedError(label, "this element type is not supported", found=name,
                               remedy=f"one of {', '.join(_TYPES)}")
    return _TYPES[name]


def _kind(fake: Any) -> str:
    """float, int, bool or complex."""
    name = str(getattr(fake, "dtype", None)).removeprefix("torch.")
    return "complex" if "complex" in name else "float" if "float" in name else "bool" if name == "bool" else "int"
