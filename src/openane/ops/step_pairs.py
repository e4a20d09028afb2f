"""Sums, differences and products of two tensors of whole steps, and of such and a constant, that become whole steps.

The planar engine computes scale * (ratio * x + y) + 1536, or scale * x * y + 1536, in fp32: of numbers of steps, which
fp16 holds, nothing is rounded before the result. A product has two numbers of fp16 for its one factor; a sum has one
for each of its two (step_factors).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.halves import LARGEST
from openane.ops.rounding import EXACT_WHOLE
from openane.ops.step_factors import ALONE, Factors, factors
from openane.ops.step_ties import Result, WantedSteps, numbers_of, product_units
from openane.ops.weights import constant, numbers, rounded
from openane.ops.written_steps import MOST, number, stated_of, two_factors
from openane.record_classes import dataclass

MULTIPLES = (1, 3, 5, 7, 9, 11, 13, 15)
"""What a constant may be held as so many times its steps."""
USUAL = 3.0
"""How many times smaller errors usually are than those of the largest numbers of steps."""
MOST_STEPS = 255
TIE = 2.0 ** -9
"""By how much of a step sums are moved from the middle between two, which fp32 decides one way or the other."""
WHOLE_WITHIN = 2.0 ** -10
"""How far from a whole number a multiple of a step may be in fp32."""

Known = Callable[[Value], Node | None]
"""The nearest_steps that makes a value, if one does."""
Times = Callable[[Value, int], Value]
"""A value's steps in number, or so many times that."""
Add = Callable[..., Value]
"""A node that is put before what is made: of an operation, a name and a type, with operands (StepOperands.add)."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Operands of a nearest_steps in place of its x and units, and whole steps that are added to what they count."""

    operands: dict[str, Value]
    whole: int = 0


def pair(node: Node, units: float, known: Known, times: Times, reach: float, add: Add) -> Counted | None:
    """The operands of a nearest_steps, beside its bounds, in place of a sum, difference or product whose result it
    takes `units` times; None where that is none of two tensors of steps. Its bounds are up to `reach` steps from 0."""
    found = _operands(node, known)
    if found is None:
        return None
    if node.op == "mul":
        return _product(found, units, known, times)
    if found.y.constant:
        return _with_constant(found, units, times, reach, partial(add, source=node))
    second = known(found.y)
    if second is None or found.y.type.rank != found.x.type.rank:
        return None
    return _sum(found, second, units, times)


def rounded_behind(node: Node, units: float) -> Counted | None:
    """As `pair`, of numbers that are no steps: a product, or a sum with a constant, is rounded to steps by the task
    that makes it, and not to fp16 before."""
    x, y = node["x"], node["y"]
    if x.constant or x.shape != node.output.shape:
        x, y = y, x
    if x.constant or x.type != node.output.type or y.dtype != x.dtype or two_factors(units) is None:
        return None
    if y.constant:
        return _with_numbers(node.op, x, y, units)
    if node.op != "mul" or y.type.rank != x.type.rank:
        return None
    return Counted({"x": x, "y": y, **_settings(x, "mul", Factors(units, 1.0))})


def _with_numbers(op: str, x: Value, y: Value, units: float) -> Counted | None:
    """Of numbers and a constant, which a sum takes in what its last factor makes steps of."""
    vector = numbers(y).astype(np.float64).reshape((1,) * (x.type.rank - y.type.rank) + y.shape)
    if op == "mul" and vector.size == 1 and two_factors(units * float(vector.flat[0])) is not None:
        return Counted({"x": x, "units": number(f"{y.name}_units", units * float(vector.flat[0]))})
    two = two_factors(units)
    assert two is not None, "asked before"
    times, made = (1.0, Factors(units, 1.0)) if op == "mul" else (two[0], Factors(two[1], two[0]))
    if not np.abs(vector * times).max(initial=0.0) < LARGEST:
        return None
    given = rounded(f"{y.name}_in_steps", np.ascontiguousarray(vector * times), y, True)
    return Counted({"x": x, "y": given, **_settings(x, op, made)})


@dataclass(frozen=True, slots=True)
class _Pair:
    """The operand of the result's shape and what makes it, the other one, and how often each counts."""

    x: Value
    y: Value
    first: Node
    signs: tuple[int, int]

    @property
    def step(self) -> float:
        """What a step of x is in the result."""
        return self.signs[0] * stated_of(self.first, "scale")


def _operands(node: Node, known: Known) -> _Pair | None:
    if node.op not in ("add", "sub", "mul"):
        return None
    (x, y), signs = (node["x"], node["y"]), (1, -1 if node.op == "sub" else 1)
    if x.constant or x.shape != node.output.shape:
        x, y, signs = y, x, (signs[1], signs[0])
    first = known(x)
    return None if first is None or x.type != node.output.type or y.dtype != x.dtype else _Pair(x, y, first, signs)


def _product(found: _Pair, units: float, known: Known, times: Times) -> Counted | None:
    """Of two tensors of steps, or of one and a constant whose numbers are whole steps of some size."""
    x, y, units, first = found.x, found.y, units * found.step, numbers_of(found.first)
    if y.constant:
        vector = numbers(y).astype(np.float64).reshape((1,) * (x.type.rank - y.type.rank) + y.shape)
        size = step_of(vector)
        if size is None or two_factors(units * size) is None:
            return None
        if vector.size == 1:
            units = product_units(units * float(vector.flat[0]), first, np.ones(1))
            return Counted({"x": times(x, 1), "units": number(f"{y.name}_units", units)})
        whole = np.rint(vector / size)
        given = constant(f"{y.name}_in_steps", whole, y)
        units = product_units(units * size, first, whole)
        return Counted({"x": times(x, 1), "y": given, **_settings(x, "mul", Factors(units, 1.0))})
    second = known(y)
    units *= 0.0 if second is None else stated_of(second, "scale")
    if second is None or y.type.rank != x.type.rank or two_factors(units) is None:
        return None
    units = product_units(units, first, numbers_of(second))
    return Counted({"x": times(x, 1), "y": times(y, 1), **_settings(x, "mul", Factors(units, 1.0))})


def _sum(found: _Pair, second: Node, units: float, times: Times) -> Counted | None:
    """Of two tensors of steps."""
    x, y = found.x, found.y
    made = factors(units * found.step, units * found.signs[1] * stated_of(second, "scale"), largest(found.first),
                   largest(second))
    return None if made is None else Counted({"x": times(x, 1), "y": times(y, 1), **_settings(x, "add", made)})


def _with_constant(found: _Pair, units: float, times: Times, reach: float, add: Add) -> Counted | None:
    """Of a constant that is one number, whole steps are added behind the rounding: what is left of it has more digits
    in fp16. One whose numbers are whole steps of some size is a second tensor of steps where that errs less; where
    neither finds every step, whole steps of x are added before."""
    x, y = found.x, found.y
    two = two_factors(units * found.step)
    if two is None:
        return None
    vector = found.signs[1] * numbers(y).astype(np.float32).reshape((1,) * (x.type.rank - y.type.rank) + y.shape)
    sums = _sums_of(vector, found, units)
    moved = _clear(vector, units, two[0] * two[1], sums)
    whole = int(np.rint(moved.flat[0])) if not np.ptp(moved) and abs(moved.flat[0]) + reach <= MOST else 0
    moved = (moved - whole) / two[1]
    if not np.abs(moved).max() < LARGEST:
        return None
    given = constant(f"{y.name}_in_steps", moved, y)
    lost = float(np.sqrt(np.mean(np.square(given.array() - moved)))) * abs(two[1])
    made = Factors(two[1], two[0])
    counted = _constant_steps(found, vector.astype(np.float64), units, lost) if np.ptp(moved) else None
    missed = sums.missed(_summed(*counted) if counted is not None else _summed(made, given, whole))
    before = _whole_before(found, sums, two, times, add, missed) if missed else None
    if before is not None:
        return before
    if counted is not None:
        made, given = counted
    return Counted({"x": times(x, 1), "y": given, **_settings(x, "add", made)}, whole if counted is None else 0)


def _sums_of(vector: np.ndarray, found: _Pair, units: float) -> WantedSteps:
    """The steps that fp32 finds of every number of steps, a column, and each number of a constant."""
    whole, scale = numbers_of(found.first)[:, None], np.float32(found.step)
    step = abs(scale) if np.float32(1 / abs(scale)) == np.float32(units) else np.float32(1 / units)
    return WantedSteps((whole,), np.rint((whole.astype(np.float32) * scale + vector.reshape(1, -1)) / step))


def _clear(vector: np.ndarray, units: float, factor: float, sums: WantedSteps) -> np.ndarray:
    """A constant in steps, in float64: moved a little where sums with some numbers of steps are in the middle between
    two, or as good as there, to where fp32 has most of them."""
    moved = vector.reshape(-1).astype(np.float64) * units + np.array([0.0, TIE, -TIE])[:, None]
    whole, = sums.numbers
    wrong = [np.count_nonzero(np.abs(whole * factor + each - sums.steps) > 0.5 - TIE / 2, axis=0) for each in moved]
    return np.asarray(np.choose(np.argmin(wrong, axis=0), moved).reshape(vector.shape))


def _summed(made: Factors, given: Value, behind: int = 0) -> Result:
    """What the engine makes of steps and a constant that it takes as it is given."""
    (of_x, of_y, more_x, more_y), y = made.counts, given.array().reshape(1, -1).astype(np.float64)
    return lambda x: np.asarray(made.scale * (made.ratio * (of_x * x + of_y * y) + more_x * x + more_y * y) + behind)


def _whole_before(found: _Pair, sums: WantedSteps, two: tuple[float, float], times: Times, add: Add,
                  missed: int) -> Counted | None:
    """The sum with whole steps of x first, and then with what is left of a constant, which has more digits in fp16: in
    the middle of all that give the steps that are wanted. None where fp16 does not hold the first sum, or as many are
    missed as otherwise."""
    (whole,), x, y, factor = sums.numbers, found.x, found.y, two[0] * two[1]
    room = sums.steps - whole * factor
    middle = (room.max(axis=0) + room.min(axis=0)) / 2
    steps = np.rint(middle / factor)
    if largest(found.first) + np.abs(steps).max() > EXACT_WHOLE:
        return None
    shape = (1,) * (x.type.rank - y.type.rank) + y.shape
    given = constant(f"{y.name}_left", ((middle - steps * factor) / two[1]).reshape(shape), y)
    made = Factors(two[1], two[0])
    if WantedSteps((whole + steps,), sums.steps).missed(_summed(made, given)) >= missed:
        return None
    before = add("add", f"{y.name}_added", x.type, x=times(x, 1),
                 y=constant(f"{y.name}_whole", steps.reshape(shape), y))
    return Counted({"x": before, "y": given, **_settings(x, "add", made)})


def _constant_steps(found: _Pair, vector: np.ndarray, units: float, lost: float) -> tuple[Factors, Value] | None:
    """The sum with a vector of whole steps; None where it is none, or errs by more than what is `lost` otherwise."""
    most, size = largest(found.first), step_of(vector)
    if size is None:
        return None
    whole = np.rint(vector / size)
    made = factors(units * found.step, units * size, most, float(np.abs(whole).max()), MULTIPLES)
    if made is None or made.error / USUAL >= lost:
        return None
    return made, constant(f"{found.y.name}_in_steps", whole * made.times, found.y)


def step_of(vector: np.ndarray) -> float | None:
    """The size of which all numbers are multiples by at most MOST_STEPS, to the digits of fp32; None without one."""
    most = float(np.abs(vector).max(initial=0.0))
    for count in range(1, MOST_STEPS + 1):
        wide = vector * (count / most) if most else vector
        if np.abs(wide - np.rint(wide)).max(initial=0.0) < WHOLE_WITHIN:
            return most / count if most else None
    return None


def _settings(x: Value, function: str, made: Factors) -> dict[str, Value]:
    named = {"units": made.scale, "ratio": made.ratio}
    counts = Value(f"{x.name}_counts", TensorType("int32", (4,)), np.array(made.counts, np.int32))
    return {"function": Value(f"{x.name}_function", TensorType("string", ()), function),
            **{name: number(f"{x.name}_{name}", each) for name, each in named.items()},
            **({} if made.counts == ALONE else {"counts": counts})}


def largest(node: Node) -> float:
    """How far from 0 the steps of a nearest_steps are at most."""
    return max(map(abs, (*steps_between(node), stated_of(node, "low"), stated_of(node, "high"))))


def steps_between(node: Node) -> tuple[float, float]:
    """The least and the largest step that a nearest_steps makes."""
    zero = stated_of(node, "zero")
    return stated_of(node, "low") + zero, stated_of(node, "high") + zero
