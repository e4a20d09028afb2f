"""Smooth functions between straight lines: sigmoid, tanh and erf, gelu, silu, elu, softplus, softsign.

Each is a table that is fitted once, the lines it approaches at either end stated.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np

from openane.engine.table import KNOTS, Table
from openane.graph import Value
from openane.ops import functions as special
from openane.ops import tables
from openane.ops.accuracy import Bound
from openane.ops.lowering import Tensor
from openane.ops.roots import LOG2E
from openane.ops.saturation import centred_table, odd_table
from openane.ops.slopes import Terms
from openane.ops.spec import OperationEvidence, Parameter, Settings, Unary
from openane.ops.stages import Stages, by_table
from openane.ops.unary import ALPHA, BETA, unary_op

GELU_MODES = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
SIGMOID = "sigmoid"
FINER = 2
"""By how many powers of two the second table of tanh is finer than the first."""
ENOUGH = -32, 28
"""Exponents beyond which the share that is taken of a number changes no more."""
SCALES = 14
"""Up to 2^14, and from 2^-14 on, scales are fp16 numbers with all their digits."""
ROOM = 8
"""By how many powers of two what is added to 1 in a sigmoid is smaller: exp(16.6) fits then."""
SATURATED = 6.0
"""Beyond it the derivative of every gelu is 0 or 1 in fp16, and polynomials of it stay far below 65504."""


def silu(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x)."""
    result: np.ndarray = x * special.sigmoid(x)
    return result


def _elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _scaled_tanh(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    result: np.ndarray = alpha * np.tanh(beta * x)
    return result


@cache
def tanh_table() -> Table:
    """As in Apple's programs."""
    return odd_table(np.tanh, 1.0)


@cache
def _fitted_tanh() -> Table:
    """Half the error of Apple's, root mean square."""
    return tables.fit(np.tanh, (0.0, 0.0), (0.0, 1.0), odd=True).table


@cache
def _fitted_sigmoid() -> Table:
    """Half the error of Apple's, root mean square."""
    return tables.fit(special.sigmoid, (0.0, 0.0), (0.0, 1.0)).table


@cache
def sigmoid_table() -> Table:
    """As in Apple's programs."""
    return centred_table(special.sigmoid, 0.0, 1.0)


@cache
def softplus_table() -> Table:
    """From 0 to x."""
    return tables.fit(special.softplus, (0.0, 0.0), (1.0, 0.0)).table


@cache
def _odd_share(mode: str) -> Table:
    """What of x a function is, less one half: sigmoid of x, or a gelu's cumulative. Odd, so that its 32 intervals lie
    on one side of 0: a quarter of the error. Apple's compiler once made sigmoid so."""
    def share(x: np.ndarray) -> np.ndarray:
        return (special.sigmoid(x) if mode == SIGMOID else special.cumulative(x, mode)) - 0.5

    return tables.fit(share, (0.0, 0.0), (0.0, 0.5), odd=True).table


def _close_sigmoid(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """The odd part, and one half."""
    stages.planar(stages.table(x, _odd_share(SIGMOID)), target=target, bias=0.5)


def _small_sigmoid(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """1 / (1 + e), e = exp(-x): two tables that work on the mantissa. e is held over 2^ROOM, so that it is finite down
    to the smallest result fp16 has."""
    powers, inverse = tables.exp2(), tables.inverse()
    powers = replace(powers, low_clip=powers.low_clip + ROOM, high_clip=powers.high_clip + ROOM,
                     knots=tuple(knot / 2 ** ROOM for knot in powers.knots))
    inverse = replace(inverse, knots=tuple(knot / 2 ** ROOM for knot in inverse.knots))
    stages.table(stages.table(x, powers, scale=-LOG2E), inverse, bias=2.0 ** -ROOM, target=target)


def _close_product(stages: Stages, target: Tensor, x: Tensor, mode: str, exponent: int = 0) -> None:
    """x / 2 + x * odd: small numbers keep their digits, since the table's error is multiplied by them. x that is held
    times 2^exponent gives a result that is, in as many tasks: the table's task scales what it reads, and its knots lie
    farther apart. Where an exponent is so large that any x has one half, or so small that any has all or nothing, the
    table's need not be as large."""
    exponent = max(ENOUGH[0], min(exponent, ENOUGH[1]))
    scaled = max(-SCALES, min(exponent, SCALES))
    share = _odd_share(mode)
    share = replace(share, exponent=share.exponent - (exponent - scaled))
    odd = stages.times(x, stages.table(x, share, scale=2.0 ** -scaled))
    stages.planar(x, odd, target=target, pre_scale=0.5)


@cache
def _fine_tanh() -> Table:
    """What the fitted table of tanh lacks near 0, in intervals a quarter as wide; 0 beyond them."""
    def lacking(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(x) - tables.evaluate(_fitted_tanh(), x))

    coarse = _fitted_tanh()
    spacing = 2.0 ** -(coarse.exponent + FINER)
    end = (KNOTS - 1) * spacing
    return Table(0.0, end, 0.0, 0.0, tables.rounded(lacking(np.arange(KNOTS) * spacing)),
                 exponent=coarse.exponent + FINER, symmetry=coarse.symmetry)


def _close_tanh(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """The fitted table, and what it lacks near 0: small numbers keep their digits."""
    stages.planar(stages.table(x, _fitted_tanh()), stages.table(x, _fine_tanh()), target=target)


def _close_silu(stages: Stages, target: Tensor, x: Tensor, s: Settings, exponent: int = 0) -> None:
    _close_product(stages, target, x, SIGMOID, exponent)


def _close_gelu(stages: Stages, target: Tensor, x: Tensor, s: Settings, exponent: int = 0) -> None:
    _close_product(stages, target, x, s["mode"], exponent)


@cache
def _softened() -> Table:
    """log(1 + e) / e for e from 0 to 1."""
    def share(e: np.ndarray) -> np.ndarray:
        return np.where(e > 0, np.log1p(np.maximum(e, 0)) / np.where(e > 0, e, 1), 1.0)

    return tables.fit(share, (0.0, 1.0), (0.0, math.log(2)), within=(0.0, 1.0)).table


def _close_softplus(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """max(x, 0) + log(1 + e), e = exp(-|x|): small results keep their digits, since the table is multiplied by e."""
    e = stages.table(stages.planar(x, absolute=True), tables.exp2(), scale=-LOG2E)
    tail = stages.times(e, stages.table(e, _softened()))
    stages.planar(stages.table(x, tables.clip(0.0, math.inf)), tail, target=target)


def _close_elu(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """max(x, 0) + alpha * exp(min(x, 0)) - alpha."""
    alpha, below = float(s["alpha"]), stages.table(x, tables.clip(-math.inf, 0.0))
    e = stages.table(below, tables.exp2(), scale=LOG2E)
    above = stages.table(x, tables.clip(0.0, math.inf))
    stages.planar(e, above, target=target, pre_scale=alpha, bias=-alpha)


@cache
def _silu_table() -> Table:
    return tables.fit(silu, (0.0, 0.0), (1.0, 0.0)).table


@cache
def erf_table() -> Table:
    """From 0 to its limit, an odd function."""
    return tables.fit(special.erf, (0.0, 0.0), (0.0, 1.0), odd=True).table


@cache
def _gelu_table(mode: str) -> Table:
    return tables.fit(partial(special.gelu, mode=mode), (0.0, 0.0), (1.0, 0.0)).table


@cache
def _elu_table(alpha: float) -> Table:
    return tables.fit(partial(_elu, alpha=alpha), (0.0, -alpha), (1.0, 0.0)).table


@cache
def _scaled_tanh_table(alpha: float, beta: float) -> Table:
    end = alpha if beta >= 0 else -alpha
    return tables.fit(partial(_scaled_tanh, alpha=alpha, beta=beta), (0.0, 0.0), (0.0, end if beta else 0.0),
                      odd=True).table


def saturated(stages: Stages, x: Tensor) -> Tensor:
    """1 / (|x| + 1)."""
    return stages.table(stages.planar(x, absolute=True, bias=1.0), tables.inverse())


def _softsign(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """x * 1 / (|x| + 1)."""
    stages.times(x, saturated(stages, x), target=target)


def _gelu_slope(t: Terms, x: Value, y: Value, s: Settings) -> Value:
    """Phi + x * Phi', Phi the cumulative of the mode."""
    x = t.of("clip", x, alpha=-SATURATED, beta=SATURATED)
    if s["mode"] == "EXACT":
        cumulative = t.line(t.of("erf", t.line(x, math.sqrt(0.5), 0.0)), 0.5, 0.5)
        bell = t.of("exp", t.line(t.of("square", x), -0.5, 0.0))
        return t.plus(cumulative, t.line(t.times(x, bell), 1 / math.sqrt(2 * math.pi), 0.0))
    if s["mode"] == "SIGMOID_APPROXIMATION":
        half = t.of("sigmoid", t.line(x, 1.702, 0.0))
        rest = t.times(half, t.line(half, -1.0, 1.0))
        return t.plus(half, t.line(t.times(x, rest), 1.702, 0.0))
    scale, cubic, square = math.sqrt(2 / math.pi), 0.044715, t.of("square", x)
    bend = t.of("tanh", t.times(x, t.line(square, scale * cubic, scale)))
    steep = t.times(t.line(t.of("square", bend), -0.5, 0.5), t.times(x, t.line(square, 3 * scale * cubic, scale)))
    return t.plus(t.line(bend, 0.5, 0.5), steep)


def _silu_slope(t: Terms, x: Value, y: Value, s: Settings) -> Value:
    """s + y * (1 - s)."""
    half = t.of("sigmoid", x)
    return t.plus(half, t.times(y, t.line(half, -1.0, 1.0)))


def _elu_slope(t: Terms, x: Value, y: Value, s: Settings) -> Value:
    """1 above 0, y + alpha below."""
    below = t.line(t.of("clip", y, alpha=-math.inf, beta=0.0), 1.0, s["alpha"])
    if s["alpha"] == 1:
        return below
    return t.plus(below, t.line(t.where("greater", x, 0.0), 1 - s["alpha"], 0.0))


def _scaled_tanh_slope(t: Terms, x: Value, y: Value, s: Settings) -> Value:
    bend = t.of("tanh", t.line(x, s["beta"], 0.0))
    return t.line(t.of("square", bend), -s["alpha"] * s["beta"], s["alpha"] * s["beta"])


OPS = tuple(map(unary_op, (
    Unary("elu", _elu, Bound(6e-3), parameters=(ALPHA,), stage=lambda s: by_table(_elu_table(float(s["alpha"]))),
          closer=_close_elu, slope=_elu_slope, enlarges=lambda s: abs(float(s["alpha"]))),
    Unary("erf", special.erf, Bound(2e-3), stage=lambda s: by_table(erf_table()),
          slope=lambda t, x, y, s: t.line(t.of("exp", t.line(t.of("square", x), -1.0, 0.0)),
                                          2 / math.sqrt(math.pi), 0.0)),
    Unary("gelu", special.gelu, Bound(6e-3), stage=lambda s: by_table(_gelu_table(s["mode"])), slope=_gelu_slope,
          closer=_close_gelu, held=_close_gelu, single=special.single_gelu,
          parameters=(Parameter("mode", const=True, default="EXACT", kind="string", choices=GELU_MODES),),
          evidence=OperationEvidence.APPLE),  # with other knots
    Unary("scaled_tanh", _scaled_tanh, Bound(3e-3), parameters=(ALPHA, BETA), slope=_scaled_tanh_slope,
          stage=lambda s: by_table(_scaled_tanh_table(float(s["alpha"]), float(s["beta"])))),
    Unary("sigmoid", special.sigmoid, Bound(4e-3), stage=lambda s: by_table(sigmoid_table()),
          closer=_close_sigmoid, small=_small_sigmoid, fitted=lambda s: by_table(_fitted_sigmoid()),
          evidence=OperationEvidence.APPLE, slope=lambda t, x, y, s: t.times(y, t.line(y, -1.0, 1.0))),
    Unary("silu", silu, Bound(1.3e-2), stage=lambda s: by_table(_silu_table()), slope=_silu_slope,
          closer=_close_silu, held=_close_silu, evidence=OperationEvidence.APPLE),  # with other knots
    Unary("softplus", special.softplus, Bound(7e-3), stage=lambda s: by_table(softplus_table()), closer=_close_softplus,
          slope=lambda t, x, y, s: t.of("sigmoid", x)),
    Unary("softsign", lambda x: x / (1 + np.abs(x)), Bound(2e-3), compose=_softsign,
          slope=lambda t, x, y, s: t.of("square", t.line(t.of("abs", y), -1.0, 1.0))),
    Unary("tanh", np.tanh, Bound(2e-3), stage=lambda s: by_table(tanh_table()),
          fitted=lambda s: by_table(_fitted_tanh()), closer=_close_tanh, evidence=OperationEvidence.APPLE,
          slope=lambda t, x, y, s: t.line(t.of("square", y), -1.0, 1.0)),
)))
