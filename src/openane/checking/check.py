"""Runs a compiled model on the simulator, with the arithmetic of the engine, beside the same graph in fp32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.checking.beside import Seen, computed_beside
from openane.checking.causes import NumericFault
from openane.checking.faults import Judge
from openane.checking.names import Names
from openane.checking.numbers import Array, ends, infinities, relative, steps_off
from openane.checking.watched import Kept, WatchedSimulator
from openane.chips import DEFAULT_TARGET, machines
from openane.compiler import Model, compile
from openane.compiler.inspect.intermediates import Intermediates, intermediates
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.precision import PrecisionMode, Samples
from openane.devices.simulator import SimulatorDevice
from openane.errors import DeviceError, GraphError, UnsupportedError
from openane.graph import Graph, Node, as_stated, numpy_type
from openane.graph.given import require_graph
from openane.graph.states import without_states
from openane.ops.drawn_inputs import drawn
from openane.ops.evaluate import evaluate
from openane.ops.halves import RESCALED
from openane.ops.step_values import rounds, step_sizes
from openane.simulator.memory import MEMORY_LIMIT

Ends = tuple[float | None, float | None]
ASKED = "ane check"
CLOSE = 0.01
"""Relative error of an output up to which it is called right."""


@dataclass(frozen=True, slots=True)
class CheckedTensor:
    """One result of an operation of the model. `low` and `high` are its range in fp32, the `held` ones what the engine
    stored (None where no task stores it). Errors are relative (root of squared differences by that of values): `error`
    of the tensor, `added` by the operation and those that share its task, `inherited` what the errors of its inputs
    make. `infinite` counts infinities where fp32 has numbers. `where`: engine, counted (by the engine, in whole steps
    of quantisation), host, inside (a task), or merged (into another operation when the model was compiled)."""

    operation: str
    tensor: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None
    held_low: float | None
    held_high: float | None
    error: float | None
    added: float | None
    inherited: float | None
    infinite: int
    where: str


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """An output of the model: its error relative to fp32, how many of its numbers are infinite or NaN alone, and
    by how much fp32's own result differs once it is rounded to fp16, which for numbers below 6e-5 is much. Where its
    numbers are whole steps of quantisation, `steps` says how many of these the worst of them is off."""

    name: str
    error: float
    infinite: int
    rounded: float = 0.0
    steps: int | None = None

    @property
    def right(self) -> bool:
        """Whether it is close to what fp32 computes, nearly as close as fp16 can be, or no more than one step off."""
        near = self.error <= CLOSE or self.error <= min(1.0, 2 * self.rounded)
        return not self.infinite and (near or (self.steps is not None and self.steps <= 1))


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found: `faults` in the order of the model, the first cause first. `inputs` says what the model was
    run on: given, or drawn."""

    name: str
    target: str
    precision: str
    inputs: str
    outputs: tuple[CheckedOutput, ...]
    faults: tuple[NumericFault, ...]
    tensors: tuple[CheckedTensor, ...]

    @property
    def right(self) -> bool:
        """Whether every output is close to what fp32 computes."""
        return all(output.right for output in self.outputs)

    @property
    def cause(self) -> NumericFault | None:
        """The first operation that made infinities or lost digits, if one did."""
        return self.faults[0] if self.faults else None


def check(model: Graph | Model, samples: Samples | None = None, target: str = DEFAULT_TARGET,
          allow_host: AllowHost = LOOKUPS, precision: str = PrecisionMode.SAFE) -> Checked:
    """The model, compiled for `target`, beside itself in fp32, operation by operation.

    It runs on the first of `samples` (arrays by input name), or on drawn inputs where none are given; with `precision`
    "safe" all of them decide the powers of two. A compiled model is checked as it is. UnsupportedError where the engine
    cannot take the model, where its tensors are more than the simulator keeps, and for a model in several functions or
    shapes; GraphError where samples do not fit.
    """
    given = [samples] if isinstance(samples, Mapping) else list(samples or ())
    graph = model.graph if isinstance(model, Model) else model
    require_graph(graph)
    if isinstance(model, Model) and model.others:
        raise UnsupportedError(ASKED, "one function is checked", found=", ".join(model.functions),
                               remedy="choose one of model.functions, or --function")
    fit = [fitting(graph, each) for each in given]
    sample = fit[0] if fit else fitting(graph, drawn(without_states(graph).graph))
    made = model if isinstance(model, Model) else compile(graph, machines.target(target).name, allow_host,
                                                          samples=fit or None, precision=precision)
    known = intermediates(made.graph, made.target, made.host_operations != () or allow_host)
    room_for(known, ASKED, "check a smaller shape of it, or a part")
    kept, found = _run(made, known, sample)
    return _judged(graph, made, known, kept, sample, found,
                   "as compiled" if made is model else precision, _source(given))


def room_for(known: Intermediates, asked: str, remedy: str) -> None:
    """UnsupportedError for a model whose tensors are more than the simulator holds."""
    size = sum(sum(places.sizes.values()) for places in known.programs)
    if 2 * size > MEMORY_LIMIT:
        raise UnsupportedError(asked, "all tensors of a model are kept", found=f"{size} bytes",
                               limit=f"{MEMORY_LIMIT // 2} bytes", remedy=remedy)


def fitting(graph: Graph, sample: Mapping[str, Array]) -> dict[str, Array]:
    """The sample with an array for every input of the graph, states apart. GraphError names what is missing, unknown
    or of another shape."""
    plain = without_states(graph)
    states = {value.name for value in plain.states}
    wanted = {value.name: value for value in plain.graph.inputs if value.name not in states}
    wrong = sorted(set(wanted) ^ (set(sample) - states))
    if wrong:
        raise GraphError(f"the sample {'lacks' if wrong[0] in wanted else 'has'} {wrong[0]!r}; "
                         f"the model's inputs are {', '.join(wanted)}")
    for name, value in wanted.items():
        if sample[name].size != value.type.elements:
            raise GraphError(f"sample {name!r} must have shape {list(value.shape)}; found {list(sample[name].shape)}")
    return {name: _typed(name, np.asarray(sample[name]), value.dtype).reshape(value.shape)
            for name, value in wanted.items()}


def _typed(name: str, array: Array, dtype: str) -> Array:
    """The array in an input's kind of number; real ones in fp32, so that what fp16 does not hold is seen. GraphError
    for what is no number."""
    if array.dtype.kind not in "fiub":
        raise GraphError(f"sample {name!r} must hold numbers; found {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise GraphError(f"sample {name!r} has numbers that are none (NaN): nothing can be compared on it")
    wanted = numpy_type(dtype)
    return array.astype(np.float32 if wanted.kind == "f" else wanted)


def _source(given: Sequence[object]) -> str:
    if not given:
        return "drawn"
    return "the sample given" if len(given) == 1 else f"the first of {len(given)} samples given"


def _run(made: Model, known: Intermediates, sample: Mapping[str, Array]) -> tuple[list[Kept], dict[str, Array]]:
    """What every task stored, and the outputs: none where infinities have no place in an output of integers."""
    with WatchedSimulator(known, SimulatorDevice(made.target, "exact")) as device:
        with np.errstate(all="ignore"), device.load(made) as running:
            try:
                found = running.run(sample)
            except DeviceError:
                found = {}
        return device.found(ASKED), found


def _judged(graph: Graph, made: Model, known: Intermediates, kept: list[Kept], sample: Mapping[str, Array],
            found: Mapping[str, Array], precision: str, source: str) -> Checked:
    """Everything that is to be said of a run."""
    names = Names(graph, known.graph)
    scaled = precision == PrecisionMode.SAFE or any(key.startswith(RESCALED) for key in made.graph.metadata)
    judge = Judge(names, scaled)
    for value in known.graph.inputs:
        if value.name in sample:
            judge.take(value, sample[value.name])
    rows: dict[str, CheckedTensor] = {}
    for seen in computed_beside(known, kept, sample):
        judge.look(seen)
        rows[seen.value.name] = _row(seen, names)
    wanted, ranges = _reference(graph, sample, any(map(rounds, known.graph.nodes)))
    sizes = step_sizes(known.graph)
    outputs = tuple(_output(name, found.get(name), array, sizes.get(name)) for name, array in wanted.items())
    faults = judge.faults(all(output.right for output in outputs), known.graph.outputs)
    return Checked(graph.name, made.target, precision, source, outputs, tuple(faults),
                   tuple(_rows(graph, rows, ranges)))


def _output(name: str, found: Array | None, wanted: Array, size: float | None) -> CheckedOutput:
    """What became of an output; `size` of a step, where its numbers are such."""
    if found is None:
        return CheckedOutput(name, float("inf"), wanted.size)
    return CheckedOutput(name, relative(found, wanted), infinities(found, wanted), _rounded(wanted),
                         None if size is None else steps_off(found, wanted, size))


def _rounded(wanted: Array) -> float:
    """By how much an array differs once fp16 holds it."""
    if wanted.dtype.kind != "f":
        return 0.0
    with np.errstate(over="ignore"):
        return relative(wanted.astype(np.float16), wanted)


def _reference(graph: Graph, sample: Mapping[str, Array], digits: bool
               ) -> tuple[dict[str, Array], dict[str, Ends]]:
    """The model's outputs in fp32, and the ends of every tensor by name. `digits`: of constants in all digits that
    the model states, as one that rounds would become other steps for those of fp16."""
    plain = without_states(graph)
    computed = replace(plain.graph, nodes=tuple(map(as_stated, plain.graph.nodes))) if digits else plain.graph
    zeros = {value.name: np.zeros(value.shape, numpy_type(value.dtype)) for value in plain.states}
    ranges: dict[str, Ends] = {}

    def seen(node: Node, arrays: Mapping[int, Array]) -> None:
        ranges.update({value.name: ends(arrays[id(value)]) for value in node.outputs})

    wanted = evaluate(computed, zeros | dict(sample), seen)
    return {value.name: wanted[value.name] for value in graph.outputs}, ranges


def _row(seen: Seen, names: Names) -> CheckedTensor:
    made = seen.made
    low, high = ends(seen.steps_of(seen.wide))
    held_low, held_high = (None, None) if made is None else ends(seen.steps_of(made))
    where = "host" if seen.hosted else "inside" if made is None else "counted" if seen.counted else "engine"
    return CheckedTensor(
        names.of(seen.node), seen.value.name, seen.value.shape, low, high, held_low, held_high,
        None if made is None else seen.error, None if made is None else seen.added,
        None if made is None else seen.inherited, 0 if made is None else infinities(made, seen.wide), where)


def _rows(graph: Graph, rows: Mapping[str, CheckedTensor],
          ranges: Mapping[str, Ends]) -> list[CheckedTensor]:
    """A row for every result of the model's own operations, then what the compiler made beside them."""
    left, kept = dict(rows), {row.operation for row in rows.values()}
    found = []
    for node in graph.nodes:
        for value in node.outputs:
            low, high = ranges.get(value.name, (None, None))
            row = left.pop(value.name, None)
            if row is None and node.label in kept:
                continue  # it is there with the result of what follows it
            if row is None:
                row = CheckedTensor(node.label, value.name, value.shape, low, high, None, None, None, None, None, 0,
                                    "merged")
            elif low is not None and row.where != "counted":
                row = replace(row, low=low, high=high)
            found.append(row)
    return [*found, *left.values()]

