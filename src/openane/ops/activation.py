"""Functions of one tensor on the engine: as a post stage of the neural engine, or as a few operations.

A post stage computes activation(scale * (x + bias)) with ReLU or a 33-knot table; whatever has one can also be fused
behind a convolution or product. The rest is composed of table and planar operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from openane.engine import Activation, Binary, Post
from openane.engine.table import Table
from openane.graph import Node
from openane.ops import functions as special
from openane.ops import tables
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments
from openane.ops.spec import Parameter

Stage = tuple[Post, Table | None]
Settings = Mapping[str, Any]

SMALLEST_EPSILON = 2.0 ** -24
"""The smallest positive fp16: epsilons below it vanish."""


def _table(table: Table, scale: float = 1.0, bias: float = 0.0) -> Stage:
    return Post(scale=half(scale), bias=half(bias), activation=Activation.TABLE), table


def half(value: float) -> float:
    """The value rounded to fp16."""
    with np.errstate(over="ignore"):
        return float(np.float16(value))


@cache
def _fitted(name: str, *settings: float | str) -> Table:
    """Tables of smooth functions between their asymptotes; built once."""
    if name == "tanh":
        return tables.fit(np.tanh, (0.0, 0.0), (0.0, 1.0), odd=True).table
    if name == "erf":
        return tables.fit(special.erf, (0.0, 0.0), (0.0, 1.0), odd=True).table
    if name == "sigmoid":
        return tables.fit(special.sigmoid, (0.0, 0.0), (0.0, 1.0)).table
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


def _with_epsilon(table: Callable[[], Table], s: Settings) -> Stage:
    epsilon = float(s["epsilon"])
    return _table(table(), bias=epsilon if epsilon >= SMALLEST_EPSILON / 2 else 0.0)


POSTS: Mapping[str, Callable[[Settings], Stage | None]] = {
    "clip": lambda s: _table(tables.clip(half(s["alpha"]), half(s["beta"]))),
    "elu": lambda s: _table(_fitted("elu", float(s["alpha"]))),
    "erf": lambda s: _table(_fitted("erf")),
    "exp": lambda s: _table(tables.exp2(), scale=math.log2(math.e)),
    "exp2": lambda s: _table(tables.exp2()),
    "gelu": lambda s: _table(_fitted("gelu", s["mode"])),
    "inverse": lambda s: _with_epsilon(tables.inverse, s),
    "leaky_relu": lambda s: _table(tables.leaky_relu(half(s["alpha"]))),
    "relu": lambda s: (Post(activation=Activation.RELU), None),
    "relu6": lambda s: _table(tables.clip(0.0, 6.0)),
    "rsqrt": lambda s: _with_epsilon(tables.rsqrt, s),
    "scaled_tanh": lambda s: _table(_fitted("scaled_tanh", float(s["alpha"]), float(s["beta"]))),
    "sigmoid": lambda s: _table(_fitted("sigmoid")),
    "sigmoid_hard": lambda s: _hard_sigmoid(float(s["alpha"]), float(s["beta"])),
    "sign": lambda s: _table(tables.step(-1.0, 0.0, 1.0)),
    "silu": lambda s: _table(_fitted("silu")),
    "softplus": lambda s: _table(_fitted("softplus")),
    "sqrt": lambda s: _table(tables.sqrt()),
    "tanh": lambda s: _table(_fitted("tanh")),
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
        COMPOSED[node.op](lowering, target, source, settings(node, parameters))


def _log(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    """Base-2 logarithm from the table, times ln 2. Epsilons below the smallest fp16 vanish."""
    power = lowering.scratch(target.shape)
    lowering.copy(source, power, *_with_epsilon(tables.log2, s))
    lowering.elementwise(target, power, scale=half(math.log(2)))


def _abs(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    lowering.elementwise(target, source, absolute=True)


def _square(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    lowering.elementwise(target, source, source, Binary.MULTIPLY)


def _softsign(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    """x * 1 / (|x| + 1)."""
    size, reciprocal = lowering.scratch(target.shape), lowering.scratch(target.shape)
    lowering.elementwise(size, source, absolute=True, bias=1.0)
    lowering.copy(size, reciprocal, *_table(tables.inverse()))
    lowering.elementwise(target, source, reciprocal, Binary.MULTIPLY)


def _floor(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    """trunc(x), less one where trunc(x) - x is positive."""
    _round_towards(lowering, target, source, tables.step(0.0, 0.0, 1.0), subtract=True)


def _ceil(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    """trunc(x), plus one where trunc(x) - x is negative."""
    _round_towards(lowering, target, source, tables.step(1.0, 0.0, 0.0), subtract=False)


def _round_towards(lowering: Lowering, target: Tensor, source: Tensor, step: Table, *, subtract: bool) -> None:
    whole, rest, one = (lowering.scratch(target.shape) for _ in range(3))
    lowering.copy(source, whole, *_table(tables.truncate()))
    lowering.elementwise(rest, whole, source, subtract=True)
    lowering.copy(rest, one, *_table(step))
    lowering.elementwise(target, whole, one, subtract=subtract)


ROUNDING = 1024.0
"""fp16 values from 2^10 on are integers, and adding it to a smaller one rounds that to an integer, ties to even."""


def _round(lowering: Lowering, target: Tensor, source: Tensor, s: Settings) -> None:
    """Nearest integer: |x| + 1024 - 1024 rounds below 1024, larger values are integers already."""
    size, small, raised, lowered, sign = (lowering.scratch(target.shape) for _ in range(5))
    lowering.elementwise(size, source, absolute=True)
    lowering.copy(size, small, *_table(tables.clip(0.0, ROUNDING)))
    lowering.elementwise(raised, small, bias=ROUNDING)
    lowering.elementwise(lowered, raised, bias=-ROUNDING)
    above, excess = lowering.scratch(target.shape), lowering.scratch(target.shape)
    lowering.elementwise(above, size, small, subtract=True)
    lowering.elementwise(excess, lowered, above)
    lowering.copy(source, sign, *_table(tables.step(-1.0, 0.0, 1.0)))
    lowering.elementwise(target, excess, sign, Binary.MULTIPLY)


COMPOSED: Mapping[str, Callable[[Lowering, Tensor, Tensor, Settings], None]] = {
    "abs": _abs, "ceil": _ceil, "floor": _floor, "log": _log, "round": _round, "softsign": _softsign,
    "square": _square,
}
