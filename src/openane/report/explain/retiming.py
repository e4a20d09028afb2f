"""What changed tasks would take: the program is timed again, so a gain is never more than the model of time gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openane.engine import (
    Access,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Operation,
    Space,
    sources,
    with_operands,
)
from openane.report.explain.model import Change, Finding, Place
from openane.report.profile import Profile
from openane.timing import schedule

AROUND = 2
"""Tasks before and behind the changed ones that are timed with them: coefficients are fetched one task ahead."""


class Retiming:
    """Times changed programs. Changes of one task that come from several findings are made one after the other."""

    def __init__(self, profile: Profile) -> None:
        self._rates = profile.rates
        self._programs = [[task.operation for task in program.tasks] for program in profile.programs]

    def saved(self, findings: Iterable[Finding]) -> float:
        """Seconds less with all the changes made."""
        changes: dict[Place, list[Change]] = {}
        for finding in findings:
            for place, change in finding.changes.items():
                changes.setdefault(place, []).append(change)
        return sum(self._program(number, {place[1]: made for place, made in changes.items() if place[0] == number})
                   for number in range(len(self._programs)))

    def _program(self, number: int, changes: Mapping[int, list[Change]]) -> float:
        if not changes:
            return 0.0
        first, last = max(0, min(changes) - AROUND), max(changes) + AROUND + 1
        before = self._programs[number][first:last]
        after = [made for index, operation in enumerate(before, first)
                 if (made := _changed(operation, changes.get(index, ()))) is not None]
        return max(0.0, schedule(before, self._rates).seconds - schedule(after, self._rates).seconds)


def _changed(operation: Operation, changes: Iterable[Change]) -> Operation | None:
    known: Operation | None = operation
    for change in changes:
        if known is not None:
            known = change(known)
    return known


def gone(operation: Operation) -> None:
    """The change to no task at all."""


def with_accesses(operation: Operation, changed: Mapping[int, Access], result: Access | None = None) -> Operation:
    """The operation with some operands, by their number, and perhaps its result replaced."""
    names = ("source",) if hasattr(operation, "source") else ("first", "second")
    changes: dict[str, Access | Coefficients | None] = {names[number]: access for number, access in changed.items()}
    return with_operands(operation, changes if result is None else {**changes, "result": result})


def in_l2(access: Access) -> Access:
    """The same elements in L2."""
    return Access(space=Space.L2, shape=access.shape, strides=access.strides, dtype=access.dtype,
                  interleave=access.interleave, packed=access.packed)


def used(access: Access) -> int:
    """Bytes of the elements an access reaches, broadcast ones once."""
    count = access.dtype.size
    for extent, stride in zip(access.shape, access.strides, strict=True):
        count *= extent if stride else 1
    return count


def in_full_bursts(operation: Operation) -> Operation:
    """The operation with one row a channel of its operands and result in memory."""
    return with_accesses(operation, {number: _one_row(access) for number, access in enumerate(sources(operation))},
                         _one_row(operation.result))


def _one_row(access: Access) -> Access:
    if access.space is not Space.MEMORY or access.repeats:
        return access
    n, c, d, h, w = access.shape
    row = d * h * w * access.dtype.size
    return Access(slot=access.slot, offset=access.offset, shape=(n, c, 1, 1, d * h * w), dtype=access.dtype,
                  strides=(c * row, row, 0, 0, access.dtype.size), copy=access.copy)


def with_stream_part(given: Coefficients, part: float) -> Coefficients:
    """Coefficients of which a part is read."""
    return given.relocated(lambda section: CoefficientSection.of(section.slot, [
        CoefficientStream(core, offset, max(1, int(size * part))) for core, offset, size in section.streams]))
