"""Arithmetic of two tensors on the engine: constants become scale, bias, vectors or tables where they can."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from openane.engine import Activation, Binary, Post
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops import tables
from openane.ops.activation import half
from openane.ops.lowering import Lowering, Tensor

LARGEST = 65504.0
"""Largest finite fp16."""


def lower_binary(node: Node, lowering: Lowering) -> None:
    """Dispatches on what is constant: a scalar, one number per position of an axis, or tensors."""
    x, y = node["x"], node["y"]
    value, relu = lowering.relu_behind(node) if node.op in _PLANAR else (node.output, False)
    target = lowering.result(value)
    scalar = _scalar(y)
    if scalar is not None and x.type.elements == node.output.type.elements and \
            _RIGHT[node.op](lowering, target, lowering.read(x), scalar, relu):
        return
    scalar = _scalar(x)
    if scalar is not None and y.type.elements == node.output.type.elements and \
            _LEFT[node.op](lowering, target, lowering.read(y), scalar, relu):
        return
    if node.op in _PLANAR and _by_channel(node, lowering, target, relu):
        return
    if node.op in _FUNCTIONS:
        (first, clamp_first), (second, clamp_second) = lowering.clamped(x), lowering.clamped(y)
        lowering.elementwise(target, first, second, _FUNCTIONS[node.op], subtract=node.op == "sub", relu=relu,
                             first_relu=clamp_first, second_relu=clamp_second)
    else:
        (_divide if node.op == "real_div" else _raise)(lowering, target, lowering.read(x), lowering.read(y))


def scale_stage(node: Node, lowering: Lowering) -> tuple[Post, Table | None] | None:
    """A product with a scalar constant as a post stage."""
    scalar = _scalar(node["y"])
    if scalar is None or node["x"].shape != node.output.shape or not _fits(scalar):
        return None
    return Post(scale=half(scalar)), None


def _scalar(value: Value) -> float | None:
    if not value.constant or value.type.elements != 1:
        return None
    return float(value.array().reshape(()))


def _fits(value: float) -> bool:
    return abs(half(value)) <= LARGEST and (value == 0 or half(value) != 0)


def _spread(source: Tensor, target: Tensor) -> Tensor:
    return source.expand(target.shape)


def _affine(lowering: Lowering, target: Tensor, source: Tensor, scale: float, bias: float, relu: bool) -> bool:
    """target = scale * source + bias, clamped at 0 with `relu`, when both numbers fit fp16."""
    if not (_fits(scale) and _fits(bias)):
        return False
    lowering.elementwise(target, source, scale=half(scale), bias=half(bias), relu=relu)
    return True


def _clipped(lowering: Lowering, target: Tensor, source: Tensor, low: float, high: float) -> bool:
    table = tables.clip(half(low), half(high))
    lowering.copy(_spread(source, target), target, Post(activation=Activation.TABLE), table)
    return True


def _table(lowering: Lowering, target: Tensor, source: Tensor, table: Table, scale: float = 1.0) -> None:
    lowering.copy(_spread(source, target), target, Post(scale=half(scale), activation=Activation.TABLE), table)


def _power(lowering: Lowering, target: Tensor, source: Tensor, exponent: float) -> bool:
    """Small whole powers by products, halves by the root tables, others by 2^(exponent * log2 x) (x > 0)."""
    roots = {0.5: tables.sqrt, -0.5: tables.rsqrt, -1.0: tables.inverse}
    if exponent in roots:
        _table(lowering, target, source, roots[exponent]())
    elif exponent == int(exponent) and 0 <= exponent <= 8:
        _whole_power(lowering, target, source, int(exponent))
    else:
        logarithm = lowering.scratch(target.shape)
        _table(lowering, logarithm, source, tables.log2())
        _table(lowering, target, logarithm, tables.exp2(), exponent)
    return True


def _whole_power(lowering: Lowering, target: Tensor, source: Tensor, exponent: int) -> None:
    """x^n by repeated products: 0 to 8."""
    if exponent == 0:
        _table(lowering, target, source, tables.step(1.0, 1.0, 1.0))
        return
    result = source
    for position in range(exponent - 1):
        last = position == exponent - 2
        product = target if last else lowering.scratch(target.shape)
        lowering.elementwise(product, result, source, Binary.MULTIPLY)
        result = product
    if exponent == 1:
        lowering.copy(_spread(source, target), target)


def _reciprocal(lowering: Lowering, target: Tensor, source: Tensor, dividend: float) -> bool:
    """dividend / source: the inverse table, then a scale."""
    if not _fits(dividend):
        return False
    inverse = target if dividend == 1 else lowering.scratch(target.shape)
    _table(lowering, inverse, source, tables.inverse())
    if dividend != 1:
        lowering.elementwise(target, inverse, scale=half(dividend))
    return True


Scalar = Callable[[Lowering, Tensor, Tensor, float, bool], bool]

_RIGHT: Mapping[str, Scalar] = {
    "add": lambda lo, t, x, c, relu: _affine(lo, t, x, 1.0, c, relu),
    "sub": lambda lo, t, x, c, relu: _affine(lo, t, x, 1.0, -c, relu),
    "mul": lambda lo, t, x, c, relu: _affine(lo, t, x, c, 0.0, relu),
    "real_div": lambda lo, t, x, c, relu: c != 0 and _affine(lo, t, x, 1 / c, 0.0, relu),
    "maximum": lambda lo, t, x, c, _: _clipped(lo, t, x, c, np.inf),
    "minimum": lambda lo, t, x, c, _: _clipped(lo, t, x, -np.inf, c),
    "pow": lambda lo, t, x, c, _: _power(lo, t, x, c),
}
"""x op constant."""

_LEFT: Mapping[str, Scalar] = {
    "add": _RIGHT["add"],
    "sub": lambda lo, t, y, c, relu: _affine(lo, t, y, -1.0, c, relu),
    "mul": _RIGHT["mul"],
    "real_div": lambda lo, t, y, c, _: _reciprocal(lo, t, y, c),
    "maximum": _RIGHT["maximum"],
    "minimum": _RIGHT["minimum"],
    "pow": lambda lo, t, y, c, _: _exponential(lo, t, y, c),
}
"""constant op y."""


def _exponential(lowering: Lowering, target: Tensor, exponent: Tensor, base: float) -> bool:
    if base <= 0 or not _fits(float(np.log2(base))):
        return False
    _table(lowering, target, exponent, tables.exp2(), float(np.log2(base)))
    return True


def _divide(lowering: Lowering, target: Tensor, x: Tensor, y: Tensor) -> None:
    inverse = lowering.scratch(y.shape)
    _table(lowering, inverse, y, tables.inverse())
    lowering.elementwise(target, x, inverse, Binary.MULTIPLY)


def _raise(lowering: Lowering, target: Tensor, x: Tensor, y: Tensor) -> None:
    logarithm, product = lowering.scratch(x.shape), lowering.scratch(target.shape)
    _table(lowering, logarithm, x, tables.log2())
    lowering.elementwise(product, logarithm, y, Binary.MULTIPLY)
    _table(lowering, target, product, tables.exp2())


_FUNCTIONS: Mapping[str, Binary] = {
    "add": Binary.ADD, "sub": Binary.ADD, "mul": Binary.MULTIPLY, "maximum": Binary.MAXIMUM,
    "minimum": Binary.MINIMUM,
}

_PLANAR = ("add", "sub", "mul")
"""Operations whose last engine operation is planar, so that it can clamp at 0."""


def _by_channel(node: Node, lowering: Lowering, target: Tensor, relu: bool) -> bool:
    """A constant with one number per position of one axis: gain-offset vectors."""
    x, y = node["x"], node["y"]
    runtime, constant = (x, y) if y.constant else (y, x)
    if not constant.constant or runtime.shape != node.output.shape:
        return False
    shape = (1,) * (len(runtime.shape) - len(constant.shape)) + constant.shape
    wide = [axis for axis, extent in enumerate(shape) if extent > 1]
    if len(wide) != 1 or wide[0] == len(shape) - 1:
        return False
    numbers = constant.array().reshape(-1).astype(np.float64)
    zeros, ones = np.zeros_like(numbers), np.ones_like(numbers)
    vectors = {"add": (numbers, ones), "mul": (zeros, numbers),
               "sub": (-numbers, ones if runtime is x else -ones)}
    lowering.gain_offset(target, lowering.read(runtime), wide[0], *vectors[node.op], relu=relu)
    return True


