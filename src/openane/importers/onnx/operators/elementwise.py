"""ONNX operators that work element by element: arithmetic, comparisons, logic, casts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.composites import chained, clipped, mean_of, power
from openane.importers.onnx.dtypes import ENGINE_NAMES, dtype_name
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result
from openane.ops.halves import LARGEST

LARGEST_POWER = 16
"""Integer powers are products; larger exponents leave what fp16 holds exactly for every base above 1."""


def unary(op: str, **operands: Any) -> Handler:
    """An operator that is one MIL operation with fixed settings."""
    def handler(step: OnnxStep) -> Operand:
        return step.add_real(op, x=step.number(0), **operands)
    return handler


def _no_old_broadcast(step: OnnxStep) -> None:
    if step.version < 7 and step.integer("broadcast", 0):
        raise step.refuse("broadcast", 1, "opset 7 or later: onnx.version_converter.convert_version(model, 13)")


def _binary(op: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        _no_old_broadcast(step)
        return step.add_real(op, x=step.number(0), y=step.number(1))
    return handler


def _added(step: OnnxStep) -> Operand:
    _no_old_broadcast(step)
    return step.add_real("add", x=step.positive(0), y=step.positive(1))


def _divide(step: OnnxStep) -> Operand:
    """Integers are divided towards zero: by magnitudes, the signs apart."""
    _no_old_broadcast(step)
    x, y = step.number(0), step.number(1)
    if x.dtype == "fp16":
        return step.add("real_div", x=x, y=y)
    sizes = [step.add_real("abs", part=name, x=value) for name, value in (("x", x), ("y", y))]
    signs = [step.add_real("sign", part=f"{name}_sign", x=value) for name, value in (("x", x), ("y", y))]
    size = step.add("floor_div", part="size", x=sizes[0], y=sizes[1])
    sign = step.add_real("mul", part="sign", x=signs[0], y=signs[1])
    return step.add_real("mul", x=size, y=sign)


def _modulo(step: OnnxStep) -> Operand:
    """The remainder has the sign of the divisor, with `fmod` that of the dividend."""
    x, y = step.number(0), step.number(1)
    fmod = step.integer("fmod", 0)
    if not fmod:
        return step.add("mod", x=x, y=y)
    rest = step.add("mod", part="rest", x=step.add_real("abs", part="x", x=x), y=step.add_real("abs", part="y", x=y))
    return step.add_real("mul", x=rest, y=step.add_real("sign", part="sign", x=x))


def _variadic(op: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        read = step.positive if op == "maximum" else step.number
        return chained(step, op, [read(index) for index in range(len(step.inputs))], step.add_real)
    return handler


def _mean(step: OnnxStep) -> Operand:
    return mean_of(step, [step.number(index) for index in range(len(step.inputs))], step.add_real)


def _power(step: OnnxStep) -> Operand:
    x, exponent = step.number(0), step.operand(1)
    if x.dtype == "int32":
        return _integer_power(step, x)
    if isinstance(exponent, Value):
        return step.add("pow", x=x, y=step.real(1))
    one = exponent.size == 1 and exponent.ndim <= x.type.rank
    simple = power(step, x, float(exponent.reshape(()))) if one else None
    return step.add("pow", x=x, y=step.half(exponent, 1)) if simple is None else simple


def _integer_power(step: OnnxStep, x: Value) -> Operand:
    """Exact products, each element taking part in as many as its exponent says."""
    exponents = step.array(1, "the exponent of an integer")
    if exponents.size and (exponents.min() < 0 or exponents.max() > LARGEST_POWER):
        raise UnsupportedError(step.label, "exponents of integers must be small", limit=f"0..{LARGEST_POWER}",
                               found=f"{exponents.min()}..{exponents.max()}", remedy="cast the base to float")
    shape = bounded(step, np.broadcast_shapes(x.shape, exponents.shape))
    base = step.cast(x, "fp16")
    result = step.add("add", part="start", x=step.add("mul", part="none", x=base, y=np.zeros(shape, np.float16)), y=1.0)
    for count in range(int(exponents.max(initial=0))):
        factor = step.add("select", part=f"factor{count}", cond=np.broadcast_to(exponents > count, shape), a=base,
                          b=np.float16(1))
        result = step.add("mul", part=f"power{count}", x=result, y=factor)
    return step.cast(result, "int32")


def _negate(step: OnnxStep) -> Operand:
    return step.add_real("mul", x=step.number(0), y=-1)


def _clip(step: OnnxStep) -> Operand:
    x = step.number(0)
    bounds = [step.inputs[index] if index < len(step.inputs) else None for index in (1, 2)]
    if any(isinstance(bound, Value) for bound in bounds) or x.dtype != "fp16":
        return _clip_by_values(step, x)
    low, high = _bound(step, 1, "min", -np.inf), _bound(step, 2, "max", np.inf)
    if low > high:
        return step.add("minimum", x=step.add("maximum", part="low", x=x, y=low), y=high)
    return clipped(step, x, low, high)


def _clip_by_values(step: OnnxStep, x: Value) -> Operand:
    for index, op in ((1, "maximum"), (2, "minimum")):
        if step.has(index) and (isinstance(step.operand(index), Value) or x.dtype == "fp16"
                                or abs(step.number_in(index, "bound")) <= LARGEST):
            x = step.add_real(op, part="clipped", x=x, y=step.number(index))
    return x


def _bound(step: OnnxStep, index: int, name: str, missing: float) -> float:
    """A bound of Clip; bounds fp16 cannot reach bound nothing."""
    if step.version < 11:
        bound = step.real_attribute(name, missing)
    else:
        bound = step.number_in(index, name) if step.has(index) else missing
    return bound if abs(bound) <= LARGEST or np.sign(bound) != np.sign(missing) else missing


def _cast_to(step: OnnxStep, x: Value, code: int) -> Operand:
    name = dtype_name(code, step.label)
    wanted = ENGINE_NAMES[name]
    if name.startswith("uint") and name not in ("uint8", "uint16") and x.dtype == "fp16":
        x = step.add("maximum", part="positive", x=x, y=0.0)  # what lies below is undefined in ONNX
    return step.cast(x, wanted)


def _cast(step: OnnxStep) -> Operand:
    return _cast_to(step, step.value(0), step.integer("to", 0))


def _cast_like(step: OnnxStep) -> Operand:
    """Element types the graph does not tell apart (fp32 and fp16, int64 and int32) need no cast."""
    target = step.operand(1)
    name = step.constants.converted(target, step.input_names[1]).dtype if isinstance(target, np.ndarray) else None
    dtype = target.dtype if isinstance(target, Value) else {"f": "fp16", "b": "bool"}.get(str(name and name.kind),
                                                                                         "int32")
    return step.cast(step.value(0), dtype)


def _comparison(op: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        _no_old_broadcast(step)
        x, y = step.number(0), step.number(1)
        if x.dtype == "bool":
            x, y = step.cast(x, "int32"), step.cast(y, "int32")
        return step.add(op, x=x, y=y)
    return handler


def _where(step: OnnxStep) -> Operand:
    return step.add("select", cond=step.value(0), a=step.number(1), b=step.number(2))


def _is_infinite(step: OnnxStep) -> Operand:
    x = step.value(0)
    negative, positive = step.integer("detect_negative", 1), step.integer("detect_positive", 1)
    if not (negative or positive):
        return np.zeros(x.shape, np.bool_)
    if negative and positive:
        x = step.add("abs", part="size", x=x)
    elif negative:
        x = step.add("mul", part="turned", x=x, y=-1.0)
    return step.add("greater", x=x, y=np.float16(LARGEST))


def _is_nan(step: OnnxStep) -> Operand:
    """Nowhere: the engine has no NaN."""
    return np.zeros(bounded(step, step.value(0).shape), np.bool_)


def _identity(step: OnnxStep) -> Operand:
    if not step.inputs:
        raise GraphError(f"{step.label}: input 0 is missing")
    return step.operand(0)


def _dropout(step: OnnxStep) -> Result:
    """The identity, unless the model trains with a ratio: that draws random numbers."""
    x = step.operand(0)
    training = step.version >= 12 and step.has(2) and bool(step.array(2, "training_mode").any())
    ratio = step.number_in(1, "ratio") if training and step.has(1) else 0.5
    if training and ratio:
        raise step.refuse("training_mode", True, "export the model for inference (model.eval())")
    return (x, np.ones(x.shape, np.bool_)) if step.uses(1) else x


OPERATORS: Mapping[str, Handler] = {
    "Abs": unary("abs"), "Add": _added, "And": _binary("logical_and"), "Cast": _cast, "CastLike": _cast_like,
    "Ceil": unary("ceil"), "Clip": _clip, "Div": _divide, "Dropout": _dropout, "Equal": _comparison("equal"),
    "Exp": unary("exp"), "Floor": unary("floor"), "Greater": _comparison("greater"),
    "GreaterOrEqual": _comparison("greater_equal"), "Identity": _identity, "IsInf": _is_infinite, "IsNaN": _is_nan,
    "Less": _comparison("less"), "LessOrEqual": _comparison("less_equal"), "Log": unary("log", epsilon=0.0),
    "Max": _variadic("maximum"), "Mean": _mean, "Min": _variadic("minimum"), "Mod": _modulo, "Mul": _binary("mul"),
    "Neg": _negate, "Not": unary("logical_not"), "Or": _binary("logical_or"), "Pow": _power,
    "Reciprocal": unary("inverse", epsilon=0.0), "Round": unary("round"), "Sign": unary("sign"), "Sqrt": unary("sqrt"),
    "Sub": _binary("sub"), "Sum": _variadic("add"), "Where": _where, "Xor": _binary("logical_xor"),
}
