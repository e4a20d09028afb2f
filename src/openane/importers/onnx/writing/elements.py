"""Operations on single elements as ONNX nodes: functions, arithmetic, comparisons, choices, types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from openane.graph.types import limits
from openane.importers.onnx.dtypes import SMALL_INTEGERS
from openane.importers.onnx.writing.outgoing import REALS, OutgoingNode
from openane.ops.bits import PLACES
from openane.ops.halves import LARGEST
from openane.ops.unary import exponent_of

Writer = Callable[[OutgoingNode], str | list[str]]
"""Writes a node of the graph: the tensors that hold its results."""

DIRECT = {
    "abs": "Abs", "acos": "Acos", "asin": "Asin", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "identity": "Identity", "logical_not": "Not",
    "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "softplus": "Softplus", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}
"""Functions of one tensor that ONNX has under a name of its own."""
SETTINGS = {"elu": ("Elu", ("alpha",)), "leaky_relu": ("LeakyRelu", ("alpha",)),
            "sigmoid_hard": ("HardSigmoid", ("alpha", "beta"))}
"""Those with settings, which are attributes there."""
PAIRS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "real_div": "Div", "maximum": "Max", "minimum": "Min", "pow": "Pow",
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
    "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
}
"""Functions of two tensors x and y."""
ROUNDING = ("ceil", "floor", "round")


def _direct(step: OutgoingNode) -> str:
    """Whole numbers stay as they are where numbers are made whole."""
    real = step.node["x"].dtype in (*REALS, "bool")
    return step.add("Identity" if step.node.op in ROUNDING and not real else DIRECT[step.node.op], step.read())


def _settings(step: OutgoingNode) -> str:
    name, stated = SETTINGS[step.node.op]
    return step.add(name, step.read(), **{each: step.arguments.number(each) for each in stated})


def _pair(step: OutgoingNode) -> str:
    return step.add(PAIRS[step.node.op], step.read("x"), step.read("y"))


def _not_equal(step: OutgoingNode) -> str:
    return step.add("Not", step.add("Equal", step.read("x"), step.read("y")))


def _floor_div(step: OutgoingNode) -> str:
    """Of whole numbers what is left after the remainder, which has the divisor's sign, divides without a rest."""
    x, y = step.read("x"), step.read("y")
    if step.node["x"].dtype in REALS:
        return step.add("Floor", step.add("Div", x, y))
    return step.add("Div", step.add("Sub", x, step.add("Mod", x, y)), y)


def _mod(step: OutgoingNode) -> str:
    """The rest has the sign of the divisor; that of ONNX's Mod on real numbers has the dividend's."""
    x, y = step.read("x"), step.read("y")
    if step.node["x"].dtype not in REALS:
        return step.add("Mod", x, y)
    return step.add("Sub", x, step.add("Mul", step.add("Floor", step.add("Div", x, y)), y))


def _shifted(step: OutgoingNode) -> str:
    """ONNX moves the bits of unsigned numbers. To the right the bits of a negative one are turned round before and
    after, as those that come in are ones. Moved by as many as it has, nothing is left of a number but its sign."""
    x, by = step.read("x"), step.read("y")
    zero, last = step.number(0), step.number(PLACES - 1)
    within = step.add("And", step.add("GreaterOrEqual", by, zero), step.add("LessOrEqual", by, last))
    if step.node.op == "shift_left":
        moved = _moved(step, x, step.add("Where", within, by, zero), "LEFT")
        return step.add("Where", within, moved, zero)
    negative = step.add("Less", x, zero)
    count = step.add("Where", within, by, last)
    moved = _moved(step, step.add("Where", negative, step.add("BitwiseNot", x), x), count, "RIGHT")
    return step.add("Where", negative, step.add("BitwiseNot", moved), moved)


def _moved(step: OutgoingNode, x: str, by: str, direction: str) -> str:
    """The bits of x, taken as unsigned, moved."""
    made = step.add("BitShift", step.cast(x, "uint32"), step.cast(by, "uint32"), direction=direction)
    return step.cast(made, "int32")


def _clip(step: OutgoingNode) -> str:
    low, high = (step.number(step.arguments.number(name)) for name in ("alpha", "beta"))
    return step.add("Clip", step.read(), low, high)


def _relu6(step: OutgoingNode) -> str:
    return step.add("Clip", step.read(), step.number(0), step.number(6))


def _clamped_relu(step: OutgoingNode) -> str:
    leaking = step.add("LeakyRelu", step.read(), alpha=step.arguments.number("alpha"))
    return step.add("Min", leaking, step.number(step.arguments.number("beta")))


def _exp2(step: OutgoingNode) -> str:
    return step.add("Pow", step.number(2), step.read())


def _square(step: OutgoingNode) -> str:
    return step.add("Mul", step.read(), step.read())


def _silu(step: OutgoingNode) -> str:
    return _held(step, lambda x: step.add("Mul", x, step.add("Sigmoid", x)))


def _held(step: OutgoingNode, function: Callable[[str], str]) -> str:
    """A function of x, both of which may be held times a power of two."""
    exponent = exponent_of(step.node)
    if not exponent:
        return function(step.read())
    return step.add("Mul", function(step.add("Mul", step.read(), step.number(2.0 ** -exponent))),
                    step.number(2.0 ** exponent))


def _gelu(step: OutgoingNode) -> str:
    mode = step.arguments.text("mode", ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"))
    if mode == "SIGMOID_APPROXIMATION":
        return _held(step, lambda x: step.add("Mul", x, step.add("Sigmoid", step.add("Mul", x, step.number(1.702)))))
    return _held(step, lambda x: step.add("Gelu", x, approximate="none" if mode == "EXACT" else "tanh"))


def _beside_zero(step: OutgoingNode) -> str:
    """x and the epsilon that keeps it from 0."""
    epsilon = step.number(step.arguments.number("epsilon"))
    nothing = not step.model.tensors[epsilon].any()
    return step.read() if nothing else step.add("Add", step.read(), epsilon)


def _log(step: OutgoingNode) -> str:
    return step.add("Log", _beside_zero(step))


def _inverse(step: OutgoingNode) -> str:
    return step.add("Reciprocal", _beside_zero(step))


def _rsqrt(step: OutgoingNode) -> str:
    return step.add("Reciprocal", step.add("Sqrt", _beside_zero(step)))


def _line(step: OutgoingNode) -> str:
    slope, offset = (step.number(step.arguments.number(name)) for name in ("alpha", "beta"))
    return step.add("Add", step.add("Mul", step.read(), slope), offset)


def _scaled_tanh(step: OutgoingNode) -> str:
    outer, within = (step.number(step.arguments.number(name)) for name in ("alpha", "beta"))
    return step.add("Mul", step.add("Tanh", step.add("Mul", step.read(), within)), outer)


def _threshold(step: OutgoingNode) -> str:
    return step.add("Max", step.read(), step.number(step.arguments.number("alpha")))


def _thresholded_relu(step: OutgoingNode) -> str:
    """ONNX's ThresholdedRelu makes 0 of what equals alpha, MIL's keeps it."""
    enough = step.add("GreaterOrEqual", step.read(), step.number(step.arguments.number("alpha")))
    return step.add("Where", enough, step.read(), step.number(0))


def _by_channel(step: OutgoingNode, name: str) -> str:
    """A vector with a number per channel, its shape ready for x [N, C, ...]."""
    return step.model.constant(step.model.numbers(step.node[name]).reshape(-1, *(1,) * (step.node["x"].type.rank - 2)))


def _prelu(step: OutgoingNode) -> str:
    return step.add("PRelu", step.read(), _by_channel(step, "alpha"))


def _softplus_parametric(step: OutgoingNode) -> str:
    inner = step.add("Softplus", step.add("Mul", step.read(), _by_channel(step, "beta")))
    return step.add("Mul", inner, _by_channel(step, "alpha"))


def _select(step: OutgoingNode) -> str:
    return step.add("Where", step.read("cond"), step.read("a"), step.read("b"))


def _cast(step: OutgoingNode) -> str:
    """Numbers beyond a smaller integer type become its nearest end, which ONNX leaves open."""
    source, target, tensor = step.node["x"].dtype, step.node.output.dtype, step.read()
    if target not in SMALL_INTEGERS or source in (target, "bool"):
        return step.cast(tensor, target)
    if source in REALS:
        most = LARGEST if step.model.dtype(source) == "fp16" else float("inf")
        ends = [step.number(min(bound, most)) for bound in limits(target)]
        return step.cast(step.cast(step.add("Clip", tensor, *ends), "int32"), target)
    ends = [step.model.constant(np.array(bound, np.int32)) for bound in limits(target)]
    return step.cast(step.add("Clip", step.cast(tensor, "int32"), *ends), target)


def _log1p(step: OutgoingNode) -> str:
    return step.add("Log", step.add("Add", step.read(), step.number(1)))


def _expm1(step: OutgoingNode) -> str:
    return step.add("Sub", step.add("Exp", step.read()), step.number(1))


def _erfc(step: OutgoingNode) -> str:
    return step.add("Sub", step.number(1), step.add("Erf", step.read()))


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(DIRECT, _direct), **dict.fromkeys(SETTINGS, _settings), **dict.fromkeys(PAIRS, _pair),
    "cast": _cast, "clamped_relu": _clamped_relu, "clip": _clip, "erfc": _erfc, "exp2": _exp2,
    "expm1": _expm1, "floor_div": _floor_div,
    "gelu": _gelu, "inverse": _inverse, "linear_activation": _line, "log": _log, "log1p": _log1p,
    "mod": _mod,
    "not_equal": _not_equal, "prelu": _prelu, "relu6": _relu6, "rsqrt": _rsqrt, "scaled_tanh": _scaled_tanh,
    "select": _select, "shift_left": _shifted, "shift_right": _shifted, "silu": _silu,
    "softplus_parametric": _softplus_parametric, "square": _square, "threshold": _threshold,
    "thresholded_relu": _thresholded_relu,
}
"""By the name of the operation."""
