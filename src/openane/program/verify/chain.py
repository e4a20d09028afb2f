"""Rules about the chain of task descriptors, and about each descriptor on its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from openane.chips import Breach, Rule, TaskFields, TaskLink
from openane.errors import ProgramError
from openane.program.verify.context import VerifyContext
from openane.program.verify.violation import Found, Violation, violation
from openane.rounding import round_up

LARGEST_STEP = 0x1000


def text(context: VerifyContext) -> Found:
    """Tasks must lie in the text without overlapping, the first where the generation's texts begin, each at a multiple
    of the engine's fetch granule, and the text must not be mostly gaps."""
    tasks, step = context.program.tasks, context.chip.limits.task_alignment
    start = context.chip.limits.first_task
    if tasks and tasks[0].offset != start:
        yield 0, Breach("offset", hex(tasks[0].offset), hex(start))
    for index, task in enumerate(tasks):
        if task.offset < 0 or task.offset % step:
            yield index, Breach("offset", hex(task.offset), f"a multiple of {step}")
        if task.offset + task.size > LARGEST_STEP * len(tasks):
            yield index, Breach("offset", hex(task.offset), hex(LARGEST_STEP * len(tasks)))
    placed = sorted(enumerate(tasks), key=lambda pair: pair[1].offset)
    for (_, before), (index, after) in pairwise(placed):
        if after.offset < before.offset + before.size:
            yield index, Breach("offset", hex(after.offset), f"{before.offset + before.size:#x} or more")


def links(context: VerifyContext) -> Found:
    """Each task must link to the next one, with its offset and its true size, and the last one to none; where tasks lie
    one after another each must state its size and begin where the one before ends, up to the next granule."""
    tasks = context.program.tasks
    if not context.chip.linked:
        yield from _framed(context)
        return
    following = [(task.offset, len(task.words)) for task in tasks[1:]]
    for index, (task, expected) in enumerate(zip(tasks, [*following, (0, 0)], strict=True)):
        try:
            found = context.chip.next_task(task.words)
        except ProgramError as error:
            yield index, Breach("words", len(task.words), str(error))
            continue
        if found != expected:
            yield index, Breach("next task", f"{found[1]} words at {found[0]:#x}",
                                f"{expected[1]} words at {expected[0]:#x}" if expected[1] else "none")


def _framed(context: VerifyContext) -> Found:
    """Sizes and places of tasks that lie one after another."""
    place = context.chip.limits.first_task
    for index, task in enumerate(context.program.tasks):
        try:
            size = context.chip.task_size(task.words)
        except ProgramError as error:
            yield index, Breach("words", len(task.words), str(error))
            continue
        if size != len(task.words):
            yield index, Breach("Header.Task.TaskSize", size, len(task.words))
        if task.offset != place:
            yield index, Breach("offset", hex(task.offset), hex(place))
        place = round_up(task.offset + task.size, context.chip.limits.task_alignment)


def described(context: VerifyContext) -> Found:
    """A task must be a descriptor whose every mode has a described meaning."""
    for view in context.tasks:
        if view.refusal is not None:
            place = ".".join(part for part in (view.refusal.register, view.refusal.field) if part)
            yield view.index, Breach(place or "words", str(view.refusal).removeprefix(f"{place}: "),
                                     "a described operation")


def registers(context: VerifyContext) -> list[Violation]:
    """Violations of the chip's own rules, task by task."""
    found = []
    for view in context.tasks:
        if view.fields is None:
            continue
        link = TaskLink(context.chip, view.index, len(context.tasks), context.operations)
        found += [violation(view.index, breach, rule) for rule in context.chip.rules
                  for breach in _breaches(rule, view.fields, link)]
    return found


def _breaches(rule: Rule, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """What breaks a rule; a field it needs that holds bits without a meaning does."""
    try:
        yield from rule(fields, link)
    except ProgramError as error:
        yield Breach(f"{error.register}.{error.field}", "not described", "a value with a described meaning")
