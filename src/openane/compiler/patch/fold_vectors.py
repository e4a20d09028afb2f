"""Works out, for new weights, what the operations folded into them make of them: one gain and one bias per output
channel.

The rule is that of the pass `fold_affine`. For a weight w and a bias b of an output channel, a step with gain g and
offset o gives w * g and b * g + o, computed in float64 and rounded to fp16, one step after the other. Here the vectors
of all routes lie in one array, so that one step of all routes is a few operations on that array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from openane.compiler.weights.layout_records import HALF, ConstantRecord, Fold, FoldOperation, Route
from openane.ops.batch_norm import gain_and_offset
from openane.passes.fold_affine import OVERFLOW
from openane.record_classes import dataclass

Numbers = np.ndarray
NEUTRAL = {FoldOperation.NORM: (0.0, 1.0, 1.0, 0.0, 1e-5)}
"""What an operand that is left out stands for."""


def _norm(mean: Numbers, variance: Numbers, gamma: Numbers, beta: Numbers, epsilon: Numbers) -> tuple[Numbers, Numbers]:
    return gain_and_offset(mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=epsilon)


RULES: Mapping[FoldOperation, Callable[..., tuple[Numbers | float, Numbers | float]]] = {
    FoldOperation.NORM: _norm,
    FoldOperation.MULTIPLY: lambda v: (v, 0.0),
    FoldOperation.DIVIDE: lambda v: (1 / v, 0.0),
    FoldOperation.ADD: lambda v: (1.0, v),
    FoldOperation.SUBTRACT: lambda v: (1.0, -v),
    FoldOperation.SUBTRACT_FROM: lambda v: (-1.0, v),
}
"""Gain and offset of each channel from the step's vectors, in float64."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Folds of one kind of one level: where their channels lie, and where the operands lie in the pool."""

    step: FoldOperation
    channels: np.ndarray
    operands: tuple[np.ndarray, ...]


class Vectors:
    """The vectors of routes. `starts` are where each route's channels begin; routes come with most steps first."""

    def __init__(self, routes: Sequence[Route], constants: Mapping[str, ConstantRecord]) -> None:
        self.routes = routes
        self.starts = [0, *accumulate(route.channels for route in routes)]
        self._names = tuple(dict.fromkeys(name for route in routes for name in route.vectors))
        sizes = [constants[name].elements for name in self._names]
        self._half = np.repeat([constants[name].dtype == HALF for name in self._names], sizes).astype(bool)
        self._places = dict(zip(self._names, accumulate(sizes, initial=0), strict=False))
        self._sizes = dict(zip(self._names, sizes, strict=True))
        self._literals: list[float] = []
        self._end = sum(sizes)
        self._bias = np.concatenate([_EMPTY, *(self._indices(route.bias, route.channels, 0.0) for route in routes)])
        depth = max((len(route.steps) for route in routes), default=0)
        self._levels = [self._level(depth) for depth in range(depth)]

    def pool(self, arrays: Mapping[str, np.ndarray]) -> Numbers:
        """Every number the steps read, as float64, rounded as the constants are stored."""
        flat = np.concatenate([_NONE, *(arrays[name].reshape(-1) for name in self._names)], dtype=np.float64,
                              casting="unsafe")
        rounded = np.where(self._half, flat.astype(np.float16), flat.astype(np.float32)).astype(np.float64)
        return np.concatenate((rounded, self._literals))

    def biases(self, pool: Numbers) -> Numbers:
        """The bias of every channel before any step, zero where there is none."""
        return np.asarray(pool[self._bias])

    def gains(self, pool: Numbers, level: int) -> tuple[Numbers, Numbers]:
        """Gain and offset of step number `level` for the channels of all routes that have one: these come first."""
        parts = self._levels[level]
        gain, offset = (np.empty(sum(part.channels.size for part in parts)) for _ in range(2))
        for part in parts:
            gain[part.channels], offset[part.channels] = RULES[part.step](*(pool[each] for each in part.operands))
        return gain, offset

    @property
    def depth(self) -> int:
        """The most steps a route has."""
        return len(self._levels)

    def with_step(self, level: int) -> int:
        """How many routes have a step number `level`."""
        return sum(len(route.steps) > level for route in self.routes)

    def _level(self, level: int) -> list[_Part]:
        found: dict[FoldOperation, list[tuple[int, int, Fold]]] = {}
        for start, route in zip(self.starts, self.routes, strict=False):
            if len(route.steps) > level:
                found.setdefault(route.steps[level].step, []).append((start, route.channels, route.steps[level]))
        return [self._part(step, folds) for step, folds in found.items()]

    def _part(self, step: FoldOperation, folds: list[tuple[int, int, Fold]]) -> _Part:
        channels = np.concatenate([np.arange(start, start + count) for start, count, _ in folds])
        neutral = NEUTRAL.get(step, (0.0,))
        operands = tuple(np.concatenate([self._indices(fold.operands[place], count, neutral[place])
                                         for _, count, fold in folds]) for place in range(len(neutral)))
        return _Part(step, channels, operands)

    def _indices(self, operand: str | tuple[float, ...] | None, count: int, neutral: float) -> np.ndarray:
        """Where the numbers of an operand lie in the pool, one for each of `count` channels."""
        if isinstance(operand, str):
            start, size = self._places[operand], self._sizes[operand]
        else:
            numbers = (neutral,) if operand is None else operand
            start, size = self._end + len(self._literals), len(numbers)
            self._literals += numbers
        return np.arange(start, start + count) if size == count else np.full(count, start)


_EMPTY = np.zeros(0, np.int64)
_NONE = np.zeros(0)


@dataclass(frozen=True, slots=True)
class FoldedVectors:
    """What steps make of all channels: `gains` of each level, the `bias` in fp16, which routes have one, and of each
    level which routes have a gain other than one."""

    gains: tuple[Numbers, ...]
    bias: np.ndarray
    biased: np.ndarray
    scaled: tuple[np.ndarray, ...]


def fold(vectors: Vectors, pool: Numbers) -> FoldedVectors | None:
    """All steps of all routes; None where fp16 does not hold what would become a bias, or a gain is no number."""
    bias = vectors.biases(pool)
    biased = np.array([route.bias is not None for route in vectors.routes], bool)
    gains, scaled = [], []
    for level in range(vectors.depth):
        gain, offset = vectors.gains(pool, level)
        count, end = vectors.with_step(level), gain.size
        starts = vectors.starts[:count]
        shift = bias[:end] * gain + offset
        if not (np.abs(shift).max(initial=0) < OVERFLOW and np.isfinite(gain).all()):
            return None
        biased[:count] |= np.logical_or.reduceat(shift != 0, starts)
        scaled.append(np.logical_or.reduceat(gain != 1, starts))
        bias[:end] = shift.astype(np.float16)
        gains.append(gain)
    return FoldedVectors(tuple(gains), bias.astype(np.float16), biased, tuple(scaled))
