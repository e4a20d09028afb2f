"""Neural-engine recipes: convolutions, copies, tables; the storage of coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.compiler.loops.assign import OperandRole, access, legal
from openane.compiler.loops.split import split_operands
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.convolution_problem import Windowed
from openane.compiler.weights.pack import (
    PackedCoefficients,
    pack_dense,
    pack_sparse,
    pack_table,
)
from openane.engine import (
    Activation,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Convolution,
    PassThrough,
    Post,
)
from openane.engine.table import Table
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor
from openane.rounding import ceil_div, round_up

REPEATED = 1 << 19
"""Bytes of weights up to which they are stored once per image, so that one operation takes all images."""


def head_of(context: RecipeContext, table: Table | None) -> bytes | None:
    """What every stream of weights begins with: the table, where one has no stream of its own."""
    form = context.limits.coefficients
    return None if table is None or form.table_apart else form.table.pack(table)


def coefficients(context: RecipeContext, packed: PackedCoefficients, *, bias: bool,
                 table: Table | None) -> Coefficients:
    """Stores the streams of weights in the constant section, and the table where it has a stream of its own."""
    apart = context.limits.coefficients.table_apart
    base = context.store(packed, weights=True, table=table is not None and not apart)
    section = CoefficientSection.of(context.kernel_slot, [CoefficientStream(*stream) for stream in packed.streams])
    section = section.relocated(section.slot, base)
    alone = table_coefficients(context, table, len(packed.streams)).table if table is not None and apart else None
    return Coefficients(weights=section, bias=section if bias else None,
                        table=section if table is not None and not apart else alone,
                        lanes=packed.lanes, packing=packed.packing)


def channel_step(context: RecipeContext) -> int:
    """Output channels are split at multiples of this, so that rows of a swapped result stay aligned."""
    return context.limits.memory_alignment // ELEMENT


def table_coefficients(context: RecipeContext, table: Table, channels: int) -> Coefficients:
    """A table alone, read by every core that has a channel."""
    form = context.limits.coefficients
    packed = pack_table(form.table.pack(table), min(form.cores, channels), form.table_apart)
    base = context.store(packed, weights=False, table=True)
    section = CoefficientSection.of(context.kernel_slot, [CoefficientStream(*stream) for stream in packed.streams])
    return Coefficients(table=section.relocated(section.slot, base))


def with_table(post: Post | None, table: Table | None) -> Post:
    """The post stage, its activation replaced by the table when there is one."""
    post = post or Post()
    return post if table is None else Post(bias=post.bias, scale=post.scale, activation=Activation.TABLE)


def pass_through(context: RecipeContext, source: Tensor, target: Tensor, post: Post | None,
                 table: Table | None) -> None:
    """target = post(source) for operands the engine can address."""
    stage = with_table(post, table)
    operands = split_operands([source, target], [OperandRole.NEURAL_SOURCE, OperandRole.RESULT], context.limits,
                              context.label)
    if operands is None:
        raise UnsupportedError(context.label, "a copy must be expressible by strides",
                               found=f"{source} to {target}")
    for read, write in operands:
        streams = None if table is None else table_coefficients(context, table, write.shape[1])
        context.emit(PassThrough(source=read, result=write, post=stage, coefficients=streams))


def convolve(context: RecipeContext, problem: Windowed) -> None:
    """A convolution the engine does as it is, in as few operations as its coefficients take.

    Stride 2 uses zero-skipping weights; kernels up to 3x3 are stored as 3x3 ones, whose form is proved, larger ones
    follow the same rule (inferred).
    """
    if not _plain(problem.source, context.limits):
        problem = replace(problem, source=context.copied(problem.source))
    if problem.groups > 1 and problem.source.shape[0] > 1 and _in_one_image(context, problem):
        return
    if problem.depthwise:
        _depthwise(context, problem)
    elif problem.groups > 1:
        _grouped(context, problem)
    else:
        _dense(context, problem)


def _in_one_image(context: RecipeContext, problem: Windowed) -> bool:
    """Images of groups are more groups of one image, with the weights once for each; False where planes do not follow
    each other, or the weights would be many."""
    n, channels, high, wide = problem.source.shape
    outputs = problem.weights.shape[0]
    source = problem.source.reshape((1, n * channels, high, wide))
    if source is None or n * problem.weights.size * ELEMENT > REPEATED:
        return False
    flat = (1, n * outputs, *problem.results)
    target = problem.target.reshape(flat)
    whole = problem.target if target is not None else context.scratch(problem.target.shape)
    made = whole.reshape(flat)
    assert made is not None, "fresh storage has its planes one behind the other"
    convolve(context, replace(
        problem, source=source, target=made, groups=n * problem.groups, weights=np.tile(problem.weights, (n, 1, 1, 1)),
        bias=None if problem.bias is None else np.tile(problem.bias, n)))
    if target is None:
        context.copy(whole, problem.target)
    return True


def _window(problem: Windowed) -> dict[str, Any]:
    return {"kernel": (1, *problem.kernel), "stride": (1, *problem.stride), "padding": (0, *problem.padding),
            "post": with_table(problem.post, problem.table)}


def _pieces(extent: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, extent, size):
        yield start, min(size, extent - start)


def _plain(source: Tensor, limits: Limits) -> bool:
    """Whether a [N, C, H, W] tensor can be read as it lies."""
    return legal(access(source, (0, 1, None, 2, 3)), OperandRole.NEURAL_SOURCE, limits) and (
        source.shape[3] == 1 or source.strides[3] == ELEMENT)


def _streams(context: RecipeContext, problem: Windowed, packed: PackedCoefficients) -> Coefficients:
    return coefficients(context, packed, bias=problem.bias is not None, table=problem.table)


def _dense(context: RecipeContext, problem: Windowed) -> None:
    problem, sparse = _sparse_form(context, problem)
    source, target, weights, rows = problem.source, problem.target, problem.weights, problem.rows
    rules, form = context.limits.lanes, context.limits.coefficients
    streamed = rows == weights.shape[1] and target.shape[2] * target.shape[3] <= rules.streamed
    lanes = rules.convolution(weights.shape[0], source.shape[2], source.shape[3], rows, streamed)
    while lanes > 1 and form.cores * lanes * (rows + 1) * ELEMENT > context.limits.kernel_memory:
        lanes //= 2
    flat = weights.reshape(1, weights.shape[0], rows)
    for start, stop in chunks(context, weights.shape[0], rows + 1, lanes, streamed):
        bias = None if problem.bias is None else problem.bias[start:stop]
        if sparse:
            packed = pack_sparse(form, weights[None, start:stop], None if bias is None else bias[None], lanes,
                                 head_of(context, problem.table))
        else:
            packed = pack_dense(form, flat[:, start:stop], None if bias is None else bias[None], lanes,
                                head_of(context, problem.table))
        streams = _streams(context, problem, packed)
        part = target.part(1, start, stop - start)
        for first, count in spans(source.shape[0], context.limits.groups):
            context.emit(Convolution(source=access(source.part(0, first, count), (0, 1, None, 2, 3)),
                                     result=access(part.part(0, first, count), (0, 1, None, 2, 3)),
                                     coefficients=streams, shared=count > 1, **_window(problem)))


def _sparse_form(context: RecipeContext, problem: Windowed) -> tuple[Windowed, bool]:
    """Whether the weights are zero-skipping, their kernel widened to a proved one."""
    sparse, proved = problem.stride == (2, 2), context.limits.coefficients.sparse.proved
    if sparse and problem.kernel != (1, 1) and max(problem.kernel) < proved:
        more = [(0, 0), (0, 0), *((0, proved - taps) for taps in problem.kernel)]
        problem = replace(problem, weights=np.pad(problem.weights, more))
    return problem, sparse


def _depthwise(context: RecipeContext, problem: Windowed) -> None:
    weights, rows = problem.weights, problem.rows
    form = context.limits.coefficients
    room = min(context.limits.kernel_memory // form.cores, context.limits.lanes.kept) - form.table.size
    most = max(1, min(room // (ELEMENT * (rows + 1)), context.limits.channels // form.cores))
    for start, count in _pieces(weights.shape[0], most * form.cores):
        part = slice(start, start + count)
        bias = None if problem.bias is None else problem.bias[None, part]
        packed = pack_dense(form, weights[part].reshape(1, count, rows), bias, 1, head_of(context, problem.table))
        streams = _streams(context, problem, packed)
        for image in range(problem.source.shape[0]):
            read, write = (tensor.part(0, image, 1).part(1, start, count)
                           for tensor in (problem.source, problem.target))
            context.emit(Convolution(source=access(read, (None, 1, None, 2, 3)),
                                     result=access(write, (None, 1, None, 2, 3)),
                                     coefficients=streams, unicast=1, **_window(problem)))


def _grouped(context: RecipeContext, problem: Windowed) -> None:
    problem, sparse = _sparse_form(context, problem)
    groups, source, target = problem.groups, problem.source, problem.target
    channels = problem.weights.shape[0] // groups
    form = context.limits.coefficients
    lanes = context.limits.lanes.convolution(channels, source.shape[2], source.shape[3], problem.rows, streamed=False)
    flat = problem.weights.reshape(groups, channels, -1)
    biases = None if problem.bias is None else problem.bias.reshape(groups, channels)
    rounds = ceil_div(channels, form.cores * lanes)
    plane = rounds * lanes * (problem.rows + 1) * ELEMENT * (1 + sparse) + form.alignment
    room = context.limits.kernel_memory // form.cores - form.table.size
    most = max(1, min(context.limits.groups, room // plane))
    for start, count in spans(groups, most):
        bias = None if biases is None else biases[start:start + count]
        if sparse:
            part = problem.weights.reshape(groups, channels, *problem.weights.shape[1:])[start:start + count]
            packed = pack_sparse(form, part, bias, lanes, head_of(context, problem.table))
        else:
            packed = pack_dense(form, flat[start:start + count], bias, lanes, head_of(context, problem.table))
        streams = _streams(context, problem, packed)
        for image in range(source.shape[0]):
            read = _by_group(source.part(0, image, 1), groups).part(0, start, count)
            write = _by_group(target.part(0, image, 1), groups).part(0, start, count)
            context.emit(Convolution(source=access(read, (0, 1, None, 2, 3)), result=access(write, (0, 1, None, 2, 3)),
                                     coefficients=streams, **_window(problem)))


def _by_group(image: Tensor, groups: int) -> Tensor:
    """[1, C, H, W] as [groups, C / groups, H, W]."""
    _, channels, height, width = image.shape
    plane = image.strides[1]
    each = channels // groups
    return image.seen(image.offset, (groups, each, height, width),
                      (plane * each, plane, image.strides[2], image.strides[3]))


def chunks(context: RecipeContext, channels: int, rows: int, lanes: int, streamed: bool,
           head: int = 0) -> Iterator[tuple[int, int]]:
    """Ranges of output channels whose coefficients fit one operation, at multiples of `channel_step`; `rows` counts a
    bias."""
    rules, step = context.limits.lanes, channel_step(context)
    memory = context.limits.kernel_memory // context.limits.cores
    size = rules.task_channels(channels, rows, lanes, memory if streamed else min(memory, rules.kept), head)
    size = size if size == channels else round_up(size, step)
    size = min(size, max(step, context.limits.channels // step * step))
    if min(size, channels) * rows * ELEMENT > context.limits.kernel_memory:
        raise UnsupportedError(context.label, f"the weights of {step} output channels must fit one operation",
                               limit=context.limits.kernel_memory, found=size * rows * ELEMENT,
                               remedy="split the reduction into several operations and add the parts")
    for start in range(0, channels, size):
        yield start, min(channels, start + size)


def spans(extent: int, limit: int) -> Iterator[tuple[int, int]]:
    """(start, count) of pieces no larger than half the limit when the extent exceeds it."""
    yield from _pieces(extent, extent if extent <= limit else limit // 2)
