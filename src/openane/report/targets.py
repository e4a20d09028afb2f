"""What several targets make of one model, side by side: sizes, tasks and times of each, and operations that differ.

Everything is made of the profiles of the compiled models: counts and bytes are exact, times are modelled or
extrapolated, as `report.profile` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openane.record_classes import dataclass
from openane.report.document import MICRO
from openane.report.profile import Profile

NOT_THERE = "-"
"""What stands where a target has nothing to say of an operation."""


@dataclass(frozen=True, slots=True)
class PlacedOperation:
    """An operation of a model as one target has it: where it runs, why, and how many tasks it has of its own."""

    operation: str
    where: str
    tasks: int = 0
    reason: str = ""

    @property
    def place(self) -> int | str:
        """The number of its tasks, or where it is without any."""
        return self.tasks or self.where


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What one target makes of a model: `profile` and `operations`, or why it is refused (`refusal`). `name` is what
    the target was asked for by, `chips` are those its generation is in, `function` is named of a model of several."""

    name: str
    generation: str
    chips: tuple[str, ...]
    profile: Profile | None = None
    operations: tuple[PlacedOperation, ...] = ()
    refusal: str = ""
    function: str = ""
    from_cache: bool = False

    @property
    def label(self) -> str:
        """What heads its column."""
        return f"{self.name} {self.function}" if self.function else self.name

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of task descriptors (`program`), `constants` and intermediate results in memory (`scratch`)."""
        found = {} if self.profile is None else self.profile.subject.memory()
        return {"program": found.get("task descriptors", 0), "constants": found.get("constants", 0),
                "scratch": found.get("intermediates", 0)}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation and what every target that compiles the model has of it; None where it has no such operation."""

    operation: str
    found: tuple[PlacedOperation | None, ...]

    @property
    def places(self) -> tuple[int | str, ...]:
        """Per target the number of tasks, or where the operation is without any of its own."""
        return tuple(NOT_THERE if each is None else each.place for each in self.found)

    @property
    def differs(self) -> bool:
        """Whether targets have it in different places, or in different numbers of tasks."""
        return len(set(self.places)) > 1


def compiled(results: Sequence[TargetResult]) -> list[TargetResult]:
    """The results of targets that take the model."""
    return [result for result in results if result.profile is not None]


def operation_rows(results: Sequence[TargetResult]) -> list[OperationRow]:
    """Every operation that any of the targets has, in the order of the first of them that has it; operations that only
    a later target has come last. Targets that refuse the model have no column."""
    tables = [{each.operation: each for each in result.operations} for result in compiled(results)]
    names = dict.fromkeys(name for table in tables for name in table)
    return [OperationRow(name, tuple(table.get(name) for table in tables)) for name in names]


def targets_document(results: Sequence[TargetResult]) -> dict[str, Any]:
    """Everything, as plain data: times in microseconds, sizes in bytes. An operation's `places` are in the order of
    `columns`."""
    rows = operation_rows(results)
    return {"targets": [result_document(result) for result in results],
            "columns": [result.label for result in compiled(results)],
            "operations": [{"operation": row.operation, "differs": row.differs, "places": list(row.places),
                            "where": [None if each is None else each.where for each in row.found],
                            "reasons": [None if each is None else each.reason for each in row.found]} for row in rows]}


def result_document(result: TargetResult) -> dict[str, Any]:
    """One target as plain data; one that refuses the model has no numbers."""
    about = {"target": result.name, "generation": result.generation, "chips": list(result.chips),
             "function": result.function or None, "refused": result.refusal or None}
    profile = result.profile
    if profile is None:
        return about
    return about | {
        "from_cache": result.from_cache, "programs": len(profile.programs), "tasks": len(profile.rows),
        **{f"{name.removesuffix('s')}_bytes": size for name, size in result.memory.items()},
        "host_operations": list(profile.subject.host), "chip": profile.rates.chip,
        "engine_us": profile.engine_seconds * MICRO, "time_us": profile.seconds * MICRO,
        "engine_kind": str(profile.engine_kind), "times": str(profile.time_kind), "times_without": profile.without}
