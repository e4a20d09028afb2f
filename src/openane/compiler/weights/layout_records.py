"""The routes of a model's weights as plain data: what it takes to write new weights in place of the old ones.

A route leads from one weight of the model, and the vectors that are folded into it, to the pieces of the constant
sections that are made of them. On their way the numbers are rounded to the weight's element type, multiplied by the
gains of the `steps` that were folded in, rounded again after each of them, and copied to their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from math import prod

import numpy as np

from openane.record_classes import dataclass

HALF = "fp16"


class FoldOperation(StrEnum):
    """What an operation that is folded into a weight does to each output channel; v is its constant vector. The value
    is what a file calls it."""

    NORM = "batch_norm"         # (x - mean) / sqrt(variance + epsilon) * gamma + beta
    MULTIPLY = "mul"            # x * v
    DIVIDE = "real_div"         # x / v
    ADD = "add"                 # x + v
    SUBTRACT = "sub"            # x - v
    SUBTRACT_FROM = "sub_from"  # v - x


class ConstantForm(StrEnum):
    """How a piece of constants is laid out."""

    DENSE = "dense"    # coefficient streams, see packing.DenseForm
    SPARSE = "sparse"  # zero-skipping streams, see packing.pack_sparse
    ROWS = "rows"      # rows of halfwords, each padded to 64 bytes


@dataclass(frozen=True, slots=True)
class WeightView:
    """Elements of a weight in row-major order: the first and the strides are counted in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, flat: np.ndarray) -> np.ndarray:
        """The elements of a contiguous array, without a copy."""
        size = flat.itemsize
        return np.ndarray(self.shape, flat.dtype, flat, self.offset * size, tuple(size * step for step in self.strides))

    @staticmethod
    def whole(shape: tuple[int, ...]) -> WeightView:
        """All elements of an array of that shape."""
        return WeightView(0, shape, tuple(prod(shape[axis + 1:]) for axis in range(len(shape))))

    def through(self, part: WeightView) -> WeightView | None:
        """The elements `part` sees of a memory in which these lie one behind the other; None where they do not follow
        each other at even distances."""
        axes = _merged(self)
        first = _digits(part.offset, axes)
        last, strides = first, []
        for extent, step in zip(part.shape, part.strides, strict=True):
            turned = _digits(step, axes) if extent > 1 else [0] * len(axes)
            last = [most + (extent - 1) * digit for most, digit in zip(last, turned, strict=True)]
            strides.append(_sum(turned, axes))
        if any(most >= extent for most, (extent, _) in zip(last, axes, strict=True)):
            return None
        return WeightView(self.offset + _sum(first, axes), part.shape, tuple(strides))

    @property
    def elements(self) -> int:
        """How many elements are seen, repeated ones counted."""
        return prod(self.shape)

    @property
    def end(self) -> int:
        """One past the last element that is seen."""
        return 1 + self.offset + sum((extent - 1) * step for extent, step in zip(self.shape, self.strides, strict=True))


def _merged(view: WeightView) -> list[tuple[int, int]]:
    """Extents and strides, one pair for dimensions that follow each other at even distances."""
    axes: list[tuple[int, int]] = []
    for extent, step in zip(view.shape, view.strides, strict=True):
        outer = axes.pop()[0] if axes and axes[-1][1] == extent * step else 1
        axes.append((outer * extent, step))
    return axes


def _digits(place: int, axes: list[tuple[int, int]]) -> list[int]:
    """The index along each dimension of a place, counted row by row."""
    digits = []
    for extent, _ in reversed(axes):
        digits.append(place % extent)
        place //= extent
    return digits[::-1]


def _sum(digits: list[int], axes: list[tuple[int, int]]) -> int:
    return sum(digit * step for digit, (_, step) in zip(digits, axes, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class Picked:
    """Elements of a weight in any order: numbers from 1 on, 0 where there is a zero. What lowerings make that lay the
    taps of a kernel out anew."""

    numbers: np.ndarray = field(repr=False)

    def of(self, flat: np.ndarray) -> np.ndarray:
        """The elements of a contiguous array, copied."""
        return np.take(np.concatenate((np.zeros(1, flat.dtype), flat)), self.numbers)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is picked."""
        return self.numbers.shape


@dataclass(frozen=True, slots=True)
class ConstantPiece:
    """Constants of one task, or one tensor, at `offset` of a program's section.

    `weights` sees [groups, channels, rows] of a dense piece, [groups, channels, inputs, Kh, Kw] of a zero-skipping one,
    [rows, width] of rows; `bias` [groups, channels] of the vector of biases. `streams` is (core, offset in the piece,
    bytes), stated for zero-skipping pieces alone, whose sizes depend on the weights.
    """

    program: int
    offset: int
    form: ConstantForm
    weights: WeightView | Picked
    bias: WeightView | None = None
    lanes: int = 1
    table: bool = False
    streams: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """One folded step and its operands: names of constants, numbers where no constant of the model gives them, or None
    for what is left out. Those of a norm are mean, variance, gamma, beta and epsilon; other steps have the vector
    alone."""

    step: FoldOperation
    operands: tuple[str | tuple[float, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """The way from `weight` [outer, channels, inner] (in row-major order, whatever its own shape) and `bias` [channels]
    through `steps` to `pieces`. Without a weight, the pieces are made of the gains and offsets of the one step."""

    weight: str | None
    extents: tuple[int, int, int]
    bias: str | None
    steps: tuple[Fold, ...]
    biased: bool
    pieces: tuple[ConstantPiece, ...]

    @property
    def channels(self) -> int:
        """Output channels: elements of every vector."""
        return self.extents[1]

    @property
    def scales(self) -> bool:
        """Whether a step can change the weight."""
        return any(fold.step not in (FoldOperation.ADD, FoldOperation.SUBTRACT) for fold in self.steps)

    @property
    def vectors(self) -> tuple[str, ...]:
        """Names of the constants it takes beside the weight."""
        named = [operand for fold in self.steps for operand in fold.operands if isinstance(operand, str)]
        return (*named, *(() if self.bias is None else (self.bias,)))

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of all constants it takes."""
        return (*(() if self.weight is None else (self.weight,)), *self.vectors)


@dataclass(frozen=True, slots=True)
class ConstantRecord:
    """Element type (MIL's name) and shape of a constant of the model. `number` is the value of one that is a single
    number when the model was saved: the graph need not be read for it."""

    dtype: str
    shape: tuple[int, ...]
    number: float | None = field(default=None, compare=False)

    @property
    def elements(self) -> int:
        """Elements of it."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Routes:
    """All routes of a model, the constants they begin at, and in `complete` the constants that go no other way: only
    those can be given new numbers in place. `refused` says why there are no routes, where a file had some that cannot
    be used."""

    routes: tuple[Route, ...] = ()
    constants: Mapping[str, ConstantRecord] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()
    refused: str = ""

    def of(self, names: frozenset[str]) -> tuple[Route, ...]:
        """The routes on which one of those constants lies."""
        return tuple(route for route in self.routes if not names.isdisjoint(route.sources))
