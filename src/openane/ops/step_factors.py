"""Numbers of fp16 by which a sum of two tensors of whole steps is taken, such that it is nearly what it stands for.

One task computes scale * (ratio * x + y): each operand has one number of fp16, which is off by up to 2^-12 of itself,
and so many steps of two tensors that a result in some hundred is another. Small multiples of both, added by a task
before it, are whole numbers that fp16 holds; scale * (ratio * (x + 2 * y) + 3 * x - y) has other numbers, and of
thousands of such sums one is fifty times as near.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from openane.ops.half_bits import from_half, to_half
from openane.ops.halves import LARGEST, SMALLEST_NORMAL, half, normal
from openane.ops.rounding import EXACT_WHOLE
from openane.record_classes import dataclass

NEAR = 2.0 ** -11
"""By how many steps a sum may be off at most; where it is more, other tasks are tried."""
FINER = 1.5
"""How many times nearer a sum must be that takes another task."""
FARTHEST = 16
WIDE = 2.0 ** -24
"""What fp32 rounds of a number."""
ALONE = (1, 0, 0, 1)
"""Counts of x and y: one of x that is multiplied, one of y that is added."""


@dataclass(frozen=True, slots=True)
class Factors:
    """scale * (ratio * (counts[0] * x + counts[1] * y) + counts[2] * x + counts[3] * y), where y is stored as so many
    `times` its steps. `error`: by how many steps that is off at most."""

    scale: float
    ratio: float
    times: int = 1
    counts: tuple[int, int, int, int] = ALONE
    error: float = 0.0


def factors(x: float, y: float, most_x: float, most_y: float, multiples: Sequence[int] = (1,)) -> Factors | None:
    """For x steps of the first and y of the second operand, which are at most so large; y may be stored as one of these
    multiples. With the fewest tasks, unless more are nearer; None where there are none."""
    found = _in_one_task(x, y, most_x, most_y, multiples)
    for tasks in (2, 3):
        if found is not None and found.error <= NEAR:
            break
        made = _in_more_tasks(x, y, most_x, most_y, tasks)
        if made is not None and (found is None or made.error * FINER < found.error):
            found = made
    return found


def _in_one_task(x: float, y: float, most_x: float, most_y: float, multiples: Sequence[int]) -> Factors | None:
    found: Factors | None = None
    for times in multiples:
        scale = half(y / times)
        ratio = half(x / scale) if scale and normal(scale) else 0.0
        if not ratio or not normal(ratio) or times * most_y > EXACT_WHOLE:
            continue
        error = abs(scale * ratio - x) * most_x + abs(scale * times - y) * most_y
        if found is None or error < found.error:
            found = Factors(scale, ratio, times, error=error)
    return found


@lru_cache(1024)
def _in_more_tasks(x: float, y: float, most_x: float, most_y: float, tasks: int) -> Factors | None:
    """With one of the two sums made before, or both. The ratio is what makes both operands right, the scale what errs
    least with its fp16."""
    sums = _sums(most_x, most_y)
    first = np.concatenate([sums, [ALONE[:2], ALONE[2:]]])[:, None]
    second = (first if tasks > 2 else first[-2:]).reshape(1, -1, 2)
    of_x, of_y, more_x, more_y = first[..., 0], first[..., 1], second[..., 0], second[..., 1]
    with np.errstate(all="ignore"):
        ratio = _halves((x * more_y - y * more_x) / (y * of_x - x * of_y))
        each_x, each_y = ratio * of_x + more_x, ratio * of_y + more_y
        weight_x, weight_y = each_x * most_x ** 2, each_y * most_y ** 2
        scale = _halves((x * weight_x + y * weight_y) / (each_x * weight_x + each_y * weight_y))
        error = np.abs(scale * each_x - x) * most_x + np.abs(scale * each_y - y) * most_y \
            + np.abs(scale * ratio) * (EXACT_WHOLE * WIDE)
        usable = _normal(scale) & _normal(ratio) & np.isfinite(error)
    if not usable.any():
        return None
    row, column = np.unravel_index(int(np.argmin(np.where(usable, error, np.inf))), error.shape)
    a, b = (int(count) for count in first[row, 0])
    c, d = (int(count) for count in second[0, column])
    return Factors(float(scale[row, column]), float(ratio[row, column]), 1, (a, b, c, d), float(error[row, column]))


def _sums(most_x: float, most_y: float) -> np.ndarray:
    """Counts of x and of y whose sum fp16 holds as it is, and of which the one is the other times a number of fp16."""
    counts = np.arange(-FARTHEST, FARTHEST + 1)
    pairs = np.stack(np.meshgrid(counts[counts != 0], counts[counts > 0], indexing="ij"), -1).reshape(-1, 2)
    exact = (pairs[:, 0] * FARTHEST) % pairs[:, 1] == 0
    return np.asarray(pairs[exact & (np.abs(pairs) @ np.array([most_x, most_y]) <= EXACT_WHOLE)])


def _halves(numbers: np.ndarray) -> np.ndarray:
    return from_half(to_half(numbers.astype(np.float32))).astype(np.float64)


def _normal(numbers: np.ndarray) -> np.ndarray:
    return np.asarray((np.abs(numbers) >= SMALLEST_NORMAL) & (np.abs(numbers) <= LARGEST))
