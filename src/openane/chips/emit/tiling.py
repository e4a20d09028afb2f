"""How the tasks of a program walk what they stream, and whether all has room in L2: known before any is encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openane.chips.emit.flow import Flow, flows
from openane.chips.emit.policy import Policy
from openane.chips.emit.repeats import forms
from openane.chips.emit.rings import Planner, TilePlan
from openane.engine import Operation, Space, sources
from openane.errors import ProgramError
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Tiling:
    """What data passes between the operations of a program, which of them are alike but for their addresses (see
    `flow` and `repeats`), and the tiles of each. `refused` is the number of the first operation that breaks `rule`: of
    it and those behind there are no tiles. `cramped` are the numbers of all that have no room."""

    flows: Sequence[Flow]
    forms: Sequence[int]
    plans: Sequence[TilePlan]
    refused: int | None = None
    rule: str = ""
    cramped: tuple[int, ...] = ()


def tiled(operations: Sequence[Operation], policy: Policy) -> Tiling:
    """The tiles of operations with addresses. ProgramError where no register can express an operand."""
    for index in range(len(operations)):
        _check_chain(index, operations)
    related, alike = flows(operations, policy.limits), forms(operations)
    planner = Planner(operations, alike, policy)
    plans: list[TilePlan] = []
    for index, operation in enumerate(operations):
        before = plans[-1] if index and operations[index - 1].result.space is Space.CHAIN else None
        try:
            plan = planner.plan(index, before, related[index])
        except ProgramError as error:
            raise named(index, operation, error) from error
        if plan is None:
            cramped = (index, *_cramped(index + 1, operations, planner, related))
            return Tiling(related, alike, plans, index, f"one row of each streamed operand must fit the "
                          f"{policy.limits.l2_size} bytes of L2 beside what is resident there", cramped)
        plans.append(plan)
    return Tiling(related, alike, plans)


def _cramped(start: int, operations: Sequence[Operation], planner: Planner, related: Sequence[Flow]) -> Iterator[int]:
    """The operations from `start` on that find no room; those that are handed their source are not looked at."""
    for index in range(start, len(operations)):
        if operations[index - 1].result.space is not Space.CHAIN and planner.plan(index, None, related[index]) is None:
            yield index


def named(index: int, operation: Operation, error: ProgramError) -> ProgramError:
    """The error of a task, naming it and its operation."""
    return ProgramError(f"{type(operation).__name__}: {error}", task=index)


def _check_chain(index: int, operations: Sequence[Operation]) -> None:
    """A chained source is the result of the operation just before, of the same size."""
    reads = [a for a in sources(operations[index]) if a.space is Space.CHAIN]
    before = operations[index - 1].result if index else None
    if reads and (before is None or before.space is not Space.CHAIN or before.elements != reads[0].elements):
        raise ProgramError("a chained operand must be the result of the task before", task=index)
    if operations[index].result.space is Space.CHAIN:
        after = operations[index + 1] if index + 1 < len(operations) else None
        if after is None or sources(after)[0].space is not Space.CHAIN:
            raise ProgramError("a chained result must be the first operand of the next task", task=index)
