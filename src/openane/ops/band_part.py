"""band_part: the matrices of the last two dimensions with everything outside a band around the diagonal set to 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import Backward, only, product
from openane.ops.lowering import Lowering
from openane.ops.operands import ELEMENTS, Arguments
from openane.ops.rules import MOVED
from openane.ops.spec import Op, Parameter, Upstream

PARAMETERS = (Parameter("x"), Parameter("lower", const=True, default=-1, kind="int32"),
              Parameter("upper", const=True, default=-1, kind="int32"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("band_part", PARAMETERS, operands)
    arguments.integer("lower")
    arguments.integer("upper")
    return (arguments.tensor("x", ELEMENTS, (2, 8)).type,)


def band(rows: int, columns: int, lower: int, upper: int) -> np.ndarray:
    """Where the band is: [rows, columns] of booleans; negative widths keep that whole side."""
    below = np.arange(rows)[:, None] - np.arange(columns)
    return ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))


def _reference(*, x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, ...]:
    return ((x * band(x.shape[-2], x.shape[-1], int(lower), int(upper))).astype(x.dtype),)


def _lower(node: Node, lowering: Lowering) -> None:
    """A product with a constant mask, as the operation is defined: inf outside the band becomes NaN."""
    arguments = Arguments("band_part", PARAMETERS, node.operands)
    x = lowering.read(node["x"])
    mask = band(x.shape[-2], x.shape[-1], arguments.integer("lower"), arguments.integer("upper"))
    if mask.all():
        lowering.bind(node.output, x)
    else:
        lowering.elementwise(lowering.result(node.output), x, lowering.constant(mask), Binary.MULTIPLY)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    arguments, shape = Arguments("band_part", PARAMETERS, node.operands), node["x"].shape
    mask = band(shape[-2], shape[-1], arguments.integer("lower"), arguments.integer("upper"))
    return {"x": product(backward, only(upstream), mask.astype(np.float32))}


OPS = (Op("band_part", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient,
          homogeneous=lambda node: ("x",),
          note="A product with a mask, as defined: inf outside the band becomes NaN."),)
