"""Weights of convolutions and matrix products in the form they are computed with, and what is worth knowing of constant
ones.

Unrolling (im2col), shuffling and folding are convolutions whose kernels are nearly all zero. Two things are looked for.
Terms for which no output channel has a weight need not be formed, where leaving them out changes no sum. And where
every output channel has a single weight, the same number for all, each result is a function of one source element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from openane.record_classes import dataclass
from openane.simulator.arithmetic import Accumulator, all_finite, decoded, encode_away, saturate
from openane.simulator.arithmetic.half import INFINITY_BITS, Bits, Floats
from openane.simulator.coefficients import PackedWeights
from openane.simulator.post import PostStage

SAMPLED = 256


@dataclass(frozen=True, slots=True)
class Single:
    """The one weight every output channel has, and the term each has it for."""

    weight: float
    terms: tuple[int, ...]

    def results(self, stage: PostStage, accumulator: Accumulator, relu: bool, limited: bool) -> Bits:
        """fp16 results by fp16 words, infinities and NaN excepted. `relu`: no source element is below zero; `limited`:
        sums have the accumulator's range."""
        words = np.arange(1 << 16, dtype=np.uint16)
        words[words & INFINITY_BITS == INFINITY_BITS] = 0
        numbers = np.maximum(decoded(words), 0 if relu else -np.inf)
        sums = accumulator.outer(np.full((1, 1), self.weight, np.float32), numbers[None], finite=True)
        if limited:
            saturate(sums)
        return encode_away(stage.apply(sums)).reshape(-1)


class LateValues:
    """float32 weights that are unpacked when somebody asks for them."""

    __slots__ = "_found", "_read"

    def __init__(self, read: Callable[[], Floats]) -> None:
        self._read = read
        self._found: Floats | None = None

    def __call__(self) -> Floats:
        """The weights, which are read once."""
        if self._found is None:
            self._found = self._read()
        return self._found


@dataclass(frozen=True, slots=True)
class ConvolutionWeights:
    """float32 weights [groups, channels, terms], perhaps late ones, biases [groups, channels] and the post stage.

    `finite` may be taken for true of `assumed` ones, which are read where they lie: a product says whether they were.
    `used` are the terms (ascending) some channel has a weight for, where those are half of all or fewer.
    `packed` are the same weights in their memory, where a single column is multiplied in fast arithmetic.
    """

    numbers: Floats | LateValues
    bias: Floats | None
    stage: PostStage
    finite: bool
    used: np.ndarray | None = None
    single: Single | None = None
    packed: PackedWeights | None = None
    assumed: bool = False

    @property
    def values(self) -> Floats:
        """The weights."""
        return self.numbers() if isinstance(self.numbers, LateValues) else self.numbers

    @property
    def ordered(self) -> bool:
        """Whether products are added in the order of the terms, by numpy as by the loop over packed weights."""
        return self.packed is not None and self.stage.table is None

    @staticmethod
    def late(read: Callable[[], Floats], bias: Floats | None, stage: PostStage, packed: PackedWeights,
             assumed: bool = False) -> ConvolutionWeights:
        """Finite ones that are `read` where the loop over packed weights does not do."""
        return ConvolutionWeights(LateValues(read), bias, stage, True, packed=packed, assumed=assumed)

    def certain(self) -> ConvolutionWeights:
        """With their own finiteness where that was assumed."""
        return replace(self, finite=all_finite(self.values), assumed=False) if self.assumed else self

    @staticmethod
    def of(values: Floats, bias: Floats | None, stage: PostStage, finite: bool | None = None,
           packed: PackedWeights | None = None) -> ConvolutionWeights:
        """With what is worth knowing about them; `finite` where that is known."""
        return ConvolutionWeights(values, bias, stage, all_finite(values) if finite is None else finite, packed=packed)

    def studied(self) -> ConvolutionWeights:
        """With what takes a look at every weight to know: worth it for constants that are not late."""
        if isinstance(self.numbers, LateValues):
            return self
        values, terms = self.values, self.values.shape[2]
        sample = values.reshape(-1)[::max(1, values.size // SAMPLED)]
        if not self.finite or 2 * np.count_nonzero(sample) > sample.size:
            return self
        present = values != 0
        used = np.flatnonzero(present.any(axis=(0, 1)))
        return replace(self, used=used if 0 < 2 * len(used) <= terms else None, single=self._single(present))

    def _single(self, present: np.ndarray) -> Single | None:
        if len(present) != 1 or self.bias is not None or not (present.sum(axis=2) == 1).all():
            return None
        numbers = self.values[present]
        if not numbers.size or (numbers != numbers[0]).any():
            return None
        return Single(float(numbers[0]), tuple(present[0].argmax(axis=1).tolist()))


def term_order(rows: int, kernel: tuple[int, int, int]) -> np.ndarray:
    """Row of the stream (input channel slowest, then kernel plane, row, column) behind every term."""
    return np.arange(rows).reshape(-1, *kernel).transpose(2, 0, 1, 3).reshape(-1)
