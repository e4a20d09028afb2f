"""softmax: exp(scale * (x - max)) / sum of it along one axis. `scale`, above 0, is none of MIL's: where scores are
held times a power of two (passes.rescale) it is taken back where differences are multiplied anyway."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import Activation, Binary, Post, Reduce, Root
from openane.graph import Node, Operand, TensorType
from openane.ops import arguments as arguments_of
from openane.ops import tables
from openane.ops.blocks import outer_parts
from openane.ops.fewer import along
from openane.ops.gradients import Backward, only, product
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor, plane_axis
from openane.ops.operands import Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, OperationEvidence, Parameter, Upstream
from openane.ops.written_exponentials import SMALL, softmax_of

PARAMETERS = (Parameter("x"), Parameter("axis", const=True, default=-1, kind="int32"),
              Parameter("scale", const=True, default=None))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("softmax", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(1, 8))
    arguments.axis("axis", x.type.rank)
    if not 0 < half(scale_of(arguments)) < np.inf:
        raise refusal("softmax", "scale", "must be a finite fp16 number above 0", scale_of(arguments))
    return (x.type,)


def scale_of(arguments: Arguments) -> float:
    """What differences to the largest number are multiplied by: 1 where a softmax does not say."""
    return arguments.number("scale") if arguments.given("scale") else 1.0


def _reference(*, x: np.ndarray, axis: np.ndarray, scale: np.ndarray | None, over: np.ndarray | None = None
               ) -> tuple[np.ndarray, ...]:
    along = int(axis)
    result = np.empty(x.shape, x.dtype) if over is None else over
    for part, made in outer_parts(x, result, (along,)):
        below = np.subtract(part, part.max(axis=along, keepdims=True), out=made)
        if scale is not None:
            below = np.multiply(below, scale, out=made, casting="unsafe")
        powers = np.exp(below, out=made) if x.dtype == np.float32 else np.exp(below.astype(np.float64))
        # along rows numpy sums in pairs, which float32 is enough for
        pairs = powers.dtype == np.float32 and along % x.ndim == x.ndim - 1
        sums = powers.sum(axis=along, keepdims=True, dtype=np.float32 if pairs else np.float64)
        np.multiply(powers, (1 / sums).astype(powers.dtype), out=made, casting="unsafe")
    return (result,)


def _lower(node: Node, lowering: Lowering) -> None:
    """Maximum, difference times scale * log2 e, table of 2^x, reciprocal of the sum, product."""
    arguments = Arguments("softmax", PARAMETERS, node.operands)
    axis, scale = arguments.axis("axis", node["x"].type.rank), half(scale_of(arguments) / np.log(2))
    source, result = lowering.compact(lowering.read(node["x"])), lowering.result(node.output)
    lead = max(0, 3 - source.rank)
    source, result = _with_planes(source, lead), _with_planes(result, lead)
    if not _over_planes(lowering, result, source, axis + lead, scale):
        _over_rows(lowering, result, source, axis + lead, scale)


def _with_planes(tensor: Tensor, lead: int) -> Tensor:
    """The tensor with `lead` dimensions of 1 in front, so that it has planes."""
    return tensor.seen(tensor.offset, (1,) * lead + tensor.shape, (0,) * lead + tensor.strides)


def _over_planes(lowering: Lowering, result: Tensor, source: Tensor, axis: int, scale: float) -> bool:
    """An axis that rows do not run along: it is walked as channels, so that the maximum is one operation over channels
    and the sum a convolution with the reciprocal as its table. False, with nothing done, where that cannot be."""
    row, plane = source.contiguous, plane_axis(source.rank)
    if row == axis or not 1 < source.shape[axis] <= lowering.limits.channels:
        return False
    turn = list(range(source.rank))
    if plane is not None and plane != row:
        turn[axis], turn[plane] = plane, axis
        axis = plane
    turned = source.transpose(turn)
    shape = tuple(1 if d == axis else extent for d, extent in enumerate(turned.shape))
    row = turned.contiguous if turned.contiguous is not None else -1
    largest, total = lowering.near(shape, row), lowering.near(shape, row)
    if not lowering.max_planes(largest, turned, axis):
        return False
    difference, powers = _powers(lowering, turned, axis)
    lowering.elementwise(difference, turned, largest, subtract=True, scale=scale)
    lowering.copy(difference, powers, Post(activation=Activation.TABLE), tables.exp2())
    if not lowering.sum_planes(total, powers, axis, tables.inverse()):
        lowering.reduce(total, powers, (axis,), root=Root.RECIPROCAL)
    lowering.elementwise(result, total.transpose(turn), powers.transpose(turn), Binary.MULTIPLY)
    return True


def _powers(lowering: Lowering, turned: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Storage of differences and powers. Where `axis` is all there is, differences lie along it and powers a cell each:
    the table then works on one channel and needs one core's copy of it."""
    if turned.shape[axis] == turned.elements:
        return lowering.scratch(turned.shape, _last(turned.rank, axis)), lowering.near(turned.shape)
    order = _last(turned.rank, turned.contiguous)
    return lowering.scratch(turned.shape, order), lowering.scratch(turned.shape, order)


def _over_rows(lowering: Lowering, result: Tensor, source: Tensor, axis: int, scale: float) -> None:
    """An axis along rows, which planar reductions fold; any other is turned first. One dimension that is kept is walked
    as channels throughout, with statistics side by side; several need other loops for the reductions than for the
    rest, and statistics in cells."""
    source = lowering.with_last(source, axis)
    kept = [d for d in range(source.rank) if d != axis and source.shape[d] > 1]
    plane = plane_axis(source.rank)
    turn = list(range(source.rank))
    if len(kept) == 1 and plane is not None and axis != plane:
        turn[kept[0]], turn[plane] = plane, kept[0]
        kept = [plane]
    turned = source.transpose(turn) if len(kept) < 2 else lowering.staged(source)
    shape = tuple(1 if d == axis else extent for d, extent in enumerate(turned.shape))
    place = kept[0] if len(kept) == 1 else -1
    largest, total = lowering.near(shape, place), lowering.near(shape, place)
    order = _last(turned.rank, turned.contiguous)
    difference, powers = lowering.scratch(turned.shape, order), lowering.scratch(turned.shape, order)
    lowering.reduce(largest, turned, (axis,), Reduce.MAXIMUM)
    lowering.elementwise(difference, turned, largest, subtract=True, scale=scale)
    lowering.copy(difference, powers, Post(activation=Activation.TABLE), tables.exp2())
    lowering.reduce(total, powers, (axis,), root=Root.RECIPROCAL)
    lowering.elementwise(result, total.transpose(turn), powers.transpose(turn), Binary.MULTIPLY)


def _last(rank: int, row: int | None) -> tuple[int, ...]:
    """Storage order with `row` contiguous, or a cell per element when there is none."""
    return (*(d for d in range(rank) if d != row), -1 if row is None else row)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """scale * y * (dy - sum of dy * y)."""
    y, given = node.output, only(upstream)
    arguments = Arguments("softmax", PARAMETERS, node.operands)
    axis, scale = arguments.axis("axis", y.type.rank), scale_of(arguments)
    mean = backward.single("reduce_sum", x=product(backward, given, y), axes=[axis], keep_dims=True)
    slope = product(backward, y, backward.single("sub", x=given, y=mean))
    return {"x": slope if scale == 1 else backward.single("mul", x=slope, y=scale)}


def logarithm_of(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """x - max - log(sum(exp(x - max))) in place of the logarithm of a softmax: small probabilities keep theirs."""
    softmax = producers.get(id(node["x"])) if node.op == "log" else None
    if softmax is None or softmax.op != "softmax" or arguments_of(node).number("epsilon") > SMALL \
            or arguments_of(softmax).given("scale"):
        return None
    x, rewriter = softmax["x"], Rewriter(node, names)
    axes = [arguments_of(softmax).axis("axis", x.type.rank)]
    below = rewriter.single("sub", x=x, y=rewriter.single("reduce_max", x=x, axes=axes, keep_dims=True))
    total = rewriter.single("reduce_sum", x=rewriter.single("exp", x=below), axes=axes, keep_dims=True)
    return rewriter.instead([rewriter.single("sub", x=below, y=rewriter.single("log", x=total))])


OPS = (Op("softmax", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, evidence=OperationEvidence.APPLE,
          gradient=_gradient, scores=True, over=True, table_of="exp", recognise={
              "log": logarithm_of, "mul": softmax_of, "real_div": softmax_of},
          fewer=along(PARAMETERS),
          inherent="maximum, difference, power, sum and quotient are a task each, over whatever axis"),)
