"""Advice about the planar engine: functions computed step by step, gains and offsets."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import partial

from openane.chips import Limits
from openane.chips.coefficients import HALFWORD
from openane.engine import (
    Access,
    Activation,
    Binary,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Convolution,
    Elementwise,
    GainOffset,
    Operation,
    PassThrough,
    Reduction,
)
from openane.report.explain.context import AdviceContext
from openane.report.explain.layers import ProfiledLayer, ProfiledLayers, ProfiledTask, weighted
from openane.report.explain.model import Finding
from openane.report.explain.retiming import gone, used
from openane.rounding import ceil_div
from openane.timing import EnginePart

STEPS = 2
"""Tasks from which a function counts as computed step by step."""
DEEP = 8
"""Tasks between a result and the layer with weights that reads it."""


def functions_in_steps(context: AdviceContext) -> Iterator[Finding]:
    """Runs of tasks, of any operations, that together are a function of one variable, element by element."""
    run: list[ProfiledTask] = []
    layers = context.layers
    for task in layers.tasks.values():
        if run and _continues(run, task, layers):
            run.append(task)
            continue
        if (found := _function(run, layers)) is not None:
            yield found
        run = [task] if _begins(task, layers) else []
    if (found := _function(run, layers)) is not None:
        yield found


def _begins(task: ProfiledTask, layers: ProfiledLayers) -> bool:
    return _pointwise(task, layers) and len({access.span for access in _variables(task, layers)}) == 1


def _continues(run: Sequence[ProfiledTask], task: ProfiledTask, layers: ProfiledLayers) -> bool:
    """Whether a task computes with what the run began with, what the run made, and single constants."""
    root = run[0]
    if task.place[0] != root.place[0] or not _pointwise(task, layers) \
            or task.operation.result.elements != root.operation.result.elements:
        return False
    first = next(iter(_variables(root, layers)))
    origin = next(iter(layers.producers[root.place].values()), None)
    made = {member.place for member in run}
    for number, access in enumerate(task.reads):
        producer = layers.producers[task.place].get(number)
        inside = producer is not None and producer.place in made
        again = access.span == first.span and access.space is first.space and producer == origin
        if not (inside or again or layers.constant(task.place, access)):
            return False
    return True


def _pointwise(task: ProfiledTask, layers: ProfiledLayers) -> bool:
    """Whether each element of the result comes from the same one of every operand, constants being single numbers."""
    operation = task.operation
    if not isinstance(operation, Elementwise | PassThrough):
        return False
    return all(used(access) == access.dtype.size if layers.constant(task.place, access) else
               access.elements == operation.result.elements and not access.repeats for access in task.reads)


def _variables(task: ProfiledTask, layers: ProfiledLayers) -> list[Access]:
    return [access for access in task.reads if not layers.constant(task.place, access)]


def _names(tasks: Sequence[ProfiledTask]) -> str:
    """The operations some tasks come from, as a sentence lists them."""
    *names, last = dict.fromkeys(task.row.node.partition(" ")[0] or task.row.operation for task in tasks)
    return f"{', '.join(names)} and {last}" if names else last


def _takes_table(task: ProfiledTask) -> bool:
    """Whether a task does nothing but look its source up in a table."""
    return isinstance(task.operation, PassThrough) and task.operation.post.activation is Activation.TABLE


def _read_within(task: ProfiledTask, places: Container[tuple[int, int]], layers: ProfiledLayers) -> bool:
    """Whether only tasks at those places read what a task makes."""
    return all(reader.place in places for reader in layers.readers[task.place])


def _function(run: Sequence[ProfiledTask], layers: ProfiledLayers) -> Finding | None:
    """The run as one table: none of its tasks behind a layer with weights whose results nobody else reads, else one."""
    steps = [task for task in run if not task.copies_only]
    if len(steps) < STEPS or not any(map(_takes_table, run)):
        return None
    inside = {task.place for task in run}
    if not all(_read_within(task, inside, layers) for task in run[:-1]):
        return None
    origin = next(iter(layers.producers[run[0].place].values()), None)
    free = origin is not None and weighted(origin.operation) and _read_within(origin, inside, layers)
    return Finding(steps[0].row.node or f"task {steps[0].row.task}",
                   f"{_names(steps)} compute a function of one variable in {len(steps)} tasks",
                   "one operation (gelu, silu, ...: 'ane ops') is one table, which costs nothing after a layer with "
                   "weights and one task elsewhere", {task.place: gone for task in (run if free else run[1:])})


def gains_of_their_own(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Gains and offsets, one a channel, that the weights behind them could hold."""
    layers = context.layers
    alone = [task for task in layer.tasks if _vector(task, layers)]
    if not alone or not all(_ends_in_weights(task, layers, DEEP) for task in alone):
        return None
    return Finding(layer.subject, f"its gains and offsets are {len(alone)} of its {len(layer.tasks)} tasks",
                   "multiply the gains into the weights that follow and add what the offsets make to their bias "
                   "(the same function), and leave them out here", layer.changed(gone, alone))


def _vector(task: ProfiledTask, layers: ProfiledLayers) -> bool:
    operation = task.operation
    return isinstance(operation, Elementwise) and operation.function in (Binary.ADD, Binary.MULTIPLY) \
        and operation.second is not None and not operation.relu \
        and any(layers.constant(task.place, access) and access.dtype.size < used(access) for access in task.reads)


def _ends_in_weights(task: ProfiledTask, layers: ProfiledLayers, deep: int) -> bool:
    """Whether all that reads a result, copies and other gains apart, multiplies it by constant weights, unpadded."""
    readers = layers.readers[task.place]
    return bool(readers and deep) and all(
        _unpadded(reader.operation) or ((reader.copies_only or _vector(reader, layers))
                                        and _ends_in_weights(reader, layers, deep - 1)) for reader in readers)


def _unpadded(operation: Operation) -> bool:
    return isinstance(operation, Convolution) and weighted(operation) and not any(operation.padding)


def norms_over_channels(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """A norm whose operands are turned before they are summed; over the last axis they are not, and squares are summed
    by the task that makes them."""
    copies = [task for task in layer.tasks if task.copies_only]
    sums = [task for task in layer.tasks if isinstance(task.operation, Reduction)]
    known = layer.record.relayout if layer.record is not None and layer.record.normalises else None
    if known is None or not copies or len(sums) < STEPS:
        return None
    what, remedy = known
    return Finding(layer.subject, f"{len(copies)} of its {len(layer.tasks)} tasks {what}", remedy,
                   layer.changed(gone, [*copies, sums[-1]]))


def gains_as_convolution(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Gains and offsets of channels on the planar engine, which visits both operands' elements."""
    waiting = [task for task in layer.tasks if task.row.bound is EnginePart.PLANAR
               and _of_channels(task, context.layers)]
    if not waiting:
        return None
    made = [context.layers.producers[task.place][1] for task in waiting]
    return Finding(layer.subject, "gains and offsets of channels on the planar engine",
                   "a depthwise 1x1 convolution with bias computes the same on the neural engine; weights in front or "
                   "behind take it in for nothing",
                   {**layer.changed(partial(_depthwise, context.limits), waiting), **layer.changed(gone, made)})


def _of_channels(task: ProfiledTask, layers: ProfiledLayers) -> bool:
    """Whether constant vectors, copied to L2 before, hold a gain and an offset for every channel."""
    operation = task.operation
    if not isinstance(operation, GainOffset) or operation.second is None or operation.second.shape[4] > 1:
        return False
    made = layers.producers[task.place].get(1)
    return made is not None and made.copies_only and all(layers.constant(made.place, access) for access in made.reads)


def _depthwise(limits: Limits, operation: Operation) -> Operation:
    assert isinstance(operation, GainOffset)
    channels, cores = operation.result.shape[1], limits.cores
    size = ceil_div(channels, cores) * 2 * HALFWORD
    section = CoefficientSection.of(limits.slots.constants, [CoefficientStream(c, c * size, size)
                                                             for c in range(min(cores, channels))])
    return Convolution(source=operation.first, result=operation.result, unicast=1,
                       coefficients=Coefficients.together(section, bias=True))
