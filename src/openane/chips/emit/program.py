"""Emits a program: engine operations become task descriptors, and descriptors are brought from one container layout to
another."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.emit.exponents import Contents, exponent_fields, exponent_tables
from openane.chips.emit.live import LIVE_OUTS, live_outs
from openane.chips.emit.operation import encode_operation, placed
from openane.chips.emit.policy import Policy
from openane.chips.emit.repeats import task_key
from openane.chips.emit.schedule import (
    coefficient_writers,
    dependency_names,
    hazard_fields,
    header_fields,
    hint_fields,
    stated_fields,
    view_fields,
)
from openane.chips.emit.tiling import Tiling, named, tiled
from openane.chips.writer import CommonTask, TaskBody, Writer
from openane.engine import Operation
from openane.errors import ProgramError


def emit_program(operations: Sequence[Operation], policy: Policy, writer: Writer,
                 layout: str, tiling: Tiling | None = None,
                 contents: Contents | None = None) -> tuple[EmittedTask, ...]:
    """Descriptors of `operations` in order, each with its place in the program; `tiling` is theirs where it is known,
    `contents` the constants behind base-address slots.
    ProgramError names the task an operation fails in."""
    if not operations:
        raise ProgramError("a program needs at least one operation")
    tiling = tiling or tiled(operations, policy)
    if tiling.refused is not None:
        raise named(tiling.refused, operations[tiling.refused],
                    ProgramError(f"{tiling.rule}; split the channels or the width"))
    emission = _Emission(operations, tiling, policy, writer, layout, contents or {})
    return writer.link((emission.body(index) for index in range(len(operations))), layout)


class _Emission:
    """The tasks of one program. Those alike but for their addresses are encoded once."""

    def __init__(self, operations: Sequence[Operation], tiling: Tiling, policy: Policy, writer: Writer,
                 layout: str, contents: Contents) -> None:
        self._operations, self._policy, self._writer, self._layout = operations, policy, writer, layout
        self._scratch = policy.limits.slots.scratch
        self._flows, self._forms, self._tiles = tiling.flows, tiling.forms, tiling.plans
        self._writers = coefficient_writers(operations, self._scratch)
        self._live = live_outs(operations, policy.limits.l2_size) if policy.frames is not None else []
        self._exponents = exponent_tables(operations, contents)
        self._known: dict[Hashable, CommonTask] = {}

    def body(self, index: int) -> TaskBody:
        """A task without its place in the program."""
        operation, flow, plan = self._operations[index], self._flows[index], self._tiles[index]
        last = index == len(self._operations) - 1
        followed = self._tiles[index + 1].patch if not last and self._flows[index + 1].pipelined else None
        try:
            hazards = hazard_fields(index, self._operations, flow, self._tiles, self._policy)
            places = placed(operation, plan, self._policy)
            names = tuple([name for name, _ in places])
            key = task_key(self._forms[index], plan, followed, flow), tuple(hazards.items()), index == 0, last, names, \
                self._exponents[index]
            if key not in self._known:
                fields = encode_operation(operation, plan, self._policy, followed, flow.surface)
                for more in (hint_fields(operation, flow, self._policy), stated_fields(operation, flow, self._policy),
                             view_fields(flow, self._policy),
                             header_fields(operation, flow, index == 0, last, self._policy, self._exponents[index]),
                             exponent_fields(operation, self._exponents[index]), hazards):
                    fields |= more
                numbers = (*names, *dependency_names(operation, self._scratch), *((LIVE_OUTS,) if self._live else ()))
                task = self._writer.task(fields, {}, self._layout, numbers, first=index == 0, last=last)
                self._known[key] = CommonTask(self._writer, task, numbers)
        except ProgramError as error:
            raise named(index, operation, error) from error
        live = (self._live[index],) if self._live else ()
        return TaskBody(self._known[key], (*[number for _, number in places], *self._writers[index], *live))


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


__all__ = ["emit_program", "relayout_program"]
