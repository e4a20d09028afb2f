"""Roots, squares, the inverse, exponentials, logarithms and the hyperbolic functions made of them.

Their tables work on the mantissa and so hold from the smallest to the largest number.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from openane.graph import Value
from openane.ops import tables
from openane.ops.accuracy import TINY, ULP, Bound
from openane.ops.halves import half
from openane.ops.lowering import Tensor
from openane.ops.near_zero import with_rest
from openane.ops.slopes import Terms
from openane.ops.spec import OperationEvidence, Settings, Unary
from openane.ops.stages import Stages, by_table
from openane.ops.unary import setting, unary_op

LOG2E = math.log2(math.e)


def _square(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.times(x, x, target=target)


def _log(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """Base-2 logarithm from the table, times ln 2. Epsilons that round to 0 in fp16 vanish."""
    power = stages.table(x, tables.log2(), bias=float(s["epsilon"]))
    stages.planar(power, target=target, scale=half(math.log(2)))


def _hyperbolic(stages: Stages, target: Tensor | None, x: Tensor, subtract: bool) -> Tensor:
    """e^x / 2 -+ e^-x / 2, from a table of 2^(x - 1)."""
    table = tables.exp2()
    halved = replace(table, high_clip=table.high_clip + 1, knots=tuple(knot / 2 for knot in table.knots))
    rising, falling = (stages.table(x, halved, scale=scale) for scale in (LOG2E, -LOG2E))
    return stages.planar(rising, falling, subtract=subtract, target=target)


def _small_sinh(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    with_rest(stages, target, x, np.sinh, lambda each: _hyperbolic(stages, None, each, subtract=True))


def _atanh(stages: Stages, target: Tensor | None, x: Tensor) -> Tensor:
    """Half of ln(1 + x) - ln(1 - x)."""
    above = stages.table(x, tables.log2(), bias=1.0)
    below = stages.table(x, tables.log2(), scale=-1.0, bias=-1.0)
    return stages.planar(above, below, subtract=True, scale=half(math.log(2) / 2), target=target)


def _small_atanh(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    with_rest(stages, target, x, np.arctanh, lambda each: _atanh(stages, None, each))


def _rsqrt_slope(t: Terms, x: Value, y: Value, s: Settings) -> Value:
    return t.times(t.of("square", y), t.line(y, -0.5, 0.0))


OPS = tuple(map(unary_op, (
    Unary("atanh", np.arctanh, Bound(3e-3, 1e-3, -1 + ULP, 1 - ULP),
          compose=lambda stages, target, x, s: _atanh(stages, target, x), small=_small_atanh,
          slope=lambda t, x, y, s: t.of("inverse", t.line(t.of("square", x), -1.0, 1.0), epsilon=0.0)),
    Unary("cosh", np.cosh, Bound(0.0, 4e-3, -11.7, 11.7), slope=lambda t, x, y, s: t.of("sinh", x),
          compose=lambda stages, target, x, s: _hyperbolic(stages, target, x, subtract=False)),
    Unary("exp", np.exp, Bound(TINY, 4e-3, -17.0, 11.08), stage=lambda s: by_table(tables.exp2(), scale=LOG2E),
          slope=lambda t, x, y, s: y, evidence=OperationEvidence.APPLE),
    Unary("exp2", np.exp2, Bound(TINY, 2e-3, -24.0, 15.99), stage=lambda s: by_table(tables.exp2()), integers=True,
          slope=lambda t, x, y, s: t.line(y, math.log(2), 0.0), evidence=OperationEvidence.APPLE),
    # An epsilon goes before the table; it vanishes where it rounds to 0 in fp16.
    Unary("inverse", lambda x, epsilon: 1 / (x + epsilon), Bound(TINY, 2e-3, 2.0 ** -14, math.inf),
          parameters=(setting("epsilon", 1e-4),), stage=lambda s: by_table(tables.inverse(), bias=float(s["epsilon"])),
          slope=lambda t, x, y, s: t.line(t.of("square", y), -1.0, 0.0)),
    Unary("log", lambda x, epsilon: np.log(x + epsilon), Bound(6e-3, 1e-3, TINY, 65504.0),
          parameters=(setting("epsilon", 1e-45),), compose=_log,
          slope=lambda t, x, y, s: t.of("inverse", x, epsilon=s["epsilon"])),
    Unary("rsqrt", lambda x, epsilon: 1 / np.sqrt(x + epsilon), Bound(0.0, 2.5e-3, TINY, 65504.0),
          parameters=(setting("epsilon", 1e-12),), stage=lambda s: by_table(tables.rsqrt(), bias=float(s["epsilon"])),
          slope=_rsqrt_slope),
    Unary("sinh", np.sinh, Bound(3e-3, 4e-3, -11.7, 11.7), slope=lambda t, x, y, s: t.of("cosh", x),
          compose=lambda stages, target, x, s: _hyperbolic(stages, target, x, subtract=True), small=_small_sinh),
    Unary("sqrt", np.sqrt, Bound(TINY, 2e-3, 0.0, 65504.0), stage=lambda s: by_table(tables.sqrt()),
          slope=lambda t, x, y, s: t.of("inverse", t.line(y, 2.0, 0.0), epsilon=0.0), evidence=OperationEvidence.APPLE),
    Unary("square", np.square, Bound(TINY, ULP, -255.9, 255.9), compose=_square, integers=True,
          slope=lambda t, x, y, s: t.line(x, 2.0, 0.0), evidence=OperationEvidence.APPLE),
)))
