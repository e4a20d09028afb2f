"""Functions of an element's sign and whole part: abs, sign, ceil, floor, round."""

from __future__ import annotations

import numpy as np

from openane.ops import tables
from openane.ops.accuracy import EXACT
from openane.ops.lowering import Tensor
from openane.ops.spec import OperationEvidence, Settings, Unary
from openane.ops.stages import Stages, by_table
from openane.ops.unary import unary_op

WHOLE = 1536.0
"""Adding it to a number between -512 and 512 rounds that to an integer, ties to even: from 1024 to 2048 neighbours in
fp16 are 1 apart."""
EXACT_WHOLE = 2048.0
"""The largest whole number up to which fp16 holds all."""


def nearest(stages: Stages, x: Tensor, scale: float = 1.0) -> Tensor:
    """The integer nearest to scale * x, ties to even."""
    return stages.planar(stages.planar(x, scale=scale, bias=WHOLE), bias=-WHOLE)


def _abs(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    stages.planar(x, target=target, absolute=True)


def _floor(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """trunc(x), less one where trunc(x) - x is positive."""
    whole = stages.table(x, tables.truncate())
    one = stages.table(stages.planar(whole, x, subtract=True), tables.step(0.0, 0.0, 1.0))
    stages.planar(whole, one, subtract=True, target=target)


def _ceil(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """trunc(x), plus one where trunc(x) - x is negative."""
    whole = stages.table(x, tables.truncate())
    one = stages.table(stages.planar(whole, x, subtract=True), tables.step(1.0, 0.0, 0.0))
    stages.planar(whole, one, target=target)


def _round(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """Nearest integer, ties to even: what an even number leaves of x is rounded by adding WHOLE, which is even too."""
    half_even = stages.table(x, tables.truncate(), scale=0.5)
    rest = stages.planar(half_even, x, pre_scale=-2.0)
    stages.planar(half_even, nearest(stages, rest), pre_scale=2.0, target=target)


OPS = tuple(map(unary_op, (
    Unary("abs", np.abs, EXACT, compose=_abs, slope=lambda t, x, y, s: t.of("sign", x), integers=True,
          keeps_integers=True, evidence=OperationEvidence.APPLE),
    Unary("ceil", np.ceil, EXACT, compose=_ceil),
    Unary("floor", np.floor, EXACT, compose=_floor),
    Unary("round", np.rint, EXACT, compose=_round, ties=True),
    Unary("sign", np.sign, EXACT, stage=lambda s: by_table(tables.sign()), integers=True, keeps_integers=True,
          evidence=OperationEvidence.APPLE),
)))
