"""What a compiled model is made of: ports, states, steps, and what is said about its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from openane.engine import DType, Operation
from openane.errors import GraphError
from openane.graph import Graph, Node, Value, numpy_type, substituted
from openane.program import Layout, Program
from openane.record_classes import dataclass

if TYPE_CHECKING:
    from openane.compiler.buffers.storage import VirtualBuffer

Watch = Callable[[str, str], None]
"""Called with the name of a stage of a compilation (a file name in order of time) and its text."""


class Where(StrEnum):
    """Where an operation of the model is carried out."""

    ENGINE = "engine"  # engine tasks of its own
    FUSED = "fused"    # part of another operation's task
    FREE = "free"      # a change of shape or strides: nothing is executed
    FOLDED = "folded"  # computed when the model was compiled
    PORT = "port"      # done by the host while it packs inputs or unpacks outputs
    HOST = "host"      # computed by the host


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a model.

    `shape` and `dtype` are the model's (MIL names); `layout` is how the tensor lies in its buffer, in row-major order
    of the elements (its extents may differ from `shape`). bool lies there as uint8 0 and 1; where `dtype` has another
    size than the layout's elements the host converts.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout

    @property
    def converted(self) -> bool:
        """Whether the host converts the element type."""
        return self.layout.dtype is DType.FLOAT16 and self.dtype != "fp16"


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """An engine program to execute: number `program` of the model. Buffers are shared by name between steps."""

    program: int


@dataclass(frozen=True, slots=True)
class HostStep:
    """One operation computed by its reference on the host. Buffers are named after its operands and results."""

    node: Node

    @property
    def operands(self) -> tuple[Value, ...]:
        """What it reads while the model runs."""
        return tuple({id(value): value for value in self.node.values() if not value.constant}.values())

    @property
    def results(self) -> tuple[Value, ...]:
        """What it computes."""
        return self.node.outputs

    def compute(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results by name, in the element types the model states, for operands by name.

        Real numbers are computed in float32. GraphError when an operand is missing.
        """
        from openane.ops.evaluate import evaluate_node

        missing = [value.name for value in self.operands if value.name not in arrays]
        if missing:
            raise GraphError(f"{self.node.label}: operand {missing[0]!r} has not been computed")
        found = evaluate_node(self.node, {id(value): _working(arrays[value.name]) for value in self.operands})
        with np.errstate(all="ignore"):
            return {value.name: np.asarray(array).astype(numpy_type(value.dtype)).reshape(value.shape)
                    for value, array in zip(self.results, found, strict=True)}

    def graph(self, name: str) -> Graph:
        """The operation as a function called `name`: operands in, results out."""
        return Graph(self.operands, (self.node,), self.results, name)

    @staticmethod
    def of(graph: Graph, operands: Sequence[str], results: Sequence[str]) -> HostStep:
        """The step that `graph` gives back as a function, its buffers called as stated. GraphError when it is none."""
        if len(graph.nodes) != 1 or len(graph.inputs) != len(operands) or len(graph.outputs) != len(results) \
                or graph.outputs != graph.nodes[0].outputs:
            raise GraphError(f"function {graph.name!r} is not one operation of {len(operands)} operands and "
                             f"{len(results)} results")
        names = dict(zip(map(id, (*graph.inputs, *graph.outputs)), (*operands, *results), strict=True))
        renamed = {id(value): replace(value, name=names[id(value)]) for value in (*graph.inputs, *graph.outputs)}
        node = substituted(graph.nodes[0], renamed)
        return HostStep(replace(node, outputs=tuple(renamed[id(value)] for value in node.outputs)))


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that persists between runs: `port` is the buffer a run reads, `next` the name of the buffer in which
    it leaves the new contents (None: no run changes it)."""

    port: Port
    next: str | None = None

    @property
    def name(self) -> str:
        """Name of the state and of its buffer."""
        return self.port.name


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one operation: `tasks` are task numbers of engine program number `program`, `reason` says why it
    is there."""

    operation: str
    where: Where
    reason: str = ""
    tasks: tuple[int, ...] = ()
    program: int = 0


@dataclass(frozen=True, slots=True)
class Concern:
    """A number that fp16 or the engine does not hold: which operation, what, the value found, the limit, what helps.
    A limit of 0 is none: something is said of more numbers than one."""

    operation: str
    what: str
    found: float
    limit: float
    remedy: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.said}; {self.remedy}"

    @property
    def said(self) -> str:
        """What, with the numbers there are."""
        return f"{self.what} (found {self.found:.4g}, limit {self.limit:.6g})" if self.limit else self.what


@dataclass(frozen=True, slots=True)
class KnownProgram:
    """An engine program, the lowered operations and buffers it was made of, and for each task the number of its
    operation. The same operations become the same program, constants apart."""

    operations: tuple[Operation, ...]
    blocks: Mapping[int, VirtualBuffer]
    program: Program
    origins: tuple[int, ...]


def _working(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "f" else array
