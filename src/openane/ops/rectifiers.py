"""Functions made of straight lines: relu and its relatives, clip, threshold, linear_activation, sigmoid_hard."""

from __future__ import annotations

import math

import numpy as np

from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.ops import tables
from openane.ops.accuracy import EXACT, ROUNDED, Bound
from openane.ops.halves import half
from openane.ops.lowering import Tensor
from openane.ops.operands import refusal
from openane.ops.spec import OperationEvidence, Settings, Stage, Unary
from openane.ops.stages import Stages, by_table
from openane.ops.unary import ALPHA, BETA, setting, unary_op


def leaky_stage(slope: float) -> Stage:
    """x where x >= 0, else slope * x."""
    return by_table(tables.leaky_relu(half(slope)))


def _line_stage(s: Settings) -> Stage | None:
    return (Post(scale=half(s["alpha"])), None) if s["beta"] == 0 else None


def _line(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(x, target=target, scale=half(s["alpha"]), bias=half(s["beta"]))


def _sigmoid_hard(s: Settings) -> Stage:
    """clip(alpha * x + beta, 0, 1): the slope as scale, the offset before it."""
    alpha, beta = float(s["alpha"]), float(s["beta"])
    if alpha == 0:
        return by_table(tables.step(*(3 * (min(max(beta, 0.0), 1.0),))))
    line = (half(1.0), half(beta))
    return by_table(tables.two_slopes(line, half(beta), line, low_clip=half(-beta), high_clip=half(1 - beta),
                                      low_value=0.0, high_value=1.0), scale=alpha)


def _clamped_relu(alpha: float, beta: float) -> Table:
    """min(x, beta) for x >= 0, min(alpha * x, beta) below: two lines, and the constant where one of them exceeds it."""
    low, high, corner = (alpha, 0.0), (1.0, 0.0), half(beta / alpha) if alpha else 0.0
    if beta >= 0:
        bounded = alpha < 0 and math.isfinite(corner)
        return tables.two_slopes(low, 0.0, high, high_clip=beta, high_value=beta,
                                 low_clip=corner if bounded else -math.inf, low_value=beta if bounded else None)
    if alpha <= 0:
        return tables.step(beta, beta, beta)
    return tables.two_slopes(low, beta, (0.0, beta), high_clip=corner, high_value=beta)


def _thresholded_relu(alpha: float) -> Table:
    """x from alpha on, 0 below: the clip, whose constant includes it, is the number before alpha."""
    before = float(np.nextafter(np.float16(alpha), np.float16(-math.inf)))
    return tables.two_slopes((1.0, 0.0), 0.0, (1.0, 0.0), low_clip=before, low_value=0.0)


def _in_order(s: Settings) -> None:
    if s["alpha"] > s["beta"]:
        raise refusal("clip", "alpha", f"must not exceed beta = {s['beta']}", s["alpha"])


OPS = tuple(map(unary_op, (
    Unary("clamped_relu", lambda x, alpha, beta: np.minimum(np.where(x >= 0, x, alpha * x), beta), ROUNDED,
          parameters=(ALPHA, BETA), unbounded=frozenset({"beta"}),
          stage=lambda s: by_table(_clamped_relu(half(s["alpha"]), half(s["beta"]))),
          slope=lambda t, x, y, s: t.times(t.choice("greater_equal", x, 0.0, 1.0, s["alpha"]),
                                           t.where("less", y, s["beta"]))),
    Unary("clip", lambda x, alpha, beta: np.minimum(np.maximum(x, alpha), beta), EXACT, parameters=(ALPHA, BETA),
          unbounded=frozenset({"alpha", "beta"}), check=_in_order,
          stage=lambda s: by_table(tables.clip(half(s["alpha"]), half(s["beta"]))),
          slope=lambda t, x, y, s: t.where("equal", x, y)),
    Unary("leaky_relu", lambda x, alpha: np.where(x >= 0, x, alpha * x), ROUNDED, parameters=(ALPHA,),
          stage=lambda s: leaky_stage(s["alpha"]), evidence=OperationEvidence.APPLE,
          slope=lambda t, x, y, s: t.choice("greater", x, 0.0, 1.0, s["alpha"])),
    Unary("linear_activation", lambda x, alpha, beta: alpha * x + beta, ROUNDED,
          parameters=(ALPHA, setting("beta", 0.0)), stage=_line_stage, compose=_line,
          slope=lambda t, x, y, s: float(s["alpha"])),
    Unary("relu", lambda x: np.maximum(x, 0), EXACT, stage=lambda s: (Post(activation=Activation.RELU), None),
          slope=lambda t, x, y, s: t.of("sign", y), evidence=OperationEvidence.APPLE, relu=True),
    Unary("relu6", lambda x: np.clip(x, 0, 6), EXACT, stage=lambda s: by_table(tables.clip(0.0, 6.0)),
          slope=lambda t, x, y, s: t.between(y, 0.0, 6.0), evidence=OperationEvidence.APPLE),
    Unary("sigmoid_hard", lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), Bound(5e-4), parameters=(ALPHA, BETA),
          stage=_sigmoid_hard, slope=lambda t, x, y, s: t.between(y, 0.0, 1.0, s["alpha"])),
    Unary("threshold", lambda x, alpha: np.maximum(x, alpha), EXACT, parameters=(ALPHA,),
          unbounded=frozenset({"alpha"}), stage=lambda s: by_table(tables.clip(half(s["alpha"]), math.inf)),
          slope=lambda t, x, y, s: t.where("greater", x, s["alpha"])),
    Unary("thresholded_relu", lambda x, alpha: np.where(x < alpha, 0, x), EXACT, parameters=(ALPHA,),
          unbounded=frozenset({"alpha"}), stage=lambda s: by_table(_thresholded_relu(half(s["alpha"]))),
          slope=lambda t, x, y, s: t.where("greater_equal", x, s["alpha"])),
)))
