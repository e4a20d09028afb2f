"""Norms whose operand and result are held times powers of two of their own.

x times 2^e has the same norm where epsilon is taken times 4^e. The result has an exponent by `scale`, which the root of
the norm takes up: where epsilon is far above the variance results are as small as x is, and would lose their digits
before a gain makes them larger. What is left the gain takes up, and the offset has all of it.
"""

from __future__ import annotations

import math

from openane.graph import Node, Value
from openane.ops import get_op
from openane.ops.build import Given
from openane.ops.halves import SMALLEST, SMALLEST_NORMAL, largest_exponent, largest_magnitude
from openane.ops.weights import numbers
from openane.passes.weight_room import share, times
from openane.record_classes import dataclass

LOST = 2.0 ** -10
"""Of a variance and epsilon what may be lost: half of that is of the result."""
ROOM = 2.0 ** 2 * SMALLEST_NORMAL
"""What the epsilon that is added to squares stays above: below it fp16 has few digits."""


def beside_epsilon(node: Node) -> float:
    """The root mean square of numbers beside whose square what fp16 rounds a norm's epsilon by is little."""
    epsilon = float(numbers(node["epsilon"]))
    rounded = abs(float(node["epsilon"].array()) - epsilon)
    return math.sqrt(max(0.0, rounded / LOST - epsilon))


@dataclass(frozen=True, slots=True)
class HeldNorm:
    """The exponents of the operand and the result, and the operands that go with them."""

    read: int
    made: int
    operands: dict[str, Given]


def held_norm(node: Node, read: int, wanted: int) -> HeldNorm:
    """A norm of an operand that may be read times up to 2^read, with its result as far towards 2^wanted as can be."""
    epsilon = float(numbers(node["epsilon"]))
    read = min(read, largest_exponent(4 * epsilon) // 2)
    epsilon = max(epsilon * 4.0 ** read, SMALLEST)
    operands: dict[str, Given] = {"epsilon": epsilon}
    gamma, beta = node.get("gamma"), node.get("beta")
    if not wanted or "scale" not in get_op(node.op).named or _computed(gamma) or _computed(beta):
        return HeldNorm(read, 0, operands)
    most = 1.0 if gamma is None else largest_magnitude(gamma.array())
    scale = max(0, min(wanted + math.ceil(math.log2(most or 1.0)), math.floor(math.log2(epsilon / ROOM) / 2)))
    if scale:
        operands["scale"] = 2.0 ** scale
    made = scale
    if gamma is not None:
        taken = share(gamma.array(), wanted - scale)
        made, operands["gamma"] = scale + taken, times(gamma, taken)
    if beta is not None:
        operands["beta"] = times(beta, made)
    return HeldNorm(read, made, operands)


def _computed(value: Value | None) -> bool:
    return value is not None and not value.constant
