"""Arithmetic of two tensors, element by element, shapes broadcast: add, sub, mul, real_div, maximum, minimum, pow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.arithmetic import lower_binary, scale_stage
from openane.ops.broadcast import broadcast_shape
from openane.ops.gradients import Backward, number, only, product, unbroadcast
from openane.ops.operands import FLOATS, NUMBERS, Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Evidence, Op, Parameter, Upstream

PARAMETERS = (Parameter("x"), Parameter("y"))

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _infer(operands: Mapping[str, Operand], *, name: str, dtypes: Sequence[str]) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", dtypes)
    y = arguments.tensor("y", (x.dtype,))
    return (TensorType(x.dtype, broadcast_shape(name, "y", x.shape, y.shape)),)


def _reference(*, function: Function, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(x, y)),)


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


SLOPES: Mapping[str, Callable[[Node, Value, Backward], tuple[Value | None, Value | None]]] = {
    "add": lambda node, given, backward: (given, given),
    "sub": lambda node, given, backward: (given, _negated(backward, given) if backward.wants(node["y"]) else None),
    "mul": lambda node, given, backward: (
        product(backward, given, node["y"]) if backward.wants(node["x"]) else None,
        product(backward, given, node["x"]) if backward.wants(node["y"]) else None),
    "real_div": _by_quotient,
    "maximum": _by_extreme,
    "minimum": _by_extreme,
    "pow": _by_power,
}
"""(node, upstream, builder) -> the derivatives by x and by y before what was broadcast is summed."""


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    found = zip("xy", SLOPES[node.op](node, only(upstream), backward), strict=True)
    return {name: unbroadcast(backward, value, node[name].shape) for name, value in found
            if value is not None and backward.wants(node[name])}


def _op(name: str, function: Function, dtypes: Sequence[str] = NUMBERS) -> Op:
    return Op(name, PARAMETERS, partial(_infer, name=name, dtypes=dtypes), partial(_reference, function=function),
              rules=ENGINE, lower=lower_binary, post=scale_stage if name == "mul" else None,
              evidence=Evidence.APPLE, gradient=_gradient)


OPS = (
    _op("add", np.add),
    _op("sub", np.subtract),
    _op("mul", np.multiply),
    _op("real_div", np.divide, FLOATS),
    _op("maximum", np.maximum),
    _op("minimum", np.minimum),
    _op("pow", np.power, FLOATS),
)
