"""instance_norm: (x - mean) / sqrt(variance + epsilon) * gamma + beta, each image and channel of x [N, C, *spatial] on
its own, gamma and beta per channel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.ops.volume_norms import is_plain, volume_norm
from openane.ops.weights import normalised_alone

PARAMETERS = (
    Parameter("x"), Parameter("gamma", const=True, default=None), Parameter("beta", const=True, default=None),
    Parameter("epsilon", const=True, default=1e-5),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("instance_norm", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(3, 5))
    for name in ("gamma", "beta"):
        arguments.like(name, x, (x.shape[1],))
    arguments.number("epsilon")
    return (x.type,)


def _reference(*, x: np.ndarray, gamma: np.ndarray | None, beta: np.ndarray | None,
               epsilon: np.ndarray) -> tuple[np.ndarray, ...]:
    over = tuple(range(2, x.ndim))
    wide = x.astype(np.float64)
    result = wide - wide.mean(axis=over, keepdims=True)
    result /= np.sqrt(np.square(result).mean(axis=over, keepdims=True) + float(epsilon))
    shape = (-1, *(1,) * len(over))
    result = result * (1 if gamma is None else gamma.reshape(shape)) + (0 if beta is None else beta.reshape(shape))
    return (result.astype(x.dtype),)


def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Layer normalisation over the spatial dimensions, then a gain and an offset per channel in one operation."""
    x, gamma, beta = node["x"], node.get("gamma"), node.get("beta")
    result = rewriter.single("layer_norm", x=x, axes=list(range(2, x.type.rank)),
                             epsilon=node.get("epsilon"))
    if is_plain(node):
        return (result,)
    channels = x.shape[1]
    return (rewriter.single("batch_norm", x=result, mean=np.zeros(channels), variance=np.ones(channels), gamma=gamma,
                            beta=beta, epsilon=0.0),)


OPS = (Op("instance_norm", PARAMETERS, _infer, _reference, rules=ENGINE, decompose=_decompose, normalises=True,
          table_of="rsqrt", weights=("gamma", "beta"), computed=normalised_alone,
          recognise={"reshape": volume_norm}),)
