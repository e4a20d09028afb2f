"""Arithmetic of two tensors on the engine: constants become scale, bias, vectors or tables where they can."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from openane.engine import Activation, Binary, Post
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops import tables
from openane.ops.compositions import Stages
from openane.ops.halves import fits, half, normal
from openane.ops.lowering import Lowering, Tensor, plane_axis
from openane.ops.power import constant_base, constant_exponent, raised

FACTOR = 2.0 ** 12
"""What a scale is taken apart by: two factors reach from 2^-26 to 2^27."""


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
        (_divide if node.op == "real_div" else raised)(lowering, target, lowering.read(x), lowering.read(y))


def scale_stage(node: Node, lowering: Lowering) -> tuple[Post, Table | None] | None:
    """A product with a scalar constant as a post stage."""
    scalar = _scalar(node["y"])
    if scalar is None or node["x"].shape != node.output.shape or not fits(scalar):
        return None
    return Post(scale=half(scalar)), None


def _scalar(value: Value) -> float | None:
    if not value.constant or value.type.elements != 1:
        return None
    return float(value.array().reshape(()))


def _spread(source: Tensor, target: Tensor) -> Tensor:
    return source.expand(target.shape)


def _affine(lowering: Lowering, target: Tensor, source: Tensor, scale: float, bias: float, relu: bool) -> bool:
    """target = scale * source + bias, clamped at 0 with `relu`, when fp16 holds bias and scale, or its two factors."""
    before = _first_factor(scale)
    if not (fits(scale / before) and fits(bias)):
        return False
    lowering.elementwise(target, source, pre_scale=before, scale=half(scale / before), bias=half(bias), relu=relu)
    return True


def scales(node: Node) -> bool:
    """Whether a node is a product with, or a quotient by, one number that two fp16 factors hold."""
    if node.op not in ("mul", "real_div"):
        return False
    numbers = [_scalar(node[name]) for name in (("x", "y") if node.op == "mul" else ("y",))]
    number = next((found for found in numbers if found is not None), None)
    if not number:
        return False
    scale = number if node.op == "mul" else 1 / number
    return fits(scale / _first_factor(scale))


def _first_factor(scale: float) -> float:
    """The power of two that is taken out of a scale fp16 does not hold, or not with all its digits; else 1."""
    if normal(scale):
        return 1.0
    return FACTOR if abs(scale) > 1 else 1 / FACTOR


def _divided(lowering: Lowering, target: Tensor, source: Tensor, gain: float, relu: bool) -> bool:
    """target = gain * source, as Apple's compiler divides by a constant: the reciprocal is a gain vector with one entry
    per plane, and only without planes the operation's scale."""
    plane = plane_axis(target.rank)
    if not normal(gain) or plane is None or target.shape[plane] == 1:
        return _affine(lowering, target, source, gain, 0.0, relu)
    count = target.shape[plane]
    lowering.gain_offset(target, _spread(source, target), plane, np.zeros(count), np.full(count, gain), relu=relu)
    return True


def _clipped(lowering: Lowering, target: Tensor, source: Tensor, low: float, high: float) -> bool:
    table = tables.clip(half(low), half(high))
    lowering.copy(_spread(source, target), target, Post(activation=Activation.TABLE), table)
    return True


def _table(lowering: Lowering, target: Tensor, source: Tensor, table: Table) -> None:
    lowering.copy(_spread(source, target), target, Post(activation=Activation.TABLE), table)


def _reciprocal(lowering: Lowering, target: Tensor, source: Tensor, dividend: float) -> bool:
    """dividend / source: the inverse table, then a scale."""
    if not fits(dividend):
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
    "real_div": lambda lo, t, x, c, relu: c != 0 and _divided(lo, t, x, 1 / c, relu),
    "maximum": lambda lo, t, x, c, _: _clipped(lo, t, x, c, np.inf),
    "minimum": lambda lo, t, x, c, _: _clipped(lo, t, x, -np.inf, c),
    "pow": lambda lo, t, x, c, _: constant_exponent(Stages(lo, t.shape), t, x, c),
}
"""x op constant."""

_LEFT: Mapping[str, Scalar] = {
    "add": _RIGHT["add"],
    "sub": lambda lo, t, y, c, relu: _affine(lo, t, y, -1.0, c, relu),
    "mul": _RIGHT["mul"],
    "real_div": lambda lo, t, y, c, _: _reciprocal(lo, t, y, c),
    "maximum": _RIGHT["maximum"],
    "minimum": _RIGHT["minimum"],
    "pow": lambda lo, t, y, c, _: constant_base(Stages(lo, t.shape), t, y, c),
}
"""constant op y."""


def _divide(lowering: Lowering, target: Tensor, x: Tensor, y: Tensor) -> None:
    """x times the table's inverse: within 0.002 of the quotient, where the inverse is neither subnormal nor infinite
    (2^-16 < |y| <= 2^14)."""
    inverse = lowering.scratch(y.shape)
    _table(lowering, inverse, y, tables.inverse())
    lowering.elementwise(target, x, inverse, Binary.MULTIPLY)


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


