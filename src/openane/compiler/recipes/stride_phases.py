"""Strides and dilations by phases: phase r of an axis is every s-th element, from element r on.

A strided convolution reads the phases of its source as additional channels. A dilated one works on each phase by
itself. One copy gathers the phases; another one scatters the results of dilated convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.convolution_problem import Pair, Windowed, spread
from openane.ops.phases import blocks, interleaved, turned
from openane.rounding import ceil_div

Solve = Callable[[RecipeContext, Windowed], None]
SUBSAMPLED = 3
"""Grouped convolutions of strides up to this are computed at stride 1 and every so-manieth result is kept."""


def subsampled(context: RecipeContext, problem: Windowed, solve: Solve) -> None:
    """Every stride-th result of the convolution with stride 1."""
    shape = (*problem.target.shape[:2], *((result - 1) * step + 1 for result, step in zip(
        problem.results, problem.stride, strict=True)))
    order = turned(shape, (problem.stride[0], problem.stride[1]))
    direct = order is None or problem.depthwise
    whole = context.scratch(shape, order if direct else None)
    solve(context, replace(problem, target=whole, stride=(1, 1)))
    if not direct:
        again = context.scratch(shape, order)
        context.copy(whole, again)
        whole = again
    for axis, step in enumerate(problem.stride, 2):
        whole = whole.part(axis, 0, problem.target.shape[axis], step)
    context.copy(whole, problem.target)


def strided(context: RecipeContext, problem: Windowed, solve: Solve) -> None:
    """A convolution of stride s along an axis is one of stride 1 over s times as many channels: element s * q + r of
    the source is element q of phase r. Phases no tap falls on are left out."""
    weights = spread(problem.weights, problem.dilation)
    axes = [_Axis.of(*numbers) for numbers in zip(weights.shape[2:], problem.stride, problem.padding,
                                                   problem.extents, problem.results, strict=True)]
    seen = blocks(context, problem.source, problem.groups, [axis.stride for axis in axes],
                  [axis.count for axis in axes])
    for position, axis in zip((4, 6), axes, strict=True):
        seen = seen.part(position, axis.first, axis.phases)
    ordered = seen.transpose((0, 1, 4, 6, 2, 3, 5))
    gathered = context.scratch((ordered.shape[0], int(np.prod(ordered.shape[1:5])), *ordered.shape[5:]))
    view = gathered.reshape(ordered.shape)
    assert view is not None, "splitting outer dimensions needs no copy"
    context.copy(ordered, view)
    solve(context, replace(problem, source=gathered, weights=_weights_by_phase(weights, axes), stride=(1, 1),
                           dilation=(1, 1), padding=(axes[0].padding, axes[1].padding)))


class _Axis:
    """One axis of a strided convolution in blocks of `stride`: the kernel starts `lead` elements into a block and
    covers `taps` blocks, `padding` blocks of zeros lie before the source, `count` blocks of it are read; phases
    `first` and on (`phases` of them) hold taps."""

    def __init__(self, lead: int, taps: int, padding: int, count: int, stride: int, first: int, phases: int) -> None:
        self.lead, self.taps, self.padding, self.count = lead, taps, padding, count
        self.stride, self.first, self.phases = stride, first, phases

    @staticmethod
    def of(kernel: int, stride: int, padding: int, extent: int, results: int) -> _Axis:
        """The axis with its padding rounded up to whole blocks."""
        lead = -padding % stride
        taps, before = ceil_div(lead + kernel, stride), (padding + lead) // stride
        count = min(ceil_div(extent, stride), results - 1 + taps - before)
        single = taps == 1
        return _Axis(lead, taps, before, count, stride, lead if single else 0, kernel if single else stride)


def _weights_by_phase(weights: np.ndarray, axes: list[_Axis]) -> np.ndarray:
    """[Cout, Cin, Kh, Kw] as [Cout, rh * rw * Cin, qh, qw], for the phases that hold taps."""
    outputs, inputs = weights.shape[:2]
    high, wide = axes
    places = tuple(slice(axis.lead - axis.first, axis.lead - axis.first + extent)
                   for axis, extent in zip(axes, weights.shape[2:], strict=True))
    whole = np.zeros((outputs, inputs, high.taps * high.phases, wide.taps * wide.phases), weights.dtype)
    whole[:, :, places[0], places[1]] = weights
    parts = whole.reshape(outputs, inputs, high.taps, high.phases, wide.taps, wide.phases)
    return parts.transpose(0, 3, 5, 1, 2, 4).reshape(outputs, -1, high.taps, wide.taps)


def dilated(context: RecipeContext, problem: Windowed, solve: Solve) -> None:
    """Taps d apart never leave their phase: the d x d phases of the source are images of their own."""
    factors = problem.dilation
    late: Pair = (-problem.padding[0] % factors[0], -problem.padding[1] % factors[1])
    padding: Pair = ((problem.padding[0] + late[0]) // factors[0], (problem.padding[1] + late[1]) // factors[1])
    results = [ceil_div(result + skip, factor) for result, skip, factor in zip(
        problem.results, late, factors, strict=True)]
    counts = [min(ceil_div(extent, factor), result - 1 + taps - before) for extent, factor, result, taps, before in zip(
        problem.extents, factors, results, problem.kernel, padding, strict=True)]
    images = blocks(context, problem.source, 1, factors, counts).transpose((0, 4, 6, 1, 2, 3, 5))
    n, channels = problem.target.shape[:2]
    batch = n * factors[0] * factors[1]
    gathered = context.scratch((batch, *images.shape[4:]))
    made = context.scratch((batch, channels, *results))
    view, parts = gathered.reshape(images.shape), made.reshape((n, *factors, 1, channels, *results))
    assert view is not None, "splitting outer dimensions needs no copy"
    assert parts is not None, "splitting outer dimensions needs no copy"
    context.copy(images, view)
    solve(context, replace(problem, source=gathered, target=made, dilation=(1, 1), padding=padding))
    interleaved(context, parts.transpose((0, 3, 4, 5, 1, 6, 2)), factors, late, problem.target)
