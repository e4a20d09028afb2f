"""The record of a compiled model: ports, steps, engine programs, states, a report of what became of every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Self

from openane.compiler.patch.patchable import Patchable
from openane.compiler.records import Concern, Entry, HostStep, KnownProgram, Port, ProgramStep, State, Where
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph
from openane.program import Program
from openane.record_classes import dataclass

Source = Graph | Callable[[], Graph]
"""A graph, or what reads it."""


@dataclass(frozen=True)
class CompiledModel:
    """The record of a compiled model; `api.Model` is one that can also be saved, loaded and patched.

    `inputs` and `outputs` are in the graph's order; buffers of a program carry the port names. `steps` are executed in
    order. `source` is the graph, or gives it when it is asked for. `others` are the other functions of the same file,
    which share its states, `other_targets` the same model for other generations. With `padding` the functions are one
    model in several shapes, and it has the numbers that inputs are padded with (see shapes.compile_shapes). `concerns`:
    numbers that fp16 or the engine will not hold. `known_programs` are what a model just compiled remembers of its
    programs, `patchable` where its constants lie, for new weights. `stated`: metadata of a graph that is not read yet.
    """

    name: str
    target: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    programs: tuple[Program, ...]
    steps: tuple[ProgramStep | HostStep, ...]
    report: tuple[Entry, ...]
    source: Source = field(compare=False)
    concerns: tuple[Concern, ...] = field(default=(), compare=False)
    states: tuple[State, ...] = ()
    others: tuple[Self, ...] = ()
    other_targets: tuple[Self, ...] = ()
    origin: dict[str, str] = field(default_factory=dict, compare=False)
    known_programs: tuple[KnownProgram, ...] = field(default=(), compare=False, repr=False)
    padding: Mapping[str, float] | None = None
    patchable: Patchable | None = field(default=None, compare=False, repr=False)
    stated: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

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
    def metadata(self) -> Mapping[str, str]:
        """What is said of the graph, which is not read for it."""
        return self.source.metadata if isinstance(self.source, Graph) else self.stated

    @property
    def host_steps(self) -> tuple[HostStep, ...]:
        """The steps the host computes, in order."""
        return tuple(step for step in self.steps if not isinstance(step, ProgramStep))

    def with_functions(self, others: Sequence[Self]) -> Self:
        """The model with other functions beside its own."""
        return replace(self, others=tuple(others))

    @property
    def functions(self) -> Mapping[str, Self]:
        """Every function by name, this one first."""
        return {model.name: model for model in (self, *self.others)}

    @property
    def targets(self) -> Mapping[str, Self]:
        """The model by each generation it was compiled for, this one first. They have the same functions and ports."""
        own = replace(self, other_targets=()) if self.other_targets else self
        return {model.target: model for model in (own, *self.other_targets)}

    def for_target(self, target: str) -> Self:
        """The model for one generation (`h16`). UnsupportedError lists those it was compiled for."""
        found = self.targets.get(target)
        if found is None:
            raise UnsupportedError(f"target {target!r}", f"model {self.name!r} was not compiled for it", found=target,
                                   limit=", ".join(self.targets), remedy="compile the model for all it is to run on: "
                                   f"ane compile MODEL --target {','.join((*self.targets, target))} -o NAME.ane")
        return found

    def with_targets(self, others: Sequence[Self]) -> Self:
        """The model together with itself compiled for other generations. GraphError where a generation is there twice,
        or functions or ports differ."""
        own = _interface(self)
        seen = {self.target}
        for other in others:
            if other.target in seen:
                raise GraphError(f"model {self.name!r} is given twice for {other.target}")
            seen.add(other.target)
            if other.other_targets or _interface(other) != own:
                raise GraphError(f"model {other.name!r} for {other.target} has other functions or ports than "
                                 f"{self.name!r} for {self.target}: one model has the same for every target")
        return replace(self, other_targets=tuple(others))

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
    def one_program(self) -> bool:
        """Whether the model is exactly one engine program and nothing else."""
        return len(self.programs) == len(self.steps) == 1 and not self.host_operations \
            and not self.others and not self.other_targets

    def port(self, name: str) -> Port:
        """The input or output called `name`. GraphError lists the known ones."""
        for port in (*self.inputs, *self.outputs):
            if port.name == name:
                return port
        raise GraphError(f"no port is called {name!r}; there are {', '.join(self._names())}")

    def _said(self, port: Port) -> str:
        converted = any(e.where is Where.PORT and e.operation == f"port {port.name!r}" for e in self.report)
        return f"{port.name}: {port.dtype} {list(port.shape)}{' (converted to fp16 by the host)' if converted else ''}"

    def summary(self) -> str:
        """A few lines for people: ports, tasks, where operations went."""
        counts = {where: sum(entry.where is where for entry in self.report) for where in Where}
        several = f" in {len(self.programs)} programs" if len(self.programs) != 1 else ""
        lines = [f"{self.name}: {sum(len(p.tasks) for p in self.programs)} tasks{several} for {self.target}"]
        lines += [f"  input {self._said(port)}" for port in self.inputs]
        lines += [f"  output {self._said(port)}" for port in self.outputs]
        lines += [f"  state {state.name}: {state.port.dtype} {list(state.port.shape)}" for state in self.states]
        lines += [f"  warning: {concern}" for concern in self.concerns]
        lines.append("  operations: " + ", ".join(f"{n} {where}" for where, n in counts.items() if n))
        lines += [f"  function {other.summary()}" for other in self.others]
        return "\n".join([*lines, *self._also()])

    def _also(self) -> list[str]:
        """A line with the other targets, where there are any."""
        others = ", ".join(other.target for other in self.other_targets)
        return [f"  also compiled for {others}"] if others else []

    def _names(self) -> Sequence[str]:
        return [port.name for port in (*self.inputs, *self.outputs)]


def _interface(model: CompiledModel) -> list[tuple[object, ...]]:
    """What a model is to those who run it, whatever it was compiled for: functions, and ports without layouts."""
    return [(name, *(tuple((port.name, port.shape, port.dtype) for port in ports) for ports in (
        each.inputs, each.outputs, [state.port for state in each.states])))
        for name, each in model.functions.items()]
