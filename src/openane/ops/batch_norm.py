"""batch_norm: (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel of x [N, C, *spatial]."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType, Value, numpy_type
from openane.ops.gradients import Backward, only, product, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.shaped import read_as, written_as
from openane.ops.spec import Op, Parameter, Upstream
from openane.ops.tensor import as_planes
from openane.ops.weights import normalised_alone

PARAMETERS = (
    Parameter("x"), Parameter("mean", const=True), Parameter("variance", const=True),
    Parameter("gamma", const=True, default=None), Parameter("beta", const=True, default=None),
    Parameter("epsilon", const=True, default=1e-5),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("batch_norm", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(3, 5))
    for name in ("mean", "variance", "gamma", "beta"):
        arguments.like(name, x, (x.shape[1],))
    arguments.number("epsilon")
    return (x.type,)


def gain_and_offset(*, mean: np.ndarray, variance: np.ndarray, gamma: np.ndarray | None, beta: np.ndarray | None,
                    epsilon: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per-channel float64 (gain, offset) with batch_norm(x) = x * gain + offset, for folding into a convolution."""
    gain = 1 / np.sqrt(variance.astype(np.float64) + epsilon) * (1 if gamma is None else gamma)
    return gain, (0 if beta is None else beta) - mean * gain


def _reference(*, x: np.ndarray, mean: np.ndarray, variance: np.ndarray, gamma: np.ndarray | None,
               beta: np.ndarray | None, epsilon: np.ndarray) -> tuple[np.ndarray, ...]:
    gain, offset = gain_and_offset(mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=float(epsilon))
    shape = (-1, *(1,) * (x.ndim - 2))
    return ((x * gain.reshape(shape) + offset.reshape(shape)).astype(x.dtype),)


def constants(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Per-channel float64 (gain, offset) of a batch_norm node."""
    arguments = Arguments("batch_norm", PARAMETERS, node.operands)
    given = {name: arguments.constant(name) for name in ("mean", "variance", "gamma", "beta")}
    arrays = {name: data if isinstance(data, np.ndarray) else None for name, data in given.items()}
    return gain_and_offset(epsilon=arguments.number("epsilon"), **arrays)  # type: ignore[arg-type]


def _lower(node: Node, lowering: Lowering) -> None:
    """A depthwise 1x1 convolution with bias."""
    gain, offset = lowering.channel_affine(node)
    channels = len(gain)
    value, post, table = lowering.followers(node)
    source, result = lowering.read(node["x"]), lowering.result(value)
    if source.rank < 5:
        source = as_planes(source)
    else:
        n, c, d, h, w = source.shape
        source = read_as(lowering, source, (n, c, d * h, w))
    with written_as(lowering, result, source.shape) as target:
        lowering.convolution(target, source, gain.reshape(channels, 1, 1, 1), offset, groups=channels, post=post,
                             table=table)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The gain of each channel: mean and variance are constants of the inference form."""
    x, given, gamma, beta = node["x"], only(upstream), node.get("gamma"), node.get("beta")
    epsilon = Arguments("batch_norm", PARAMETERS, node.operands).number("epsilon")
    mean, variance = (node[name].array().astype(np.float64) for name in ("mean", "variance"))
    shape, over = (-1, *(1,) * (x.type.rank - 2)), [0, *range(2, x.type.rank)]
    found: dict[str, Operand] = {}
    if beta is not None and backward.wants(beta):
        found["beta"] = backward.single("reduce_sum", x=given, axes=over, keep_dims=False)
    unit = 1 / np.sqrt(variance + epsilon).reshape(shape)
    scaled = product(backward, given, unit)
    if gamma is not None and backward.wants(gamma):
        centred = backward.single("sub", x=x, y=mean.reshape(shape))
        found["gamma"] = backward.single("reduce_sum", x=product(backward, scaled, centred), axes=over, keep_dims=False)
    found["x"] = scaled if gamma is None else product(backward, scaled, reshaped(backward, gamma, shape))
    return found


def gain_then_offset(node: Node, x: Value, gain: Value, offset: Value, names: set[str]) -> tuple[Node, ...]:
    """The node as the batch_norm that is x * gain + offset, vectors over the channels."""
    rewriter, kind = Rewriter(node, names, node.source), numpy_type(x.dtype)
    return rewriter.instead([rewriter.single(
        "batch_norm", node.name, x=x, mean=np.zeros(gain.shape, kind), variance=np.ones(gain.shape, kind), gamma=gain,
        beta=offset, epsilon=0.0)])


OPS = (Op("batch_norm", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, gradient=_gradient, normalises=True,
          channel_affine=constants, weights=("gamma", "beta"), computed=normalised_alone),)
