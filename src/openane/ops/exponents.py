"""What an operation does to powers of two: how the exponent of a result that is held times 2^e follows from those of
what it is made of.

fp16 keeps the digits of a number whatever its exponent, as long as it is in range. Whoever moves numbers into range
(`passes.rescale`) multiplies tensors by powers of two, which changes no digit, and asks here where that is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from itertools import combinations

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Value
from openane.ops import all_ops, get_op
from openane.ops.arithmetic import scalar
from openane.ops.halves import nonzero
from openane.ops.operands import FLOATS
from openane.ops.spec import Movement, Op, Unary
from openane.ops.unary import HELD, settings
from openane.record_classes import dataclass

POINTS = np.array([-3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0])
THREE = np.array(3.0)
TIED = {Movement.SHAPE, Movement.DIMENSIONS, Movement.REPEATS, Movement.ORDER, Movement.PART}
SAME_SCALE = {Binary.ADD, Binary.MAXIMUM, Binary.MINIMUM}
STEPS = 4
"""By which power of two a point is multiplied to see the degree of a function: a whole number of times 2 and 1/2."""
FAR = 40
"""By which power of two points are multiplied to see that a function has its degree everywhere: a clip at 5000 has
none."""
REMEMBERED = 256
"""Functions, with their settings, of which what was seen is kept."""
HIGHEST = 4
"""The largest degree that exponents are passed through: beyond it a power has no range to speak of."""


class Relation(StrEnum):
    """How the exponents of operands and result hang together."""

    LINEAR = "linear"    # x times constant weights: any exponents, the weights and bias take up the difference
    SCALED = "scaled"    # one operand times a constant, element by element: as LINEAR
    AFFINE = "affine"    # x times a gain plus an offset for each channel (batch_norm): as LINEAR
    TIED = "tied"        # the result has the exponent that all the operands named must have
    SUMMED = "summed"    # x and y of any exponents: the planar engine multiplies on the way in and out
    NORM = "norm"        # the exponent of x goes away, if epsilon is scaled as x's square
    GATED = "gated"      # x times a share that x itself, as it is, decides (Unary.held)
    POWERS = "powers"    # the result's exponent is that of each computed operand times its degree, added up
    RAISING = "raising"  # an exponential: what is added to x is a power of two of the result
    LOWERING = "lowering"  # a logarithm: the exponent of x is something added to the result
    SCORES = "scores"    # probabilities of scores: only differences of x count
    FIXED = "fixed"      # operands and results as they are


@dataclass(frozen=True, slots=True)
class Exponents:
    """The relation, and the operands it is about, constants among them. `degrees`: of POWERS, by operand; of
    SCALED that of the constant, 1 or -1. `step`: of
    RAISING what a factor of 2 in the result is in x, of LOWERING the other way around."""

    relation: Relation
    operands: tuple[str, ...] = ()
    degrees: Mapping[str, float] = field(default_factory=dict)
    step: float = 0.0

    @property
    def multiplies_two(self) -> bool:
        """Whether the result is a product of two computed tensors, each once."""
        return self.relation is Relation.POWERS and list(self.degrees.values()) == [1.0, 1.0]


FIXED = Exponents(Relation.FIXED)


def exponents(node: Node) -> Exponents:
    """What is true of a node."""
    op = all_ops().get(node.op)  # not known: reads and writes of states
    if op is None or any(value.dtype not in FLOATS for value in node.outputs):
        return FIXED
    if len(node.outputs) > 1:
        return Exponents(Relation.TIED, ("x",)) if op.moves in TIED else FIXED
    return _of_x(op, node) or _of_factors(op, node) or _tied(op, node) or FIXED


def products(node: Node) -> int:
    """How many products each result of a node sums in the accumulator, those with weights of 0 left out; 0 where it
    sums none."""
    weight = _weight(node)
    if weight is None:
        return most_products(node)
    array = weight.array()
    return max(1, nonzero(array) // max(1, len(array)))


def most_products(node: Node) -> int:
    """As `products`, those with weights of 0 counted: no weight is looked at."""
    op = all_ops().get(node.op)
    if op is not None and op.averages is not None:
        return op.averages(node)
    if op is None or not op.sums_products:
        return 0
    other = node.get("weight") or node.get("y")
    if other is None or node.get("x") is None:
        return 1
    weight = _weight(node)
    known = weight or node.get("weight")
    if known is not None:
        return max(1, known.type.elements // max(1, known.shape[0]))
    result, x = node.output.type, node["x"].type
    batches = math.prod(result.shape[:-2])
    return max(1, round(math.sqrt(x.elements * other.type.elements / max(1, result.elements * batches))))


def _weight(node: Node) -> Value | None:
    """The constant that a node multiplies by, its output channels first."""
    op = all_ops().get(node.op)
    other = node.get("weight") or node.get("y")
    if op is None or not op.sums_products or op.averages is not None or op.product is None or other is None \
            or not other.constant or node.get("x") is None:
        return None
    form = op.product.form(node, node.output.name)
    return None if form is None else form["weight"]


def factors(node: Node, about: Exponents) -> list[tuple[Value, Value]]:
    """What a node multiplies by constants that take up exponents, and these constants, the channels first."""
    product = get_op(node.op).product if about.relation is Relation.LINEAR else None
    form = None if product is None else product.form(node, node.output.name)
    if form is not None:
        return [(form["x"], form["weight"])]
    if about.relation is Relation.SCALED:
        (name,), ((constant, degree),) = about.operands, about.degrees.items()
        return [(node[name], node[constant])] if degree > 0 else []
    return []


def _of_x(op: Op, node: Node) -> Exponents | None:
    """What is said of the operand x alone."""
    if op.product is not None and op.product.form(node, node.output.name) is not None:
        return Exponents(Relation.LINEAR, ("x",))
    if op.channel_affine is not None:
        return Exponents(Relation.AFFINE, ("x",))
    if op.normalises and _known(node.get("epsilon")):
        return Exponents(Relation.NORM, ("x",))
    if op.scores:
        return Exponents(Relation.SCORES, ("x",))
    return None if op.unary is None or node["x"].dtype not in FLOATS else _of_function(op.unary, node)


def _of_function(unary: Unary, node: Node) -> Exponents | None:
    """What is said of a function of one tensor."""
    if unary.held is not None:
        return None if node.get(HELD) is not None else Exponents(Relation.GATED, ("x",))
    return _of_numbers(unary.function, tuple(
        (name, 0.0 if name == "epsilon" else value) for name, value in settings(unary, node.operands).items()))


@lru_cache(maxsize=REMEMBERED)
def _of_numbers(unary: Callable[..., np.ndarray], stated: tuple[tuple[str, float | str], ...]) -> Exponents | None:
    """What is seen of a function with its settings. Remembered: a graph has few functions, and many nodes of them."""
    def function(points: np.ndarray) -> np.ndarray:
        return np.asarray(unary(points, **dict(stated)), np.float64)

    degree = _degree(function)
    if degree == 1:
        return Exponents(Relation.TIED, ("x",))
    if degree is not None:
        return Exponents(Relation.POWERS, ("x",), {"x": degree})
    for relation, step in ((Relation.RAISING, _doubling(function)), (Relation.LOWERING, _increase(function))):
        if step is not None:
            return Exponents(relation, ("x",), step=step)
    bounds = _scaled_with_x(unary, dict(stated))
    return Exponents(Relation.TIED, ("x", *bounds)) if bounds else None


def _scaled_with_x(unary: Callable[..., np.ndarray], stated: Mapping[str, float | str]) -> tuple[str, ...]:
    """The fewest settings that are multiplied by what x is, and the result is with them: bounds, offsets."""
    known = {name: value for name, value in stated.items() if not isinstance(value, str) and value}
    several = (names for count in range(1, len(known) + 1) for names in combinations(known, count))
    return next((each for each in several if _scales_with_x(unary, stated, {name: known[name] for name in each})), ())


def _scales_with_x(unary: Callable[..., np.ndarray], stated: Mapping[str, float | str],
                   settings: Mapping[str, float]) -> bool:
    """Whether a function is multiplied by what x and these settings are. Looked at on either side of each."""
    units = [1.0, 2.0 ** FAR, *(abs(value) for value in settings.values() if math.isfinite(value))]
    points = np.concatenate([POINTS * unit for unit in units])

    def scaled(times: float) -> np.ndarray:
        return unary(points * times, **{**stated, **{name: value * times for name, value in settings.items()}})

    with np.errstate(all="ignore"):
        plain = scaled(1.0)
        return bool(np.isfinite(plain).all() and plain.any()) and all(
            np.allclose(scaled(times), plain * times, rtol=1e-12, atol=0) for times in (2.0 ** STEPS, 2.0 ** -FAR))


def _of_factors(op: Op, node: Node) -> Exponents | None:
    """What is said of an operation that multiplies, divides or raises to a power."""
    degrees = _degrees(op, node)
    computed = {name: degree for name, degree in degrees.items() if not _known(node.get(name))}
    if not computed or any(abs(degree) > HIGHEST for degree in computed.values()):
        return None
    if len(degrees) == 2 and list(computed.values()) == [1.0]:
        (name,), (constant,) = computed, set(degrees) - set(computed)
        return Exponents(Relation.SCALED, (name,), {constant: degrees[constant]})
    if len(degrees) == 1 and list(computed.values()) == [1.0]:  # the larger of x and 0
        return Exponents(Relation.TIED, tuple(computed))
    return Exponents(Relation.POWERS, tuple(computed), computed)


def _degrees(op: Op, node: Node) -> Mapping[str, float]:
    """The degree of each operand that a result is a product of powers of."""
    if op.factors is not None:
        return op.factors(node)
    if op.arithmetic is None:
        return {}
    together = _degrees_of(op.arithmetic.function)
    if together is not None:
        return {"x": together[0], "y": together[1]}
    number = scalar(node["y"])
    power = None if number is None else _degree_beside(op.arithmetic.function, number)
    return {} if power is None else {"x": power}


@lru_cache(maxsize=REMEMBERED)
def _degrees_of(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[float, float] | None:
    """The degrees of both operands of a function of two; None where it is no product of powers of them."""
    first, second = _degree(_beside(function, THREE, False)), _degree(_beside(function, THREE, True))
    known = first is not None and second is not None and _separate(function, first, second)
    return (first, second) if known else None  # type: ignore[return-value]


@lru_cache(maxsize=REMEMBERED)
def _degree_beside(function: Callable[[np.ndarray, np.ndarray], np.ndarray], number: float) -> float | None:
    """The degree of the first operand beside a number."""
    return _degree(_beside(function, np.array(number), False))


def _beside(function: Callable[[np.ndarray, np.ndarray], np.ndarray], number: np.ndarray,
            first: bool) -> Callable[[np.ndarray], np.ndarray]:
    """A function of two operands as one of the operand beside a number, which is the first of both or the second."""
    return lambda points: function(number, points) if first else function(points, number)


def _separate(function: Callable[[np.ndarray, np.ndarray], np.ndarray], first: float, second: float) -> bool:
    """Whether a function of two has these degrees wherever it is looked at."""
    with np.errstate(all="ignore"):
        return all(np.allclose(function(POINTS * 4.0 ** i, y * 4.0 ** j),
                               function(POINTS, y) * 4.0 ** (first * i + second * j), equal_nan=True)
                   for y in np.array([0.5, 2.0, -3.0]) for i in (-1, 1) for j in (-1, 1))


def _known(value: object) -> bool:
    return isinstance(value, Value) and value.constant


def _tied(op: Op, node: Node) -> Exponents | None:
    """Where the result has the exponent of operands that have the same."""
    names: tuple[str, ...] = ()
    if op.arithmetic is not None and op.arithmetic.planar is Binary.ADD \
            and not (_known(node.get("x")) or _known(node.get("y"))):
        return Exponents(Relation.SUMMED, ("x", "y"))
    if op.arithmetic is not None:
        names = ("x", "y") if op.arithmetic.planar in SAME_SCALE else ()
    elif op.homogeneous is not None:
        names = op.homogeneous(node)
    elif op.moves in TIED:
        names = ("x",)
    return Exponents(Relation.TIED, names) if names else None


def _degree(function: Callable[[np.ndarray], np.ndarray]) -> float | None:
    """The d for which a function of numbers times s is the function times s^d: half of a whole number, not 0."""
    with np.errstate(all="ignore"):
        plain, scaled = function(POINTS), function(POINTS * 2.0 ** STEPS)
        ratios = scaled[-3:] / plain[-3:]
        if not (np.isfinite(ratios).all() and (ratios > 0).all()):
            return None
        degree = round(2 * float(np.log2(ratios[0])) / STEPS) / 2
        same = degree and all(np.allclose(function(POINTS * 2.0 ** step), plain * 2.0 ** (step * degree), rtol=1e-12,
                                          atol=0, equal_nan=True) for step in (-FAR, -3, 1, STEPS, FAR))
    return degree if same else None


def _doubling(function: Callable[[np.ndarray], np.ndarray]) -> float | None:
    """What is added to numbers where a function of them doubles."""
    with np.errstate(all="ignore"):
        once, plain = function(np.array([1.0])), function(np.array([0.0]))
        if not (plain[0] > 0 and once[0] > plain[0]):
            return None
        step = 1.0 / float(np.log2(once[0] / plain[0]))
        return step if np.allclose(function(POINTS + step), 2 * function(POINTS), rtol=1e-12) else None


def _increase(function: Callable[[np.ndarray], np.ndarray]) -> float | None:
    """What a function grows by where positive numbers are doubled."""
    points = POINTS[POINTS > 0]
    with np.errstate(all="ignore"):
        grown = function(2 * points) - function(points)
        return float(grown[0]) if np.isfinite(grown).all() and np.allclose(grown, grown[0], rtol=1e-12) and grown[0] \
            else None
