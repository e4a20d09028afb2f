"""Rounds a weight such that its layer's results, not its numbers, are near.

Columns are rounded one after another, and the error of each is made good by those that follow as far as the inputs'
second moments let them: H = U D U', U of unit diagonal, and column k is rounded after U[:k, k] of the errors before it
was added. This is the rounding of GPTQ (Frantar and others, 2022), in the form that QuIP (Chee and others, 2023) shows
to be the same, which needs one Cholesky factor and no inverse. Columns of the largest inputs are rounded first, as all
others can make good for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BLOCK = 64
"""Columns whose errors are handed on one by one; those of a block go to all that follow in one product."""
Nearest = Callable[[np.ndarray, int], np.ndarray]
"""The nearest that a form holds, of a column [outputs] of numbers, the so-manieth of its weight."""


@dataclass(frozen=True, slots=True)
class MomentFactor:
    """U [inputs, inputs] of one group's moments, the order of columns that it is for, and D [inputs], what an error of
    each column shows in the results once others have made good for it, by the columns' own order."""

    upper: np.ndarray
    order: np.ndarray
    shown: np.ndarray


def factor_of(moments: np.ndarray, damping: float) -> MomentFactor | None:
    """The factor of moments [inputs, inputs], to whose diagonal `damping` times its mean is added; None where that is
    too little for a factor to be found, or nothing flows."""
    diagonal = np.diagonal(moments)
    mean = float(diagonal.mean())
    if not np.isfinite(mean) or mean <= 0:
        return None
    order = np.argsort(-diagonal, kind="stable")
    turned = moments[np.ix_(order, order)]
    turned[np.diag_indices_from(turned)] += damping * mean
    try:
        lower = np.linalg.cholesky(turned[::-1, ::-1])
    except np.linalg.LinAlgError:
        return None
    upper = lower[::-1, ::-1]
    shown = np.empty_like(diagonal)
    shown[order] = np.square(np.diagonal(upper))
    return MomentFactor(upper / np.diagonal(upper), order, shown)


def rounded(weight: np.ndarray, factor: MomentFactor, nearest: Nearest) -> np.ndarray:
    """A matrix [outputs, inputs] of numbers that the form holds, whose product with the inputs is near `weight`'s."""
    lower = np.ascontiguousarray(factor.upper.T, np.float32)
    columns = np.ascontiguousarray(weight.T[factor.order], np.float32)
    held, errors = np.empty_like(columns), np.zeros_like(columns)
    for first in range(0, len(columns), BLOCK):
        last = min(first + BLOCK, len(columns))
        wanted = columns[first:last] + lower[first:last, :first] @ errors[:first]
        for place in range(first, last):
            column = wanted[place - first] + lower[place, first:place] @ errors[first:place]
            held[place] = nearest(column, int(factor.order[place]))
            errors[place] = columns[place] - held[place]
    found = np.empty_like(weight)
    found[:, factor.order] = held.T
    return found
