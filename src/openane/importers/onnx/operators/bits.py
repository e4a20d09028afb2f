"""ONNX operators on the bits of integers. They are computed in 32 bits and brought back to as many as the model has."""

from __future__ import annotations

from collections.abc import Mapping

from openane.graph import Value
from openane.importers.onnx.dtypes import SMALL_INTEGERS
from openane.importers.onnx.step import Handler, OnnxStep, Operand


def _dtype(step: OnnxStep) -> str:
    """The element type of the first input that is computed; constants have that of the other."""
    return next(each.dtype for each in step.inputs if isinstance(each, Value))


def _narrowed(step: OnnxStep, value: Value, dtype: str) -> Value:
    """The lowest bits of a number, as many as the type has, signed where it is."""
    if dtype not in SMALL_INTEGERS:
        return value
    width = 8 if dtype.endswith("8") else 16
    if dtype.startswith("u"):
        return step.add("bitwise_and", part="low", x=value, y=2**width - 1)
    high = step.add("shift_left", part="high", x=value, y=32 - width)
    return step.add("shift_right", x=high, y=32 - width)


def _binary(op: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        return step.add(op, x=step.number(0), y=step.number(1))
    return handler


def _not(step: OnnxStep) -> Operand:
    made = step.add("bitwise_xor", part="bits", x=step.number(0), y=-1)
    return _narrowed(step, made, _dtype(step))


def _shift(step: OnnxStep) -> Operand:
    direction = step.text("direction", "")
    ops = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    if direction not in ops:
        raise step.refuse("direction", direction, f"one of {', '.join(ops)}")
    made = step.add(ops[direction], part="bits", x=step.number(0), y=step.number(1))
    return _narrowed(step, made, _dtype(step))


OPERATORS: Mapping[str, Handler] = {
    "BitShift": _shift, "BitwiseAnd": _binary("bitwise_and"), "BitwiseNot": _not, "BitwiseOr": _binary("bitwise_or"),
    "BitwiseXor": _binary("bitwise_xor"),
}
