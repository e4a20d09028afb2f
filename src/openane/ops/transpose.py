"""transpose: dimension i of the result is dimension perm[i] of x."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType
from openane.ops.fewer import transposed
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering
from openane.ops.merging import as_other
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, OperationEvidence, Parameter, Upstream

PARAMETERS = (Parameter("x"), Parameter("perm", const=True, kind="int32"))


def permutation(operands: Mapping[str, Operand]) -> tuple[int, ...]:
    """`perm` counted from the front. GraphError when it is not a permutation of x's dimensions."""
    arguments = Arguments("transpose", PARAMETERS, operands)
    rank = arguments.tensor("x", ELEMENTS).type.rank
    perm = arguments.integers("perm", (), count=rank) or ()
    front = tuple(axis % rank if -rank <= axis < rank else -1 for axis in perm)
    if sorted(front) != list(range(rank)):
        raise refusal("transpose", "perm", f"must name each of the {rank} dimensions of x once", list(perm))
    return front


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    perm = permutation(operands)
    x = Arguments("transpose", PARAMETERS, operands).tensor("x", ELEMENTS)
    return (TensorType(x.dtype, tuple(x.shape[axis] for axis in perm)),)


def _reference(*, x: np.ndarray, perm: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x.transpose(tuple(int(axis) for axis in perm)),)


def _lower(node: Node, lowering: Lowering) -> None:
    """Reordered strides; operations that cannot read them copy first."""
    lowering.bind(node.output, lowering.native(node["x"]).transpose(permutation(node.operands)))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The inverse permutation."""
    return {"x": backward.single("transpose", x=only(upstream), perm=inverted(permutation(node.operands)))}


def inverted(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that puts back what `perm` permutes."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def in_order(node: Node) -> bool:
    """Whether the dimensions stay where they are."""
    perm = node.get("perm")
    return perm is not None and perm.constant and [int(i) for i in perm.array()] == list(range(node["x"].type.rank))


def _transpose_of_transpose(node: Node, before: Node) -> Node | None:
    if before.op != node.op:
        return None
    first, second = permutation(before.operands), permutation(node.operands)
    return as_other(node, node.op, before["x"], perm=[first[axis] for axis in second])


OPS = (Op("transpose", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, evidence=OperationEvidence.APPLE,
          gradient=_gradient, moves=Movement.DIMENSIONS, merge=_transpose_of_transpose, fewer=transposed),)
