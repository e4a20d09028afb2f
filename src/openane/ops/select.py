"""select: a where cond is true, else b; shapes broadcast.

On the engine a * m + b * (1 - m) with m = 1 or 0. The operand that is not taken leaves nothing behind: 0 times a finite
number is 0, and the engine makes +0 of 0 * inf as well. The result is the number taken, except that -0 becomes +0 and
NaN +inf.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine.table import KNOTS, Table
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.broadcast import broadcast_shape
from openane.ops.fewer import elementwise
from openane.ops.gradients import Backward, number, only, product, unbroadcast
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.rules import MOVED
from openane.ops.spec import Op, Parameter, Upstream
from openane.ops.stages import Stages

PARAMETERS = (Parameter("cond", kind="bool"), Parameter("a"), Parameter("b"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("select", PARAMETERS, operands)
    condition = arguments.tensor("cond", ("bool",))
    a = arguments.tensor("a", (*NUMBERS, "bool"))
    b = arguments.tensor("b", (a.dtype,))
    both = broadcast_shape("select", "b", a.shape, b.shape)
    return (TensorType(a.dtype, broadcast_shape("select", "cond", both, condition.shape)),)


def _reference(*, cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.where(cond, a, b),)


def _lower(node: Node, lowering: Lowering) -> None:
    """Two scalar constants are a table of the condition. Otherwise the two terms are added."""
    condition, target = node["cond"], lowering.result(node.output)
    stages = Stages(lowering, target.shape)
    a, b = _scalar(node["a"]), _scalar(node["b"])
    if a is not None and b is not None and not condition.constant:
        chosen = Stages(lowering, lowering.read(condition).shape).table(lowering.read(condition), _choice(a, b))
        lowering.copy(chosen.expand(target.shape), target)
        return
    alone = a == 0 or b == 0
    both = [_term(lowering, condition, value, wanted, target if alone else None)
            for value, wanted in ((node["a"], True), (node["b"], False))]
    terms = [term for term in both if term is not None] or [lowering.constant(np.zeros(target.shape))]
    if terms != [target]:
        stages.planar(terms[0], terms[1] if len(terms) == 2 else None, target=target)


def _term(lowering: Lowering, condition: Value, value: Value, wanted: bool, target: Tensor | None) -> Tensor | None:
    """The value where the condition is `wanted`, 0 elsewhere; None when that is 0 everywhere. It is made in `target`,
    where that is given and has its shape."""
    scalar = _scalar(value)
    if scalar == 0:
        return None
    if condition.constant:
        return _masked(lowering, condition.array() == wanted, value, target)
    mask = lowering.read(condition)
    if scalar is not None:
        return Stages(lowering, mask.shape).table(mask, _choice(scalar, 0.0) if wanted else _choice(0.0, scalar))
    taken = mask if wanted else Stages(lowering, mask.shape).planar(mask, scale=-1.0, bias=1.0)
    return _product(lowering, lowering.read(value), taken, target)


def _masked(lowering: Lowering, mask: np.ndarray, value: Value, target: Tensor | None) -> Tensor | None:
    """As `_term` for a mask known now."""
    if not mask.any():
        return None
    if value.constant:
        return lowering.constant(np.where(mask, value.array(), 0))
    if mask.all():
        return lowering.read(value)
    return _product(lowering, lowering.read(value), lowering.constant(mask.astype(np.float16)), target)


def _product(lowering: Lowering, first: Tensor, second: Tensor, target: Tensor | None) -> Tensor:
    shape = np.broadcast_shapes(first.shape, second.shape)
    place = target if target is not None and target.shape == shape else None
    return Stages(lowering, shape).times(first, second, target=place)


def _choice(a: float, b: float) -> Table:
    """a where the condition is 1, b where it is 0: constants beyond the clips, which may be infinite."""
    return Table(0.0, 1.0, b, a, (0.0,) * KNOTS)


def _scalar(value: Value) -> float | None:
    if not value.constant or value.type.elements != 1:
        return None
    return half(float(value.array().reshape(())))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """All to the operand that is taken."""
    given, found = only(upstream), {}
    mask = number(backward, node["cond"], given.dtype)
    for name in ("a", "b"):
        if backward.wants(node[name]):
            share = mask if name == "a" else backward.single("linear_activation", x=mask, alpha=-1.0, beta=1.0)
            found[name] = unbroadcast(backward, product(backward, given, share), node[name].shape)
    return found


OPS = (Op("select", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient, hands_on=True,
          fewer=elementwise, homogeneous=lambda node: ("a", "b")),)
