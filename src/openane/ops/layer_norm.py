"""layer_norm: (x - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance over `axes` (all by default).

gamma and beta have the shape of x's normalised dimensions, in x's order. `scale`, above 0, is none of MIL's: what is
multiplied by gamma is times that, where results are held times a power of two (passes.rescale).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.blocks import outer_parts
from openane.ops.fewer import along
from openane.ops.gradients import Backward, only, product, reshaped, unbroadcast
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, OperationEvidence, Parameter, Upstream
from openane.ops.weights import scale_of, without

PARAMETERS = (
    Parameter("x"), Parameter("axes", const=True, default=None, kind="int32"),
    Parameter("gamma", const=True, default=None), Parameter("beta", const=True, default=None),
    Parameter("epsilon", const=True, default=1e-5), Parameter("scale", const=True, default=None),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("layer_norm", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(1, 8))
    axes = arguments.axes("axes", x.type.rank)
    axes = tuple(range(x.type.rank)) if axes is None else axes
    shape = tuple(x.shape[axis] for axis in axes)
    arguments.like("gamma", x, shape)
    arguments.like("beta", x, shape)
    arguments.number("epsilon")
    scale_of(arguments)
    return (x.type,)


def _reference(*, x: np.ndarray, axes: np.ndarray | None, gamma: np.ndarray | None, beta: np.ndarray | None,
               epsilon: np.ndarray, scale: np.ndarray | None) -> tuple[np.ndarray, ...]:
    over = tuple(range(x.ndim)) if axes is None else tuple(sorted(int(axis) % x.ndim for axis in axes))
    shape = tuple(extent if i in over else 1 for i, extent in enumerate(x.shape))
    made = np.empty(x.shape, x.dtype)
    for part, target in outer_parts(x, made, over):
        wide = part.astype(np.float64)
        result = wide - wide.mean(axis=over, keepdims=True)
        result /= np.sqrt(np.square(result).mean(axis=over, keepdims=True) + float(epsilon))
        if scale is not None:
            result *= float(scale)
        if gamma is not None:
            result *= gamma.reshape(shape)
        if beta is not None:
            result += beta.reshape(shape)
        target[...] = result
    return (made,)


def _lower(node: Node, lowering: Lowering) -> None:
    """Normalisation, then a product with gamma and a sum with beta where they are given."""
    arguments = Arguments("layer_norm", PARAMETERS, node.operands)
    source = lowering.compact(lowering.read(node["x"]))
    axes = arguments.axes("axes", source.rank)
    axes = tuple(range(source.rank)) if axes is None else axes
    shape = tuple(extent if d in axes else 1 for d, extent in enumerate(source.shape))
    vectors = ((arguments.constant("gamma"), Binary.MULTIPLY), (arguments.constant("beta"), Binary.ADD))
    steps = [(data.reshape(shape), function) for data, function in vectors if isinstance(data, np.ndarray)]
    final = lowering.result(node.output)
    result = lowering.scratch(final.shape) if steps else final
    lowering.normalise(result, source, axes, arguments.number("epsilon"), scale_of(arguments))
    for position, (vector, function) in enumerate(steps):
        target = final if position == len(steps) - 1 else lowering.scratch(final.shape)
        lowering.elementwise(target, result, lowering.constant(vector), function)
        result = target


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """r * (g - mean(g) - n * mean(g * n)) with g = dy * gamma, n the normalised x and r the reciprocal deviation. The
    deviation is a norm of scaled differences: their squares never are fp16 numbers."""
    arguments = Arguments("layer_norm", PARAMETERS, node.operands)
    x, given, gamma, beta = node["x"], only(upstream), node.get("gamma"), node.get("beta")
    axes = arguments.axes("axes", x.type.rank)
    axes = tuple(range(x.type.rank)) if axes is None else axes
    shape = [extent if d in axes else 1 for d, extent in enumerate(x.shape)]

    def mean(value: Value) -> Value:
        return backward.single("reduce_mean", x=value, axes=list(axes), keep_dims=True)

    centred = backward.single("sub", x=x, y=mean(x))
    share = backward.single("linear_activation", x=centred, alpha=prod(x.shape[d] for d in axes) ** -0.5, beta=0.0)
    variance = backward.single("reduce_sum_square", x=share, axes=list(axes), keep_dims=True)
    root = backward.single("rsqrt", x=variance, epsilon=arguments.number("epsilon"))
    normal = product(backward, centred, root)
    found: dict[str, Operand] = {}
    if beta is not None and backward.wants(beta):
        found["beta"] = reshaped(backward, unbroadcast(backward, given, shape), beta.shape)
    if arguments.given("scale"):
        given = backward.single("mul", x=given, y=scale_of(arguments))
    if gamma is not None and backward.wants(gamma):
        slope = unbroadcast(backward, product(backward, given, normal), shape)
        found["gamma"] = reshaped(backward, slope, gamma.shape)
    if gamma is not None:
        given = product(backward, given, reshaped(backward, gamma, shape))
    along = product(backward, normal, mean(product(backward, given, normal)))
    rest = backward.single("sub", x=backward.single("sub", x=given, y=mean(given)), y=along)
    return {**found, "x": product(backward, rest, root)}


def _computed(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """The normalisation alone, then gain and offset over its dimensions."""
    result, x = without(node, rewriter, ("gamma", "beta")), node["x"]
    axes = Arguments("layer_norm", PARAMETERS, node.operands).axes("axes", x.type.rank)
    shape = [extent if axes is None or d in axes else 1 for d, extent in enumerate(x.shape)]
    for name, function in (("gamma", "mul"), ("beta", "add")):
        if (vector := node.get(name)) is not None:
            spread = rewriter.single("reshape", x=vector, shape=shape)
            result = rewriter.single(function, x=result, y=spread)
    return (result,)


OPS = (Op("layer_norm", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, evidence=OperationEvidence.APPLE,
          gradient=_gradient, normalises=True, stores=True, table_of="rsqrt", weights=("gamma", "beta"),
          computed=_computed, takes_up=("gamma", "beta"), fewer=along(PARAMETERS),
          relayout=(
              "lay out an operand anew", "norms over the last axis instead of the channels, as far as layers between "
              "them gain nothing by the other layout")),)
