"""What `compile` returns: ports, steps, engine programs, a report of what became of every operation, the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph
from openane.program import Layout, Program

if TYPE_CHECKING:
    from openane.compiler.patching import PatchedModel


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
    of the elements (its extents may differ from `shape`). Where `dtype` is not fp16 the host converts.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout

    @property
    def converted(self) -> bool:
        """Whether the host converts the element type."""
        return self.dtype != "fp16"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to execute: program number `program` of the model. Buffers are shared by name between steps."""

    program: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one operation: `tasks` are task numbers of the engine program, `reason` says why it is there."""

    operation: str
    where: Where
    reason: str = ""
    tasks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Model:
    """A compiled model. `inputs` and `outputs` are in the graph's order; buffers of a program carry the port names."""

    name: str
    target: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    programs: tuple[Program, ...]
    steps: tuple[Step, ...]
    report: tuple[Entry, ...]
    graph: Graph
    origin: dict[str, str] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return f"<Model {self.summary()}>"

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
        return len(self.programs) == 1 and len(self.steps) == 1 and not self.host_operations

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
        from openane.compiler.bundle import save_model
        save_model(self, Path(path), layout, header)

    def patch(self, arrays: Mapping[str, np.ndarray]) -> PatchedModel:
        """The model with the constants `arrays` names replaced, and the bytes that changed; see patching.patch."""
        from openane.compiler.patching import patch
        return patch(self, arrays)

    @staticmethod
    def load(path: str | Path) -> Model:
        """Reads a bundle back. FormatError when it is not one."""
        from openane.compiler.bundle import load_model
        return load_model(Path(path))

    def summary(self) -> str:
        """A few lines for people: ports, tasks, where operations went."""
        counts = {where: sum(entry.where is where for entry in self.report) for where in Where}
        lines = [f"{self.name}: {sum(len(p.tasks) for p in self.programs)} tasks for {self.target}"]
        for title, ports in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"  {title} {port.name}: {port.dtype} {list(port.shape)}" +
                      (" (converted to fp16 by the host)" if port.converted else "") for port in ports]
        lines.append("  operations: " + ", ".join(f"{n} {where}" for where, n in counts.items() if n))
        return "\n".join(lines)

    def _names(self) -> Sequence[str]:
        return [port.name for port in (*self.inputs, *self.outputs)]


