"""Functions that are 0 at 0 as x times a table where x is near 0, so that their error is a share of the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from openane.engine.table import Table
from openane.ops import tables
from openane.ops.lowering import Tensor
from openane.ops.stages import Stages

NEAR = 0.5
"""Numbers between -NEAR and NEAR are multiplied by a table."""


@cache
def _share(function: Callable[[np.ndarray], np.ndarray]) -> Table:
    """function(x) / x, 1 at 0, from -NEAR to NEAR; beyond them as there."""
    def share(x: np.ndarray) -> np.ndarray:
        inside = np.clip(x, -NEAR, NEAR)
        return np.asarray(np.where(inside == 0, 1.0, function(inside) / np.where(inside == 0, 1.0, inside)))

    low, high = map(float, share(np.array([-NEAR, NEAR])))
    return tables.fit(share, (0.0, low), (0.0, high), within=(-NEAR, NEAR)).table


def near_zero(stages: Stages, x: Tensor, function: Callable[[np.ndarray], np.ndarray]) -> tuple[Tensor, Tensor]:
    """m, x within NEAR of 0, and the function of that, whose slope at 0 is 1."""
    inside = stages.table(x, tables.clip(-NEAR, NEAR))
    return inside, stages.times(inside, stages.table(inside, _share(function)))


def with_rest(stages: Stages, target: Tensor, x: Tensor, function: Callable[[np.ndarray], np.ndarray],
              composed: Callable[[Tensor], Tensor], gain: float = 1.0) -> None:
    """function(m) + gain * (composed(x) - composed(m)): what `composed` lacks near 0 cancels there."""
    inside, near = near_zero(stages, x, function)
    rest = stages.planar(composed(x), composed(inside), subtract=True)
    stages.planar(rest, near, target=target, pre_scale=gain)
