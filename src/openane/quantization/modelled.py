"""What a model's programs hold and how long they take, before and after its weights are compressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openane.chips import get_chip
from openane.compiler import Model
from openane.compiler.records import ProgramStep
from openane.engine import NeuralOperation, Packing
from openane.errors import ProgramError
from openane.program import Program
from openane.report import ProfileSubject, profile


@dataclass(frozen=True, slots=True)
class Modelled:
    """A compiled model on a chip: bytes of its programs' constants, coefficients fetched in one inference, the tasks
    that fetch them and those of them whose weights are stored without zeros, and seconds of one inference, modelled
    (`kind` says how surely)."""

    chip: str
    constants: int
    fetched: int
    tasks: int
    without_zeros: int
    seconds: float
    kind: str


def modelled(model: Model, chip: str | None = None) -> Modelled:
    """A compiled model on a chip, or the usual one of its target. ProgramError for a task that is not described."""
    programs = tuple(model.programs[step.program] for step in model.steps if isinstance(step, ProgramStep))
    found = profile(ProfileSubject(model.name, model.target, programs), chip or get_chip(model.target).facts.chip)
    packings = [packing for program in programs for packing in _packings(program)]
    return Modelled(found.rates.chip, sum(len(program.constants) for program in model.programs),
                    found.bytes_by_kind()["coefficients"], len(packings), packings.count(Packing.SPARSE),
                    found.seconds, str(found.time_kind))


def _packings(program: Program) -> Sequence[Packing]:
    """How weights lie, of every task that fetches some."""
    chip = get_chip(program.chip)
    found: list[Packing] = []
    for task in program.tasks:
        try:
            operation = chip.operation(task.words)
        except ProgramError:
            continue
        coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
        if coefficients is not None and coefficients.weights is not None and not coefficients.runtime:
            found.append(coefficients.packing)
    return found


