"""argsort: the positions that put the elements along one axis in descending (or `ascending`) order.

Equal elements keep the order they have in x.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import selection, topk
from openane.ops.gradients import stopped
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Op, Parameter

PARAMETERS = (
    Parameter("x"), Parameter("axis", const=True, default=-1, kind="int32"),
    Parameter("ascending", const=True, default=False, kind="bool"),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("argsort", PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    arguments.axis("axis", x.type.rank), arguments.flag("ascending")
    return (TensorType("int32", x.shape),)


def _reference(*, x: np.ndarray, axis: np.ndarray, ascending: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64)
    return (np.argsort(wide if ascending else -wide, axis=int(axis), kind="stable").astype(np.int32),)


def short_axis(node: Node, limits: Limits) -> bool:
    """The axis may have at most 32 positions: sorting finds one element after the other, eight engine operations
    each."""
    axis = Arguments("argsort", PARAMETERS, node.operands).axis("axis", node["x"].type.rank)
    return node["x"].shape[axis] <= topk.MOST


def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """The positions topk gives for all elements."""
    arguments = Arguments("argsort", PARAMETERS, node.operands)
    axis = arguments.axis("axis", node["x"].type.rank)
    found = rewriter.add("topk", x=node["x"], k=-1, axis=axis, ascending=arguments.flag("ascending"))
    assert isinstance(found, tuple), "topk gives positions unless told otherwise"
    return (found[1],)


OPS = (Op("argsort", PARAMETERS, _infer, _reference, decompose=_decompose, gradient=stopped,
          rules=(selection.at_most_five_dimensions, short_axis)),)
