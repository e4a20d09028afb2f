"""The values of one run on the simulator with drawn inputs, beside the model's reference in float64, for a report.

Which array a task leaves is found, not known: of the tensors an operation and those fused or folded into it stand for,
the one that its tasks' results agree with best, as they are, with axes exchanged, or as parts side by side. Where no
order of the elements is found but the values are the same ones, the state says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from openane.cli.arrays import Array, compare, gather
from openane.cli.subject import Subject
from openane.compiler import Model, Where
from openane.compiler.model import Step
from openane.compiler.states import without_states
from openane.devices.executable import BufferExecutable
from openane.devices.simulator import SimulatorDevice, SimulatorExecutable
from openane.graph import Graph, Node, numpy_type
from openane.ops.evaluate import evaluate_node
from openane.ops.halves import LARGEST
from openane.program import Program
from openane.program.verify import Verified
from openane.simulator import RunReport

SMALLEST = 2.0 ** -25
"""Smaller magnitudes round to zero in fp16."""
AGREES = 0.1
"""Relative L2 error up to which a result is taken for a tensor in lower precision."""
KEPT = 1 << 30
"""Bytes of results that are kept to compare."""
STEPS = 6
"""Operations between a tensor and the one whose tasks make it."""
AXES, SAMPLE = 4, 4096
SURE, FEW = 0.01, 1 << 17
"""Error up to which a result is taken for a multiple of a tensor, and elements of tensors that is tried for."""

Row = list[Any]


class _Watching(SimulatorDevice):
    """Keeps what every task of every run stores, in order."""

    def __init__(self, chip: str, arithmetic: str) -> None:
        super().__init__(chip, arithmetic)
        self.results: list[Array | None] = []
        self.room = KEPT

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`."""
        known = program.program if isinstance(program, Verified) else program
        return _Watched(self, known, self._arithmetic, buffers)

    def keep(self, array: np.ndarray) -> None:
        """Takes one result, while there is room."""
        self.room -= array.nbytes
        values = array.view(np.float16) if array.dtype == np.uint16 else array
        self.results.append(values.copy() if self.room >= 0 else None)


class _Watched(SimulatorExecutable):
    """An executable that shows its device what its tasks store."""

    def __init__(self, device: _Watching, program: Program, arithmetic: str,
                 buffers: Mapping[str, np.ndarray] | None) -> None:
        super().__init__(program, arithmetic, buffers)
        self._device = device

    def perform(self) -> RunReport:
        """See `BufferExecutable.perform`."""
        return self.loaded.run(seen=lambda task, array: self._device.keep(array))


def measured(opened: Subject, seed: int, arithmetic: str) -> dict[str, Any]:
    """What a report shows: `about`, `tasks` ([low, high, infinite stored, infinite read, NaN read, arithmetic] each),
    `tensors` ([name, operation, shape, low, high, largest error, relative L2 error, beyond fp16, lost to zero, state];
    errors None where nothing could be compared). Inputs are drawn from `seed` and rounded to fp16 for both sides."""
    inputs = {name: _rounded(values) for name, values in gather(opened.inputs, {}, seed).items()}
    content = opened.content
    chip = content.chip if isinstance(content, Program) else content.target
    with _Watching(chip, arithmetic) as device:
        outputs, _, report = opened.run(device, inputs)
        tensors = _tensors(content, inputs, device.results) if isinstance(content, Model) else []
        tensors += _outputs(opened, outputs, {row[0] for row in tensors})
    about = (f"One run on the simulator, inputs drawn from seed {seed}, {' and '.join(report.arithmetic) or 'no'} "
             "arithmetic. Errors are against the model's reference in float64 on the same inputs; a tensor inside a "
             "task is never stored and has none.")
    tasks = [[t.low, t.high, t.overflows, t.infinite_inputs, t.nan_inputs, t.arithmetic] for t in report.tasks]
    return {"about": about, "seed": seed, "tasks": tasks, "tensors": tensors}


def _tensors(model: Model, inputs: Mapping[str, Array], results: Sequence[Array | None]) -> list[Row]:
    """One row for every tensor of the model that its operations compute."""
    made = _made(model, results)
    rows: list[Row] = []
    best: dict[str, int] = {}
    ways: dict[int, str] = {}
    for node, arrays, owner in _reference(model.graph, inputs, made):
        for value, array in zip(node.outputs, arrays, strict=True):
            error = _nearest(made.get(owner, []), array) if array.dtype.kind == "f" else None
            rows.append([value.name, node.label, "x".join(map(str, array.shape)), *_range(array),
                         *(error[:2] if error else (None, None)), *_lost(array), owner])
            if error is not None:
                ways[len(rows) - 1] = error[2]
            if error is not None and (owner not in best or error[1] <= rows[best[owner]][6]):
                best[owner] = len(rows) - 1
    for number, row in enumerate(rows):
        row[9] = _state(row, number, best.get(row[9]), row[9] in made)
        if row[9] == "agrees" and ways[number]:
            row[9] = f"agrees, {ways[number]}"
        if row[9] in ("inside a task", "not compared"):
            row[5] = row[6] = None
    return rows


def _state(row: Row, number: int, best: int | None, has_tasks: bool) -> str:
    if row[7]:
        return "overflows"
    if best == number:
        return "agrees" if row[6] <= AGREES else "diverges"
    return "inside a task" if best is not None else "not compared" if has_tasks else "no task"


def _made(model: Model, results: Sequence[Array | None]) -> dict[str, list[Array]]:
    """The results of every operation's tasks, by its label without what it came from."""
    order = [step.program for step in model.steps if isinstance(step, Step)]
    first: dict[int, int] = {}
    total = 0
    for program in order:
        first.setdefault(program, total)
        total += len(model.programs[program].tasks)
    made: dict[str, list[Array]] = {}
    for entry in model.report:
        if entry.where is Where.ENGINE and entry.program in first:
            known = [results[first[entry.program] + task] for task in entry.tasks]
            made.setdefault(_short(entry.operation), []).extend(array for array in known if array is not None)
    return made


def _reference(graph: Graph, inputs: Mapping[str, Array],
               made: Mapping[str, object]) -> Iterator[tuple[Node, tuple[Array, ...], str]]:
    """Every node with its results, real numbers kept in float64 between nodes, and the operation whose tasks make them:
    its own, or that of the node before it."""
    plain = without_states(graph)
    zeros = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in plain.states}
    given = zeros | dict(inputs)
    known: dict[int, Array] = {id(value): _wide(np.asarray(given[value.name])) for value in plain.graph.inputs}
    last = {id(value): number for number, node in enumerate(plain.graph.nodes) for value in node.values()}
    owners: dict[int, tuple[str, int]] = {}
    for number, node in enumerate(plain.graph.nodes):
        arrays = tuple(_wide(np.asarray(array)) for array in evaluate_node(node, known))
        label = _short(node.label)
        before = [owners[id(value)] for value in node.values() if id(value) in owners]
        owner, steps = (label, 0) if label in made else max(before, key=lambda each: -each[1], default=("", STEPS))
        for value, array in zip(node.outputs, arrays, strict=True):
            known[id(value)] = array
            if steps < STEPS:
                owners[id(value)] = owner, steps + 1
        yield node, arrays, owner
        for value in node.values():
            if last[id(value)] == number:
                known.pop(id(value), None)


def _nearest(results: Sequence[Array], wanted: Array) -> tuple[float, float, str] | None:
    """Largest and relative L2 error of the arrangement of an operation's results that fits a tensor best, and how it
    had to be taken: "order unknown" (both in ascending order), "scaled" (a factor went into a neighbour's weights)."""
    best: tuple[float, float, str] | None = None
    for whole in _wholes(results, wanted.size):
        factor = _norm(whole) / (_norm(wanted) or 1.0)
        alike = abs(factor - 1) <= AGREES
        multiple = not alike and wanted.size <= FEW and 0 < factor < np.inf
        for array in _fitting(whole, wanted, factor if alike or multiple else np.nan):
            error = compare(array, wanted)
            if best is None or error["l2_rel"] < best[1]:
                best = error["max_abs"], error["l2_rel"], ""
            if multiple and (error := compare(array / factor, wanted))["l2_rel"] <= SURE:
                return error["max_abs"], error["l2_rel"], "scaled"
            if best[1] <= AGREES:
                return best
        if alike and (error := compare(np.sort(whole, axis=None), np.sort(wanted, axis=None)))["l2_rel"] <= AGREES:
            best = error["max_abs"], error["l2_rel"], "order unknown"
    return best


def _fitting(whole: Array, wanted: Array, factor: float) -> Iterator[Array]:
    """The elements in a tensor's shape as they lie, then every exchange of axes in which some elements agree but for a
    factor; none of these where the factor is no number above zero."""
    yield whole.reshape(wanted.shape)
    plain = whole.squeeze()
    if not 0 < factor < np.inf or not 2 <= plain.ndim <= AXES:
        return
    picks = np.random.default_rng(0).integers(0, wanted.size, SAMPLE)
    some = wanted.reshape(-1)[picks]
    for axes in list(permutations(range(plain.ndim)))[1:]:
        array = plain.transpose(axes).reshape(wanted.shape)
        if compare(array.reshape(-1)[picks] / factor, some)["l2_rel"] <= 2 * AGREES:
            yield array


def _wholes(results: Sequence[Array], size: int) -> Iterator[Array]:
    """Arrays of as many elements as a tensor: the last result, or the last few of one shape side by side."""
    groups: dict[tuple[int, ...], list[Array]] = {}
    for result in results:
        groups.setdefault(result.shape, []).append(result)
    for shape, alike in reversed(groups.items()):
        count, left = divmod(size, int(np.prod(shape)))
        if not left and 1 <= count <= len(alike):
            yield from _joined(alike[-count:])


def _norm(array: Array) -> float:
    return float(np.linalg.norm(array.astype(np.float64).reshape(-1)))


def _joined(parts: Sequence[Array]) -> Iterator[Array]:
    if len(parts) == 1:
        yield parts[0]
        return
    for axis in range(parts[0].ndim):
        others = {part.shape[:axis] + part.shape[axis + 1:] for part in parts}
        if len(others) == 1:
            yield np.concatenate(parts, axis)


def _outputs(opened: Subject, outputs: Mapping[str, Array], known: set[str]) -> list[Row]:
    """Rows for outputs that are no operation's tensor, such as those of a program without its model."""
    return [[name, "output", "x".join(map(str, array.shape)), *_range(array), None, None, 0, 0, "not compared"]
            for name, array in outputs.items() if name not in known and isinstance(opened.content, Program)]


def _range(array: Array) -> tuple[float | None, float | None]:
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    return (float(finite.min()), float(finite.max())) if finite.size else (None, None)


def _lost(array: Array) -> tuple[int, int]:
    """How many values fp16 takes for infinite, and for zero."""
    if array.dtype.kind != "f":
        return 0, 0
    size = np.abs(array)
    return int(np.count_nonzero(size >= LARGEST + 16)), int(np.count_nonzero((size > 0) & (size <= SMALLEST)))


def _rounded(values: Array) -> Array:
    return values.astype(np.float16).astype(values.dtype) if values.dtype.kind == "f" else values


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _short(label: str) -> str:
    return label.partition(" (from ")[0]
