"""Advice about the neural engine: passes over output channels, weights, and products of two computed tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from openane.engine import (
    Access,
    Activation,
    Convolution,
    MatrixProduct,
    NeuralOperation,
    Operation,
    Packing,
    PassThrough,
    Space,
)
from openane.report.explain.context import AdviceContext
from openane.report.explain.layers import ProfiledLayer, ProfiledTask, weighted
from openane.report.explain.model import Change, Finding
from openane.report.explain.retiming import gone, with_stream_part
from openane.timing import EnginePart

UNEVEN = 2.0
"""How many times its share of the channels an incomplete pass must cost to be worth a word."""
BATCH = 4


def incomplete_pass(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Output channels just over a boundary of the array's passes, in one task or as a task of their own."""
    best: Finding | None = None
    most = 0.0
    total = sum(task.row.seconds for task in layer.tasks)
    cores = context.limits.cores
    whole = cores * context.limits.lanes.most
    for part in (whole, whole // 2, cores):
        changes: dict[tuple[int, int], Change] = {}
        channels = over = 0
        for tasks in _layers_of_channels(layer):
            channels = sum(task.operation.result.shape[1] for task in tasks)
            over = channels % part
            if 0 < over < channels:
                changes |= _fewer_channels(tasks, over)
        if not changes or not total:
            continue
        share = over / channels
        found = Finding(layer.subject, "", "a number of channels that fills whole passes of the array: "
                        f"multiples of {whole}, with a power of two from {cores} on left over", changes)
        saved = context.retiming.saved([found])
        if saved > most and saved / total >= UNEVEN * share:
            most = saved
            best = replace(found, what=f"the last {over} of {channels} output channels take {saved / total:.0%} of its "
                           f"time: {channels - over} would do without")
    return best


def _layers_of_channels(layer: ProfiledLayer) -> Iterator[list[ProfiledTask]]:
    """Tasks that together make all output channels of the same positions: they follow each other and read one source
    (the second perhaps the copy the first has kept)."""
    tasks: list[ProfiledTask] = []
    known: set[Access | None] = set()
    for task in layer.tasks:
        operation = task.operation
        if not isinstance(operation, Convolution) or operation.unicast or not weighted(operation) \
                or (operation.source.shape[0] > 1 and not operation.shared):
            continue
        if tasks and operation.source not in known:
            yield tasks
            tasks, known = [], set()
        tasks.append(task)
        known |= {operation.source, operation.source.copy}
    if tasks:
        yield tasks


def _fewer_channels(tasks: Sequence[ProfiledTask], over: int) -> dict[tuple[int, int], Change]:
    changes: dict[tuple[int, int], Change] = {}
    for task in reversed(tasks):
        mine = task.operation.result.shape[1]
        if over and mine <= over:
            changes[task.place] = gone
        elif over:
            changes[task.place] = _narrower(mine - over)
        over -= min(over, mine)
    return changes


def _narrower(channels: int) -> Change:
    def change(operation: Operation) -> Operation:
        assert isinstance(operation, NeuralOperation)
        n, c, d, h, w = operation.result.shape
        given = operation.coefficients
        return replace(operation, result=replace(operation.result, shape=(n, channels, d, h, w), copy=None),
                       coefficients=given and with_stream_part(given, channels / c))
    return change


def waits_for_weights(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """Weights that take longer to fetch than to use."""
    waiting = [task for task in layer.tasks if task.row.bound is EnginePart.KERNEL and weighted(task.operation)
               and isinstance(task.operation, NeuralOperation) and task.operation.coefficients is not None
               and task.operation.coefficients.packing is Packing.DENSE]
    if not waiting:
        return None

    def change(operation: Operation) -> Operation:
        assert isinstance(operation, NeuralOperation)
        given = operation.coefficients
        return replace(operation, coefficients=given and with_stream_part(given, 1 / BATCH))
    return Finding(layer.subject, "waits for its weights", f"batches of {BATCH} use each weight {BATCH} times (the "
                   "gain is per inference); palettes of 4 bits would help as much where the compiler streams them",
                   layer.changed(change, waiting))


def parts_of_products(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """A product of two computed tensors in many parts, each of which reads the other operand again."""
    changes: dict[tuple[int, int], Change] = {}
    rows = parts = 0
    most = max(context.limits.lanes.runtime)  # rows a core holds at most
    wide = most * context.limits.cores
    for tasks in _products(layer):
        rows, parts = sum(task.operation.result.shape[1] for task in tasks), len(tasks)
        whole = ceil(rows / wide)
        if parts > whole + 1:
            for number, task in enumerate(tasks):
                changes[task.place] = _grown(wide, whole * wide / rows, most) if number < whole else \
                    _packed if number == whole else gone
    if not changes:
        return None
    return Finding(layer.subject, f"{rows} rows are multiplied in {parts} parts, each of which reads the other operand "
                   "again", f"pad the rows (of attention: the sequence) to a multiple of {wide}, which take one part; "
                   "what other operations cost more then is not counted",
                   changes)


def _products(layer: ProfiledLayer) -> Iterator[list[ProfiledTask]]:
    tasks: list[ProfiledTask] = []
    for task in layer.tasks:
        product = isinstance(task.operation, MatrixProduct)
        if tasks and (not product or task.reads != tasks[-1].reads):
            yield tasks
            tasks = []
        if product:
            tasks.append(task)
    if tasks:
        yield tasks


def _grown(rows: int, factor: float, lanes: int) -> Change:
    """A part of so many rows, `lanes` a core, of operands that are that much wider."""
    def wider(access: Access, channels: int) -> Access:
        n, _, d, h, w = access.shape
        return replace(access, shape=(n, channels, d, h, ceil(w * factor)), copy=None)

    def change(operation: Operation) -> Operation:
        assert isinstance(operation, MatrixProduct)
        given = operation.coefficients
        own = operation.result.shape[1]
        grown = given and replace(with_stream_part(given, rows / own), lanes=lanes)
        return replace(operation, source=wider(operation.source, operation.source.shape[1]),
                       result=wider(operation.result, rows), coefficients=grown)
    return change


def _packed(operation: Operation) -> Operation:
    """The copy that writes the rows as weights of several lanes."""
    assert isinstance(operation, MatrixProduct)
    rows = Access(space=Space.L2, shape=operation.source.shape, strides=operation.source.strides)
    return PassThrough(source=rows, result=rows)


def table_alone(layer: ProfiledLayer, context: AdviceContext) -> Finding | None:
    """An activation of what weights made, that was not fused since others read those results too."""
    if not all(isinstance(task.operation, PassThrough) and task.operation.post.activation is not Activation.NONE
               and _behind_weights(task, context) for task in layer.tasks):
        return None
    return Finding(layer.subject, "an activation that is a task of its own: others read the results before it too",
                   "directly after a convolution or matrix product with constant weights, and nobody else reading "
                   "those results, it costs nothing", layer.changed(gone))


def _behind_weights(task: ProfiledTask, context: AdviceContext) -> bool:
    made = context.layers.producers[task.place].get(0)
    return made is not None and weighted(made.operation) and len(context.layers.readers[made.place]) > 1
