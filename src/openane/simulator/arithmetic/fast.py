"""Multiply-accumulate in float32 matrix products: the rounding points of the rule without its rounded products.

Sums differ from `exact` by the 2^-16 rounding of each product and by float32 accumulation; the conversion to fp16,
the saturation at 2^15 and the special values are the same.
"""

from __future__ import annotations

import numpy as np

from openane.simulator.arithmetic.half import Floats

SHARE = 1 << 18  # products held at a time


def outer_sums(left: Floats, right: Floats) -> Floats:
    """Sum over terms k of left[k, i] * right[k, j]: float32 [i, j]. `left` [K, I], `right` [K, J]."""
    sums: Floats = left.T @ right
    return sums


def stacked_sums(left: Floats, right: Floats) -> Floats:
    """The same for many at once, each as if it were alone: `left` [N or 1, I, K] and `right` [N, K, J], [N, I, J]."""
    sums: Floats = left @ right
    return sums


def ordered_sums(left: Floats, right: Floats) -> Floats:
    """The same for one column, `left` [1, I, K] of two channels or more and `right` [1, K, 1]: [1, I, 1]. Every product
    is rounded and added in its turn, so that they are the same wherever they are computed."""
    weights, sums = left[0], np.empty(left.shape[1], np.float32)
    share = max(2, SHARE // max(1, right.size))
    for start in range(0, len(sums), share):
        first = max(0, min(start, len(sums) - 2))  # of one channel alone numpy adds products in another order
        products = np.multiply(weights[first:first + share].T, right[0], order="C")
        np.add.reduce(products, axis=0, out=sums[first:first + share])
    return sums[None, :, None]


def channel_sums(weights: Floats, columns: Floats) -> Floats:
    """Sum over terms k of weights[k, c] * columns[k, c, j]: float32 [c, j]."""
    total = np.multiply(weights[0][:, None], columns[0])
    product = np.empty_like(total)
    for weight, column in zip(weights[1:], columns[1:], strict=True):
        np.multiply(weight[:, None], column, out=product)
        np.add(total, product, out=total)
    result: Floats = total
    return result
