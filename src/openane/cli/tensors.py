"""Every tensor a model makes on the simulator beside float64: where it overflows, loses precision, diverges.

The compiler says where tensors are (compiler.intermediates); what each task leaves is copied there while the programs
run, unchanged. The reference is the graph after the compiler's passes in float64 on the inputs as they are given. Two
errors are stated: that of the tensor, and its `own`, against float64 from the engine's own tensors before it: what the
operation and those fused with it add. Tensors inside a task are never stored and have neither. Where numbers became
infinite, the first task that stored one says which limit it was: that of the multiply-accumulate or fp16's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openane.chips import get_chip
from openane.chips.arithmetic import SUM_LIMIT
from openane.cli.arrays import Array, compare
from openane.cli.output import shape_text, table
from openane.cli.subject import Subject
from openane.compiler import Model
from openane.compiler.inspect.intermediates import Intermediates, Whereabouts, intermediates
from openane.compiler.partition.hosting import AllowHost
from openane.devices.executable import BufferExecutable
from openane.devices.simulator import SimulatorDevice, SimulatorExecutable
from openane.engine import Convolution, MatrixProduct
from openane.errors import UnsupportedError
from openane.graph import Node, Value, numpy_type
from openane.ops.evaluate import evaluate_node
from openane.ops.halves import LARGEST
from openane.ops.lowering import Tensor
from openane.program import Program
from openane.program.verify import Verified
from openane.simulator import RunReport
from openane.simulator.arithmetic.half import decoded
from openane.simulator.memory import ELEMENT, MEMORY_LIMIT, view
from openane.wording import line_text

THRESHOLD = 0.01
"""Relative L2 error from which a tensor is said to diverge."""
SHOWN = 40
"""Rows of a table; beyond, the worst."""
NAME = 80
"""Characters of a name in the table."""
MOST = 16
"""Operations that are named as made together with another."""
EXACT_CHECK = "--check --arithmetic exact"

Row = dict[str, Any]


@dataclass(slots=True)
class Kept:
    """The virtual buffers of one program, which of their bytes some task wrote, and which tasks stored infinities."""

    places: Whereabouts
    bytes: dict[int, np.ndarray] = field(default_factory=dict)
    written: dict[int, np.ndarray] = field(default_factory=dict)
    infinite: set[int] = field(default_factory=set)

    def take(self, task: int, array: np.ndarray) -> None:
        """What a task left."""
        access = self.places.results[task]
        if array.dtype == np.uint16 and np.isinf(array.view(np.float16)).any():
            self.infinite.add(task)
        if access.shape != array.shape or ELEMENT[access.dtype] != array.dtype:
            return
        for stores, values in ((self.bytes, array), (self.written, np.full((), -1).astype(array.dtype))):
            store = stores.setdefault(access.slot, np.zeros(self.places.sizes[access.slot], np.uint8))
            operand = view(access, store)
            operand.array[...] = values
            operand.store()

    def tensor(self, value: Value) -> Array | None:
        """The value as float64, or None where no task stored all of it."""
        tensor = self.places.tensors.get(id(value))
        if tensor is None or tensor.slot not in self.bytes or not _elements(tensor, self.written[tensor.slot]).all():
            return None
        raw = _elements(tensor, self.bytes[tensor.slot])
        numbers = decoded(raw) if raw.dtype == np.uint16 else raw
        return numbers.astype(np.float64).reshape(value.shape)


class WatchedSimulator(SimulatorDevice):
    """Keeps what every task stores while it runs a model."""

    def __init__(self, known: Intermediates, like: SimulatorDevice) -> None:
        super().__init__(*like.settings)
        self.kept = [Kept(places) for places in known.programs]
        self._waiting = list(self.kept)

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`. Equal programs are taken in order; others are not watched."""
        plain = program.program if isinstance(program, Verified) else program
        kept = next((each for each in self._waiting if same(each.places.program, plain)), None)
        if kept is None:
            return super().prepare(program, buffers)
        self._waiting = [each for each in self._waiting if each is not kept]
        return _Watched(kept, plain, self._arithmetic, buffers)

    def found(self, asked: str) -> list[Kept]:
        """What was kept. UnsupportedError where a program the compiler makes now was not among those loaded."""
        if self._waiting:
            raise UnsupportedError(asked, "the tensors of a model are known where it is compiled by this version",
                                   found=f"program {self._waiting[0].places.program.name!r} is another",
                                   remedy="compile the model again")
        return self.kept


class _Watched(SimulatorExecutable):
    def __init__(self, kept: Kept, program: Program, arithmetic: str,
                 buffers: Mapping[str, np.ndarray] | None) -> None:
        super().__init__(program, arithmetic, buffers)
        self._kept = kept

    def execute_buffers(self) -> RunReport:
        """See `BufferExecutable.execute_buffers`."""
        return self.loaded.run(seen=self._kept.take)


def same(first: Program, second: Program) -> bool:
    """Whether two programs are the same words and constants."""
    if first.kernel_starts != second.kernel_starts:
        return False
    return first.constants == second.constants and [t.words for t in first.tasks] == [t.words for t in second.tasks]


def known_tensors(subject: Subject, allow_host: AllowHost, asked: str = EXACT_CHECK) -> Intermediates:
    """Where the tensors of a subject are, for an option that `asked` for them. UnsupportedError for a program without
    its model, and for a model whose tensors are more than the simulator holds."""
    if not isinstance(subject.content, Model):
        raise UnsupportedError("--check", "a compiled program does not hold the model it was made from",
                               remedy="run the model itself or its bundle (.ane)")
    known = intermediates(subject.content.graph, subject.content.target, allow_host)
    size = sum(sum(places.sizes.values()) for places in known.programs)
    if 2 * size > MEMORY_LIMIT:
        raise UnsupportedError(asked, "all tensors of a model are kept", found=f"{size} bytes",
                               limit=f"{MEMORY_LIMIT // 2} bytes",
                               remedy="ane run --check --arithmetic fast: outputs alone")
    return known


class _Walk:
    """The graph computed beside what ran, one node after the other: `wide` in double precision from the inputs on,
    `found` each result from what was found of its operands, both by id(value)."""

    def __init__(self, known: Intermediates, kept: list[Kept], inputs: Mapping[str, Array]) -> None:
        self._hosted, self._kept, self._chains = known.hosted, kept, _Chains(kept)
        self._wide: dict[int, Array] = {}
        self._found: dict[int, Array] = {}
        for value in known.graph.inputs:
            given = inputs.get(value.name)
            array = _wide(np.zeros(value.shape, numpy_type(value.dtype)) if given is None else given)
            self._wide[id(value)] = array
            self._found[id(value)] = array.astype(np.float16).astype(np.float64) if array.dtype.kind == "f" else array

    def rows(self, node: Node) -> Iterator[Row]:
        """One row for each result of the next node."""
        wanted, expected = (tuple(map(_wide, evaluate_node(node, values))) for values in (self._wide, self._found))
        chain, hosted = self._chains.of(node), id(node) in self._hosted
        for value, array, near in zip(node.outputs, wanted, expected, strict=True):
            made = next((tensor for each in self._kept if (tensor := each.tensor(value)) is not None), None)
            peak = _peak(near)
            row = _row(node, value, array, near, made, self._kept)
            yield row | {"hosted": hosted, "with": [each.label for each, _ in chain],
                         "reason": self._chains.reason(node, peak) if row["overflow"] else None}
            if made is None and not hosted:
                self._chains.inside[id(value)] = (*chain, (node, peak))
            self._wide[id(value)], self._found[id(value)] = array, near if made is None else made

    def forget(self, values: Iterable[Value]) -> None:
        """What no later node reads."""
        for value in values:
            self._wide.pop(id(value), None)
            self._found.pop(id(value), None)
            self._chains.inside.pop(id(value), None)


def compared(known: Intermediates, kept: list[Kept], inputs: Mapping[str, Array], threshold: float) -> list[Row]:
    """One row for each result of each operation, in order."""
    walk = _Walk(known, kept, inputs)
    last = {id(value): number for number, node in enumerate(known.graph.nodes) for value in node.values()}
    rows: list[Row] = []
    with np.errstate(all="ignore"):
        for number, node in enumerate(known.graph.nodes):
            rows += walk.rows(node)
            walk.forget(value for value in node.values() if last[id(value)] == number)
    first = next((row for row in rows if row["stored"] and not row["l2_rel"] <= threshold), None)
    return [row | {"first": row is first} for row in rows]


@dataclass(slots=True)
class _Chains:
    """What was computed since the last stored tensors: for a value inside a task (by id) the nodes that make it, and
    the largest magnitude of each."""

    kept: list[Kept]
    inside: dict[int, tuple[tuple[Node, float], ...]] = field(default_factory=dict)

    def of(self, node: Node) -> tuple[tuple[Node, float], ...]:
        """The nodes made together with the one that is asked about, in order, each once."""
        found = {id(each): (each, peak) for value in node.values() for each, peak in self.inside.get(id(value), ())}
        return tuple(found.values())[-MOST:]

    def reason(self, node: Node, peak: float) -> str:
        """Why a tensor that `node` makes has infinities where the reference has none."""
        chain = (*self.of(node), (node, peak))
        finite = [each for each in chain if np.isfinite(each[1])]
        largest, size = max(finite, key=lambda each: each[1], default=(node, 0.0))
        multiplied = self._multiplied([each for each, _ in chain])
        if len(finite) < len(chain) and size < (SUM_LIMIT if multiplied else LARGEST):
            return "its operands are infinite already"
        if not multiplied:
            return f"{_short(largest.label)} reaches {size:.3g}, and fp16 ends at {LARGEST:.0f}"
        limit = f"the multiply-accumulate is infinite from {SUM_LIMIT:.0f} on"
        if size >= SUM_LIMIT:
            return f"{_short(largest.label)} reaches {size:.3g}, and {limit}"
        return f"{limit}, and a partial sum got there though {_short(largest.label)} reaches no more than {size:.3g}"

    def _multiplied(self, nodes: list[Node]) -> bool:
        """Whether the first of their tasks that stored infinities multiplies and accumulates."""
        for each in self.kept:
            tasks = {task for node in nodes for task in each.places.tasks.get(id(node), ())}
            for task in sorted(tasks & each.infinite):
                program = each.places.program
                operation = get_chip(program.chip).operation(program.tasks[task].words)
                return isinstance(operation, Convolution | MatrixProduct)
        return False


def _peak(array: Array) -> float:
    """The largest magnitude; infinite where one is infinite or NaN."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    size = float(np.abs(array).max())
    return size if np.isfinite(size) else float("inf")


def lines(rows: list[Row], threshold: float) -> Iterator[str]:
    """The rows for people."""
    stored = [row for row in rows if row["stored"]]
    yield (f"  tensors against float64: {len(stored)} of {len(rows)} are stored, the others lie inside a task or are "
           "folded into a neighbour")
    chosen = stored
    if len(stored) > SHOWN:
        worst = sorted(stored, key=lambda row: (not (row["overflow"] or row["first"]), -_rank(row["own_l2_rel"])))
        chosen = [row for row in stored if any(row is each for each in worst[:SHOWN])]
        yield f"  the {SHOWN} whose operations add most error (--json has all):"
    yield from table([("operation", "tensor", "shape", "range", "max abs", "max rel", "rel L2", "own L2", ""),
                      *((line_text(row["operation"], NAME), line_text(row["tensor"], NAME), shape_text(row["shape"]),
                         f"{_digits(row['low'])} .. {_digits(row['high'])}", _digits(row["max_abs"]),
                         _digits(row["max_rel"]), _digits(row["l2_rel"]), _digits(row["own_l2_rel"]), _note(row))
                        for row in chosen)], indent="  ")
    if not any(row["first"] for row in rows):
        yield f"  no tensor's relative L2 error exceeds {threshold:g}"


def _row(node: Node, value: Value, wanted: Array, near: Array, made: Array | None, kept: list[Kept]) -> Row:
    finite = wanted[np.isfinite(wanted)] if wanted.dtype.kind == "f" else wanted.reshape(-1)
    tasks = [{"program": number, "tasks": list(each.places.tasks[id(node)])}
             for number, each in enumerate(kept) if id(node) in each.places.tasks]
    beyond = int(np.count_nonzero(np.abs(finite) > LARGEST)) if wanted.dtype.kind == "f" else 0
    row: Row = {"operation": node.label, "tensor": value.name, "shape": list(value.shape), "engine": tasks,
                "stored": made is not None,
                "low": float(finite.min()) if finite.size else None,
                "high": float(finite.max()) if finite.size else None, "beyond_fp16": beyond,
                "overflow": None, "lost": None, "max_abs": None, "max_rel": None, "l2_rel": None, "own_max_abs": None,
                "own_l2_rel": None}
    if made is None:
        return row
    real = wanted.astype(np.float64)
    row["overflow"] = int(np.count_nonzero(np.isinf(made) & np.isfinite(real)))
    row["lost"] = int(np.count_nonzero((made == 0) & (real != 0)))
    own = compare(made, near)
    return row | compare(made, real) | {"own_max_abs": own["max_abs"], "own_l2_rel": own["l2_rel"]}


def _note(row: Row) -> str:
    notes = [f"{row['overflow']} infinite: {row['reason']}"] if row["overflow"] else []
    if row["overflow"] and row["with"]:
        notes.append(f"made together with {line_text(', '.join(map(_short, row['with'])))}")
    if row["beyond_fp16"]:
        notes.append(f"{row['beyond_fp16']} of the reference beyond fp16's {LARGEST:.0f}")
    if row["lost"]:
        notes.append(f"{row['lost']} became 0")
    return "; ".join([*notes, *(["first over the threshold"] if row["first"] else [])])


def _rank(error: float) -> float:
    return np.inf if np.isnan(error) else error


def _short(label: str) -> str:
    return line_text(label.partition(" (from ")[0], NAME)


def _digits(number: float | None) -> str:
    return "-" if number is None else f"{number:.3g}"


def _elements(tensor: Tensor, store: np.ndarray) -> np.ndarray:
    """A tensor's raw elements in a buffer, in its own shape."""
    kind = ELEMENT[tensor.dtype]
    return np.ascontiguousarray(np.ndarray(tensor.shape, kind, store.data, tensor.offset, tensor.strides))


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64) if array.dtype.kind == "f" else np.asarray(array)
