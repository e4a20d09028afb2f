"""Activations with one parameter per channel: prelu and softplus_parametric."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from openane.chips import Limits
from openane.engine import Binary
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import functions as special
from openane.ops.gradients import Backward, number, only, product, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rectifiers import leaky_stage
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.smooth import softplus_table
from openane.ops.spec import Op, Parameter, Stage, Upstream
from openane.ops.stages import Stages
from openane.ops.weights import by_channel
from openane.ops.written_rectifiers import written_rectifier

CHANNELS = 1
X, ALPHA, BETA = Parameter("x"), Parameter("alpha", const=True), Parameter("beta", const=True)


def engine_slopes(node: Node, limits: Limits) -> bool:
    """The constants of every channel must be finite in fp16: from -65504 to 65504."""
    return all(np.isfinite(_vector(node, name)).all() for name in ("alpha", "beta") if name in node.operands)


def _infer(operands: Mapping[str, Operand], *, name: str, parameters: tuple[Parameter, ...]) -> tuple[TensorType, ...]:
    arguments = Arguments(name, parameters, operands)
    x = arguments.tensor("x", ranks=(3, 5))
    for parameter in parameters[1:]:
        arguments.like(parameter.name, x, (x.shape[CHANNELS],))
    return (x.type,)


def _by_channel(vector: np.ndarray, x: np.ndarray) -> np.ndarray:
    return vector.astype(np.float64).reshape(-1, *(1,) * (x.ndim - 2))


def _prelu(*, x: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.where(x >= 0, x, _by_channel(alpha, x) * x).astype(x.dtype),)


def _softplus(*, x: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, ...]:
    return ((_by_channel(alpha, x) * special.softplus(_by_channel(beta, x) * x)).astype(x.dtype),)


def _vector(node: Node, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return node[name].array().astype(np.float16).astype(np.float64)


def _prelu_stage(node: Node, lowering: Lowering) -> Stage | None:
    """A post stage where every channel has the same slope."""
    slopes = _vector(node, "alpha")
    return leaky_stage(slopes[0]) if (slopes == slopes[0]).all() else None


def _lower_prelu(node: Node, lowering: Lowering) -> None:
    """The larger of x and alpha * x where no slope exceeds 1, the smaller where none is below it, else their parts."""
    source, target = lowering.read(node["x"]), lowering.result(node.output)
    stage = _prelu_stage(node, lowering)
    if stage is not None:
        lowering.copy(source, target, *stage)
        return
    slopes, stages = _vector(node, "alpha"), Stages(lowering, target.shape)
    steep = lowering.scratch(target.shape)
    if (slopes <= 1).all() or (slopes >= 1).all():
        lowering.gain_offset(steep, source, CHANNELS, np.zeros_like(slopes), slopes)
        stages.planar(source, steep, Binary.MAXIMUM if (slopes <= 1).all() else Binary.MINIMUM, target=target)
        return
    below = stages.planar(source, scale=-1.0, relu=True)
    lowering.gain_offset(steep, below, CHANNELS, np.zeros_like(slopes), -slopes)
    stages.planar(source, steep, first_relu=True, target=target)


def _lower_softplus(node: Node, lowering: Lowering) -> None:
    source, target = lowering.read(node["x"]), lowering.result(node.output)
    inner, outer = _vector(node, "beta"), _vector(node, "alpha")
    scaled = lowering.scratch(target.shape)
    lowering.gain_offset(scaled, source, CHANNELS, np.zeros_like(inner), inner)
    curve = Stages(lowering, target.shape).table(scaled, softplus_table())
    lowering.gain_offset(target, curve, CHANNELS, np.zeros_like(outer), outer)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """By x: 1 above 0, below it the channel's slope. By the slopes: what lies below 0, summed by channel."""
    x, alpha, given, found = node["x"], node["alpha"], only(upstream), {}
    above = number(backward, backward.single("greater", x=x, y=0.0), x.dtype)
    below = backward.single("linear_activation", x=above, alpha=-1.0, beta=1.0)
    if backward.wants(x):
        slopes = reshaped(backward, alpha, (-1, *(1,) * (x.type.rank - 2)))
        slope = backward.single("add", x=above, y=product(backward, below, slopes))
        found["x"] = product(backward, given, slope)
    if backward.wants(alpha):
        share = product(backward, product(backward, given, x), below)
        found["alpha"] = backward.single("reduce_sum", x=share, axes=[0, *range(2, x.type.rank)], keep_dims=False)
    return found


def _computed_prelu(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """relu(x) less slope * relu(-x)."""
    x = node["x"]
    below = rewriter.single("relu", x=rewriter.single("mul", x=x, y=-1.0))
    above, steep = rewriter.single("relu", x=x), by_channel(rewriter, "mul", below, node["alpha"])
    return (rewriter.single("sub", x=above, y=steep),)


def _expand_softplus(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    shape = [-1, *(1,) * (node["x"].type.rank - 2)]
    outer, inner = (rewriter.single("reshape", x=node[name], shape=shape) for name in ("alpha", "beta"))
    curve = rewriter.single("softplus", x=rewriter.single("mul", x=node["x"], y=inner))
    return (rewriter.single("mul", x=curve, y=outer),)


RULES = (engine_slopes, *ENGINE)

OPS = (
    Op("prelu", (X, ALPHA), partial(_infer, name="prelu", parameters=(X, ALPHA)), _prelu, rules=RULES,
       lower=_lower_prelu, post=_prelu_stage, gradient=_gradient, weights=("alpha",), computed=_computed_prelu,
       homogeneous=lambda node: ("x",), recognise=dict.fromkeys(("add", "sub"), written_rectifier)),
    Op("softplus_parametric", (X, ALPHA, BETA),
       partial(_infer, name="softplus_parametric", parameters=(X, ALPHA, BETA)), _softplus, rules=RULES,
       lower=_lower_softplus, expand=_expand_softplus),
)
