"""New weights in a compiled model, without changing what its programs execute.

`patch` takes weights by their names in the model. Where the way of a weight into the constants is known (its route, see
`compiler.weights.layout_records`), it is folded, cast and written to its place. For other weights the graph is compiled
again with them, and the result is taken if it is the same program with other constants. `in_place` says beforehand
which of the two it will be. `patch_task` takes the weights of one task of any program, ours or not, and writes them
where the task's own fields say they lie.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from openane.chips import get_chip
from openane.chips.coefficients import HALFWORD, Channel, CoefficientFormat
from openane.compiler.model import CompiledModel
from openane.compiler.partition.planning import plan
from openane.compiler.patch.later_routes import patchable
from openane.compiler.weights.layout_records import ConstantRecord, Routes
from openane.engine import Coefficients, CoefficientSection, Convolution, Operation, Packing, geometry_of
from openane.errors import FormatError, GraphError, ProgramError, UnsupportedError
from openane.graph import Graph, Value, numpy_type, with_data
from openane.graph.graph import Node, substituted
from openane.ops import get_op
from openane.ops.operands import result_types
from openane.program import Constants, Program
from openane.program.diff import ConstantChange, diff
from openane.program.patch import ByteRange, Patched, patch_constants
from openane.record_classes import dataclass

M = TypeVar("M", bound=CompiledModel)


@dataclass(frozen=True)
class PatchedModel(Generic[M]):
    """A model with other weights, and the programs it had before. `recompiled` says why the model was compiled again
    for them; it is empty where they were written in place. What changed is worked out when it is asked for."""

    model: M
    before: tuple[Program, ...]
    recompiled: str = ""

    @cached_property
    def ranges(self) -> tuple[tuple[ByteRange, ...], ...]:
        """Per program, the bytes of its constants that changed."""
        return tuple(_ranges(old.constants, new.constants)
                     for old, new in zip(self.before, self.model.programs, strict=True))

    @cached_property
    def changes(self) -> tuple[tuple[ConstantChange, ...], ...]:
        """Per program, which task's coefficients changed, core by core."""
        return tuple(diff(old, new).constants for old, new in zip(self.before, self.model.programs, strict=True))


def patch(model: M, arrays: Mapping[str, np.ndarray]) -> PatchedModel[M]:
    """The model with the constants called as `arrays` names them replaced, everything but constants unchanged.

    An array has the shape of the constant it replaces and is converted to its element type; it is copied where it is
    kept, so that its owner may change it. Costs little more than casting and copying the arrays where `in_place` says
    nothing against it, else a compilation. The model that is given back shares with the first all it can, and holds
    only the last numbers of each constant, however often it is patched.

    GraphError when a name or a shape is wrong; UnsupportedError when the new values cannot be had by new constants
    alone (zero-skipping streams change their sizes, a factor of one makes an operation disappear): compile the model
    again then. FormatError when the model is a file's whose routes are malformed.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise GraphError(f"constant {name!r} must be real numbers, not numpy type {array.dtype}")
    return rewritten(model, arrays) or recompiled(model, arrays)


def in_place(model: CompiledModel, names: Iterable[str]) -> str:
    """Why constants called so cannot be written where they lie; empty where they can, whatever the numbers, except
    those that change more than bytes."""
    routes = Routes(refused="nothing is known of its constants") if model.patchable is None else model.patchable.routes
    unknown = [name for name in names if name not in routes.complete]
    if not unknown:
        return ""
    more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    return routes.refused or f"the compiler makes more of {unknown[0]}{more} than bytes of constants"


def recompiled(model: M, arrays: Mapping[str, np.ndarray]) -> PatchedModel[M]:
    """`patch` through the whole compiler: the way for all constants."""
    graph = with_constants(model.graph, arrays)
    made = plan(graph, model.target, bool(model.host_operations), known=model.known_programs)
    steps = [type(step) for step in made.steps]
    if len(made.pieces) != len(model.programs) or steps != [type(step) for step in model.steps]:
        raise _elsewhere("the number of programs", len(model.programs), len(made.pieces))
    programs = []
    chip = get_chip(model.target)
    for before, piece in zip(model.programs, made.pieces, strict=True):
        if piece.program.tasks is not before.tasks:
            _check_same(before, piece.program)
        programs.append(replace(before, constants=piece.program.constants))
    patched = replace(model, programs=tuple(programs), steps=made.steps, source=graph,
                      patchable=patchable(graph, made.pieces, chip))
    why = in_place(model, arrays) or "these numbers change more than bytes where they are written in place"
    return PatchedModel(patched, model.programs, why)


def rewritten(model: M, arrays: Mapping[str, np.ndarray]) -> PatchedModel[M] | None:
    """`patch` by the routes of the constants; None where a name or shape is wrong, routes are not known, or the numbers
    change more than bytes."""
    if model.patchable is None or in_place(model, arrays):
        return None
    constants = model.patchable.routes.constants
    if any(tuple(array.shape) != constants[name].shape for name, array in arrays.items()):
        return None
    rewriter = model.patchable.rewriter(frozenset(arrays))
    own = rewriter.owned(arrays)
    source = _source(model)
    missing = rewriter.sources - own.keys()
    programs = rewriter.programs(model.programs, {**own, **_present(source, missing, constants)} if missing else own)
    if programs is None:
        return None
    return PatchedModel(replace(model, programs=programs, source=source.updated(own)), model.programs)


def _source(model: CompiledModel) -> PatchedGraph:
    """What gives a model its graph, with what is kept of it from one patch to the next."""
    source, kept = model.source, model.patchable
    if isinstance(source, PatchedGraph):
        return source
    if kept is None:
        return PatchedGraph(Base(source), {})
    if not isinstance(kept.base, Base) or kept.base.source is not source:
        kept.base = Base(source)
    return PatchedGraph(kept.base, {})


def _present(source: PatchedGraph, names: Collection[str], constants: Mapping[str, ConstantRecord]) -> dict[str,
                                                                                                            np.ndarray]:
    """Constants as they are now. FormatError where they are not those the routes are for."""
    found = {}
    for name in names:
        array, shape = source.array(name, constants[name]), constants[name].shape
        if array is None or array.shape != shape:
            raise FormatError(f"the routes are those of another model: constant {name!r}", expected=list(shape),
                              found="none" if array is None else list(array.shape))
        found[name] = array
    return found


@dataclass(frozen=True)
class Base:
    """A graph, read when it is asked for, and its constants by name."""

    source: Graph | Callable[[], Graph]

    @cached_property
    def graph(self) -> Graph:
        """The graph. FormatError when a bundle does not hold it any more."""
        return self.source if isinstance(self.source, Graph) else self.source()

    @cached_property
    def constants(self) -> dict[str, np.ndarray]:
        """Every array by name."""
        return {value.name: value.data for node in self.graph.nodes for value in node.values()
                if isinstance(value.data, np.ndarray)}


@dataclass(frozen=True, slots=True)
class PatchedGraph:
    """A graph with other constants, made when it is asked for. The numbers are as they were given."""

    base: Base
    data: Mapping[str, np.ndarray]

    def updated(self, data: Mapping[str, np.ndarray]) -> PatchedGraph:
        """The same with more constants replaced."""
        return PatchedGraph(self.base, {**self.data, **data})

    def array(self, name: str, constant: ConstantRecord) -> np.ndarray | None:
        """A constant by name; None where there is none. The graph is read only where `constant` does not have it."""
        if name in self.data:
            return self.data[name]
        return self.base.constants.get(name) if constant.number is None else np.full(constant.shape, constant.number)

    def __call__(self) -> Graph:
        """The graph."""
        return with_constants(self.base.graph, self.data)


def patch_task(program: Program, task: int, weights: np.ndarray, bias: np.ndarray | None = None) -> Patched:
    """The program with the weights (and biases) of the convolution that is task number `task` replaced.

    `weights` has shape [groups * outputs, inputs per output, Kd, Kh, Kw], or any shape with as many elements in that
    order, `bias` [groups * outputs]; both are rounded to fp16. ProgramError when the task has no constant weights,
    keeps them in a packing other than dense, or sizes differ.
    """
    operation, held, section = _weighted(program, task)
    channels, rows = _placement(operation, held, section, get_chip(program.chip).limits.coefficients)
    biases = len(channels) * (held.bias is not None)
    if weights.size != len(channels) * rows:
        raise ProgramError(f"its weights are {len(channels)} channels of {rows} elements, not {weights.size}",
                           task=task)
    if bias is not None and bias.size != (biases or -1):
        raise ProgramError(f"it has {biases} biases, not {bias.size}", task=task)
    begin, _ = program.constant_ranges[section.slot]
    starts = {stream.core: begin + stream.offset for stream in section.streams}
    missing = {channel.core for channel in channels} - set(starts)
    if missing:
        raise ProgramError(f"cores {sorted(missing)} compute channels but have no coefficient stream", task=task)
    first = np.array([starts[c.core] + HALFWORD * c.weights for c in channels])
    step = np.array([HALFWORD * c.step for c in channels])
    places, values = (first[:, None] + step[:, None] * np.arange(rows)).reshape(-1), weights.reshape(-1)
    if bias is not None:
        heads = np.array([starts[c.core] + HALFWORD * (c.bias or 0) for c in channels])
        places, values = np.concatenate((places, heads)), np.concatenate((values, bias.reshape(-1)))
    return _written(program, task, places, values)


def _weighted(program: Program, task: int) -> tuple[Operation, Coefficients, CoefficientSection]:
    """The convolution a task is, its coefficients and the section of its weights. ProgramError where it has no dense
    constant weights."""
    if not 0 <= task < len(program.tasks):
        raise ProgramError(f"there is no task {task}; the program has tasks 0 to {len(program.tasks) - 1}")
    chip = get_chip(program.chip)
    operation = chip.operation(program.tasks[task].words)
    held = operation.coefficients if isinstance(operation, Convolution) else None
    section = held.weights if held is not None else None
    if held is None or section is None or section.slot not in program.constant_ranges:
        raise ProgramError(f"this {type(operation).__name__} reads no constant weights", task=task)
    if held.packing is not Packing.DENSE:
        raise ProgramError(f"its weights are packed {held.packing}; only dense ones can be replaced in place",
                           task=task)
    return operation, held, section


def _placement(operation: Operation, held: Coefficients, section: CoefficientSection,
               form: CoefficientFormat) -> tuple[list[Channel], int]:
    """Where the task's output channels have their weights, and how many each has."""
    geometry = geometry_of(operation)
    assert geometry is not None, "a convolution has weights"
    capacity = section.streams.total // HALFWORD
    if geometry.weights > capacity:
        raise ProgramError(f"{geometry.groups * geometry.channels} channels of {geometry.rows} weights do not fit its "
                           f"{capacity} coefficients")
    return list(form.place(geometry, held).channels()), geometry.rows


def _written(program: Program, task: int, places: np.ndarray, values: np.ndarray) -> Patched:
    data = np.frombuffer(program.constants, np.uint8).copy()
    if places.size and (places.min() < 0 or places.max() + HALFWORD > data.size):
        raise ProgramError(f"its coefficients reach beyond the {data.size} bytes of constants", task=task)
    with np.errstate(over="ignore"):
        halves = values.astype("<f2").view(np.uint8).reshape(-1, HALFWORD)
    data[places], data[places + 1] = halves[:, 0], halves[:, 1]
    return patch_constants(program, {0: data.tobytes()})


def _data(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """New constants by name, as the graph holds them. GraphError where it has no such constant."""
    known = {value.name: value for node in graph.nodes for value in node.values()
             if value.constant and isinstance(value.data, np.ndarray)}
    data: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known) or 'none'}"
            raise GraphError(f"the model has no constant {name!r}; {hint}")
        value = known[name]
        if tuple(array.shape) != value.shape:
            raise GraphError(f"constant {name!r} has shape {list(value.shape)}, not {list(array.shape)}")
        data[name] = _converted(array, value)
    return data


def with_constants(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """The graph with constants replaced by name."""
    data = _data(graph, arrays)
    new = {id(value): with_data(value, data[value.name]) for node in graph.nodes for value in node.values()
           if value.constant and value.name in data}

    nodes = tuple(substituted(node, new) for node in graph.nodes)
    for node, before in zip(nodes, graph.nodes, strict=True):
        if any(id(value) in new for value in before.values()):
            _require_types(node)
    return Graph(graph.inputs, nodes, graph.outputs, graph.name, graph.metadata)


def _require_types(node: Node) -> None:
    """UnsupportedError where a result has another shape with these constants: that of `non_zero`, of a `reshape`."""
    for value, found in zip(node.outputs, result_types(get_op(node.op), node.operands), strict=True):
        if value.type != found:
            raise _elsewhere(f"the result of {node.label}", value.type, found)


def _converted(array: np.ndarray, value: Value) -> np.ndarray:
    """The array in the element type of the constant it replaces."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=numpy_type(value.dtype)).reshape(value.shape)


def _ranges(before: Constants, after: Constants) -> tuple[ByteRange, ...]:
    """The runs of bytes that differ, of sections of one size."""
    differ = np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], differ, [False])).view(np.int8)))
    return tuple(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _check_same(before: Program, after: Program) -> None:
    """UnsupportedError unless the programs differ in constants only."""
    if len(before.tasks) != len(after.tasks):
        raise _elsewhere("the number of tasks", len(before.tasks), len(after.tasks))
    if len(before.constants) != len(after.constants):
        raise _elsewhere("the bytes of constants", len(before.constants), len(after.constants))
    if before.kernel_starts != after.kernel_starts:
        raise _elsewhere("the kernel sections", before.kernel_starts, after.kernel_starts)
    for index, (old, new) in enumerate(zip(before.tasks, after.tasks, strict=True)):
        if old != new:
            found = diff(replace(before, tasks=(old,)), replace(before, tasks=(new,))).tasks
            names = [field.name for change in found for field in change.fields]
            raise _elsewhere(f"task {index}", "the task as it is", ", ".join(names[:4]) or "another place")
    if before.buffers != after.buffers:
        raise _elsewhere("the buffers", len(before.buffers), len(after.buffers))


def _elsewhere(what: str, limit: object, found: object) -> UnsupportedError:
    return UnsupportedError("patch", f"new weights may change constants only, and these change {what}", limit=limit,
                            found=found, remedy="compile the model with the new weights")
