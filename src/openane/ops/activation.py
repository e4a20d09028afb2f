"""Functions of one tensor on the engine: as a post stage of the neural engine, or as a few operations.

A post stage computes activation(scale * (x + bias)) with ReLU or a 33-knot table; whatever has one can also be fused
behind a convolution or product. The rest is composed of table and planar operations (see compositions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from openane.engine import Activation, Post
from openane.engine.table import Table
from openane.graph import Node
from openane.ops import functions as special
from openane.ops import tables
from openane.ops.compositions import COMPOSED, Stages
from openane.ops.halves import half
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.saturation import centred_table, odd_table
from openane.ops.spec import Parameter

Stage = tuple[Post, Table | None]
Settings = Mapping[str, Any]


def _table(table: Table, scale: float = 1.0, bias: float = 0.0) -> Stage:
    return Post(scale=half(scale), bias=half(bias), activation=Activation.TABLE), table


@cache
def fitted(name: str, *settings: float | str) -> Table:
    """Tables of smooth functions between their asymptotes; built once."""
    if name == "tanh":
        return odd_table(np.tanh, 1.0)
    if name == "erf":
        return tables.fit(special.erf, (0.0, 0.0), (0.0, 1.0), odd=True).table
    if name == "sigmoid":
        return centred_table(special.sigmoid, 0.0, 1.0)
    if name == "softplus":
        return tables.fit(special.softplus, (0.0, 0.0), (1.0, 0.0)).table
    if name == "silu":
        return tables.fit(lambda x: x * special.sigmoid(x), (0.0, 0.0), (1.0, 0.0)).table
    if name == "gelu":
        return tables.fit(partial(special.gelu, mode=str(settings[0])), (0.0, 0.0), (1.0, 0.0)).table
    if name == "elu":
        alpha = float(settings[0])
        return tables.fit(lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), (0.0, -alpha),
                          (1.0, 0.0)).table
    alpha, beta = (float(v) for v in settings)  # scaled_tanh
    end = alpha if beta >= 0 else -alpha
    return tables.fit(lambda x: alpha * np.tanh(beta * x), (0.0, 0.0), (0.0, end if beta else 0.0), odd=True).table


def _hard_sigmoid(alpha: float, beta: float) -> Stage | None:
    """clip(alpha * x + beta, 0, 1): the slope as scale, the offset before it."""
    if alpha == 0:
        return _table(tables.step(*(3 * (min(max(beta, 0.0), 1.0),))))
    line = (half(1.0), half(beta))
    return _table(tables.two_slopes(line, half(beta), line, low_clip=half(-beta), high_clip=half(1 - beta),
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


def _with_epsilon(table: Callable[[], Table], s: Settings) -> Stage:
    """The epsilon before the table; it vanishes where it rounds to 0 in fp16."""
    return _table(table(), bias=float(s["epsilon"]))


POSTS: Mapping[str, Callable[[Settings], Stage | None]] = {
    "clamped_relu": lambda s: _table(_clamped_relu(half(s["alpha"]), half(s["beta"]))),
    "clip": lambda s: _table(tables.clip(half(s["alpha"]), half(s["beta"]))),
    "elu": lambda s: _table(fitted("elu", float(s["alpha"]))),
    "erf": lambda s: _table(fitted("erf")),
    "exp": lambda s: _table(tables.exp2(), scale=math.log2(math.e)),
    "exp2": lambda s: _table(tables.exp2()),
    "gelu": lambda s: _table(fitted("gelu", s["mode"])),
    "inverse": lambda s: _with_epsilon(tables.inverse, s),
    "leaky_relu": lambda s: _table(tables.leaky_relu(half(s["alpha"]))),
    "linear_activation": lambda s: (Post(scale=half(s["alpha"])), None) if s["beta"] == 0 else None,
    "relu": lambda s: (Post(activation=Activation.RELU), None),
    "relu6": lambda s: _table(tables.clip(0.0, 6.0)),
    "rsqrt": lambda s: _with_epsilon(tables.rsqrt, s),
    "scaled_tanh": lambda s: _table(fitted("scaled_tanh", float(s["alpha"]), float(s["beta"]))),
    "sigmoid": lambda s: _table(fitted("sigmoid")),
    "sigmoid_hard": lambda s: _hard_sigmoid(float(s["alpha"]), float(s["beta"])),
    "sign": lambda s: _table(tables.sign()),
    "silu": lambda s: _table(fitted("silu")),
    "softplus": lambda s: _table(fitted("softplus")),
    "sqrt": lambda s: _table(tables.sqrt()),
    "tanh": lambda s: _table(fitted("tanh")),
    "threshold": lambda s: _table(tables.clip(half(s["alpha"]), math.inf)),
    "thresholded_relu": lambda s: _table(_thresholded_relu(half(s["alpha"]))),
}


def settings(node: Node, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """The constant operands beside x, as numbers and strings."""
    arguments = Arguments(node.op, parameters, node.operands)
    return {p.name: arguments.constant(p.name) if p.kind == "string" else arguments.number(p.name)
            for p in parameters[1:]}


def post_stage(node: Node, lowering: Lowering, *, parameters: tuple[Parameter, ...]) -> Stage | None:
    """The function as a post stage, or None."""
    make = POSTS.get(node.op)
    return None if make is None else make(settings(node, parameters))


def lower_unary(node: Node, lowering: Lowering, *, parameters: tuple[Parameter, ...]) -> None:
    """One pass-through where the function is a post stage, else its composition."""
    source, target = lowering.read(node["x"]), lowering.result(node.output)
    stage = post_stage(node, lowering, parameters=parameters)
    if stage is not None:
        lowering.copy(source, target, *stage)
    else:
        COMPOSED[node.op](Stages(lowering, target.shape), target, source, settings(node, parameters))
