"""whole_spread: the variances of rows of whole steps, in whole steps of their own, beside WHOLE.

WHOLE + round(units * the mean square of x - mean) of x [rows, height, width], whole numbers, each row on its own, or
units * the mean square of x where it is not `centred`. Not one of MIL's own operations: it is what whole_sums makes of
variances and mean squares whose result is whole steps. x less the whole number nearest to the mean is what fp16 holds,
and one reduction squares, sums and rounds that, less the mean of it; so it does with numbers that are not `whole`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import stopped
from openane.ops.lowering import Lowering
from openane.ops.operands import FLOATS, Arguments, refusal
from openane.ops.rounding import WHOLE
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.ops.step_rows import centred_rows, rows_as_given

NAME = "whole_spread"
PARAMETERS = (Parameter("x"), Parameter("units", const=True, kind="number"),
              Parameter("centred", const=True, default=True, kind="bool"),
              Parameter("whole", const=True, default=True, kind="bool"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments(NAME, PARAMETERS, operands)
    x = arguments.tensor("x", FLOATS, (3, 3))
    if not 0 < arguments.number("units") < np.inf:
        raise refusal(NAME, "units", "must be above 0", arguments.number("units"))
    return (TensorType(x.dtype, (x.shape[0], 1, 1)),)


def _reference(*, x: np.ndarray, units: np.ndarray, centred: np.ndarray,
               whole: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64)
    wide = wide - wide.mean((1, 2), keepdims=True) if bool(centred) else wide
    return ((WHOLE + np.rint(np.square(wide).mean((1, 2), keepdims=True) * float(units))).astype(x.dtype),)


def _lower(node: Node, lowering: Lowering) -> None:
    arguments = Arguments(NAME, PARAMETERS, node.operands)
    x = lowering.with_last(lowering.compact(lowering.read(node["x"])), 2)
    scale, result = arguments.number("units") / prod(x.shape[1:]), lowering.scratch((x.shape[0], 1, 1))
    if arguments.flag("centred"):
        rows = centred_rows(lowering, x) if arguments.flag("whole") else rows_as_given(lowering, x)
        assert rows.mean is not None, "of centred rows"
        rows.reduced(rows.mean.expand(x.shape), rows.d, result, Binary.SQUARE_SUM, negate=True, final_scale=scale,
                     epsilon=WHOLE)
    else:
        lowering.reduce(result, x, (1, 2), final_scale=scale, epsilon=WHOLE, square=True)
    lowering.bind(node.output, result)


OPS = (Op(NAME, PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, gradient=stopped, rounds=True,
          normalises=True),)
