"""3x3 convolutions in the form later generations compute them, and the direct form beside it.

M1, M2 and M4 add all taps of a 3x3 convolution directly. M5 and M6 use Winograd F(2, 3) along the width: two outputs
from four transformed inputs, with both transforms rounded to fp16 (ties away) and the products of each transform
position accumulated over kernel rows and channels by the multiply-accumulate rule.
Evidence: published error norms of convolutions, convolution stacks and a stencil on M5, M5 Pro and M6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.rounding import ceil_div
from openane.simulator.arithmetic.exact import outer_sums, to_half
from openane.simulator.arithmetic.half import Doubles, Floats, decoded, encode_away


def direct_conv3x3(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """x [C, H, W] fp16, weights [O, C, 3, 3] fp16, padding 1, stride 1: [O, H, W] fp16."""
    channels, height, width = x.shape
    padded = _padded(x, (1, 1))
    columns = np.empty((channels, 3, 3, height, width), np.float32)
    for row in range(3):
        for column in range(3):
            columns[:, row, column] = padded[:, row:row + height, column:column + width]
    sums = outer_sums(_terms(decoded(weights.view(np.uint16))), columns.reshape(channels * 9, -1))
    return to_half(sums).view(np.float16).reshape(len(weights), height, width)


def winograd_conv3x3(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same convolution through F(2, 3) along the width, as M5 and M6 compute it."""
    channels, height, width = x.shape
    pairs = ceil_div(width, 2)
    padded = _padded(x, (1, 2 * pairs + 1 - width))
    inputs = transformed_inputs([padded[:, :, i:i + 2 * pairs:2] for i in range(4)])
    w = decoded(weights.view(np.uint16))
    kernels = transformed_weights([w[..., i] for i in range(3)])
    sums = []
    for data, kernel in zip(inputs, kernels, strict=True):
        columns = np.stack([data[:, row:row + height] for row in range(3)], axis=1)
        sums.append(outer_sums(_terms(kernel), columns.reshape(channels * 3, -1)))
    result = np.empty((len(weights), height, pairs, 2))
    for place, values in enumerate(untransformed(sums)):
        result[..., place] = values.reshape(len(weights), height, pairs)
    flat = result.reshape(len(weights), height, 2 * pairs)[:, :, :width]
    return to_half(flat).view(np.float16)


def transformed_inputs(d: Sequence[Floats]) -> tuple[Floats, ...]:
    """The four inputs of each pair of outputs, from the values at four neighbouring columns, rounded to fp16."""
    a, b, c, e = (values.astype(np.float64) for values in d)
    return tuple(map(_rounded, (a - c, b + c, c - b, b - e)))


def transformed_weights(g: Sequence[Floats]) -> tuple[Floats, ...]:
    """The four weights of each row of a kernel, from its three columns, rounded to fp16."""
    a, b, c = (values.astype(np.float64) for values in g)
    return tuple(map(_rounded, (a, (a + b + c) / 2, (a - b + c) / 2, c)))


def untransformed(m: Sequence[Doubles]) -> tuple[Doubles, Doubles]:
    """Even and odd outputs from the sums at the four positions, exactly."""
    return m[0] + m[1] + m[2], m[1] - m[2] - m[3]


def _padded(x: np.ndarray, sides: tuple[int, int]) -> Floats:
    return np.pad(decoded(x.view(np.uint16)), ((0, 0), (1, 1), sides))


def _terms(weights: Floats) -> Floats:
    """[O, ...] to [terms, O], contiguous."""
    return np.ascontiguousarray(weights.reshape(len(weights), -1).T)


def _rounded(values: Doubles) -> Floats:
    return decoded(encode_away(values))
