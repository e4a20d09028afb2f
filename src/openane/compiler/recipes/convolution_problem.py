"""A convolution still to be expressed: what is asked for, whatever the engine's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Protocol

import numpy as np

from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.ops.lowering import Tensor
from openane.record_classes import dataclass

Pair = tuple[int, int]


class WindowProblem(Protocol):
    """What a convolution and a pooling have in common."""

    @property
    def source(self) -> Tensor:
        """[N, C, H, W]."""
        ...

    @property
    def target(self) -> Tensor:
        """[N, C, Ho, Wo]."""
        ...

    @property
    def reach(self) -> Pair:
        """Elements from the first to the last of a window, both included."""
        ...

    @property
    def stride(self) -> Pair:
        """Elements from window to window."""
        ...

    @property
    def padding(self) -> Pair:
        """What lies before the first element."""
        ...


@dataclass(frozen=True, slots=True)
class Windowed:
    """target [N, Cout, Ho, Wo] = post(convolution of source [N, Cin, H, W] with weights [Cout, Cin / groups, Kh, Kw]).

    `stride`, `padding` (zeros before) and `dilation` are (height, width). What lies behind the last element is zeros,
    as many as the target's extents ask for.
    """

    source: Tensor
    target: Tensor
    weights: np.ndarray
    bias: np.ndarray | None = None
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    post: Post | None = None
    table: Table | None = None

    @property
    def kernel(self) -> Pair:
        """Taps per axis."""
        return int(self.weights.shape[2]), int(self.weights.shape[3])

    @property
    def reach(self) -> Pair:
        """Elements from the first to the last tap, both included."""
        (high, wide), (down, across) = self.kernel, self.dilation
        return (high - 1) * down + 1, (wide - 1) * across + 1

    @property
    def extents(self) -> Pair:
        """Height and width of the source."""
        return self.source.shape[2], self.source.shape[3]

    @property
    def results(self) -> Pair:
        """Height and width of the target."""
        return self.target.shape[2], self.target.shape[3]

    @property
    def depthwise(self) -> bool:
        """Whether every channel has one of its own."""
        return 1 < self.groups == self.source.shape[1] == int(self.weights.shape[0])

    @property
    def rows(self) -> int:
        """Weights of one output channel."""
        return prod(self.weights.shape[1:])

    @property
    def clamps(self) -> bool:
        """Whether nothing but a ReLU, if that, follows the sum."""
        return self.table is None and self.post in (None, Post(), Post(activation=Activation.RELU))

    def along(self, axis: int, **changes: object) -> Windowed:
        """The problem with one number of each named pair replaced: `along(1, padding=0)`. Axis 0 is height."""
        pairs = {name: pair(getattr(self, name), axis, int(value))  # type: ignore[call-overload]
                 for name, value in changes.items()}
        return replace(self, **pairs)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class AxisTile:
    """`count` results of one axis from `start`, and the source elements they read: the first (negative: in the padding)
    and one past the last."""

    start: int
    count: int
    low: int
    high: int


def tiles(problem: WindowProblem, axis: int, limit: int, step: int) -> list[AxisTile]:
    """The results along one axis in tiles that neither they nor their sources exceed `limit` in; several begin at
    multiples of `step`, so that rows can be cut there."""
    reach, stride, before = problem.reach[axis], problem.stride[axis], problem.padding[axis]
    extent, results = problem.source.shape[2 + axis], problem.target.shape[2 + axis]
    size = max(1, (limit - reach) // stride + 1)
    size = size // step * step if size > step else size
    found = []
    for start in range(0, results, size):
        count, low = min(size, results - start), start * stride - before
        found.append(AxisTile(start, count, low, min(low + (count - 1) * stride + reach, extent)))
    return found


def pair(values: Sequence[int], axis: int, value: int) -> Pair:
    """`values` with the number of one axis replaced."""
    return (value, values[1]) if axis == 0 else (values[0], value)


def spread(weights: np.ndarray, dilation: Sequence[int]) -> np.ndarray:
    """Weights [Cout, Cin, *kernel] with zeros between the taps."""
    if all(step == 1 for step in dilation):
        return weights
    kernel = tuple((extent - 1) * step + 1 for extent, step in zip(weights.shape[2:], dilation, strict=True))
    wide = np.zeros((*weights.shape[:2], *kernel), weights.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, step) for step in dilation))] = weights
    return wide


def normal(problem: Windowed) -> Windowed:
    """The problem with settings that do not matter at 1: strides between single windows, dilations of single taps.

    A stride of 2 along one axis is one along both where the other has a single window: that form is the proved one.
    """
    stride = tuple(step if result > 1 else 1 for step, result in zip(problem.stride, problem.results, strict=True))
    if not problem.depthwise and sorted(stride) == [1, 2] and problem.results[stride.index(1)] == 1:
        stride = (2, 2)
    dilation = tuple(step if taps > 1 else 1 for step, taps in zip(problem.dilation, problem.kernel, strict=True))
    if stride == problem.stride and dilation == problem.dilation:
        return problem
    return replace(problem, stride=(stride[0], stride[1]), dilation=(dilation[0], dilation[1]))
