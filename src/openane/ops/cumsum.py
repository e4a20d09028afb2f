"""cumsum: sums of all elements up to each along one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.fewer import along
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter, Upstream

LONGEST = 2048
"""Elements of the axis: the matrix of ones that sums them is at most 4 MiB of coefficients."""
PARAMETERS = (
    Parameter("x"),
    Parameter("axis", const=True, default=0, kind="int32"),
    Parameter("exclusive", const=True, default=False, kind="bool"),
    Parameter("reverse", const=True, default=False, kind="bool"),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("cumsum", PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    arguments.axis("axis", x.type.rank)
    arguments.flag("exclusive")
    arguments.flag("reverse")
    return (x.type,)


def _reference(*, x: np.ndarray, axis: np.ndarray, exclusive: np.ndarray,
               reverse: np.ndarray) -> tuple[np.ndarray, ...]:
    along = int(axis)
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    wide = np.flip(wide, along) if reverse else wide
    total = np.cumsum(wide, along)
    total = total - wide if exclusive and x.dtype.kind != "f" else _shifted(total, along) if exclusive else total
    return ((np.flip(total, along) if reverse else total).astype(x.dtype),)


def _shifted(total: np.ndarray, axis: int) -> np.ndarray:
    rolled = np.roll(total, 1, axis)
    np.moveaxis(rolled, axis, 0)[0] = 0
    return rolled


def short(node: Node, limits: Limits) -> bool:
    """The summed axis may have at most 2048 elements."""
    axis = Arguments("cumsum", PARAMETERS, node.operands).axis("axis", node["x"].type.rank)
    return node["x"].shape[axis] <= LONGEST


def _lower(node: Node, lowering: Lowering) -> None:
    """A product with a triangle of ones: sums are wide and rounded to fp16 once, so that only the rounding of each
    result, 2^-11 of it, is lost while sums stay within fp16. inf and NaN reach all sums of their line."""
    arguments = Arguments("cumsum", PARAMETERS, node.operands)
    source = lowering.read(node["x"])
    axis = arguments.axis("axis", source.rank)
    ones = np.tril(np.ones((source.shape[axis],) * 2), -1 if arguments.flag("exclusive") else 0)
    lowering.mix(lowering.result(node.output), source, axis, ones[::-1, ::-1] if arguments.flag("reverse") else ones)


def _averages(node: Node) -> int:
    """The longest sum has every element of its line."""
    return node["x"].shape[Arguments("cumsum", PARAMETERS, node.operands).axis("axis", node["x"].type.rank)]


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Sums from the other end."""
    arguments = Arguments("cumsum", PARAMETERS, node.operands)
    return {"x": backward.single("cumsum", x=only(upstream), axis=arguments.axis("axis", node["x"].type.rank),
                                 exclusive=arguments.flag("exclusive"), reverse=not arguments.flag("reverse"))}


OPS = (Op("cumsum", PARAMETERS, _infer, _reference, rules=(*ENGINE, short), lower=_lower, gradient=_gradient,
          fewer=along(PARAMETERS), homogeneous=lambda node: ("x",), averages=_averages,
          note="Each sum is rounded to fp16 once; inf and NaN reach all sums of their line."),)
