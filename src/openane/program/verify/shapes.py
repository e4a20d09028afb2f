"""Rules about extents: what an operation's operands must have in common, and the engine's limits."""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips import Breach
from openane.engine import (
    Access,
    ChannelMaximum,
    ChannelProduct,
    Convolution,
    MatrixProduct,
    Operation,
    PassThrough,
    Pooling,
    Space,
)
from openane.engine.access import AXES, Shape
from openane.program.verify.context import TaskView, VerifyContext
from openane.program.verify.violation import Found


def limits(context: VerifyContext) -> Found:
    """Extents, windows, strides and padding must be within what the engine supports."""
    known = context.chip.limits
    largest = dict(zip(AXES, (known.groups, known.channels, known.depth, known.height, known.width), strict=True))
    for view in context.tasks:
        for operand in view.operands:
            for axis, extent in zip(AXES, operand.access.shape, strict=True):
                if extent > largest[axis]:
                    yield view.index, Breach(f"{operand.part} {axis}", extent, largest[axis])
        if view.operation is None:
            continue
        for _, (kernel, stride, padding), _ in _windows(view.operation):
            bounds = (("kernel", kernel, 1, max(known.kernel_height, known.kernel_width)),
                      ("stride", stride, 1, known.stride), ("padding", padding, 0, known.padding))
            for name, value, low, high in bounds:
                if not low <= value <= high:
                    yield view.index, Breach(name, value, f"{low} to {high}")


def agreeing_shapes(context: VerifyContext) -> Found:
    """A result must have the extents its operation gives: a pass-through those of its source, grouped operations one
    result channel per group of source channels, pools those of their source but for height and width."""
    for view in context.tasks:
        operation = view.operation
        if operation is None:
            continue
        expected = _result_shape(operation)
        if expected is not None and operation.result.shape != expected:
            yield view.index, Breach("result shape", _text(operation.result.shape), _text(expected))
        if isinstance(operation, Convolution | ChannelMaximum | ChannelProduct):
            inputs = operation.unicast if isinstance(operation, Convolution) else (
                operation.channels if isinstance(operation, ChannelMaximum) else 2)
            needed = inputs * operation.result.shape[1]
            if (inputs or isinstance(operation, ChannelMaximum)) and operation.source.shape[1] != needed:
                yield view.index, Breach("source channels", operation.source.shape[1], needed)


def real_windows(context: VerifyContext) -> Found:
    """Every window of a convolution or pool must hold at least one real element: padding before the first is smaller
    than the window, and the last window starts inside the source."""
    for view in context.tasks:
        if view.operation is None:
            continue
        for axis, (kernel, stride, padding), (out, extent) in _windows(view.operation):
            if padding >= kernel:
                yield view.index, Breach(f"padding {axis}", padding, f"at most {kernel - 1}")
            start = (out - 1) * stride - padding
            if start >= extent:
                most = (extent - 1 + padding) // max(stride, 1) + 1
                yield view.index, Breach(f"result {axis}", out, f"at most {most}")


def bounded_work(context: VerifyContext) -> Found:
    """An operand must not visit more elements than all memory of the program has bytes: repeating more is a loop
    without an end in sight."""
    total = sum(memory.size for memory in context.memory.values()) + context.chip.limits.l2_size
    for view in context.tasks:
        for operand in view.operands:
            if operand.access.elements > total:
                yield view.index, Breach(f"{operand.part} shape", _text(operand.access.shape), f"{total} elements")


def handed_over(context: VerifyContext) -> Found:
    """What a task hands over must be taken by the next task, as its first operand, with the same extents and element
    type, through the same place in L2; nothing is taken that was not handed over."""
    register = context.chip.register
    for before, view in zip((None, *context.tasks), (*context.tasks, None), strict=True):
        given, taken = _given(before), _taken(view)
        if view and taken and not given:
            yield view.index, Breach(register("first", Space.CHAIN), "chain", "what was handed over")
        elif before and given and not taken:
            yield before.index, Breach(register("result", Space.CHAIN), "chain", "a next task to take it")
        elif before and view and given and taken:
            if _shape_text(given) != _shape_text(taken):
                yield view.index, Breach("first shape", _shape_text(taken), _shape_text(given))
            yield from _other_ring(before, view, register("first", Space.L2))


def _shape_text(access: Access) -> str:
    return f"{_text(access.shape)} {access.dtype}"


def _given(view: TaskView | None) -> Access | None:
    """What a task hands over."""
    result = view.operation.result if view and view.operation else None
    return result if result is not None and result.space is Space.CHAIN else None


def _taken(view: TaskView | None) -> Access | None:
    """What a task takes that was handed over."""
    return next((operand.access for operand in view.operands if operand.part == "first" and not operand.writes
                 and operand.access.space is Space.CHAIN), None) if view else None


def _other_ring(before: TaskView, view: TaskView, register: str) -> Found:
    """Where a task takes what is handed over from another place than the one before puts it."""
    if _rings(before, "result") != _rings(view, "first"):
        yield view.index, Breach(register, "another ring", "the ring of the result")


def _rings(view: TaskView, operand: str) -> list[int]:
    """Where the rings of an operand begin in L2."""
    return [passage.low for passage in view.passages if passage.operand == operand]


Window = tuple[str, tuple[int, int, int], tuple[int, int]]


def _windows(operation: Operation) -> Iterator[Window]:
    """Per axis: name, (kernel, stride, padding), (result extent, source extent)."""
    if isinstance(operation, Convolution):
        source, first = operation.source, 2
    elif isinstance(operation, Pooling):
        source, first = operation.first, 3
    else:
        return
    for index, setting in enumerate(zip(operation.kernel, operation.stride, operation.padding, strict=True)):
        axis = first + index
        yield AXES[axis], setting, (operation.result.shape[axis], source.shape[axis])


def _result_shape(operation: Operation) -> Shape | None:
    result = operation.result.shape
    if isinstance(operation, PassThrough):
        return operation.source.shape
    if isinstance(operation, ChannelMaximum | ChannelProduct | MatrixProduct):
        n, _, d, h, w = operation.source.shape
        return n, result[1], d, h, w
    if isinstance(operation, Convolution):
        return (operation.source.shape[0], *result[1:])
    if isinstance(operation, Pooling):
        n, c, d, _, _ = operation.first.shape
        return n, c, d, result[3], result[4]
    return None  # the decoder derives the others from their operands


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))
