"""Rows of any numbers of fp16 as their norms are computed: whole numbers, and what these leave of each number.

A row is multiplied by a power of two near the reciprocal of its deviation, which changes no digit, so that its numbers
are some of `unit` and fp16 splits them where that is needed. A power of two is what the largest digit of a number is:
with t = 1025 x, t - (t - x) in fp16 has no other.
"""

from __future__ import annotations

import math

import numpy as np

from openane.engine import Binary, Root
from openane.ops.halves import SMALLEST, half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.rounding import WHOLE
from openane.ops.stages import Stages
from openane.ops.step_rows import StepRows
from openane.record_classes import dataclass

LESS = 2.0 ** 3
"""Reciprocal deviations are held as so many times less, so that those of small numbers have an epsilon of fp16."""
LIFT = 2.0 ** 5
"""Such are a share of it when the power of two is taken, so that t is a number of fp16."""
MOST_ROOT = 2.0 ** 10
"""The largest of such that numbers are multiplied by."""
HALFWAY = 2.0 ** 10
"""The reciprocal of a power of two is held as so many times less."""
TURN = 1025.0
"""A power of two is t - (t - x) in fp16, where t is so many times x."""
FAR = 32.0
"""By how many deviations rows may be away from 0 to be multiplied by these; others by as much less."""
BITS = 8
"""Of whole numbers whose products with numbers of three digits fp16 holds."""
LOWEST, HIGHEST = 4.0, 32.0
"""The bounds of a unit: of what is left a 2^-12 is lost, and rows of few numbers gain nothing by more."""
CELLS = 2.0
"""How many raised roots of 1 a unit is: roots lie between 3/8 and 3/4."""


@dataclass(frozen=True, slots=True)
class NumberRows:
    """Rows, and cells of them: the reciprocal deviation of the numbers as they were, so many times less, and a power of
    two over what they were multiplied by."""

    rows: StepRows
    root: Tensor
    back: Tensor
    unit: float

    def scaled(self, root: Tensor, target: Tensor, times: float) -> None:
        """So many times the reciprocal deviation of rows, from that of the numbers as they were."""
        self.rows.lowering.elementwise(target, root, self.back, Binary.MULTIPLY,
                                       scale=times / self.unit * HALFWAY / (LIFT * LESS))


def unit_of(gain: np.ndarray, offset: np.ndarray, furthest: float, count: int) -> float:
    """What a deviation becomes, about: as much as leaves the numbers that matter among those of BITS. Results matter
    that are at most `furthest`, and no number is further from the mean of a row of so many than the root of that."""
    least = float(np.abs(gain).min())
    reach = math.sqrt(count)
    if least:
        reach = min(reach, (furthest + float(np.abs(offset).max())) / least)
    return float(np.clip(2.0 ** math.floor(math.log2(0.75 * 2 ** BITS / max(reach, 1.0))), LOWEST, HIGHEST))


def number_rows(lowering: Lowering, x: Tensor, centred: bool, epsilon: float, unit: float) -> NumberRows:
    """Rows of numbers whose squares' mean has epsilon added to it; less their mean where that is so, of which what is
    no whole number is taken from what whole numbers leave."""
    given, small, large = StepRows(lowering, x, None), Stages(lowering, (x.shape[0], 1, 1)), Stages(lowering, x.shape)
    mean, root, few = (given.cells(1) for _ in range(3))
    raised = given.share * LESS ** 2
    added = max(half(epsilon * LESS ** 2), SMALLEST)
    if centred:
        lowering.reduce(mean, x, (1, 2), final_scale=given.share)
        given.reduced(mean.expand(x.shape), x, root, Binary.SQUARE_SUM, negate=True, final_scale=raised,
                      epsilon=added, root=Root.RSQRT)
        lowering.reduce(few, x, (1, 2), final_scale=raised / FAR ** 2, epsilon=MOST_ROOT ** -2, root=Root.RSQRT,
                        square=True)
    else:
        lowering.reduce(root, x, (1, 2), final_scale=raised, epsilon=added, root=Root.RSQRT, square=True)
        few = lowering.constant(np.full((1, 1, 1), MOST_ROOT, np.float16)).expand(root.shape)
    few = small.planar(root, few, Binary.MINIMUM)
    power, back, factor = _power(small, few, given.cells(1)), given.cells(1), LESS * LIFT * unit
    lowering.reduce(back, power, (1, 2), final_scale=HALFWAY ** 2, root=Root.RSQRT, square=True)
    beside = large.times(x, power, scale=factor, bias=WHOLE)
    rest = large.planar(large.times(x, power, scale=factor), beside, subtract=True, bias=WHOLE)
    if not centred:
        return NumberRows(StepRows(lowering, large.planar(beside, bias=-WHOLE), None, rest), root, back, unit)
    d = large.planar(beside, small.times(mean, power, scale=factor, bias=WHOLE), subtract=True)
    left = given.cells(1)
    given.reduced(d, rest, left, Binary.ADD, final_scale=given.share)
    return NumberRows(StepRows(lowering, d, None, large.planar(rest, left, subtract=True)), root, back, unit)


def _power(stages: Stages, x: Tensor, target: Tensor) -> Tensor:
    """A power of two near x / LIFT."""
    raised = stages.planar(x, scale=TURN / LIFT)
    return stages.planar(raised, stages.planar(x, raised, pre_scale=-1 / LIFT), subtract=True, target=target)
