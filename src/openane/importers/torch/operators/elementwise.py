"""PyTorch operators that work element by element: arithmetic, comparisons, logic, activations, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.composites import (
    GELU_MODES,
    arc_tangent_of,
    hard_sigmoid,
    hard_swish,
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_sine,
    power,
    scaled_elu,
)
from openane.importers.masks import FARTHEST, MEANS_FARTHEST
from openane.importers.step import to_half
from openane.importers.torch.operators.whole import truncated_quotient
from openane.importers.torch.step import Handler, Result, TorchStep, as_numpy
from openane.ops.halves import LARGEST

_UNARY = {
    "abs": "abs", "acos": "acos", "asin": "asin", "atan": "atan", "atanh": "atanh", "ceil": "ceil", "cos": "cos",
    "cosh": "cosh", "digamma": "digamma", "erf": "erf", "erfinv": "erfinv", "exp": "exp", "exp2": "exp2",
    "floor": "floor", "i0": "bessel_i0", "lgamma": "lgamma", "relu": "relu", "sigmoid": "sigmoid", "sign": "sign",
    "sin": "sin", "sinh": "sinh", "special_erfcx": "erfcx", "special_i0e": "bessel_i0e", "special_i1": "bessel_i1",
    "special_i1e": "bessel_i1e", "special_ndtri": "ndtri", "sqrt": "sqrt", "square": "square", "tan": "tan",
    "tanh": "tanh",
}
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                "ge": "greater_equal"}


def _unary(op: str, **operands: Any) -> Handler:
    def handler(step: TorchStep) -> Result:
        return step.add(op, x=step.number("self"), **operands)
    return handler


def _binary(op: str, farthest: float = 0.0) -> Handler:
    """self and other, of which one may be a number; `alpha` scales other. `farthest` is what numbers beyond fp16 stand
    for, 0 where they have no place."""
    def handler(step: TorchStep) -> Result:
        if op == "add" and (masked := _masked(step)) is not None:
            return masked
        first, second = (step.other(name, step.kind, farthest) for name in ("self", "other"))
        alpha = step.argument("alpha", 1)
        if alpha != 1:
            second = step.add("mul", part="scaled", x=second, y=alpha) if isinstance(second, Value) else second * alpha
        return step.add(op, x=first, y=second)
    return handler


def _masked(step: TorchStep) -> Value | None:
    """x plus a mask, which is far below everything in places and known or made by `where`: there the sum is what the
    mask is, as in fp32, whatever x is, so that a row that is masked throughout has equal elements. None for other
    sums."""
    operands = [step.argument("self"), step.argument("other")]
    for x, mask in (operands, operands[::-1]):
        if isinstance(x, Value) and isinstance(mask, Value) and mask.name in step.constants.masks:
            spread = step.add("mul", part="spread", x=mask, y=2.0)
            return step.add("minimum", x=step.matched(x, "float"),
                            y=step.add("add", part="ceiling", x=spread, y=FARTHEST))
    known = [i for i, each in enumerate(operands) if not isinstance(each, Value) and hasattr(each, "detach")]
    if step.kind != "float" or len(known) != 1 or step.argument("alpha", 1) != 1:
        return None
    numbers = as_numpy(operands[known[0]])
    far = numbers <= -MEANS_FARTHEST
    if not far.any():
        return None
    step.constants.note(step.label, numbers, FARTHEST)
    x, rest = step.matched(operands[1 - known[0]], "float"), np.where(far, 0, numbers)
    total = step.add("add", part="unmasked", x=x, y=to_half(rest, f"{step.label}: a constant")) if rest.any() else x
    ceiling = np.where(far, -FARTHEST, LARGEST).astype(np.float16)
    return step.spread(step.add("minimum", x=total, y=ceiling), step.shape)


def _multiply(step: TorchStep) -> Result:
    """A number a mask is multiplied with may mean "as far as possible": only from beyond MEANS_FARTHEST on.
    Of booleans it is what logic calls and."""
    if step.kind == "bool":
        return step.add("logical_and", x=step.number("self"), y=step.number("other"))
    numbers = [found for name in ("self", "other") if isinstance(found := step.argument(name), int | float)]
    return _binary("mul", FARTHEST if all(abs(number) > MEANS_FARTHEST for number in numbers) else 0.0)(step)


def _reversed_subtraction(step: TorchStep) -> Result:
    scaled, alpha = step.number("self"), step.argument("alpha", 1)
    if alpha != 1:
        scaled = step.add("mul", part="scaled", x=scaled, y=alpha)
    return step.add("sub", x=step.other("other", step.kind, FARTHEST), y=scaled)


def _divide(step: TorchStep) -> Result:
    mode = step.argument("rounding_mode")
    if mode == "floor":
        return step.add("floor_div", x=step.other("self", step.kind), y=step.other("other", step.kind))
    if mode is not None:
        return truncated_quotient(step)
    return step.add("real_div", x=step.other("self", step.kind), y=step.other("other", step.kind))


def _power(step: TorchStep) -> Result:
    exponent = step.argument("exponent")
    simple = None
    if step.kind == "float" and isinstance(exponent, int | float):
        simple = power(step, step.number("self"), float(exponent))
    if simple is not None:
        return simple
    return step.add("pow", x=step.other("self", step.kind), y=step.other("exponent", step.kind))


def _comparison(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        kinds = [_kind(step.argument(name)) for name in ("self", "other")]
        kind = "float" if "float" in kinds else "int"
        return step.add(op, x=step.other("self", kind, FARTHEST), y=step.other("other", kind, FARTHEST))
    return handler


def _kind(found: Any) -> str:
    """The kind of a value, a tensor or a number."""
    if isinstance(found, Value):
        return {"fp16": "float", "bool": "bool"}.get(found.dtype, "int")
    if isinstance(found, bool | int | float):
        return type(found).__name__
    return "float" if found.is_floating_point() else "int"


def _where(step: TorchStep) -> Result:
    """Branches may hold numbers beyond fp16: masks are filled with the lowest number of the type."""
    branches = [step.matched(step.as_value(step.argument(name), name, FARTHEST), step.kind)
                for name in ("self", "other")]
    result = step.add("select", cond=step.value("condition"), a=branches[0], b=branches[1])
    if step.kind == "float" and all(branch.constant for branch in branches) and \
            {float(number) for branch in branches for number in np.unique(branch.array())} == {0.0, -FARTHEST}:
        step.constants.masks.add(result.name)
    return result


def _clamp(step: TorchStep) -> Result:
    x = step.number("self")
    low, high = step.argument("min"), step.argument("max")
    if step.kind == "float" and isinstance(low, int | float) and isinstance(high, int | float) and low <= high:
        return step.add("clip", x=x, alpha=max(float(low), -LARGEST), beta=min(float(high), LARGEST))
    for name, op in (("min", "maximum"), ("max", "minimum")):
        if step.given(name):
            x = step.add(op, part=name, x=x, y=step.other(name, step.kind, LARGEST))
    return x


def _gelu(step: TorchStep) -> Result:
    return step.add("gelu", x=step.number("self"), mode=GELU_MODES[step.argument("approximate", "none")])


def _elu(step: TorchStep) -> Result:
    alpha, scale, slope = (float(step.argument(name, 1)) for name in ("alpha", "scale", "input_scale"))
    return scaled_elu(step, step.number("self"), alpha, scale, slope)


def _leaky(step: TorchStep) -> Result:
    return step.add("leaky_relu", x=step.number("self"), alpha=float(step.argument("negative_slope", 0.01)))


def _prelu(step: TorchStep) -> Result:
    x, slope = step.number("self"), step.half("weight")
    assert slope is not None
    if slope.size == 1:
        return step.add("leaky_relu", x=x, alpha=float(slope.reshape(())))
    return step.add("prelu", x=x, alpha=slope.reshape(-1))


def _hard_tanh(step: TorchStep) -> Result:
    low, high = float(step.argument("min_val", -1)), float(step.argument("max_val", 1))
    return step.add("clip", x=step.number("self"), alpha=low, beta=high)


def _softplus(step: TorchStep) -> Result:
    """softplus(beta * x) / beta."""
    x, beta = step.number("self"), float(step.argument("beta", 1))
    if beta == 1:
        return step.add("softplus", x=x)
    scaled = step.add("mul", part="scaled", x=x, y=beta)
    return step.add("mul", x=step.add("softplus", part="softplus", x=scaled), y=1 / beta)


def _log1p(step: TorchStep) -> Result:
    return step.add("log", x=step.add("add", part="one", x=step.number("self"), y=1.0), epsilon=0.0)


def _logarithm(base: float) -> Handler:
    """log(x) / log(base)."""
    def handler(step: TorchStep) -> Result:
        natural = step.add("log", part="natural", x=step.number("self"), epsilon=0.0)
        return step.add("mul", x=natural, y=1 / math.log(base))
    return handler


def _of_numbers(op: str) -> Handler:
    """An extreme of two of which one may be no number: that is then the other."""
    def handler(step: TorchStep) -> Result:
        x, y = step.number("self"), step.number("other")
        known = [step.add("select", part=f"known_{name}", cond=step.add("not_equal", part=name, x=own, y=own), a=other,
                          b=own) for name, own, other in (("x", x, y), ("y", y, x))]
        return step.add(op, x=known[0], y=known[1])
    return handler


def _is_nan(step: TorchStep) -> Result:
    """What differs from itself."""
    x = step.number("self") if step.kind != "bool" else step.value("self")
    return step.add("not_equal", x=x, y=x)


def _hyperbolic(function: Callable[[TorchStep, Value], Value]) -> Handler:
    return lambda step: function(step, step.number("self"))


def _angle(step: TorchStep) -> Result:
    return arc_tangent_of(step, step.number("self"), step.number("other"))


def _sign_as_angle(step: TorchStep) -> Result:
    """That of a real number: pi below 0."""
    below = step.add("less", part="below", x=step.number("self"), y=0.0)
    return step.add("mul", x=step.cast(below, "fp16", "one"), y=math.pi)


def _hypotenuse(step: TorchStep) -> Result:
    """The length of two numbers, whose squares are not stored."""
    parts = [step.spread(step.number(name), step.shape, name) for name in ("self", "other")]
    both = step.add("stack", part="both", values=tuple(parts), axis=len(step.shape))
    return step.add("reduce_l2_norm", x=both, axes=[-1], keep_dims=False)


def _erfc(step: TorchStep) -> Result:
    return step.add("sub", x=1.0, y=step.add("erf", part="erf", x=step.number("self")))


def _with_sign(step: TorchStep) -> Result:
    """The magnitude of one operand with the sign of the other."""
    size, sign = step.add("abs", part="size", x=step.number("self")), step.other("other", step.kind)
    if not isinstance(sign, Value):
        return step.add("mul", x=size, y=math.copysign(1.0, sign))
    negative = step.add("mul", part="negative", x=size, y=-1.0)
    return step.add("select", cond=step.add("less", part="below", x=sign, y=0.0), a=negative, b=size)


def _expm1(step: TorchStep) -> Result:
    return step.add("sub", x=step.add("exp", part="one", x=step.number("self")), y=1.0)


def _polygamma(step: TorchStep) -> Result:
    order = step.argument("n")
    if order not in (0, 1):
        raise step.refuse("n", order, "0 or 1")
    return step.add(("digamma", "trigamma")[order], x=step.number("self"))


def _negate(step: TorchStep) -> Result:
    return step.add("mul", x=step.number("self"), y=-1)


def _same(step: TorchStep) -> Result:
    """The operand in the type of the result."""
    return step.number("self")


def _copy(step: TorchStep) -> Result:
    """self takes the elements of src."""
    return step.spread(step.number("src", FARTHEST), step.shape)


OPERATORS: Mapping[str, Handler] = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    **{name: _comparison(op) for name, op in _COMPARISONS.items()},
    **dict.fromkeys(("_to_copy", "alias", "clone", "contiguous", "detach", "lift_fresh_copy", "to"), _same),
    **dict.fromkeys(("clamp", "clamp_max", "clamp_min"), _clamp),
    "acosh": _hyperbolic(inverse_hyperbolic_cosine), "angle": _sign_as_angle,
    "asinh": _hyperbolic(inverse_hyperbolic_sine), "atan2": _angle, "copysign": _with_sign, "erfc": _erfc,
    "hypot": _hypotenuse,
    "add": _binary("add", FARTHEST), "copy": _copy, "div": _divide, "elu": _elu, "expm1": _expm1,
    "fmax": _of_numbers("maximum"), "fmin": _of_numbers("minimum"), "isnan": _is_nan,
    "log10": _logarithm(10), "log2": _logarithm(2),
    "gelu": _gelu,
    "hardsigmoid": lambda step: hard_sigmoid(step, step.number("self")),
    "hardswish": lambda step: hard_swish(step, step.number("self")), "hardtanh": _hard_tanh,
    "leaky_relu": _leaky, "log": _unary("log", epsilon=0.0), "log1p": _log1p, "maximum": _binary("maximum", LARGEST),
    "minimum": _binary("minimum", LARGEST), "mul": _multiply, "neg": _negate, "polygamma": _polygamma,
    "pow": _power, "prelu": _prelu,
    "reciprocal": _unary("inverse", epsilon=0.0), "relu6": _unary("relu6"), "remainder": _binary("mod"),
    "rsqrt": _unary("rsqrt", epsilon=0.0), "rsub": _reversed_subtraction, "silu": _unary("silu"), "softplus": _softplus,
    "sub": _binary("sub", FARTHEST), "where": _where,
}
