"""tile: x repeated reps[i] times along dimension i."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops.operands import ELEMENTS, Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter

PARAMETERS = (Parameter("x"), Parameter("reps", const=True, kind="int32"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("tile", PARAMETERS, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    reps = arguments.vector("reps", (1,) * x.type.rank, minimum=1)
    return (TensorType(x.dtype, tuple(extent * count for extent, count in zip(x.shape, reps, strict=True))),)


def _reference(*, x: np.ndarray, reps: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.tile(x, tuple(int(count) for count in reps)),)


OPS = (Op("tile", PARAMETERS, _infer, _reference, rules=ENGINE),)
