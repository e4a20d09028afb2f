"""floor_div and mod: the quotient rounded down, and what it leaves; shapes broadcast.

On the engine the quotient is estimated by the inverse table from slightly below and cut off, twice, and then corrected
by the remainder. That is exact for integers from -2048 to 2048 (the divisor not 0): no product exceeds the dividend.
For other numbers products round, by half a unit in the dividend's last place: the quotient is off by one where x / y is
that close to an integer (and by its own rounding beyond 2048), the remainder by as much of the divisor. The quotient
must stay below 65504, the divisor's magnitude above 2^-15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from openane.graph import Node, Operand, TensorType
from openane.ops import tables
from openane.ops.broadcast import broadcast_shape
from openane.ops.gradients import Backward, only, product, stopped, unbroadcast
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.rules import MOVED
from openane.ops.spec import Op, Parameter, Upstream
from openane.ops.stages import Stages
from openane.record_classes import dataclass

PARAMETERS = (Parameter("x"), Parameter("y"))
BELOW = 1 - 2.0 ** -8
"""The inverse table errs by less than 2^-10 and its result rounds by 2^-11: the estimate never exceeds the quotient."""

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS)
    y = arguments.tensor("y", (x.dtype,))
    return (TensorType(x.dtype, broadcast_shape(name, "y", x.shape, y.shape)),)


def _reference(*, function: Function, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    return (np.asarray(function(wide, y)).astype(x.dtype),)


@dataclass(frozen=True, slots=True)
class _Parts:
    """x / y with y made positive: sign of y, |y|, the quotient towards zero but for one, and what remains (of the
    dividend's sign, at most a little more than the divisor)."""

    sign: Tensor
    divisor: Tensor
    quotient: Tensor
    rest: Tensor


def _divided(lowering: Lowering, stages: Stages, x: Tensor, y: Tensor) -> _Parts:
    small = Stages(lowering, y.shape)
    sign = small.table(y, tables.sign())
    divisor = small.planar(y, absolute=True)
    inverse = small.planar(small.table(divisor, tables.inverse()), scale=BELOW)
    dividend = stages.times(x, sign)
    first = stages.table(stages.times(dividend, inverse), tables.truncate())
    left = stages.planar(dividend, stages.times(first, divisor), subtract=True)
    second = stages.table(stages.times(left, inverse), tables.truncate())
    rest = stages.planar(left, stages.times(second, divisor), subtract=True)
    return _Parts(sign, divisor, stages.planar(first, second), rest)


def _correction(stages: Stages, parts: _Parts) -> Tensor:
    """What to add to the quotient: 1 where rest >= divisor, -1 where it is below 0, -2 where below -divisor."""
    full = stages.table(stages.planar(parts.rest, parts.divisor, subtract=True), tables.step(0.0, 1.0, 1.0))
    negative = stages.table(parts.rest, tables.step(1.0, 0.0, 0.0))
    deeper = stages.table(stages.planar(parts.rest, parts.divisor), tables.step(1.0, 0.0, 0.0))
    return stages.planar(stages.planar(full, negative, subtract=True), deeper, subtract=True)


def _lower_floor(node: Node, lowering: Lowering) -> None:
    target = lowering.result(node.output)
    stages = Stages(lowering, target.shape)
    parts = _divided(lowering, stages, lowering.read(node["x"]), lowering.read(node["y"]))
    stages.planar(parts.quotient, _correction(stages, parts), target=target)


def _lower_mod(node: Node, lowering: Lowering) -> None:
    target = lowering.result(node.output)
    stages = Stages(lowering, target.shape)
    parts = _divided(lowering, stages, lowering.read(node["x"]), lowering.read(node["y"]))
    moved = stages.times(_correction(stages, parts), parts.divisor)
    stages.times(stages.planar(parts.rest, moved, subtract=True), parts.sign, target=target)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """x less the divisor times the quotient rounded down, which itself does not change."""
    given, found = only(upstream), {}
    if backward.wants(node["x"]):
        found["x"] = unbroadcast(backward, given, node["x"].shape)
    if backward.wants(node["y"]):
        quotient = backward.single("floor_div", x=node["x"], y=node["y"])
        found["y"] = unbroadcast(backward, product(backward, product(backward, given, quotient), -1.0), node["y"].shape)
    return found


def _op(name: str, function: Function, lower: Callable[[Node, Lowering], None]) -> Op:
    return Op(name, PARAMETERS, partial(_infer, name=name), partial(_reference, function=function), rules=MOVED,
              lower=lower, gradient=stopped if name == "floor_div" else _gradient)


OPS = (_op("floor_div", np.floor_divide, _lower_floor), _op("mod", np.mod, _lower_mod))
