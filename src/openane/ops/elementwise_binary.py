"""Arithmetic of two tensors, element by element, shapes broadcast: add, sub, mul, real_div, maximum, minimum, pow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.arithmetic import affine, clipped, divide, divided, lower_arithmetic, reciprocal, scale_stage
from openane.ops.broadcast import broadcast_shape
from openane.ops.fewer import elementwise
from openane.ops.gradients import Backward, number, only, product, unbroadcast
from openane.ops.halves import SMALLEST
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import FLOATS, NUMBERS, Arguments
from openane.ops.power import constant_base, constant_exponent, raised
from openane.ops.rules import ENGINE
from openane.ops.spec import Affine, BinaryArithmetic, Op, OperationEvidence, Parameter, Stage, Upstream
from openane.ops.stages import Stages

PARAMETERS = (Parameter("x"), Parameter("y"))

Function = Callable[..., np.ndarray]
"""Of two arrays, and `out`."""


def _infer(operands: Mapping[str, Operand], *, name: str, dtypes: Sequence[str]) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", dtypes)
    y = arguments.tensor("y", (x.dtype,))
    return (TensorType(x.dtype, broadcast_shape(name, "y", x.shape, y.shape)),)


def _reference(*, function: Function, x: np.ndarray, y: np.ndarray, over: np.ndarray | None = None
               ) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(x, y, out=over)),)


def _negated(backward: Backward, value: Value) -> Value:
    return product(backward, value, -1.0)


def _by_quotient(node: Node, given: Value, backward: Backward) -> tuple[Value, Value | None]:
    """given / y, and the negative of that times the quotient."""
    share = backward.single("real_div", x=given, y=node["y"])
    return share, product(backward, _negated(backward, share), node.output) if backward.wants(node["y"]) else None


def _by_power(node: Node, given: Value, backward: Backward) -> tuple[Value | None, Value | None]:
    """given * y * x^(y - 1) and given * x^y * log x; the second one, and the first when y is computed, for x > 0."""
    x, y, by_x, by_y = node["x"], node["y"], None, None
    if backward.wants(x):
        lower = backward.single("sub", x=y, y=1.0)
        slope = product(backward, backward.single("pow", x=x, y=lower), y)
        by_x = product(backward, given, slope)
    if backward.wants(y):
        logarithm = backward.single("log", x=x, epsilon=0.0)
        by_y = product(backward, product(backward, given, node.output), logarithm)
    return by_x, by_y


def _by_extreme(node: Node, given: Value, backward: Backward) -> tuple[Value, Value]:
    """All to the operand that is taken, to x where both are equal."""
    comparison = "greater_equal" if node.op == "maximum" else "less_equal"
    first = number(backward, backward.single(comparison, x=node["x"], y=node["y"]), given.dtype)
    second = backward.single("linear_activation", x=first, alpha=-1.0, beta=1.0)
    return product(backward, given, first), product(backward, given, second)


def _by_difference(node: Node, given: Value, backward: Backward) -> tuple[Value, Value | None]:
    return given, _negated(backward, given) if backward.wants(node["y"]) else None


def _by_product(node: Node, given: Value, backward: Backward) -> tuple[Value | None, Value | None]:
    return (product(backward, given, node["y"]) if backward.wants(node["x"]) else None,
            product(backward, given, node["x"]) if backward.wants(node["y"]) else None)


def _gradient(node: Node, upstream: Upstream, backward: Backward, *, arithmetic: BinaryArithmetic) -> Mapping[str,
                                                                                                              Operand]:
    found = zip("xy", arithmetic.slope(node, only(upstream), backward), strict=True)
    return {name: unbroadcast(backward, value, node[name].shape) for name, value in found
            if value is not None and backward.wants(node[name])}


def _plus(lowering: Lowering, target: Tensor, x: Tensor, number: float, relu: bool) -> bool:
    """A number above 0 that would be 0 in fp16 is the smallest one there: it is added so that nothing is 0 that is
    divided by or has a logarithm."""
    return affine(lowering, target, x, 1.0, SMALLEST if 0 < number <= SMALLEST / 2 else number, relu)


def _times(lowering: Lowering, target: Tensor, x: Tensor, number: float, relu: bool) -> bool:
    return affine(lowering, target, x, number, 0.0, relu)


def _at_least(lowering: Lowering, target: Tensor, x: Tensor, number: float, relu: bool) -> bool:
    return clipped(lowering, target, x, number, np.inf)


def _at_most(lowering: Lowering, target: Tensor, x: Tensor, number: float, relu: bool) -> bool:
    return clipped(lowering, target, x, -np.inf, number)


def _subtracted(numbers: np.ndarray, behind: bool) -> Affine:
    return (1.0, -numbers) if behind else (-1.0, numbers)


def _divided_by(numbers: np.ndarray, behind: bool) -> Affine | None:
    return (1 / numbers, 0.0) if behind and numbers.all() else None


def _op(arithmetic: BinaryArithmetic, dtypes: Sequence[str] = NUMBERS, hands_on: bool = False,
        post: Callable[[Node, Lowering], Stage | None] | None = None, table_of: str = "") -> Op:
    return Op(arithmetic.name, PARAMETERS, partial(_infer, name=arithmetic.name, dtypes=dtypes),
              partial(_reference, function=arithmetic.function), rules=ENGINE,
              lower=partial(lower_arithmetic, arithmetic=arithmetic), post=post, evidence=OperationEvidence.APPLE,
              gradient=partial(_gradient, arithmetic=arithmetic), arithmetic=arithmetic, hands_on=hands_on,
              stores=arithmetic.planar is not None, table_of=table_of, fewer=elementwise, over=True)


OPS = (
    _op(BinaryArithmetic("add", np.add, lambda node, given, backward: (given, given), right=_plus, left=_plus,
                         planar=Binary.ADD, clamps=True, affine=lambda numbers, behind: (1.0, numbers)), hands_on=True),
    _op(BinaryArithmetic("sub", np.subtract, _by_difference, planar=Binary.ADD, subtracts=True, clamps=True,
                         right=lambda lo, t, x, number, relu: affine(lo, t, x, 1.0, -number, relu),
                         left=lambda lo, t, y, number, relu: affine(lo, t, y, -1.0, number, relu), affine=_subtracted),
        hands_on=True),
    _op(BinaryArithmetic("mul", np.multiply, _by_product, right=_times, left=_times, planar=Binary.MULTIPLY,
                         clamps=True, affine=lambda numbers, behind: (numbers, 0.0)), hands_on=True, post=scale_stage),
    _op(BinaryArithmetic("real_div", np.divide, _by_quotient, pair=divide, affine=_divided_by,
                         right=lambda lo, t, x, number, relu: number != 0 and divided(lo, t, x, 1 / number, relu),
                         left=lambda lo, t, y, number, relu: reciprocal(lo, t, y, number)), FLOATS, hands_on=True,
        table_of="inverse"),
    _op(BinaryArithmetic("maximum", np.maximum, _by_extreme, right=_at_least, left=_at_least, planar=Binary.MAXIMUM)),
    _op(BinaryArithmetic("minimum", np.minimum, _by_extreme, right=_at_most, left=_at_most, planar=Binary.MINIMUM)),
    _op(BinaryArithmetic("pow", np.power, _by_power, pair=raised,
                         right=lambda lo, t, x, number, relu: constant_exponent(Stages(lo, t.shape), t, x, number),
                         left=lambda lo, t, y, number, relu: constant_base(Stages(lo, t.shape), t, y, number)), FLOATS,
        table_of="log"),
)
