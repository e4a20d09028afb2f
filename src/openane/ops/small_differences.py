"""log1p and expm1, and erfc: what is near 0 where a sum or difference with 1 in it is near 0 or 1.

Each is the sum or difference as it is written, in few tasks. Where small results count (Unary.small), small numbers
keep their digits: near 0 log1p and expm1 are x times a table, whose error is then a share of the result, and what lies
beyond a half is added by the function's own table, which is exactly 0 within it.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from openane.engine.table import KNOTS, Table, TableKind
from openane.ops import special_functions, tables
from openane.ops.accuracy import Bound
from openane.ops.halves import half
from openane.ops.lowering import Tensor
from openane.ops.near_zero import NEAR, near_zero, with_rest
from openane.ops.roots import LOG2E
from openane.ops.smooth import erf_table
from openane.ops.spec import Settings, Unary
from openane.ops.stages import Stages
from openane.ops.unary import unary_op
from openane.ops.written_steps import two_factors

LN2 = half(math.log(2))


@cache
def _beyond() -> Table:
    """(1 + x) / (1 - NEAR) below -NEAR, (1 + x) / (1 + NEAR) above NEAR, 1 between them: each side's factor has the
    digits of fp16, which makes a step of less than these at its end."""
    low, high = 1 / (1 - NEAR), half(1 / (1 + NEAR))
    return Table(-1.0, math.inf, 0.0, math.inf, (1.0,) * KNOTS, low, low, high, high,
                 exponent=round(math.log2((KNOTS - 1) / (2 * NEAR))), kind=TableKind.CENTRED)


def _log1p(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(stages.table(x, tables.log2(), bias=1.0), target=target, scale=LN2)


def _small_log1p(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """log(1 + m) + log((1 + x) / (1 + m)), m = x within NEAR of 0."""
    _, near = near_zero(stages, x, np.log1p)
    far = stages.table(stages.table(x, _beyond()), tables.log2())
    stages.planar(far, near, target=target, pre_scale=LN2)


def _expm1(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(stages.table(x, tables.exp2(), scale=LOG2E), target=target, bias=-1.0)


def _small_expm1(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """(e^m - 1) + (e^x - e^m), m = x within NEAR of 0."""
    with_rest(stages, target, x, np.expm1, lambda each: stages.table(each, tables.exp2(), scale=LOG2E))


def _erfc(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(stages.table(x, erf_table()), target=target, scale=-1.0, bias=1.0)


@cache
def _scaled_tail() -> Table:
    """exp(x^2) erfc(x) (1 + x) for x of 0 or more, of 1 / (1 + x)."""
    def tail(share: np.ndarray) -> np.ndarray:
        known = np.clip(share, 2.0 ** -20, 1.0)
        return np.asarray(special_functions.erfcx(1 / known - 1) / known)

    return tables.fit(tail, (0.0, 1 / math.sqrt(math.pi)), (0.0, 1.0), within=(0.0, 1.0)).table


def scaled_tail(stages: Stages, size: Tensor) -> Tensor:
    """exp(x^2) erfc(x) of a size, 0 or more."""
    share = stages.table(stages.planar(size, bias=1.0), tables.inverse())
    return stages.times(share, stages.table(share, _scaled_tail()))


def _small_erfc(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """exp(-x^2) times the tail, taken off 2 below 0."""
    first, second = two_factors(LOG2E) or (1.0, LOG2E)
    square = stages.times(x, x, pre_scale=-first, scale=second)
    tail = stages.times(stages.table(square, tables.exp2()), scaled_tail(stages, stages.planar(x, absolute=True)))
    signed = stages.times(tail, stages.table(x, tables.step(-1.0, 1.0, 1.0)))
    stages.planar(signed, stages.table(x, tables.step(2.0, 0.0, 0.0)), target=target)


OPS = tuple(map(unary_op, (
    Unary("erfc", special_functions.erfc, Bound(2.5e-3), compose=_erfc, small=_small_erfc,
          slope=lambda t, x, y, s: t.line(t.of("exp", t.line(t.of("square", x), -1.0, 0.0)),
                                          -2 / math.sqrt(math.pi), 0.0)),
    Unary("expm1", np.expm1, Bound(1.5e-3, 4e-3, -math.inf, 11.08), compose=_expm1, small=_small_expm1,
          slope=lambda t, x, y, s: t.line(y, 1.0, 1.0)),
    Unary("log1p", np.log1p, Bound(6e-3, 1e-3, -1 + 2.0 ** -11, 65504.0), compose=_log1p, small=_small_log1p,
          slope=lambda t, x, y, s: t.of("inverse", t.line(x, 1.0, 1.0), epsilon=0.0)),
)))
