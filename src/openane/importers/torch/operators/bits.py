"""PyTorch operators on truth values and on the bits of integers, which are computed in 32 bits and brought back to as
many as the program has."""

from __future__ import annotations

from collections.abc import Mapping

from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep

_LOGIC = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}
_NARROW = {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16}
_HELD = 32
"""Bits that integers are computed in."""


def _logic(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        if step.kind != "bool":
            raise step.refuse("self", step.kind, "operands of bool")
        return step.add(op, x=step.other("self", "bool"), y=step.other("other", "bool"))
    return handler


def _bits(name: str) -> Handler:
    """Logic of truth values; of integers the host computes it, which sees their bits."""
    def handler(step: TorchStep) -> Result:
        if step.kind == "bool":
            return _logic(_LOGIC[name])(step)
        return step.add(f"bitwise_{name}", x=step.other("self", "int"), y=step.other("other", "int"))
    return handler


def _not(step: TorchStep) -> Result:
    if step.kind == "bool":
        return step.add("logical_not", x=step.number("self"))
    if step.kind != "int" or step.op == "logical_not":
        raise step.refuse("self", step.kind, "an operand of bool")
    ones = 2 ** _NARROW[step.dtype] - 1 if step.dtype.startswith("u") else -1
    return step.add("bitwise_xor", x=step.number("self"), y=ones)


def _shift(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        if step.kind != "int":
            raise step.refuse("self", step.kind, "operands of integers")
        moved = step.add(op, part="moved", x=step.other("self", "int"), y=step.other("other", "int"))
        return _narrowed(step, moved)
    return handler


def _narrowed(step: TorchStep, value: Value) -> Value:
    """The lowest bits of a number, as many as the type has, signed where it is."""
    width = _NARROW.get(step.dtype)
    if width is None or step.op.endswith(("right_shift", "rshift__")):
        return value
    if step.dtype.startswith("u"):
        return step.add("bitwise_and", part="low", x=value, y=2 ** width - 1)
    high = step.add("shift_left", part="high", x=value, y=_HELD - width)
    return step.add("shift_right", x=high, y=_HELD - width)


OPERATORS: Mapping[str, Handler] = {
    **{op: _logic(op) for op in _LOGIC.values()}, **{f"bitwise_{name}": _bits(name) for name in _LOGIC},
    **{f"__{name}__": _bits(name) for name in _LOGIC},
    **dict.fromkeys(("bitwise_left_shift", "__lshift__"), _shift("shift_left")),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__"), _shift("shift_right")),
    **dict.fromkeys(("bitwise_not", "logical_not"), _not),
}
