"""Multiply-accumulate in float32 matrix products: the rounding points of the rule without its rounded products.

Sums differ from `exact` by the 2^-16 rounding of each product and by float32 accumulation; the conversion to fp16,
the saturation at 2^15 and the special values are the same.
"""

from __future__ import annotations

import numpy as np

from openane.simulator.arithmetic.half import Floats


def outer_sums(left: Floats, right: Floats) -> Floats:
    """Sum over terms k of left[k, i] * right[k, j]: float32 [i, j]. `left` [K, I], `right` [K, J]."""
    sums: Floats = left.T @ right
    return sums


def stacked_sums(left: Floats, right: Floats) -> Floats:
    """The same for many at once, each as if it were alone: `left` [N or 1, I, K] and `right` [N, K, J], [N, I, J]."""
    sums: Floats = left @ right
    return sums


def channel_sums(weights: Floats, columns: Floats) -> Floats:
    """Sum over terms k of weights[k, c] * columns[k, c, j]: float32 [c, j]."""
    total = np.multiply(weights[0][:, None], columns[0])
    product = np.empty_like(total)
    for weight, column in zip(weights[1:], columns[1:], strict=True):
        np.multiply(weight[:, None], column, out=product)
        np.add(total, product, out=total)
    result: Floats = total
    return result
