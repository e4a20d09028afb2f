"""Functions of one tensor as a few table and planar operations each.

`Stages` is what they are written in: each call is one engine operation and gives a new tensor. Numbers between the
operations are fp16; `accuracy` states how far the results are from the functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from openane.engine import Activation, Binary, Post
from openane.engine.table import Table
from openane.ops import tables
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor

Settings = Mapping[str, Any]
LOG2E = math.log2(math.e)
WHOLE = 1536.0
"""Adding it to a number between -512 and 512 rounds that to an integer, ties to even: from 1024 to 2048 neighbours in
fp16 are 1 apart."""
FAR = 16384.0
"""Where the inverse is still a normal number and the arc tangent is within 2^-14 of its limit."""


class Stages:
    """Engine operations on tensors of one shape. The result goes to `target` where that is given, else to scratch."""

    def __init__(self, lowering: Lowering, shape: tuple[int, ...]) -> None:
        self.lowering, self.shape = lowering, shape

    def table(self, x: Tensor, table: Table, *, scale: float = 1.0, bias: float = 0.0,
              target: Tensor | None = None) -> Tensor:
        """table(scale * (x + bias)) on the neural engine."""
        made = self._place(target)
        self.lowering.copy(x.expand(self.shape), made,
                           Post(scale=half(scale), bias=half(bias), activation=Activation.TABLE), table)
        return made

    def planar(self, x: Tensor, y: Tensor | None = None, function: Binary = Binary.ADD, *,
               target: Tensor | None = None, **settings: float | bool) -> Tensor:
        """scale * function(pre_scale * x, y) + bias on the planar engine, and the other settings of Elementwise."""
        made = self._place(target)
        self.lowering.elementwise(made, x, y, function, **settings)
        return made

    def times(self, x: Tensor, y: Tensor, *, target: Tensor | None = None, **settings: float | bool) -> Tensor:
        """scale * x * y + bias."""
        return self.planar(x, y, Binary.MULTIPLY, target=target, **settings)

    def _place(self, target: Tensor | None) -> Tensor:
        return self.lowering.scratch(self.shape) if target is None else target


def _abs(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(x, target=target, absolute=True)


def _square(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.times(x, x, target=target)


def _linear(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(x, target=target, scale=half(s["alpha"]), bias=half(s["beta"]))


def _log(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """Base-2 logarithm from the table, times ln 2. Epsilons that round to 0 in fp16 vanish."""
    power = stages.table(x, tables.log2(), bias=float(s["epsilon"]))
    stages.planar(power, target=target, scale=half(math.log(2)))


def _softsign(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """x * 1 / (|x| + 1)."""
    stages.times(x, _saturated(stages, x), target=target)


def _saturated(stages: Stages, x: Tensor) -> Tensor:
    """1 / (|x| + 1)."""
    return stages.table(stages.planar(x, absolute=True, bias=1.0), tables.inverse())


def _floor(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """trunc(x), less one where trunc(x) - x is positive."""
    floor(stages, x, target)


def floor(stages: Stages, x: Tensor, target: Tensor | None = None) -> Tensor:
    """The largest integer that does not exceed x."""
    whole = stages.table(x, tables.truncate())
    one = stages.table(stages.planar(whole, x, subtract=True), tables.step(0.0, 0.0, 1.0))
    return stages.planar(whole, one, subtract=True, target=target)


def _ceil(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """trunc(x), plus one where trunc(x) - x is negative."""
    whole = stages.table(x, tables.truncate())
    one = stages.table(stages.planar(whole, x, subtract=True), tables.step(1.0, 0.0, 0.0))
    stages.planar(whole, one, target=target)


def _round(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """Nearest integer, ties to even: what an even number leaves of x is rounded by adding WHOLE, which is even too."""
    half_even = stages.table(x, tables.truncate(), scale=0.5)
    rest = stages.planar(half_even, x, pre_scale=-2.0)
    near = stages.planar(stages.planar(rest, bias=WHOLE), bias=-WHOLE)
    stages.planar(half_even, near, pre_scale=2.0, target=target)


def _reduced(stages: Stages, x: Tensor, period: float, head: float) -> Tensor:
    """x less the nearest multiple of `period`. `head` is the period in few bits, so that small multiples are exact;
    what remains of it follows."""
    count = stages.planar(stages.planar(x, scale=half(1 / period), bias=WHOLE), bias=-WHOLE)
    rest = stages.planar(count, x, pre_scale=-head)
    return stages.planar(count, rest, pre_scale=half(head - period))


def _sin(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.table(_reduced(stages, x, 2 * math.pi, 6.28125), _periodic("sin", 4.0), target=target)


def _cos(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    size = stages.planar(_reduced(stages, x, 2 * math.pi, 6.28125), absolute=True)
    stages.table(size, _periodic("cos", 4.0), target=target)


def _tan(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """sin / cos of what a multiple of pi leaves."""
    rest = _reduced(stages, x, math.pi, 3.140625)
    cosine = stages.table(stages.planar(rest, absolute=True), _periodic("cos", 2.0))
    inverse = stages.table(cosine, tables.inverse())
    stages.times(stages.table(rest, _periodic("sin", 2.0)), inverse, target=target)


@cache
def _periodic(name: str, end: float) -> Table:
    """sin (odd) or cos from 0 to `end`."""
    function: tables.Function = np.sin if name == "sin" else np.cos
    last = float(function(np.array([end]))[0])
    return tables.fit(function, (0.0, 1.0), (0.0, last), odd=name == "sin", within=(0.0, end)).table


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
    stages.table(stages.times(near, _saturated(stages, near)), _atan_table(), target=target)


@cache
def _atan_table() -> Table:
    def arc(u: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            result: np.ndarray = np.arctan(u / (1 - np.minimum(u, 1)))
        return result

    return tables.fit(arc, (0.0, 0.0), (0.0, math.pi / 2), odd=True, within=(0.0, 1.0)).table


def _hyperbolic(stages: Stages, target: Tensor, x: Tensor, subtract: bool) -> None:
    """e^x / 2 -+ e^-x / 2, from a table of 2^(x - 1)."""
    table = tables.exp2()
    halved = replace(table, high_clip=table.high_clip + 1, knots=tuple(knot / 2 for knot in table.knots))
    rising, falling = (stages.table(x, halved, scale=scale) for scale in (LOG2E, -LOG2E))
    stages.planar(rising, falling, subtract=subtract, target=target)


def _atanh(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """Half of ln(1 + x) - ln(1 - x)."""
    above = stages.table(x, tables.log2(), bias=1.0)
    below = stages.table(x, tables.log2(), scale=-1.0, bias=-1.0)
    stages.planar(above, below, subtract=True, scale=half(math.log(2) / 2), target=target)


Composition = Callable[[Stages, Tensor, Tensor, Settings], None]

COMPOSED: Mapping[str, Composition] = {
    "abs": _abs, "acos": _acos, "asin": _asin, "atan": _atan, "atanh": _atanh, "ceil": _ceil, "cos": _cos,
    "cosh": lambda stages, target, x, s: _hyperbolic(stages, target, x, subtract=False),
    "floor": _floor, "linear_activation": _linear, "log": _log, "round": _round, "sin": _sin,
    "sinh": lambda stages, target, x, s: _hyperbolic(stages, target, x, subtract=True),
    "softsign": _softsign, "square": _square, "tan": _tan,
}
