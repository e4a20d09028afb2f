"""Arithmetic of two tensors on the engine: constants become scale, bias, vectors or tables where they can."""

from __future__ import annotations

import numpy as np

from openane.engine import Activation, Binary, Post
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops import tables
from openane.ops.halves import fits, half, normal
from openane.ops.lowering import Lowering, Tensor, plane_axis
from openane.ops.spec import BinaryArithmetic, Stage

FACTOR = 2.0 ** 12
"""What a scale is taken apart by: two factors reach from 2^-26 to 2^27."""


def lower_arithmetic(node: Node, lowering: Lowering, *, arithmetic: BinaryArithmetic) -> None:
    """Dispatches on what is constant: a scalar, one number per position of an axis, or tensors."""
    x, y = node["x"], node["y"]
    if arithmetic.planar is not None and not (x.constant or y.constant):
        _of_two(node, lowering, arithmetic, arithmetic.planar)
        return
    value, relu = lowering.relu_behind(node) if arithmetic.clamps else (node.output, False)
    target = lowering.result(value)
    for number, lower, other in ((scalar(y), arithmetic.right, x), (scalar(x), arithmetic.left, y)):
        if number is not None and other.type.elements == node.output.type.elements and \
                lower(lowering, target, lowering.read(other), number, relu):
            return
    if arithmetic.clamps and _by_channel(node, lowering, target, arithmetic, relu):
        return
    if arithmetic.pair is not None:
        arithmetic.pair(lowering, target, lowering.read(x), lowering.read(y))
        return
    assert arithmetic.planar is not None, f"{arithmetic.name} of two tensors is a planar function or lowered otherwise"
    lowering.elementwise(target, lowering.read(x), lowering.read(y), arithmetic.planar, subtract=arithmetic.subtracts,
                         relu=relu)


def _of_two(node: Node, lowering: Lowering, arithmetic: BinaryArithmetic, function: Binary) -> None:
    """One planar operation of two tensors, which clamps and multiplies by powers of two on the way in and out. It can
    multiply its first operand alone: the second one becomes that, with the signs of a difference exchanged."""
    if arithmetic.clamps:
        value, scale, relu = lowering.scale_and_relu_behind(node)
    else:
        value, scale, relu = node.output, 1.0, False
    first, second = lowering.entering(node["x"]), lowering.entering(node["y"])
    subtract, before = arithmetic.subtracts, first.scale
    if second.scale != 1:
        first, second, subtract = second, first, False
        before = -first.scale if arithmetic.subtracts else first.scale
    lowering.elementwise(lowering.result(value), first.tensor, second.tensor, function, pre_scale=before, scale=scale,
                         subtract=subtract, relu=relu, first_relu=first.relu, second_relu=second.relu)


def scale_stage(node: Node, lowering: Lowering) -> Stage | None:
    """A product with a scalar constant as a post stage."""
    number = scalar(node["y"])
    if number is None or node["x"].shape != node.output.shape or not fits(number):
        return None
    return Post(scale=half(number)), None


def scalar(value: Value) -> float | None:
    """The number a constant of one element holds; None for others."""
    if not value.constant or value.type.elements != 1:
        return None
    return float(value.array().reshape(()))


def _spread(source: Tensor, target: Tensor) -> Tensor:
    return source.expand(target.shape)


def affine(lowering: Lowering, target: Tensor, source: Tensor, scale: float, bias: float, relu: bool) -> bool:
    """target = scale * source + bias, clamped at 0 with `relu`, when fp16 holds bias and scale, or its two factors."""
    before = first_factor(scale)
    if not (fits(scale / before) and fits(bias)):
        return False
    lowering.elementwise(target, source, pre_scale=before, scale=half(scale / before), bias=half(bias), relu=relu)
    return True


def first_factor(scale: float) -> float:
    """The power of two that is taken out of a scale fp16 does not hold, or not with all its digits; else 1."""
    if normal(scale):
        return 1.0
    return FACTOR if abs(scale) > 1 else 1 / FACTOR


def divided(lowering: Lowering, target: Tensor, source: Tensor, gain: float, relu: bool) -> bool:
    """target = gain * source, as Apple's compiler divides by a constant: the reciprocal is a gain vector with one entry
    per plane, and only without planes the operation's scale."""
    plane = plane_axis(target.rank)
    if not normal(gain) or plane is None or target.shape[plane] == 1:
        return affine(lowering, target, source, gain, 0.0, relu)
    count = target.shape[plane]
    lowering.gain_offset(target, _spread(source, target), plane, np.zeros(count), np.full(count, gain), relu=relu)
    return True


def clipped(lowering: Lowering, target: Tensor, source: Tensor, low: float, high: float) -> bool:
    """target = min(max(source, low), high)."""
    table = tables.clip(half(low), half(high))
    lowering.copy(_spread(source, target), target, Post(activation=Activation.TABLE), table)
    return True


def _table(lowering: Lowering, target: Tensor, source: Tensor, table: Table) -> None:
    lowering.copy(_spread(source, target), target, Post(activation=Activation.TABLE), table)


def reciprocal(lowering: Lowering, target: Tensor, source: Tensor, dividend: float) -> bool:
    """dividend / source: the inverse table, then a scale."""
    if not fits(dividend):
        return False
    inverse = target if dividend == 1 else lowering.scratch(target.shape)
    _table(lowering, inverse, source, tables.inverse())
    if dividend != 1:
        lowering.elementwise(target, inverse, scale=half(dividend))
    return True


def divide(lowering: Lowering, target: Tensor, x: Tensor, y: Tensor) -> None:
    """x times the table's inverse: within 0.002 of the quotient, where the inverse is neither subnormal nor infinite
    (2^-16 < |y| <= 2^14)."""
    inverse = lowering.scratch(y.shape)
    _table(lowering, inverse, y, tables.inverse())
    lowering.elementwise(target, x, inverse, Binary.MULTIPLY)


def _by_channel(node: Node, lowering: Lowering, target: Tensor, arithmetic: BinaryArithmetic, relu: bool) -> bool:
    """A constant with one number per position of one axis: vectors of biases, which come first, and gains."""
    x, y = node["x"], node["y"]
    runtime, constant = (x, y) if y.constant else (y, x)
    if not constant.constant or runtime.shape != node.output.shape:
        return False
    shape = (1,) * (len(runtime.shape) - len(constant.shape)) + constant.shape
    wide = [axis for axis, extent in enumerate(shape) if extent > 1]
    if len(wide) != 1 or wide[0] == len(shape) - 1:
        return False
    numbers = constant.array().reshape(-1).astype(np.float64)
    made = None if arithmetic.affine is None else arithmetic.affine(numbers, runtime is x)
    if made is None:
        return False
    gain, offset = made
    biases = offset * gain if isinstance(gain, float) else np.zeros_like(numbers)  # such a gain is 1 or -1
    lowering.gain_offset(target, lowering.read(runtime), wide[0], np.broadcast_to(biases, numbers.shape),
                         np.broadcast_to(gain, numbers.shape), relu=relu)
    return True
