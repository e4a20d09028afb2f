"""What constants take up of a power of two: as much as leaves them numbers that fp16 holds with their digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from openane.graph import Node, RoundedConstant, TensorType, Value
from openane.ops import get_op
from openane.ops.half_bits import from_half, half_times, to_half
from openane.ops.half_products import CHUNK
from openane.ops.halves import SMALLEST_NORMAL, largest_magnitude, nonzero
from openane.ops.weights import numbers

SMALLEST_LARGEST = 2.0 ** -9
"""The largest weight may be made as small as this: what fp16 then drops of others is a 2^-16th of it."""
SMALLEST_USUAL = 2 * SMALLEST_NORMAL
"""Or the root mean square as small as this: what fp16 then drops is less than it rounds off usual weights anyway."""
LARGEST = 2.0 ** 14
EXACT = 100
"""Times 2^-100 to 2^100 float32 holds every fp16 number."""


def share(weight: np.ndarray, exponent: int) -> int:
    """How much of a power of two weights take up: as much as makes the largest LARGEST; or as small as
    SMALLEST_LARGEST, or the root mean square as small as SMALLEST_USUAL, whichever leaves more room. All of it where
    they are 0 or no numbers."""
    most = largest_magnitude(weight) if exponent else 0.0
    if not most or not math.isfinite(most):
        return exponent
    if exponent > 0:
        return min(exponent, max(0, math.floor(math.log2(LARGEST / most))))
    least = math.floor(math.log2(SMALLEST_LARGEST / most))
    if exponent < least:  # all of them are looked at only where the largest leaves too little room
        least = min(0, least, math.floor(math.log2(SMALLEST_USUAL / _usual(weight, most))))
    return max(exponent, least)


def _usual(weight: np.ndarray, most: float) -> float:
    """The root mean square of numbers other than 0, of which `most` is the largest."""
    flat = weight.ravel("K")
    squares = sum(_squares(flat[start:start + CHUNK], most) for start in range(0, flat.size, CHUNK))
    return math.sqrt(squares / nonzero(flat)) * (1.0 if flat.dtype == np.float16 else most)


def _squares(numbers: np.ndarray, unit: float) -> float:
    """The sum of the squares of numbers: of fp16 as they are, for float32 holds these, of others in a unit."""
    shares = from_half(numbers) if numbers.dtype == np.float16 else numbers.astype(np.float64) / unit
    return float(np.dot(shares, shares))


def biased(node: Node) -> bool:
    """Whether a node adds a bias that is not 0 everywhere."""
    bias = node.get("bias")
    return bias is not None and bool(bias.array().any())


def keeps_bounds(node: Node, names: Iterable[str], exponent: int) -> bool:
    """Whether the settings of a function of single elements that are among operands of these names, bounds say, keep
    their digits times 2^exponent. One beyond fp16 bounds nothing that it holds."""
    if get_op(node.op).unary is None or exponent >= 0:
        return True
    settings = [node[name] for name in names if node[name].constant]
    return all(largest_magnitude(each.array()) * 2.0 ** exponent >= SMALLEST_USUAL for each in settings)


def times(constant: Value, exponent: int) -> Value:
    """A constant of real numbers times 2^exponent, rounded from all digits it has; itself where there is nothing to
    do."""
    if not exponent or constant.array().dtype.kind != "f":
        return constant
    name, data = f"{constant.name}_rescaled", _times(constant, exponent)
    return replace(constant, name=name, data=data, exponent=constant.exponent + exponent) \
        if isinstance(constant, RoundedConstant) else Value(name, TensorType(constant.dtype, data.shape), data)


def _times(constant: Value, exponent: int) -> np.ndarray:
    array, stated = constant.array(), isinstance(constant, RoundedConstant)
    if array.dtype == np.float16 and abs(exponent) <= EXACT:
        return np.asarray(to_half(numbers(constant) * np.float32(2.0 ** exponent)) if stated
                          else half_times(array, exponent))
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(numbers(constant).astype(np.float64), exponent), array.dtype)
