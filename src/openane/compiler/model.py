"""What `compile` returns: ports, steps, engine programs, states, a report of what became of every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from openane.compiler.inspect.fp16_concerns import Concern
from openane.engine import DType
from openane.errors import GraphError
from openane.graph import Graph
from openane.program import Layout, Program

if TYPE_CHECKING:
    from openane.compiler.partition.host_steps import HostStep
    from openane.compiler.partition.program import Lowered
    from openane.compiler.patch.writer import Patchable
    from openane.compiler.patch_model import PatchedModel


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
class Step:
    """An engine program to execute: number `program` of the model. Buffers are shared by name between steps."""

    program: int


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


@dataclass(frozen=True)
class Model:
    """A compiled model. `inputs` and `outputs` are in the graph's order; buffers of a program carry the port names.

    `steps` are executed in order. `source` is the graph, or gives it when it is asked for. `others` are the other
    functions of the same file, which share its states. `concerns`: numbers that fp16 or the engine will not hold.
    `lowered` is what a model just compiled remembers of it, `patchable` where its constants lie, for new weights.
    """

    name: str
    target: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    programs: tuple[Program, ...]
    steps: tuple[Step | HostStep, ...]
    report: tuple[Entry, ...]
    source: Graph | Callable[[], Graph] = field(compare=False)
    concerns: tuple[Concern, ...] = field(default=(), compare=False)
    states: tuple[State, ...] = ()
    others: tuple[Model, ...] = ()
    origin: dict[str, str] = field(default_factory=dict, compare=False)
    lowered: tuple[Lowered, ...] = field(default=(), compare=False, repr=False)
    patchable: Patchable | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"<Model {self.summary()}>"

    @property
    def graph(self) -> Graph:
        """The graph the model was compiled from. FormatError when a bundle does not hold it any more."""
        if not isinstance(self.source, Graph):
            object.__setattr__(self, "source", self.source())
        assert isinstance(self.source, Graph)
        return self.source

    @property
    def host_steps(self) -> tuple[HostStep, ...]:
        """The steps the host computes, in order."""
        return tuple(step for step in self.steps if not isinstance(step, Step))

    def with_functions(self, others: Sequence[Model]) -> Model:
        """The model with other functions beside its own."""
        return replace(self, others=tuple(others))

    @property
    def functions(self) -> Mapping[str, Model]:
        """Every function by name, this one first."""
        return {model.name: model for model in (self, *self.others)}

    @property
    def program(self) -> Program:
        """The only engine program. GraphError when there are several."""
        if len(self.programs) != 1:
            raise GraphError(f"model {self.name!r} has {len(self.programs)} engine programs, not one")
        return self.programs[0]

    @property
    def host_operations(self) -> tuple[Entry, ...]:
        """Operations the host computes, packing of ports apart."""
        return tuple(entry for entry in self.report if entry.where is Where.HOST)

    @property
    def plain(self) -> bool:
        """Whether the model is exactly one engine program and nothing else."""
        return len(self.programs) == len(self.steps) == 1 and not self.host_operations and not self.others

    def port(self, name: str) -> Port:
        """The input or output called `name`. GraphError lists the known ones."""
        for port in (*self.inputs, *self.outputs):
            if port.name == name:
                return port
        raise GraphError(f"no port is called {name!r}; there are {', '.join(self._names())}")

    def save(self, path: str | Path, *, layout: str = "macos26", header: int = 0x1000) -> None:
        """Writes a bundle (`NAME.ane`), or `.hwx` / `.anec` for a model that is one engine program.

        `layout` is the form of a `.hwx`: `macos26`, or `compat` for the Linux tools. `header` is the size of an
        `.anec`'s header, 0x1000 or 0x800. GraphError, ProgramError when the model has no such form.
        """
        from openane.compiler.artifact.bundle import save_model
        save_model(self, Path(path), layout, header)

    def patch(self, arrays: Mapping[str, np.ndarray]) -> PatchedModel:
        """The model with the constants `arrays` names replaced, and the bytes that changed; see patching.patch. A model
        from a file or the cache is patched as one just compiled is."""
        from openane.compiler.patch_model import patch
        return patch(self, arrays)

    @staticmethod
    def load(path: str | Path) -> Model:
        """Reads a bundle back. FormatError when it is not one."""
        from openane.compiler.artifact.bundle import load_model
        return load_model(Path(path))

    def summary(self) -> str:
        """A few lines for people: ports, tasks, where operations went."""
        counts = {where: sum(entry.where is where for entry in self.report) for where in Where}
        several = f" in {len(self.programs)} programs" if len(self.programs) != 1 else ""
        lines = [f"{self.name}: {sum(len(p.tasks) for p in self.programs)} tasks{several} for {self.target}"]
        for title, ports in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"  {title} {port.name}: {port.dtype} {list(port.shape)}" +
                      (" (converted to fp16 by the host)" if port.converted else "") for port in ports]
        lines += [f"  state {state.name}: {state.port.dtype} {list(state.port.shape)}" for state in self.states]
        lines += [f"  warning: {concern}" for concern in self.concerns]
        lines.append("  operations: " + ", ".join(f"{n} {where}" for where, n in counts.items() if n))
        lines += [f"  function {other.summary()}" for other in self.others]
        return "\n".join(lines)

    def _names(self) -> Sequence[str]:
        return [port.name for port in (*self.inputs, *self.outputs)]


