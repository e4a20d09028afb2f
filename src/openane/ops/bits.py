"""Operations on the bits of integers: bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right.

The engine holds integers as fp16 numbers and has nothing that sees their bits: the host computes these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.broadcast import broadcast_shape
from openane.ops.gradients import stopped
from openane.ops.operands import Arguments
from openane.ops.spec import Op, Parameter

PARAMETERS = (Parameter("x", kind="int32"), Parameter("y", kind="int32"))
PLACES = 32
"""Bits of an integer here."""


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x, y = (arguments.tensor(operand, ("int32",)) for operand in ("x", "y"))
    return (TensorType("int32", broadcast_shape(name, "y", x.shape, y.shape)),)


def _reference(*, function: Callable[..., np.ndarray], x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(x.astype(np.int32), y.astype(np.int32)), np.int32),)


def _shifted(x: np.ndarray, by: np.ndarray, *, left: bool) -> np.ndarray:
    """x moved by so many bits; by as many as it has, or by a number below 0, nothing of it is left but its sign."""
    wide, count = x.astype(np.int64), np.where((by < 0) | (by > PLACES), PLACES, by)
    moved = np.left_shift(wide, count) if left else np.right_shift(wide, count)
    return np.asarray((moved + 2**31) % 2**32 - 2**31, np.int32)


def has_bits(node: Node, limits: Limits) -> bool:
    """The engine holds integers as fp16 numbers, whose bits are others: the host computes this."""
    return False


FUNCTIONS: Mapping[str, Callable[..., np.ndarray]] = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "shift_left": partial(_shifted, left=True), "shift_right": partial(_shifted, left=False),
}

OPS = tuple(Op(name, PARAMETERS, partial(_infer, name=name), partial(_reference, function=function),
               rules=(has_bits,), gradient=stopped, sees_bits=True) for name, function in FUNCTIONS.items())
