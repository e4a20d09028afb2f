"""Operations on truth values: logical_not, logical_and, logical_or, logical_xor.

On the engine true is 1 and false is 0: and is the product, or the maximum, xor the squared difference, not 1 - x, all
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType
from openane.ops.broadcast import broadcast_shape
from openane.ops.fewer import elementwise
from openane.ops.gradients import stopped
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rules import MOVED
from openane.ops.spec import Op, Parameter

X, Y = Parameter("x", kind="bool"), Parameter("y", kind="bool")

Function = Callable[..., np.ndarray]

BINARY: Mapping[str, tuple[Function, Binary, dict[str, Any]]] = {
    "logical_and": (np.logical_and, Binary.MULTIPLY, {}),
    "logical_or": (np.logical_or, Binary.MAXIMUM, {}),
    "logical_xor": (np.logical_xor, Binary.SQUARE_SUM, {"negate": True}),
}


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, (X, Y), operands)
    x = arguments.tensor("x", ("bool",))
    if name == "logical_not":
        return (x.type,)
    return (TensorType("bool", broadcast_shape(name, "y", x.shape, arguments.tensor("y", ("bool",)).shape)),)


def _reference(*, function: Function, **operands: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(*operands.values())),)


def _lower_not(node: Node, lowering: Lowering) -> None:
    lowering.elementwise(lowering.result(node.output), lowering.read(node["x"]), scale=-1.0, bias=1.0)


def _lower(node: Node, lowering: Lowering, *, function: Binary, settings: Mapping[str, Any]) -> None:
    lowering.elementwise(lowering.result(node.output), lowering.read(node["x"]), lowering.read(node["y"]), function,
                         **settings)


def _binary(name: str, function: Function, planar: Binary, settings: Mapping[str, Any]) -> Op:
    return Op(name, (X, Y), partial(_infer, name=name), partial(_reference, function=function), rules=MOVED,
              lower=partial(_lower, function=planar, settings=settings), gradient=stopped, fewer=elementwise)


OPS = (
    Op("logical_not", (X,), partial(_infer, name="logical_not"), partial(_reference, function=np.logical_not),
       rules=MOVED, lower=_lower_not, gradient=stopped, fewer=elementwise),
    *(_binary(name, *described) for name, described in BINARY.items()),
)
