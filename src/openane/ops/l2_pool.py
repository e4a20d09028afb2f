"""l2_pool: the square root of the sum of squares in each window, over one or two spatial axes of x [N, C, *spatial].

Padding adds zeros. On the engine squares are fp16: elements beyond 255 overflow.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.gradients import Backward, only, over_norm, product
from openane.ops.operands import Arguments
from openane.ops.pool import MAX_PARAMETERS, fold, pool_window, put_back, reference_window
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Upstream


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    x = Arguments("l2_pool", MAX_PARAMETERS, operands).tensor("x", ranks=(3, 4))
    return (TensorType(x.dtype, (*x.shape[:2], *pool_window("l2_pool", operands).results)),)


def _reference(*, x: np.ndarray, kernel_sizes: np.ndarray, strides: np.ndarray | None, pad_type: str,
               pad: np.ndarray | None, ceil_mode: np.ndarray) -> tuple[np.ndarray, ...]:
    window = reference_window("l2_pool", x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    return (np.sqrt(fold(np.square(x.astype(np.float64)), window, np.add, 0, np.float64)).astype(x.dtype),)


def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Squares, their sums by a depthwise convolution with weights of one (a reduction where the window is all), roots.

    The convolution pads what the last window of a ceiling-mode pool reaches beyond.
    """
    x, window = node["x"], pool_window(node.op, node.operands)
    squares = rewriter.single("mul", x=x, y=x)
    channels = x.shape[1]
    if window.whole:
        sums = rewriter.single("reduce_sum", x=squares, axes=list(range(2, x.type.rank)), keep_dims=True)
    else:
        ones = np.ones((channels, 1, *window.kernel), np.float32 if x.dtype == "fp32" else np.float16)
        pad = [count for axis in window.axes for count in (axis.before, axis.after + axis.overhang)]
        sums = rewriter.single("conv", x=squares, weight=ones, strides=list(window.strides), pad_type="custom", pad=pad,
                               groups=channels)
    return (rewriter.single("sqrt", x=sums),)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """x times what its windows hand back, each its gradient over its norm."""
    x, window = node["x"], pool_window(node.op, node.operands)
    share = over_norm(backward, only(upstream), node.output)
    if window.whole:
        return {"x": product(backward, x, share)}
    ones = np.ones((x.shape[1], 1, *window.kernel), np.float32)
    return {"x": product(backward, x, put_back(backward, share, ones, x.shape, window))}


OPS = (Op("l2_pool", MAX_PARAMETERS, _infer, _reference, rules=ENGINE, decompose=_decompose,
          gradient=_gradient, table_of="sqrt"),)
