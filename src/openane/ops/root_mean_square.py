"""Divisions by a root of a sum of squares: l2_norm, and rms_norm, which MIL spells as a pattern.

l2_norm: x / sqrt(sum of squares + epsilon) over the last three dimensions. rms_norm is no MIL operation: it is what
passes.recognise makes of x * rsqrt(mean(x^2) + epsilon) * gamma, so that squares, mean, epsilon and root are one
reduction, in which squares do not overflow. Results are within 0.2 % (roundings of the root, the product and gamma);
epsilon is an fp16 number: below 3e-8 it vanishes. Its `scale` is that of layer_norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.engine import Binary, Root
from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import Backward, only, product
from openane.ops.halves import fits, half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter, Upstream
from openane.ops.weights import scale_of

L2_NORM = (Parameter("x"), Parameter("epsilon", const=True, default=1e-6))
RMS_NORM = (
    Parameter("x"), Parameter("axes", const=True, kind="int32"), Parameter("gamma", const=True, default=None),
    Parameter("epsilon", const=True, default=1e-5), Parameter("scale", const=True, default=None),
)


def _infer_l2(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("l2_norm", L2_NORM, operands)
    x = arguments.tensor("x", ranks=(3, 8))
    arguments.number("epsilon")
    return (x.type,)


def _infer_rms(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("rms_norm", RMS_NORM, operands)
    x = arguments.tensor("x", ranks=(1, 8))
    axes = arguments.axes("axes", x.type.rank) or ()
    arguments.like("gamma", x, tuple(x.shape[axis] for axis in axes))
    arguments.number("epsilon")
    scale_of(arguments)
    return (x.type,)


def _l2_reference(*, x: np.ndarray, epsilon: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64)
    total = np.square(wide).sum(axis=(-3, -2, -1), keepdims=True)
    return ((wide / np.sqrt(total + float(epsilon))).astype(x.dtype),)


def _rms_reference(*, x: np.ndarray, axes: np.ndarray, gamma: np.ndarray | None,
                   epsilon: np.ndarray, scale: np.ndarray | None) -> tuple[np.ndarray, ...]:
    over = tuple(sorted(int(axis) % x.ndim for axis in axes))
    wide = x.astype(np.float64)
    result = wide / np.sqrt(np.square(wide).mean(axis=over, keepdims=True) + float(epsilon))
    if scale is not None:
        result = result * float(scale)
    if gamma is not None:
        result = result * gamma.reshape(_shape_over(x.shape, over))
    return (result.astype(x.dtype),)


def _shape_over(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(extent if i in axes else 1 for i, extent in enumerate(shape))


def _divided(lowering: Lowering, target: Tensor, source: Tensor, axes: Sequence[int], share: float, epsilon: float,
             scale: float = 1.0) -> None:
    """target = scale * source * rsqrt(share * sum of squares + epsilon): a reduction into L2 and a product."""
    shape = tuple(1 if d in axes else extent for d, extent in enumerate(source.shape))
    root = lowering.near(shape)
    lowering.reduce(root, source, axes, final_scale=share, epsilon=epsilon, root=Root.RSQRT, square=True)
    lowering.elementwise(target, source, root, Binary.MULTIPLY, scale=scale)


def _lower_l2(node: Node, lowering: Lowering) -> None:
    """The sum of squares is closed by the reduction itself: it is rounded to fp16 only as a reciprocal root."""
    source = lowering.compact(lowering.read(node["x"]))
    axes = tuple(range(source.rank - 3, source.rank))
    epsilon = Arguments("l2_norm", L2_NORM, node.operands).number("epsilon")
    _divided(lowering, lowering.result(node.output), source, axes, 1.0, epsilon)


def _lower_rms(node: Node, lowering: Lowering) -> None:
    """As l2_norm with a mean; a gamma that is one number is the product's scale, another one a product of its own."""
    arguments = Arguments("rms_norm", RMS_NORM, node.operands)
    source = lowering.compact(lowering.read(node["x"]))
    axes = arguments.axes("axes", source.rank) or ()
    gamma, final = arguments.constant("gamma"), lowering.result(node.output)
    number = _one_number(gamma)
    target = final if number is not None else lowering.scratch(source.shape)
    down = scale_of(arguments) ** -2
    share = down / prod(source.shape[axis] for axis in axes)
    _divided(lowering, target, source, axes, share, down * arguments.number("epsilon"), number or 1.0)
    if number is None:
        vector = lowering.constant(np.asarray(gamma).reshape(_shape_over(source.shape, axes)))
        lowering.elementwise(final, target, vector, Binary.MULTIPLY)


def _one_number(gamma: np.ndarray | str | None) -> float | None:
    """The number every element of gamma is (1 without gamma), None when they differ or fp16 cannot hold it."""
    if not isinstance(gamma, np.ndarray):
        return 1.0
    number = float(gamma.flat[0])
    return half(number) if (gamma == gamma.flat[0]).all() and fits(number) else None


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """r * (g - n * share * sum(g * n)): n the normalised x, r the reciprocal root, g = dy * gamma."""
    x, given = node["x"], only(upstream)
    arguments = Arguments(node.op, L2_NORM if node.op == "l2_norm" else RMS_NORM, node.operands)
    axes, share = tuple(range(x.type.rank - 3, x.type.rank)), 1.0
    if node.op == "rms_norm" and arguments.given("scale"):
        given = backward.single("mul", x=given, y=scale_of(arguments))
    if node.op == "rms_norm":
        axes = arguments.axes("axes", x.type.rank) or ()
        share = 1 / prod(x.shape[axis] for axis in axes)
        if node.get("gamma") is not None:
            given = product(backward, given, node["gamma"].array().reshape(_shape_over(x.shape, axes)))
    scaled = product(backward, x, share ** 0.5)
    squares = backward.single("reduce_sum_square", x=scaled, axes=list(axes), keep_dims=True)
    root = backward.single("rsqrt", x=squares, epsilon=arguments.number("epsilon"))
    normal = product(backward, scaled, root)
    mean = backward.single("reduce_sum", x=product(backward, given, normal), axes=list(axes), keep_dims=True)
    return {"x": product(backward, backward.single("sub", x=given, y=product(backward, normal, mean)), root)}


OPS = (
    Op("l2_norm", L2_NORM, _infer_l2, _l2_reference, rules=ENGINE, lower=_lower_l2, gradient=_gradient,
       normalises=True),
    Op("rms_norm", RMS_NORM, _infer_rms, _rms_reference, rules=ENGINE, lower=_lower_rms, gradient=_gradient,
       normalises=True, table_of="rsqrt", takes_up=("gamma",)),
)
