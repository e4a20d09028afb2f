"""local_response_norm: x / (k + alpha / size * sum of squares over `size` neighbouring channels) ^ beta.

The window is centred on the channel and cut off at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.engine import Activation, Binary, Post
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import tables
from openane.ops.halves import half
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.ops.tensor import as_planes

PARAMETERS = (
    Parameter("x"), Parameter("size", const=True, kind="int32"), Parameter("alpha", const=True, default=1e-4),
    Parameter("beta", const=True, default=0.75), Parameter("k", const=True, default=1.0),
)
LARGEST_BIAS = 8.0
"""The squares are scaled so that k lies at most here: sums then have room up to the accumulator's 2^15, and its
resolution of 2^-16 is still finer than what fp16 keeps of the sum."""


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("local_response_norm", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(3, 4))
    arguments.integer("size", 1)
    for name in ("alpha", "beta", "k"):
        arguments.number(name)
    return (x.type,)


def _reference(*, x: np.ndarray, size: np.ndarray, alpha: np.ndarray, beta: np.ndarray,
               k: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = normed(x.astype(np.float64), size=int(size), alpha=float(alpha), beta=float(beta), k=float(k))
    return (wide.astype(x.dtype),)


def normed(x: np.ndarray, *, size: int, alpha: float, beta: float, k: float) -> np.ndarray:
    """What the norm makes of x, in its precision."""
    squares = np.square(x).reshape(*x.shape[:2], -1)
    sums = (_band(x.shape[1], size).astype(x.dtype) @ squares).reshape(x.shape)
    return np.asarray(x / (k + alpha / size * sums) ** beta)


def _band(channels: int, size: int) -> np.ndarray:
    """[channels, channels]: 1 where a channel lies in another's window."""
    distance = np.subtract.outer(np.arange(channels), np.arange(channels))
    return ((distance <= size // 2) & (-distance <= (size - 1) // 2)).astype(np.float64)


def odd_window(node: Node, limits: Limits) -> bool:
    """size must be odd: which channels an even window covers is not stated by MIL."""
    return int(node["size"].array()) % 2 == 1


def positive_base(node: Node, limits: Limits) -> bool:
    """k must be more than 0 and alpha not less than 0, so that the power has a positive base."""
    arguments = Arguments("local_response_norm", PARAMETERS, node.operands)
    return arguments.number("k") > 0 and arguments.number("alpha") >= 0


def _lower(node: Node, lowering: Lowering) -> None:
    """Scaled squares; their sums by a 1x1 convolution with a band of ones, k as its bias and log2 as its table; then
    2^(-beta * logarithm) and the product: four operations. With the default settings windows of |x| up to 7000 fit."""
    arguments = Arguments("local_response_norm", PARAMETERS, node.operands)
    size, alpha, beta, k = (arguments.number(name) for name in ("size", "alpha", "beta", "k"))
    source, final = as_planes(lowering.read(node["x"])), lowering.result(node.output)
    target = as_planes(final)
    slope = max(alpha / size, 2.0 ** -24)
    scale = 2.0 ** min(0, math.floor(math.log2(LARGEST_BIAS * slope / k)))
    squares, logarithm, power = (lowering.scratch(source.shape) for _ in range(3))
    lowering.elementwise(squares, source, source, Binary.MULTIPLY, scale=scale if alpha else 0.0)
    channels = source.shape[1]
    band = _band(channels, int(size))[:, :, None, None]
    lowering.convolution(logarithm, squares, band, np.full(channels, k * scale / slope),
                         post=Post(scale=half(slope / scale), activation=Activation.TABLE), table=tables.log2())
    lowering.copy(logarithm, power, Post(scale=half(-beta), activation=Activation.TABLE), tables.exp2())
    lowering.elementwise(target, source, power, Binary.MULTIPLY)


def _expand(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """x times a power of the sums that a 1x1 convolution with a band of ones makes of squares, which are taken of x as
    it counts in the sum: so they overflow no sooner than the sum does."""
    arguments = Arguments("local_response_norm", PARAMETERS, node.operands)
    size, alpha, beta, k = (arguments.number(name) for name in ("size", "alpha", "beta", "k"))
    x = node["x"]
    scaled = rewriter.single("mul", x=x, y=math.sqrt(abs(alpha) / size))
    band = np.copysign(1.0, alpha) * _band(x.shape[1], int(size))
    sums = rewriter.single("conv", x=rewriter.single("square", x=scaled),
                           weight=band.reshape(*band.shape, *(1,) * (x.type.rank - 2)))
    base = rewriter.single("linear_activation", x=sums, alpha=1.0, beta=k)
    return (rewriter.single("mul", x=x, y=rewriter.single("pow", x=base, y=-beta)),)


OPS = (Op("local_response_norm", PARAMETERS, _infer, _reference, rules=(*ENGINE, odd_window, positive_base),
          lower=_lower, expand=_expand, normalises=True, table_of="rsqrt"),)
