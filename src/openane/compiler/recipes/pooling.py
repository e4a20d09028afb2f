"""Maximum pooling over one, two or three axes, of any kernel, stride and size.

A maximum of maxima is a maximum, and minus infinity pads: large kernels are stages of small ones, depth is pooled after
rows and columns with the two exchanged. The windowed operation itself is inferred (engine.Pooling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openane.compiler.loops.assign import OperandRole, access, legal, row_cut
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.convolution import IMAGES, crops
from openane.compiler.recipes.convolution_problem import Pair, pair, tiles
from openane.compiler.recipes.data_movement import writable
from openane.compiler.recipes.neural_ops import channel_step
from openane.engine import Pool, Pooling
from openane.ops.lowering import Tensor
from openane.ops.phases import turned
from openane.ops.tensor import as_planes
from openane.record_classes import dataclass

Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Pooled:
    """target [N, C, Ho, Wo] = windows of source [N, C, H, W], folded by `kind`; `padding` is what lies before."""

    source: Tensor
    target: Tensor
    kind: Pool
    kernel: Pair
    stride: Pair
    padding: Pair

    @property
    def reach(self) -> Pair:
        """Elements from the first to the last of a window."""
        return self.kernel


def pool(context: RecipeContext, target: Tensor, source: Tensor, kind: Pool, kernel: Numbers, stride: Numbers,
         padding: Numbers) -> None:
    """See ops.lowering.Lowering."""
    if source.rank == 5:
        _deep(context, target, source, kind, kernel, stride, padding)
        return
    if source.rank == 3:
        source, target = as_planes(source), as_planes(target)
        kernel, stride, padding = (1, *kernel), (1, *stride), (0, *padding)
    solve(context, Pooled(source, target, kind, (kernel[0], kernel[1]), (stride[0], stride[1]),
                          (padding[0], padding[1])))


def _deep(context: RecipeContext, target: Tensor, source: Tensor, kind: Pool, kernel: Numbers, stride: Numbers,
          padding: Numbers) -> None:
    """Rows and columns of every depth first, the depths being images; then depth, the rows being images."""
    n, c, d, _, _ = source.shape
    flat = context.scratch((n, c, d, *target.shape[3:]))
    for image in range(n):
        solve(context, Pooled(_images(source, image, 2), _images(flat, image, 2), kind, (kernel[1], kernel[2]),
                              (stride[1], stride[2]), (padding[1], padding[2])))
        solve(context, Pooled(_images(flat, image, 3), _images(target, image, 3), kind, (kernel[0], 1),
                              (stride[0], 1), (padding[0], 0)))


def _images(tensor: Tensor, image: int, axis: int) -> Tensor:
    """One image of [N, C, D, H, W] with `axis` (D or H) in the place of N: [axis, C, the other, W]."""
    other = 5 - axis
    return tensor.part(0, image, 1).only((axis, 1, other, 4))


def solve(context: RecipeContext, problem: Pooled) -> None:
    """Emits the pooling as operations the fields can state."""
    results = problem.target.shape[2:]
    stride = tuple(step if result > 1 else 1 for step, result in zip(problem.stride, results, strict=True))
    with writable(context, problem.target, IMAGES) as target:
        problem = replace(problem, target=target, stride=stride)  # type: ignore[arg-type]
        if not (_subsampled(context, problem) or _staged(context, problem) or _tiled(context, problem)):
            _emit(context, problem)


def _subsampled(context: RecipeContext, problem: Pooled) -> bool:
    """A stride beyond the field: every stride-th result of the pooling with stride 1."""
    if max(problem.stride) <= context.limits.stride:
        return False
    far = [step if step > context.limits.stride else 1 for step in problem.stride]
    shape = (*problem.target.shape[:2], *((result - 1) * step + 1 for result, step in zip(
        problem.target.shape[2:], far, strict=True)))
    whole = context.scratch(shape, turned(shape, far))
    near = tuple(1 if step > 1 else own for step, own in zip(far, problem.stride, strict=True))
    solve(context, replace(problem, target=whole, stride=near))  # type: ignore[arg-type]
    for axis, step in enumerate(far, 2):
        whole = whole.part(axis, 0, problem.target.shape[axis], step)
    context.copy(whole, problem.target)
    return True


def _staged(context: RecipeContext, problem: Pooled) -> bool:
    """A kernel beyond the field: a first stage of the largest kernel, whose windows overlap in all but one element,
    then the rest of the kernel over its results."""
    for axis, limit in ((0, context.limits.kernel_height), (1, context.limits.kernel_width)):
        kernel, before, extent = problem.kernel[axis], problem.padding[axis], problem.source.shape[2 + axis]
        if kernel <= limit:
            continue
        rest, first = kernel - limit + 1, min(before, limit - 1)
        read = (problem.target.shape[2 + axis] - 1) * problem.stride[axis] + rest - (before - first)
        shape = list(problem.source.shape)
        shape[2 + axis] = min(read, extent + first)
        stage = context.scratch(shape)
        other = 1 - axis
        small, none = pair((1, 1), axis, limit), pair((0, 0), axis, first)
        solve(context, Pooled(problem.source, stage, problem.kind, small, (1, 1), none))
        assert stage.shape[2 + other] == problem.source.shape[2 + other]
        solve(context, replace(problem, source=stage, kernel=pair(problem.kernel, axis, rest),
                               padding=pair(problem.padding, axis, before - first)))
        return True
    return False


def _tiled(context: RecipeContext, problem: Pooled) -> bool:
    """An image beyond the fields is pooled tile by tile; batches and channels too."""
    limits = context.limits
    for axis, limit in ((0, limits.height), (1, limits.width)):
        if max(problem.target.shape[2 + axis], problem.source.shape[2 + axis]) <= limit:
            continue
        found = tiles(problem, axis, limit, channel_step(context))
        sources = crops(context, problem.source, 2 + axis, [(max(tile.low, 0), tile.high) for tile in found])
        for tile, source in zip(found, sources, strict=True):
            target = problem.target.part(2 + axis, tile.start, tile.count)
            solve(context, replace(problem, source=source, target=target,
                                   padding=pair(problem.padding, axis, max(-tile.low, 0))))
        return True
    for axis, limit in ((0, limits.groups), (1, limits.channels)):
        extent = problem.source.shape[axis]
        if extent > limit:
            size = limit // row_cut(limits) * row_cut(limits) or limit
            for start in range(0, extent, size):
                count = min(size, extent - start)
                solve(context, replace(problem, source=problem.source.part(axis, start, count),
                                       target=problem.target.part(axis, start, count)))
            return True
    return False


def _emit(context: RecipeContext, problem: Pooled) -> None:
    source = problem.source
    if problem.kernel == problem.stride == (1, 1) and source.shape == problem.target.shape:
        context.copy(source, problem.target)
        return
    if not legal(access(source, IMAGES), OperandRole.NEURAL_SOURCE, context.limits):
        source = context.copied(source)
    context.emit(Pooling(first=access(source, IMAGES), result=access(problem.target, IMAGES), pool=problem.kind,
                          kernel=problem.kernel, stride=problem.stride, padding=problem.padding))
