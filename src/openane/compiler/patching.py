"""New weights in a compiled program, without changing what it executes.

`patch` takes weights by their names in the model. Those whose way into the constants is known (see tracing) are
folded, cast and packed alone; for others the graph is compiled again with them, which repeats all of that, and the
result is taken when it is the same program with other constants. `patch_task` takes the
weights of one task of any program, ours or not, and writes them where the task's own fields say they lie.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from openane.chips import get_chip
from openane.compiler.model import Model
from openane.compiler.pipeline import planned
from openane.compiler.tracing import Piece, Route, Routes, traced
from openane.engine import Convolution, Packing
from openane.engine.coefficients import Channel, dense_channels, depthwise_channels, grouped_channels
from openane.errors import GraphError, ProgramError, UnsupportedError
from openane.graph import Graph, Value, numpy_type
from openane.graph.graph import Node, Operand
from openane.program import CONSTANT_SLOT, Program
from openane.program.diff import ConstantChange, diff
from openane.program.patch import ByteRange, Patched, patch_constants

HALFWORD = 2
PREFIX = 64
"""Bytes by which pieces are told apart before they are compared."""
THREADED = 1 << 24
"""Bytes of arrays from which threads are worth their start."""
THREADS = 4


@dataclass(frozen=True)
class PatchedModel:
    """A model with other weights, and the programs it had before. What changed is worked out when it is asked for."""

    model: Model
    before: tuple[Program, ...]

    @cached_property
    def ranges(self) -> tuple[tuple[ByteRange, ...], ...]:
        """Per program, the bytes of its constants that changed."""
        return tuple(_ranges(old.constants, new.constants)
                     for old, new in zip(self.before, self.model.programs, strict=True))

    @cached_property
    def changes(self) -> tuple[tuple[ConstantChange, ...], ...]:
        """Per program, which task's coefficients changed, core by core."""
        return tuple(diff(old, new).constants for old, new in zip(self.before, self.model.programs, strict=True))


def patch(model: Model, arrays: Mapping[str, np.ndarray]) -> PatchedModel:
    """The model with the constants called as `arrays` names them replaced, everything but constants unchanged.

    An array has the shape of the constant it replaces and is converted to its element type. GraphError when a name or
    a shape is wrong; UnsupportedError when the new values cannot be had by new constants alone (zero-skipping streams
    change their sizes, a factor of one makes an operation disappear): compile the model again then.
    """
    return _rewritten(model, arrays) or _recompiled(model, arrays)


def _recompiled(model: Model, arrays: Mapping[str, np.ndarray]) -> PatchedModel:
    """The way for all constants: through the whole compiler."""
    graph = _with_constants(model.graph, arrays)
    _, made = planned(graph, model.target, bool(model.host_operations), before=model.lowered)
    steps = [type(step) for step in made.steps]
    if len(made.segments) != len(model.programs) or steps != [type(step) for step in model.steps]:
        raise _elsewhere("the number of programs", len(model.programs), len(made.segments))
    programs = []
    for before, segment in zip(model.programs, made.segments, strict=True):
        if segment.program.tasks is not before.tasks:
            _check_same(before, segment.program)
        programs.append(replace(before, constants=segment.program.constants))
    patched = replace(model, programs=tuple(programs), steps=tuple(made.steps), source=graph,
                      routes=traced(graph, made.segments))
    return PatchedModel(patched, model.programs)


def _rewritten(model: Model, arrays: Mapping[str, np.ndarray]) -> PatchedModel | None:
    """The way for constants with known routes; None when there are others, or numbers that change more than bytes."""
    routes = model.routes
    if routes is None or not all(name in routes.names and array.shape == routes.values[name].shape
                                 for name, array in arrays.items()):
        return None
    sections = [_Section(np.frombuffer(program.constants, np.uint8)) for program in model.programs]
    with _pool(sum(array.nbytes for array in arrays.values())) as pool:
        each = pool.map if pool is not None else map
        converted = each(lambda name: _converted(arrays[name], routes.values[name]), arrays)
        data = dict(zip(arrays, converted, strict=True))
        now = routes.updated(data)
        taken = [now.routes[number] for number in dict.fromkeys(n for name in data for n in now.names[name])]
        if not all(each(lambda route: _write(route, now, sections), taken)):
            return None
        if not all(sections[number].keep(piece) for route in taken for number, piece in route.pieces):
            return None
    programs = tuple(replace(program, constants=section.finished())
                     for program, section in zip(model.programs, sections, strict=True))
    source = model.source
    patched = replace(model, programs=programs, routes=now,
                      source=lambda: _with_constants(source if isinstance(source, Graph) else source(), data))
    return PatchedModel(patched, model.programs)


def _write(route: Route, values: Routes, sections: list[_Section]) -> bool:
    """Packs one node's constants wherever they go; False where they take another form."""
    node = route.made(values.values)
    return node is not None and all(piece.write(sections[number].data, sections[number].before, node)
                                    for number, piece in route.pieces)


@contextmanager
def _pool(size: int) -> Iterator[ThreadPoolExecutor | None]:
    """Threads where the bytes are worth them: numpy casts and copies side by side."""
    if size < THREADED:
        yield None
        return
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        yield pool


class _Section:
    """The constants of a program with some pieces written anew. What no piece writes is copied at the end."""

    def __init__(self, before: np.ndarray) -> None:
        self.before, self.data = before, np.zeros(before.size, np.uint8)
        self._pieces: dict[int, Piece] = {}
        self._alike: dict[tuple[object, ...], list[Piece]] = {}

    def keep(self, piece: Piece) -> bool:
        """Takes a piece that was written; False where it would now be stored once with another."""
        self._pieces[piece.offset] = piece
        new = self._bytes(piece)
        alike = self._alike.setdefault((piece.owner, piece.size, new[:PREFIX].tobytes()), [])
        if any(other.offset != piece.offset and np.array_equal(self._bytes(other), new) for other in alike):
            return False
        alike.append(piece)
        return True

    def finished(self) -> bytes:
        """All bytes."""
        if not self._pieces:
            return self.before.tobytes()
        end = 0
        for offset, piece in sorted(self._pieces.items()):
            self.data[end:offset] = self.before[end:offset]
            end = offset + piece.size
        self.data[end:] = self.before[end:]
        return self.data.tobytes()

    def _bytes(self, piece: Piece) -> np.ndarray:
        return self.data[piece.offset:piece.offset + piece.size]


def patch_task(program: Program, task: int, weights: np.ndarray, bias: np.ndarray | None = None) -> Patched:
    """The program with the weights (and biases) of the convolution that is task number `task` replaced.

    `weights` has shape [groups * outputs, inputs per output, Kd, Kh, Kw], or any shape with as many elements in that
    order, `bias` [groups * outputs]; both are rounded to fp16. ProgramError when the task has no constant weights,
    keeps them in a packing other than dense, or sizes differ.
    """
    if not 0 <= task < len(program.tasks):
        raise ProgramError(f"there is no task {task}; the program has tasks 0 to {len(program.tasks) - 1}")
    operation = get_chip(program.chip).operation(program.tasks[task].words)
    held = operation.coefficients if isinstance(operation, Convolution) else None
    if not isinstance(operation, Convolution) or held is None or not held.weights or held.slot != CONSTANT_SLOT:
        raise ProgramError(f"this {type(operation).__name__} reads no constant weights", task=task)
    if held.packing is not Packing.DENSE:
        raise ProgramError(f"its weights are packed {held.packing}; only dense ones can be replaced in place",
                           task=task)
    channels, rows = _placement(operation)
    if weights.size != len(channels) * rows:
        raise ProgramError(f"its weights are {len(channels)} channels of {rows} elements, not {weights.size}",
                           task=task)
    if bias is not None and (not held.bias or bias.size != len(channels)):
        raise ProgramError(f"it has {len(channels) if held.bias else 0} biases, not {bias.size}", task=task)
    starts = {stream.core: stream.offset for stream in held.streams}
    missing = {channel.core for channel in channels} - set(starts)
    if missing:
        raise ProgramError(f"cores {sorted(missing)} compute channels but have no coefficient stream", task=task)
    first = np.array([starts[c.core] + HALFWORD * c.weights for c in channels])
    step = np.array([HALFWORD * c.step for c in channels])
    places = [(first[:, None] + step[:, None] * np.arange(rows)).reshape(-1)]
    values = [weights.reshape(-1)]
    if bias is not None:
        places.append(np.array([starts[c.core] + HALFWORD * (c.bias or 0) for c in channels]))
        values.append(bias.reshape(-1))
    return _written(program, task, np.concatenate(places), np.concatenate(values))


def _placement(operation: Convolution) -> tuple[list[Channel], int]:
    """Where the task's output channels have their weights, and how many each has."""
    held = operation.coefficients
    assert held is not None
    taps = int(np.prod(operation.kernel))
    groups = 1 if operation.shared else operation.result.shape[0]
    channels = operation.result.shape[1]
    rows = (operation.unicast or operation.source.shape[1]) * taps
    capacity = sum(stream.size for stream in held.streams) // HALFWORD
    if groups * channels * rows > capacity:
        raise ProgramError(f"{groups * channels} channels of {rows} weights do not fit its {capacity} coefficients")
    if operation.unicast:
        return depthwise_channels(groups * channels, rows, bias=held.bias, table=held.table), rows
    if groups == 1:
        return dense_channels(channels, rows, held.lanes, bias=held.bias, table=held.table), rows
    return grouped_channels(groups, channels, rows, held.lanes, bias=held.bias, table=held.table), rows


def _written(program: Program, task: int, places: np.ndarray, values: np.ndarray) -> Patched:
    data = np.frombuffer(program.constants, np.uint8).copy()
    if places.size and (places.min() < 0 or places.max() + HALFWORD > data.size):
        raise ProgramError(f"its coefficients reach beyond the {data.size} bytes of constants", task=task)
    with np.errstate(over="ignore"):
        halves = values.astype("<f2").view(np.uint8).reshape(-1, HALFWORD)
    data[places], data[places + 1] = halves[:, 0], halves[:, 1]
    return patch_constants(program, {0: data.tobytes()})


def _with_constants(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """The graph with constants replaced by name."""
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
    new = {id(value): replace(value, data=data[value.name]) for node in graph.nodes for value in node.values()
           if value.constant and value.name in data}

    def changed(operand: Operand) -> Operand:
        if isinstance(operand, tuple):
            return tuple(new.get(id(value), value) for value in operand)
        return new.get(id(operand), operand)

    nodes = tuple(Node(n.op, {k: changed(v) for k, v in n.operands.items()}, n.outputs, n.name, n.source)
                  for n in graph.nodes)
    return Graph(graph.inputs, nodes, graph.outputs, graph.name, graph.metadata)


def _converted(array: np.ndarray, value: Value) -> np.ndarray:
    """The array in the element type of the constant it replaces."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=numpy_type(value.dtype)).reshape(value.shape)


def _ranges(before: bytes, after: bytes) -> tuple[ByteRange, ...]:
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
