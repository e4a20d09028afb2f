"""Trigonometric functions and their inverses: tables of a period, and of what makes an inverse smooth."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from openane.engine.table import Table
from openane.graph import Value
from openane.ops import tables
from openane.ops.accuracy import ULP, Bound
from openane.ops.halves import half
from openane.ops.lowering import Tensor
from openane.ops.rounding import nearest
from openane.ops.slopes import Terms
from openane.ops.smooth import saturated
from openane.ops.spec import Settings, Unary
from openane.ops.stages import Stages
from openane.ops.unary import unary_op

FAR = 16384.0
"""Where the inverse is still a normal number and the arc tangent is within 2^-14 of its limit."""


def _reduced(stages: Stages, x: Tensor, period: float, head: float) -> Tensor:
    """x less the nearest multiple of `period`. `head` is the period in few bits, so that small multiples are exact;
    what remains of it follows."""
    count = nearest(stages, x, scale=half(1 / period))
    rest = stages.planar(count, x, pre_scale=-head)
    return stages.planar(count, rest, pre_scale=half(head - period))


def _sin(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.table(_reduced(stages, x, 2 * math.pi, 6.28125), _period(np.sin, 4.0), target=target)


def _cos(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    size = stages.planar(_reduced(stages, x, 2 * math.pi, 6.28125), absolute=True)
    stages.table(size, _period(np.cos, 4.0), target=target)


def _tan(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """sin / cos of what a multiple of pi leaves."""
    rest = _reduced(stages, x, math.pi, 3.140625)
    cosine = stages.table(stages.planar(rest, absolute=True), _period(np.cos, 2.0))
    inverse = stages.table(cosine, tables.inverse())
    stages.times(stages.table(rest, _period(np.sin, 2.0)), inverse, target=target)


@cache
def _period(function: tables.Function, end: float) -> Table:
    """sin (odd) or cos from 0 to `end`."""
    last = float(function(np.array([end]))[0])
    return tables.fit(function, (0.0, 1.0), (0.0, last), odd=function is np.sin, within=(0.0, end)).table


def _arc(stages: Stages, x: Tensor) -> Tensor:
    """pi / 2 - acos(|x|) without a sign: the arc cosine is smooth in sqrt(1 - |x|)."""
    root = stages.table(stages.planar(x, absolute=True, scale=-1.0, bias=1.0), tables.sqrt())
    return stages.table(root, _arc_table())


@cache
def _arc_table() -> Table:
    def arc(root: np.ndarray) -> np.ndarray:
        result: np.ndarray = math.pi / 2 - 2 * np.arcsin(np.clip(root, 0, 1) / math.sqrt(2))
        return result

    return tables.fit(arc, (0.0, math.pi / 2), (0.0, 0.0), within=(0.0, 1.0)).table


def _asin(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.times(_arc(stages, x), stages.table(x, tables.sign()), target=target)


def _acos(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.times(_arc(stages, x), stages.table(x, tables.sign()), target=target, scale=-1.0, bias=half(math.pi / 2))


def _atan(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """A table of u = x / (1 + |x|), in which the arc tangent is smooth up to infinity."""
    near = stages.table(x, tables.clip(-FAR, FAR))
    stages.table(stages.times(near, saturated(stages, near)), _atan_table(), target=target)


@cache
def _atan_table() -> Table:
    def arc(u: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            result: np.ndarray = np.arctan(u / (1 - np.minimum(u, 1)))
        return result

    return tables.fit(arc, (0.0, 0.0), (0.0, math.pi / 2), odd=True, within=(0.0, 1.0)).table


def _reciprocal_leg(t: Terms, x: Value) -> Value:
    """1 / sqrt(1 - x^2)."""
    return t.of("rsqrt", t.line(t.of("square", x), -1.0, 1.0))


OPS = tuple(map(unary_op, (
    Unary("acos", np.arccos, Bound(3e-3, ULP, -1.0, 1.0), compose=_acos,
          slope=lambda t, x, y, s: t.line(_reciprocal_leg(t, x), -1.0, 0.0)),
    Unary("asin", np.arcsin, Bound(2e-3, ULP, -1.0, 1.0), compose=_asin,
          slope=lambda t, x, y, s: _reciprocal_leg(t, x)),
    Unary("atan", np.arctan, Bound(2.5e-3), compose=_atan,
          slope=lambda t, x, y, s: t.of("inverse", t.line(t.of("square", x), 1.0, 1.0), epsilon=0.0)),
    Unary("cos", np.cos, Bound(2e-3, ULP, -3200.0, 3200.0), compose=_cos, periodic=True,
          slope=lambda t, x, y, s: t.line(t.of("sin", x), -1.0, 0.0)),
    Unary("sin", np.sin, Bound(2e-3, ULP, -3200.0, 3200.0), compose=_sin, periodic=True,
          slope=lambda t, x, y, s: t.of("cos", x)),
    Unary("tan", np.tan, Bound(2e-3, 2e-3, -1.4, 1.4), compose=_tan, periodic=True,
          slope=lambda t, x, y, s: t.line(t.of("square", y), 1.0, 1.0)),
)))
