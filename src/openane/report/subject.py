"""What a profile is made of: engine programs in the order they run, and what each task came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from openane.program import Program, Role
from openane.record_classes import dataclass

NOBODY = ""


@dataclass(frozen=True, slots=True)
class ProfileSubject:
    """Programs in order. `nodes` names the model's operation behind a task: (program, task) to its label; `fused` the
    operations that run inside another's task, by that operation's label; `host` those the host computes."""

    name: str
    target: str
    programs: tuple[Program, ...]
    nodes: Mapping[tuple[int, int], str] = field(default_factory=dict)
    fused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    host: tuple[str, ...] = ()

    @staticmethod
    def of_program(program: Program) -> ProfileSubject:
        """A program that came without its model."""
        return ProfileSubject(program.name, program.chip, (program,))

    def node(self, program: int, task: int) -> str:
        """The model's operation a task is part of; empty when that is not known."""
        return self.nodes.get((program, task), NOBODY)

    def memory(self) -> dict[str, int]:
        """Bytes of DRAM by purpose: constants, task descriptors, inputs, outputs, intermediates, states."""
        found = {"constants": sum(len(program.constants) for program in self.programs),
                 "task descriptors": sum(max((task.offset + task.size for task in program.tasks), default=0)
                                         for program in self.programs)}
        seen: set[tuple[str, str]] = set()
        names = {Role.INPUT: "inputs", Role.OUTPUT: "outputs", Role.SCRATCH: "intermediates", Role.STATE: "states"}
        for number, program in enumerate(self.programs):
            for buffer in program.buffers:
                key = (names[buffer.role], buffer.name if buffer.role is not Role.SCRATCH else f"{number}")
                if key not in seen:
                    seen.add(key)
                    found[key[0]] = found.get(key[0], 0) + buffer.size
        return found
