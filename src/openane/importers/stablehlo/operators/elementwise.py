"""StableHLO operations that work element by element: arithmetic, comparisons, logic, functions, conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf, erfc
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.composites import arc_tangent_of, clipped, power, rounded_away
from openane.importers.stablehlo.step import Handler, Number, Result, StableStep, StableTensor
from openane.ops import special_functions

_UNARY = {
    "abs": "abs", "ceil": "ceil", "cosine": "cos", "exponential": "exp", "floor": "floor", "logistic": "sigmoid",
    "round_nearest_even": "round", "sign": "sign", "sine": "sin", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
    "chlo.acos": "acos", "chlo.asin": "asin", "chlo.atanh": "atanh", "chlo.cosh": "cosh", "chlo.erf": "erf",
    "chlo.sinh": "sinh", "chlo.square": "square", "chlo.tan": "tan", "chlo.erf_inv": "erfinv", "chlo.lgamma": "lgamma",
    "chlo.digamma": "digamma", "chlo.bessel_i1e": "bessel_i1e",
}
_COMPARISONS = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
                "GE": "greater_equal"}


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quotients: of integers towards zero."""
    return np.asarray(x / y if x.dtype.kind == "f" else np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)))


def _each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([function(each) for each in x.reshape(-1).tolist()]).reshape(x.shape)


def of_double(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A function that computes in float64."""
    return lambda x: function(np.asarray(x, np.float64))


FOLDS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs, "add": np.add, "and": np.bitwise_and, "atan2": np.arctan2, "cbrt": np.cbrt, "ceil": np.ceil,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high), "cosine": np.cos, "divide": _truncated,
    "exponential": np.exp, "exponential_minus_one": np.expm1, "floor": np.floor, "is_finite": np.isfinite,
    "log": np.log, "log_plus_one": np.log1p, "logistic": lambda x: 1 / (1 + np.exp(-x)), "maximum": np.maximum,
    "minimum": np.minimum, "multiply": np.multiply, "negate": np.negative, "not": np.invert, "or": np.bitwise_or,
    "power": np.power, "remainder": np.fmod, "round_nearest_even": np.rint,
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": np.where, "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
    "shift_right_logical": lambda x, y: np.right_shift(x.view(f"u{x.dtype.itemsize}"), y.view(f"u{y.dtype.itemsize}")),
    "sign": np.sign, "sine": np.sin, "sqrt": np.sqrt,
    "subtract": np.subtract, "tan": np.tan, "tanh": np.tanh, "xor": np.bitwise_xor, "chlo.acos": np.arccos,
    "chlo.asin": np.arcsin, "chlo.atanh": np.arctanh, "chlo.cosh": np.cosh, "chlo.erf": _each(erf),
    "chlo.erfc": _each(erfc), "chlo.sinh": np.sinh, "chlo.square": np.square, "chlo.tan": np.tan,
    "chlo.bessel_i1e": of_double(special_functions.i1e), "chlo.digamma": of_double(special_functions.digamma),
    "chlo.erf_inv": of_double(special_functions.erfinv), "chlo.lgamma": of_double(special_functions.lgamma),
}
COMPARED = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
             "GE": np.greater_equal}


def _direction(step: StableStep) -> str:
    """How a comparison compares."""
    words = [*step.statement.words, step.attribute("comparison_direction")]
    return next((word for word in words if word in _COMPARISONS), "")


def _folded(step: StableStep) -> np.ndarray:
    """The result of known operands."""
    arrays = [np.asarray(each.held) for each in step.operands]
    step.take(np.broadcast_shapes(*(array.shape for array in arrays)))
    if step.op == "compare":
        return np.asarray(COMPARED[_direction(step)](*arrays))
    with np.errstate(all="ignore"):
        return np.asarray(FOLDS[step.op](*arrays), step.type.dtype)


def _unary(op: str, **operands: Any) -> Handler:
    def handler(step: StableStep) -> Result:
        return step.add(op, x=step.narrow(step.operand(0)), **operands)
    return handler


def _pair(step: StableStep, far: bool = False) -> tuple[Number, Number]:
    return step.narrow(step.operand(0), far), step.narrow(step.operand(1), far)


def _binary(op: str, far: bool = False) -> Handler:
    def handler(step: StableStep) -> Result:
        x, y = _pair(step, far)
        return step.add(op, x=x, y=y)
    return handler


def _divide(step: StableStep) -> Result:
    """A sum of as many elements as it is divided by is their mean, which fp16 holds where it does not hold the sum."""
    x, y = _pair(step)
    if step.kind != "float":
        return _whole_quotient(step, x, y)
    total, divisor = step.origin(step.operand(0), "sum"), step.operand(1).number
    if total is not None and divisor == total[1].number:
        mean = step.add("reduce_mean", "mean", x=total[0].held, axes=np.asarray(total[2].held), keep_dims=True)
        assert isinstance(x, Value)
        return step.reshaped(mean, x.shape)
    windows = step.origin(step.operand(0), "windows")
    if windows is not None and divisor == windows[1].number:
        return windows[0].held
    return step.add("real_div", x=x, y=y)


def _whole_quotient(step: StableStep, x: Number, y: Number) -> Value:
    """Of integers, towards zero: the quotient of the magnitudes with the sign of both."""
    sizes = [step.add("abs", "size", x=each) if isinstance(each, Value) else np.abs(np.asarray(each, np.int32))
             for each in (x, y)]
    signs = [step.add("sign", "sign", x=each) if isinstance(each, Value) else np.sign(np.asarray(each, np.int32))
             for each in (x, y)]
    quotient = step.add("floor_div", "quotient", x=sizes[0], y=sizes[1])
    return step.add("mul", x=quotient, y=step.add("mul", "both", x=signs[0], y=signs[1]))


def _power(step: StableStep) -> Result:
    base, exponent = step.operands[0].held, step.operand(1).number
    if isinstance(base, Value) and exponent is not None and step.kind == "float":
        simple = power(step, base, exponent)
        if simple is not None:
            return simple
    x, y = _pair(step)
    return step.add("pow", x=x, y=y)


def _extreme(op: str) -> Handler:
    """Beside one number, a bound on one side."""
    def handler(step: StableStep) -> Result:
        for other, bound in (step.operands, step.operands[::-1]):
            if bound.number is not None and isinstance(other.held, Value) and step.kind == "float":
                number = float(step.converted(np.array(bound.number), far=bool(np.isfinite(bound.number))))
                return clipped(step, other.held, number, np.inf) if op == "maximum" else \
                    clipped(step, other.held, -np.inf, number)
        x, y = _pair(step, far=True)
        return step.add(op, x=x, y=y)
    return handler


def _clamp(step: StableStep) -> Result:
    low, x, high = step.operands
    if isinstance(x.held, Value) and low.number is not None and high.number is not None and \
            low.number <= high.number and step.kind == "float":
        return clipped(step, x.held, low.number, high.number)
    above = step.add("maximum", "above", x=step.narrow(x), y=step.narrow(low))
    return step.add("minimum", x=above, y=step.narrow(high))


def _logic(logical: str, bitwise: str) -> Handler:
    def handler(step: StableStep) -> Result:
        x, y = _pair(step)
        return step.add(logical if step.kind == "bool" else bitwise, x=x, y=y)
    return handler


def _not(step: StableStep) -> Result:
    """Of integers every bit: the host computes that, which sees them."""
    if step.kind == "bool":
        return step.add("logical_not", x=step.narrow(step.operand(0)))
    dtype = step.type.dtype
    if step.kind != "int" or (dtype.kind == "u" and dtype.itemsize > 2):
        raise step.refuse("an operand of integers", f"computed {dtype}", "an operand of booleans or of int32")
    ones = 2 ** (8 * dtype.itemsize) - 1 if dtype.kind == "u" else -1
    return step.add("bitwise_xor", x=step.narrow(step.operand(0)), y=ones)


def _compare(step: StableStep) -> Result:
    if step.known:
        return _folded(step)
    x, y = _pair(step, far=True)
    if step.operand(0).kind == "bool":
        x, y = (step.cast(each, "fp16", "number") if isinstance(each, Value) else float(each) for each in (x, y))
    direction = _direction(step)
    result = step.add(_COMPARISONS[direction], x=x, y=y)
    unequal = direction == "NE" and step.operands[0].held is step.operands[1].held
    step.shared.origins[result.name] = "NaN" if unequal else f"compare {direction}", tuple(step.operands)
    return result


def _select(step: StableStep) -> Result:
    """What is chosen by a known condition; where a number is none, what is computed of it is none either."""
    condition, first, second = step.operands
    chosen = condition.number
    if chosen is not None:
        return first if chosen else second
    if step.origin(condition, "NaN") is not None and isinstance(first.held, Value):
        return second
    if step.known:
        return _folded(step)
    cond = step.narrow(condition)
    if step.op == "select" and not isinstance(cond, Value):
        cond = step.as_value(StableTensor(np.asarray(condition.held), condition.type._replace(
            shape=np.asarray(condition.held).shape)))
    a, b = (each.held if isinstance(each.held, Value) else step.converted(each.held, far=True)
            for each in (first, second))
    return step.add("select", cond=cond, a=a, b=b)


def _convert(step: StableStep) -> Result:
    x = step.operand(0)
    if isinstance(x.held, np.ndarray):
        with np.errstate(all="ignore"):
            return x.held if x.held.dtype == step.type.dtype else x.held.astype(step.type.dtype)
    return step.matched(x.held, step.kind)


def _finite(step: StableStep) -> Result:
    return step.add("less", x=step.add("abs", "size", x=step.narrow(step.operand(0))), y=np.inf)


def _with_one(inner: str, outer: str) -> Handler:
    """expm1, log1p and erfc, by what they are named after."""
    def handler(step: StableStep) -> Result:
        x = step.narrow(step.operand(0))
        if outer == "log":
            return step.add("log", x=step.add("add", "more", x=x, y=1.0), epsilon=0.0)
        first = step.add(inner, inner, x=x)
        return step.add("sub", x=first, y=1.0) if outer == "sub" else step.add("sub", x=1.0, y=first)
    return handler


def _remainder(step: StableStep) -> Result:
    """What is left of the magnitude, with the sign of the first operand."""
    x, y = _pair(step)
    left = step.add("mod", "left", x=step.add("abs", "size", x=x), y=step.add("abs", "divisor", x=y)
                    if isinstance(y, Value) else abs(y))
    return step.add("mul", x=left, y=step.add("sign", "sign", x=x))


def _arc_tangent(step: StableStep) -> Result:
    y, x = (step.as_value(step.as_stated(each)) for each in step.operands)
    return arc_tangent_of(step, y, x)


def _cube_root(step: StableStep) -> Result:
    """The sign of x times the root of its magnitude."""
    x = step.as_value(step.operand(0))
    root = step.add("pow", "root", x=step.add("abs", "size", x=x), y=1 / 3)
    return step.add("mul", x=root, y=step.add("sign", "sign", x=x))


def _rounded_away(step: StableStep) -> Result:
    return rounded_away(step, step.as_value(step.operand(0)))


def _shift(step: StableStep) -> Result:
    """Whole numbers without a sign shifted to the right. Signed ones would bring the sign along, or not."""
    if step.type.dtype.kind != "u":
        raise step.refuse("an operand of integers with a sign", "computed", "an operand without a sign (uint32)")
    return _binary("shift_right")(step)


def _bits(step: StableStep) -> Result:
    """The bits of known numbers as numbers of another type of the same size."""
    return np.ascontiguousarray(step.array(0, "what is read bit by bit")).view(step.type.dtype)


def _same(step: StableStep) -> Result:
    return step.operands if len(step.statement.results) > 1 else step.operand(0)


def _known_first(op: str, handler: Handler) -> Handler:
    """Known operands are computed with at once."""
    return lambda step: _folded(step) if step.known and op in FOLDS else handler(step)


_HANDLERS: Mapping[str, Handler] = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    "add": _binary("add", far=True), "and": _logic("logical_and", "bitwise_and"), "atan2": _arc_tangent,
    "bitcast_convert": _bits, "cbrt": _cube_root, "clamp": _clamp, "compare": _compare, "convert": _convert,
    "divide": _divide, "exponential_minus_one": _with_one("exp", "sub"), "is_finite": _finite,
    "log": _unary("log", epsilon=0.0), "log_plus_one": _with_one("", "log"), "maximum": _extreme("maximum"),
    "minimum": _extreme("minimum"), "multiply": _binary("mul"), "negate": _unary("mul", y=-1.0), "not": _not,
    "optimization_barrier": _same, "or": _logic("logical_or", "bitwise_or"), "power": _power,
    "reduce_precision": _same, "remainder": _remainder, "round_nearest_afz": _rounded_away,
    "rsqrt": _unary("rsqrt", epsilon=0.0), "shift_left": _binary("shift_left"),
    "shift_right_arithmetic": _binary("shift_right"), "shift_right_logical": _shift,
    "subtract": _binary("sub", far=True), "xor": _logic("logical_xor", "bitwise_xor"),
    "chlo.erfc": _with_one("erf", ""),
}
OPERATORS: Mapping[str, Handler] = {
    **{op: _known_first(op, handler) for op, handler in _HANDLERS.items()}, "select": _select,
}
