"""Convolutions of any kernel, stride, dilation, padding and size, composed of those that the engine does.

What the engine does is proved by tasks that Apple made: stride 1 with dense weights (square kernels, any groups),
stride 2 of both axes with zero-skipping weights (kernels 1x1 and 3x3, any groups but depthwise), sums over neighbouring
channels without weights. Everything else is composed of these, or inferred where `neural_ops.convolve` says so.

`solve` tries several ways in turn. Each of them takes the problem apart into smaller ones, and solves those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from openane.compiler.loops.assign import access
from openane.compiler.recipes import neural_ops, stride_phases
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.convolution_problem import Windowed, normal, pair, spread, tiles
from openane.compiler.recipes.data_movement import writable
from openane.engine import Activation, Binary, Convolution
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor
from openane.ops.pad import widened
from openane.rounding import ceil_div

IMAGES = (0, 1, None, 2, 3)
"""How [N, C, H, W] are walked."""
INSERTED = 6
"""Zeros are put between taps when that makes at most so many times as many of them."""


def solve(context: RecipeContext, problem: Windowed) -> None:
    """Emits the convolution. UnsupportedError when it would take too many operations."""
    with writable(context, problem.target, IMAGES) as target:  # first: parts write to the target's parts
        problem = normal(problem if target is problem.target else replace(problem, target=target))
        if not any(route(context, problem) for route in ROUTES):
            neural_ops.convolve(context, problem)


def _padded(context: RecipeContext, problem: Windowed) -> bool:
    """Padding that whole windows lie in, or more than the field holds, becomes zeros in the source."""
    pads: list[tuple[int, int]] = [(0, 0), (0, 0)]
    padding = problem.padding
    for axis in (0, 1):
        before, reach, extent = problem.padding[axis], problem.reach[axis], problem.extents[axis]
        last = (problem.results[axis] - 1) * problem.stride[axis]
        left = before if before >= reach or before > context.limits.padding else 0
        right = last + reach - before - extent if last >= before + extent else 0
        pads.append((left, right))
        padding = pair(padding, axis, before - left)
    if not any(any(counts) for counts in pads):
        return False
    source = widened(context, problem.source, pads)
    solve(context, replace(problem, source=source, padding=padding))
    return True


def _strided(context: RecipeContext, problem: Windowed) -> bool:
    """Strides other than a proved form become phases of the source."""
    fits = max(problem.reach) <= min(context.limits.kernel_width, context.limits.kernel_height)
    if problem.stride == (1, 1):
        return False
    if problem.stride == (2, 2) and fits and not problem.depthwise:
        return False
    if problem.groups > 1 and max(problem.stride) <= stride_phases.SUBSAMPLED and max(problem.kernel) > 1:
        stride_phases.subsampled(context, problem, solve)
    else:
        stride_phases.strided(context, problem, solve)
    return True


def _dilated(context: RecipeContext, problem: Windowed) -> bool:
    """Dilation becomes zeros in the kernel while they are few, else phases of the source."""
    if problem.dilation == (1, 1):
        return False
    fits = max(problem.reach) <= min(context.limits.kernel_width, context.limits.kernel_height)
    inserted = prod(problem.reach) / prod(problem.kernel)
    if fits and (inserted <= INSERTED or problem.stride != (1, 1)):
        solve(context, replace(problem, weights=spread(problem.weights, problem.dilation), dilation=(1, 1)))
        return True
    if problem.stride == (1, 1):
        stride_phases.dilated(context, problem, solve)
        return True
    return False


def _large_kernel(context: RecipeContext, problem: Windowed) -> bool:
    """A kernel larger than the field is cut into parts, each reading the source further on; results are summed."""
    limits = context.limits
    for axis, limit in ((0, limits.kernel_height), (1, limits.kernel_width)):
        if problem.reach[axis] <= limit:
            continue
        if problem.padding[axis]:
            pads = [(0, 0), (0, 0), *((problem.padding[a], 0) if a == axis else (0, 0) for a in (0, 1))]
            source = widened(context, problem.source, pads)
            problem = replace(problem, source=source, padding=pair(problem.padding, axis, 0))
        _sum(context, problem, list(_kernel_parts(context, problem, axis, limit)))
        return True
    return False


def _kernel_parts(context: RecipeContext, problem: Windowed, axis: int, limit: int) -> Iterator[Windowed]:
    """Parts of up to `limit` elements along one axis; those that read nothing but zeros behind the source are left
    out."""
    step, taps, extent = problem.dilation[axis], problem.kernel[axis], problem.extents[axis]
    count = (limit - 1) // step + 1
    starts = [start for start in range(0, taps, count) if start * step < extent]
    sources = crops(context, problem.source, 2 + axis, [(start * step, extent) for start in starts])
    for start, source in zip(starts, sources, strict=True):
        weights = problem.weights[(*[slice(None)] * (2 + axis), slice(start, start + count))]
        yield replace(problem, source=source, weights=weights)


def crops(context: RecipeContext, source: Tensor, axis: int, ranges: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Elements low..high - 1 of one axis for each range; laid out anew once where a part would not start aligned."""
    if not all(source.part(axis, low, high - low).aligned for low, high in ranges):
        order = (*(d for d in range(source.rank) if d not in (1, axis)), axis, 1)
        if source.shape[1] == 1:
            order = (*order[:-1], 1, -1)
        whole = context.scratch(source.shape, order)
        context.copy(source, whole)
        source = whole
    return [source.part(axis, low, high - low) for low, high in ranges]


def _large_image(context: RecipeContext, problem: Windowed) -> bool:
    """An image larger than the fields is cut into tiles of results; their sources overlap."""
    limits = context.limits
    for axis, limit in ((0, limits.height), (1, limits.width)):
        if max(problem.extents[axis], problem.results[axis]) <= limit:
            continue
        found = tiles(problem, axis, limit, neural_ops.channel_step(context))
        sources = crops(context, problem.source, 2 + axis, [(max(tile.low, 0), tile.high) for tile in found])
        for tile, source in zip(found, sources, strict=True):
            part = replace(problem, source=source, target=problem.target.part(2 + axis, tile.start, tile.count))
            solve(context, part.along(axis, padding=max(-tile.low, 0)))
        return True
    return False


def _deep(context: RecipeContext, problem: Windowed) -> bool:
    """A reduction whose weights exceed what a core keeps, or whose source rows exceed L2, is cut into parts of the
    input channels; results are summed."""
    inputs, taps = problem.weights.shape[1], prod(problem.kernel)
    rules = context.limits.lanes
    streamed = taps == 1 and prod(problem.results) <= rules.streamed
    memory = context.limits.kernel_memory // neural_ops.channel_step(context)
    head = context.limits.coefficients.table.size if problem.table is not None else 0
    room = (memory if streamed else min(memory, rules.kept)) - head
    room -= ELEMENT if problem.bias is not None else 0
    most = min(room // (ELEMENT * taps), context.limits.channels,
               context.limits.l2_size // (2 * ELEMENT * context.limits.tile_width * problem.kernel[0]))
    if inputs <= most:
        return False
    if most < 1:
        raise UnsupportedError(context.label, "the taps of one input channel must fit what a core keeps",
                               limit=room, found=ELEMENT * taps)
    if problem.groups > 1:
        _by_group(context, problem)
        return True
    count = ceil_div(inputs, ceil_div(inputs, most))
    parts = [replace(problem, source=problem.source.part(1, start, min(count, inputs - start)),
                     weights=problem.weights[:, start:start + count]) for start in range(0, inputs, count)]
    _sum(context, problem, parts)
    return True


def _by_group(context: RecipeContext, problem: Windowed) -> None:
    inputs, outputs = problem.weights.shape[1], problem.weights.shape[0] // problem.groups
    whole = context.scratch(problem.target.shape)
    for group in range(problem.groups):
        part = slice(group * outputs, (group + 1) * outputs)
        solve(context, replace(
            problem, source=problem.source.part(1, group * inputs, inputs), groups=1, weights=problem.weights[part],
            target=whole.part(1, part.start, outputs), bias=None if problem.bias is None else problem.bias[part]))
    context.copy(whole, problem.target)


def _sum(context: RecipeContext, problem: Windowed, parts: Sequence[Windowed]) -> None:
    """target = post(sum of the parts + bias). Every part is rounded to fp16 once, then two are added by the planar
    engine and more by a convolution without weights: errors are at most half a unit in the last place of each part
    and of the sum."""
    if len(parts) == 1:
        solve(context, replace(parts[0], target=problem.target, bias=problem.bias, post=problem.post,
                               table=problem.table))
        return
    n, channels, high, wide = problem.target.shape
    planar = len(parts) == 2 and problem.clamps
    whole = context.scratch((n, channels * len(parts), high, wide))
    for index, part in enumerate(parts):
        place = whole.part(1, index, channels, len(parts))
        solve(context, replace(part, target=place, bias=problem.bias if index == 0 else None, post=None, table=None))
    if planar:
        relu = problem.post is not None and problem.post.activation is Activation.RELU
        context.elementwise(problem.target, whole.part(1, 0, channels, 2), whole.part(1, 1, channels, 2), Binary.ADD,
                            relu=relu)
        return
    neighbours = whole.seen(whole.offset, (n, channels, len(parts), high, wide),
                            (whole.strides[0], whole.strides[1] * len(parts), *whole.strides[1:]))
    _sum_neighbours(context, problem, neighbours)


def _sum_neighbours(context: RecipeContext, problem: Windowed, parts: Tensor) -> None:
    """target [N, C, H, W] = post(sum of parts [N, C, P, H, W] over P): a dense convolution with weights of one into a
    single channel, as in Apple's sums over channels, whose groups are the channels."""
    table, by_channel = problem.table, (1, None, None, 2, 3)
    limits = context.limits
    pieces = [neural_ops.spans(parts.shape[1], limits.groups), neural_ops.spans(parts.shape[3], limits.height),
              neural_ops.spans(parts.shape[4], limits.width)]
    with writable(context, problem.target, by_channel) as target:
        for image in range(parts.shape[0]):
            for channels, rows, columns in product(*map(tuple, pieces)):
                read = parts.part(0, image, 1).part(1, *channels).part(3, *rows).part(4, *columns)
                write = target.part(0, image, 1).part(1, *channels).part(2, *rows).part(3, *columns)
                context.emit(Convolution(
                    source=access(read, (1, 2, None, 3, 4)), result=access(write, by_channel),
                    shared=channels[1] > 1, post=neural_ops.with_table(problem.post, table),
                    coefficients=None if table is None else neural_ops.table_coefficients(context, table, 1)))


Route = Callable[[RecipeContext, Windowed], bool]
ROUTES: tuple[Route, ...] = (
    _padded,        # before anything shifts windows
    _strided,
    _dilated,       # behind strides: phases of a stride insert zeros themselves
    _large_kernel,
    _large_image,   # behind kernels: tiles need a reach
    _deep,
)
