"""Every tensor a model makes on the simulator beside float64: where it overflows, loses precision, diverges.

The compiler says where tensors are (compiler.intermediates); what each task leaves is copied there while the programs
run, unchanged. The reference is the graph after the compiler's passes in float64 on the inputs as they are given. Two
errors are stated: that of the tensor, and its `own`, against float64 from the engine's own tensors before it: what the
operation and those inside its task add. Tensors inside a task are never stored and have neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openane.cli.arrays import Array, compare
from openane.cli.output import shape_text, table
from openane.cli.subject import Subject
from openane.compiler import Model
from openane.compiler.intermediates import Intermediates, Whereabouts, intermediates
from openane.devices.executable import BufferExecutable
from openane.devices.simulator import SimulatorDevice, SimulatorExecutable
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

THRESHOLD = 0.01
"""Relative L2 error from which a tensor is said to diverge."""
SHOWN = 40
"""Rows of a table; beyond, the worst."""

Row = dict[str, Any]


@dataclass(slots=True)
class Kept:
    """The virtual buffers of one program, and which of their bytes some task wrote."""

    places: Whereabouts
    bytes: dict[int, np.ndarray] = field(default_factory=dict)
    written: dict[int, np.ndarray] = field(default_factory=dict)

    def take(self, task: int, array: np.ndarray) -> None:
        """What a task left."""
        access = self.places.results[task]
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

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`."""
        plain = program.program if isinstance(program, Verified) else program
        kept = next((each for each in self.kept if same(each.places.program, plain)), None)
        if kept is None:
            raise UnsupportedError("--check", "the tensors of a model are known where it is compiled by this version",
                                   found=f"program {plain.name!r} is another", remedy="compile the model again")
        return _Watched(kept, plain, self._arithmetic, buffers)


class _Watched(SimulatorExecutable):
    def __init__(self, kept: Kept, program: Program, arithmetic: str,
                 buffers: Mapping[str, np.ndarray] | None) -> None:
        super().__init__(program, arithmetic, buffers)
        self._kept = kept

    def perform(self) -> RunReport:
        """See `BufferExecutable.perform`."""
        return self.loaded.run(seen=self._kept.take)


def same(first: Program, second: Program) -> bool:
    """Whether two programs are the same words and constants."""
    return first.constants == second.constants and [t.words for t in first.tasks] == [t.words for t in second.tasks]


def known_tensors(subject: Subject, allow_host: bool) -> Intermediates:
    """Where the tensors of a subject are. UnsupportedError for a program without its model, and for a model whose
    tensors are more than the simulator holds."""
    if not isinstance(subject.content, Model):
        raise UnsupportedError("--check", "a compiled program does not hold the model it was made from",
                               remedy="run the model itself or its bundle (.ane)")
    known = intermediates(subject.content.graph, subject.content.target, allow_host)
    size = sum(sum(places.sizes.values()) for places in known.programs)
    if 2 * size > MEMORY_LIMIT:
        raise UnsupportedError("--check --arithmetic exact", "all tensors of a model are kept", found=f"{size} bytes",
                               limit=f"{MEMORY_LIMIT // 2} bytes", remedy="check with --arithmetic fast: outputs alone")
    return known


def compared(known: Intermediates, kept: list[Kept], inputs: Mapping[str, Array], threshold: float) -> list[Row]:
    """One row for each result of each operation, in order."""
    wide: dict[int, Array] = {}
    found: dict[int, Array] = {}
    for value in known.graph.inputs:
        given = inputs.get(value.name)
        wide[id(value)] = _wide(np.zeros(value.shape, numpy_type(value.dtype)) if given is None else given)
        found[id(value)] = wide[id(value)].astype(np.float16).astype(np.float64) if wide[id(value)].dtype.kind == "f" \
            else wide[id(value)]
    rows: list[Row] = []
    first = True
    last = {id(value): number for number, node in enumerate(known.graph.nodes) for value in node.values()}
    for number, node in enumerate(known.graph.nodes):
        wanted, expected = (tuple(map(_wide, evaluate_node(node, values))) for values in (wide, found))
        for value, array, near in zip(node.outputs, wanted, expected, strict=True):
            made = next((tensor for each in kept if (tensor := each.tensor(value)) is not None), None)
            row = _row(node, value, array, near, made, kept)
            row["first"] = first and row["l2_rel"] is not None and not row["l2_rel"] <= threshold
            first = first and not row["first"]
            rows.append(row)
            wide[id(value)], found[id(value)] = array, near if made is None else made
        for value in node.values():
            if last[id(value)] == number:
                wide.pop(id(value), None)
                found.pop(id(value), None)
    return rows


def lines(rows: list[Row], threshold: float) -> Iterator[str]:
    """The rows for people."""
    stored = [row for row in rows if row["l2_rel"] is not None]
    yield (f"  tensors against float64: {len(stored)} of {len(rows)} are stored, the others lie inside a task or are "
           "folded into a neighbour")
    chosen = stored
    if len(stored) > SHOWN:
        worst = sorted(stored, key=lambda row: (not (row["overflow"] or row["first"]), -_rank(row["own_l2_rel"])))
        chosen = [row for row in stored if any(row is each for each in worst[:SHOWN])]
        yield f"  the {SHOWN} whose operations add most error (--json has all):"
    yield from table([("operation", "tensor", "shape", "range", "max abs", "max rel", "rel L2", "own L2", ""),
                      *((row["operation"], row["tensor"], shape_text(row["shape"]),
                         f"{_short(row['low'])} .. {_short(row['high'])}", _short(row["max_abs"]),
                         _short(row["max_rel"]), _short(row["l2_rel"]), _short(row["own_l2_rel"]), _note(row))
                        for row in chosen)], indent="  ")
    if not any(row["first"] for row in rows):
        yield f"  no tensor's relative L2 error exceeds {threshold:g}"


def _row(node: Node, value: Value, wanted: Array, near: Array, made: Array | None, kept: list[Kept]) -> Row:
    finite = wanted[np.isfinite(wanted)] if wanted.dtype.kind == "f" else wanted.reshape(-1)
    tasks = [{"program": number, "tasks": list(each.places.tasks[id(node)])}
             for number, each in enumerate(kept) if id(node) in each.places.tasks]
    beyond = int(np.count_nonzero(np.abs(finite) > LARGEST)) if wanted.dtype.kind == "f" else 0
    row: Row = {"operation": node.label, "tensor": value.name, "shape": list(value.shape), "engine": tasks,
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
    notes = [f"{row['overflow']} infinite"] if row["overflow"] else []
    if row["beyond_fp16"]:
        notes.append(f"{row['beyond_fp16']} beyond fp16")
    if row["lost"]:
        notes.append(f"{row['lost']} became 0")
    return ", ".join([*notes, *(["first over the threshold"] if row["first"] else [])])


def _rank(error: float) -> float:
    return np.inf if np.isnan(error) else error


def _short(number: float | None) -> str:
    return "-" if number is None else f"{number:.3g}"


def _elements(tensor: Tensor, store: np.ndarray) -> np.ndarray:
    """A tensor's raw elements in a buffer, in its own shape."""
    kind = ELEMENT[tensor.dtype]
    return np.ascontiguousarray(np.ndarray(tensor.shape, kind, store.data, tensor.offset, tensor.strides))


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64) if array.dtype.kind == "f" else np.asarray(array)
