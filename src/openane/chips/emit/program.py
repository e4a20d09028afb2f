"""Chains of operations to task descriptors, and descriptors between container layouts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.emit.flow import Flow, flows
from openane.chips.emit.operation import address_names, addresses, encode_operation
from openane.chips.emit.policy import Policy
from openane.chips.emit.repeats import forms, task_key
from openane.chips.emit.rings import Planner, TilePlan
from openane.chips.emit.schedule import (
    coefficient_writers,
    dependency_names,
    hazard_fields,
    header_fields,
    hint_fields,
    stated_fields,
    view_fields,
)
from openane.chips.writer import CommonTask, TaskBody, Writer
from openane.engine import Operation, Space, sources
from openane.errors import ProgramError


def emit_program(operations: Sequence[Operation], policy: Policy, writer: Writer,
                 layout: str) -> tuple[EmittedTask, ...]:
    """Descriptors of `operations` in order, each with its place in the program. ProgramError names the task an
    operation fails in."""
    if not operations:
        raise ProgramError("a program needs at least one operation")
    emission = _Emission(operations, policy, writer, layout)
    return writer.link((emission.body(index) for index in range(len(operations))), layout)


class _Emission:
    """The tasks of one program. Those alike but for their addresses are encoded once."""

    def __init__(self, operations: Sequence[Operation], policy: Policy, writer: Writer, layout: str) -> None:
        for index in range(len(operations)):
            _check_chain(index, operations)
        self._operations, self._policy, self._writer, self._layout = operations, policy, writer, layout
        self._scratch = policy.limits.slots.scratch
        self._flows = flows(operations, policy.limits)
        self._forms = forms(operations)
        self._tiles = _tiles(operations, self._forms, self._flows, policy)
        self._writers = coefficient_writers(operations, self._scratch)
        self._known: dict[Hashable, CommonTask] = {}

    def body(self, index: int) -> TaskBody:
        """A task without its place in the program."""
        operation, flow, plan = self._operations[index], self._flows[index], self._tiles[index]
        last = index == len(self._operations) - 1
        followed = self._tiles[index + 1].patch if not last and self._flows[index + 1].pipelined else None
        try:
            hazards = hazard_fields(index, self._operations, flow, self._tiles)
            key = task_key(self._forms[index], plan, followed, flow), tuple(hazards.items()), index == 0, last
            if key not in self._known:
                fields = encode_operation(operation, plan, self._policy, followed, flow.surface)
                for more in (hint_fields(operation, flow, self._policy), stated_fields(operation, flow, self._policy),
                             view_fields(flow), header_fields(operation, flow, index == 0, last, self._policy),
                             hazards):
                    fields |= more
                names = (*address_names(operation, plan, self._policy.limits.cores),
                         *dependency_names(operation, self._scratch))
                self._known[key] = CommonTask(self._writer, self._writer.task(fields, {}, self._layout), names)
        except ProgramError as error:
            raise _named(index, operation, error) from error
        return TaskBody(self._known[key], (*addresses(operation, plan), *self._writers[index]))


def _tiles(operations: Sequence[Operation], alike: Sequence[int], related: Sequence[Flow],
           policy: Policy) -> list[TilePlan]:
    planner = Planner(operations, alike, policy)
    tiles: list[TilePlan] = []
    for index, operation in enumerate(operations):
        before = tiles[-1] if index and operations[index - 1].result.space is Space.CHAIN else None
        try:
            tiles.append(planner.plan(index, before, related[index]))
        except ProgramError as error:
            raise _named(index, operation, error) from error
    return tiles


def _named(index: int, operation: Operation, error: ProgramError) -> ProgramError:
    """The error of a task, naming it and its operation."""
    return ProgramError(f"{type(operation).__name__}: {error}", task=index)


def relayout_program(tasks: Sequence[TaskFields], writer: Writer, layout: str, base_registers: Sequence[str],
                     links: Sequence[str], slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
    """The same tasks in another layout with base-address slots renumbered (`slots`: old to new). `base_registers` name
    slots where they are enabled; `links` say a task's place in its program."""
    bodies = []
    for fields in tasks:
        values = dict(fields.values)
        for name in base_registers:
            if values.get(f"{name}En"):
                old = int(values[name])
                values[name] = slots.get(old, old)
        for name in links:
            values.pop(name, None)
        bodies.append(TaskBody(CommonTask(writer, writer.task(values, fields.rest, layout), ()), ()))
    return writer.link(bodies, layout)


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


__all__ = ["emit_program", "relayout_program"]
