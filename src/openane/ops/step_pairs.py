"""Sums and products of two tensors of whole steps, and sums of such and a constant, that become whole steps again.

The planar engine computes scale * (ratio * x + y) + 1536, or scale * x * y + 1536, in fp32: of numbers of steps, which
fp16 holds, nothing is rounded before the result. A sum has one number of fp16 for each of its two factors; x and y may
be small odd multiples of their steps, of which those are taken whose numbers are near.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.halves import LARGEST, half, normal
from openane.ops.rounding import EXACT_WHOLE
from openane.ops.weights import constant, numbers
from openane.ops.written_steps import MOST, number, stated_of, two_factors
from openane.record_classes import dataclass

MULTIPLES = (1, 3, 5, 7)
NEAR = 2.0 ** -14
"""How far two factors of a sum may be from what they stand for, relatively, before other multiples are tried."""
MORE = (*MULTIPLES, 9, 11, 13, 15)
"""Multiples for a constant vector, which are tried until one is as near as NEARER."""
NEARER = 2.0 ** -17
USUAL = 3.0
"""How many times smaller than the largest numbers of steps usually are."""
MOST_STEPS = 255
TIE = 2.0 ** -9
"""By how much of a step sums are moved from the middle between two, which fp32 decides one way or the other."""
WHOLE_WITHIN = 2.0 ** -10
"""How far from a whole number a multiple of a step may be in fp32."""

Known = Callable[[Value], Node | None]
"""The nearest_steps that makes a value, if one does."""
Times = Callable[[Value, int], Value]
"""A value's steps in number, or so many times that."""


@dataclass(frozen=True, slots=True)
class Factors:
    """scale * (ratio * (first * x) + second * y), first and second whole numbers."""

    scale: float
    ratio: float
    first: int = 1
    second: int = 1


@dataclass(frozen=True, slots=True)
class Counted:
    """Operands of a nearest_steps in place of its x and units, and whole steps that are added to what they count."""

    operands: dict[str, Value]
    whole: int = 0


def pair(node: Node, units: float, known: Known, times: Times, reach: float) -> Counted | None:
    """The operands x, y, function, ratio and units of a nearest_steps in place of a sum or product whose result it
    takes `units` times; None where that is none of two tensors of steps. Its bounds are up to `reach` steps from 0."""
    found = _operands(node, known)
    if found is None:
        return None
    x, y, first = found
    second, steps = known(y), units * stated_of(first, "scale")
    if node.op == "add" and y.constant:
        return _with_constant(x, y, first, units, times, reach)
    if second is None or y.type.rank != x.type.rank:
        return None
    if node.op == "mul":
        steps *= stated_of(second, "scale")
        given = {"x": times(x, 1), "y": times(y, 1)} if two_factors(steps) else None
        return None if given is None else Counted({**given, **_settings(x, "mul", steps, 1.0)})
    made = factors(steps, units * stated_of(second, "scale"), largest(first), largest(second))
    return None if made is None else Counted({"x": times(x, made.first), "y": times(y, made.second),
                                              **_settings(x, "add", made.scale, made.ratio)})


def _operands(node: Node, known: Known) -> tuple[Value, Value, Node] | None:
    """The operand of the result's shape, the other one, and what makes the first."""
    if node.op not in ("add", "mul"):
        return None
    x, y = node["x"], node["y"]
    if x.constant or x.shape != node.output.shape:
        x, y = y, x
    first = known(x)
    return None if first is None or x.type != node.output.type or y.dtype != x.dtype else (x, y, first)


def factors(x: float, y: float, most_x: float, most_y: float, multiples: Sequence[int] = MULTIPLES,
            near: float = NEAR) -> Factors | None:
    """Numbers of fp16 for x steps of the first and y of the second operand, which are at most so large; None where
    there are none."""
    found: Factors | None = None
    least = np.inf
    for second, first in sorted(product(multiples, multiples), key=sum):
        if max(first * most_x, second * most_y) > EXACT_WHOLE:
            continue
        scale = half(y / second)
        ratio = half(x / scale / first) if scale and normal(scale) else 0.0
        if not ratio or not normal(ratio):
            continue
        made = Factors(scale, ratio, first, second)
        error = max(_errors(made, x, y))
        if error < least:
            found, least = made, error
        if least < near:
            break
    return found


def _with_constant(x: Value, y: Value, first: Node, units: float, times: Times, reach: float) -> Counted | None:
    """Of a constant that is one number, whole steps are added behind the rounding: what is left of it has more digits
    in fp16. One whose numbers are whole steps of some size is a second tensor of steps where that errs less."""
    steps, most = units * stated_of(first, "scale"), largest(first)
    two = two_factors(steps)
    if two is None:
        return None
    vector = numbers(y).astype(np.float32).reshape((1,) * (x.type.rank - y.type.rank) + y.shape)
    moved = _clear(vector, first, units, two[0] * two[1])
    whole = int(np.rint(moved.flat[0])) if not np.ptp(moved) and abs(moved.flat[0]) + reach <= MOST else 0
    moved = (moved - whole) / two[1]
    if not np.abs(moved).max() < LARGEST:
        return None
    given = constant(f"{y.name}_in_steps", moved, y)
    lost = float(np.sqrt(np.mean(np.square(given.array() - moved)))) * abs(two[1])
    counted = _constant_steps(x, y, steps, units, times, most, lost) if np.ptp(moved) else None
    return counted or Counted({"x": times(x, 1), "y": given, **_settings(x, "add", two[1], two[0])}, whole)


def _clear(vector: np.ndarray, first: Node, units: float, factor: float) -> np.ndarray:
    """A constant in steps, in float64: moved a little where sums with some numbers of steps are in the middle between
    two, or as good as there, to where fp32 has most of them."""
    whole = (np.arange(stated_of(first, "low"), stated_of(first, "high") + 1) + stated_of(first, "zero"))[:, None]
    scale = np.float32(stated_of(first, "scale"))
    step = scale if np.float32(1 / scale) == np.float32(units) else np.float32(1 / units)
    wanted = np.rint((whole.astype(np.float32) * scale + vector.reshape(1, -1)) / step)
    moved = vector.reshape(-1).astype(np.float64) * units + np.array([0.0, TIE, -TIE])[:, None]
    wrong = [np.count_nonzero(np.abs(whole * factor + each - wanted) > 0.5 - TIE / 2, axis=0) for each in moved]
    return np.asarray(np.choose(np.argmin(wrong, axis=0), moved).reshape(vector.shape))


def _constant_steps(x: Value, y: Value, steps: float, units: float, times: Times, most: float, lost: float
                    ) -> Counted | None:
    """The sum with a vector of whole steps; None where it is none, or errs by more than what is `lost` otherwise."""
    vector = numbers(y).astype(np.float64).reshape((1,) * (x.type.rank - y.type.rank) + y.shape)
    size = step_of(vector)
    if size is None:
        return None
    whole = np.rint(vector / size)
    made = factors(steps, units * size, most, float(np.abs(whole).max()), MORE, NEARER)
    if made is None:
        return None
    error_x, error_y = _errors(made, steps, units * size)
    if error_x * abs(steps) * most / USUAL + error_y * abs(units) * float(np.sqrt(np.mean(np.square(vector)))) >= lost:
        return None
    return Counted({"x": times(x, made.first), "y": constant(f"{y.name}_in_steps", whole * made.second, y),
                    **_settings(x, "add", made.scale, made.ratio)})


def step_of(vector: np.ndarray) -> float | None:
    """The size of which all numbers are multiples by at most MOST_STEPS, to the digits of fp32; None without one."""
    most = float(np.abs(vector).max(initial=0.0))
    for count in range(1, MOST_STEPS + 1):
        wide = vector * (count / most) if most else vector
        if np.abs(wide - np.rint(wide)).max(initial=0.0) < WHOLE_WITHIN:
            return most / count if most else None
    return None


def _errors(made: Factors, x: float, y: float) -> tuple[float, float]:
    """How far factors are from x steps of the first and y of the second operand, relatively."""
    return abs(made.scale * made.ratio * made.first / x - 1), abs(made.scale * made.second / y - 1)


def _settings(x: Value, function: str, units: float, ratio: float) -> dict[str, Value]:
    named = {"units": units, "ratio": ratio}
    return {"function": Value(f"{x.name}_function", TensorType("string", ()), function),
            **{name: number(f"{x.name}_{name}", each) for name, each in named.items()}}


def largest(node: Node) -> float:
    """How far from 0 the steps of a nearest_steps are at most."""
    zero = stated_of(node, "zero")
    return max(max(abs(bound), abs(bound + zero)) for bound in (stated_of(node, "low"), stated_of(node, "high")))
