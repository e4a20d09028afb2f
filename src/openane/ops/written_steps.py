"""Quantisation that is written out: a product, its rounding, a zero point, bounds, and the way back to numbers.

    clip(round(x / step) + point, low, high)            the quantised numbers
    (cast(cast(..., int8), fp16) - point) * step         what these stand for

Each of these nodes becomes a nearest_steps of x of its own; those between are left to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.arithmetic import scalar
from openane.ops.half_bits import from_half, to_half
from openane.ops.halves import normal
from openane.ops.moved import numbers_from
from openane.ops.operands import FLOATS
from openane.ops.rewriter import fresh_name
from openane.ops.weights import numbers
from openane.record_classes import dataclass

NAME = "nearest_steps"
MOST = 511
"""Steps from 0 that are told apart when they are stored beside 1536, and some to spare."""
PARTS = (1, 2, 4, 8, 16)
"""In how many parts a step may be counted where sums are stored beside 1536 (step_weights)."""
MADE = ("low", "high", "zero", "scale")
"""What a nearest_steps says of the steps it makes."""
STATED = {"low": -math.inf, "high": math.inf, "zero": 0.0, "scale": 1.0, "parts": 1.0}
"""What is meant where it does not, and of the sums it reads."""
SAME = 2.0 ** -12
"""By how much of itself a step may be another one, so that MOST of them, of a size rounded to fp16, are told apart."""
RANGES = {"int8": (-128, 127), "uint8": (0, 255)}
Producers = Mapping[int, Node]


@cache
def two_factors(number: float) -> tuple[float, float] | None:
    """Two normal numbers of fp16 whose product is as near to a number as that of any two of such exponents; None where
    there are none."""
    if not (number and math.isfinite(number)):
        return None
    _, exponent = math.frexp(abs(number))
    first = np.ldexp(1 + np.arange(1024) / 1024, exponent // 2)
    with np.errstate(over="ignore"):
        second = from_half(to_half((abs(number) / first).astype(np.float32))).astype(np.float64)
    best = int(np.argmin(np.abs(first * second - abs(number))))
    left, right = float(first[best]), math.copysign(float(second[best]), number)
    return (left, right) if normal(left) and normal(right) else None


@dataclass(frozen=True, slots=True)
class Steps:
    """scale * (clip(round(units * x), low, high) + zero), moved since, the first of `moves` first."""

    x: Value
    units: float
    low: float = -np.inf
    high: float = np.inf
    zero: float = 0.0
    scale: float = 1.0
    moves: tuple[Node, ...] = ()

    def bounded(self, low: float, high: float) -> Steps:
        """Clipped after the zero point was added."""
        low, high = (float(np.clip(bound, self.low, self.high))
                     for bound in (np.ceil(low - self.zero), np.floor(high - self.zero)))
        return replace(self, low=low, high=high)

    @property
    def holdable(self) -> bool:
        """Whether the engine's form holds it."""
        return max(abs(self.low), abs(self.high), abs(self.low + self.zero), abs(self.high + self.zero)) <= MOST \
            and two_factors(self.units) is not None


def number(name: str, of: float) -> Value:
    """A number that a nearest_steps states, in fp32."""
    return in_fp32(name, np.array(of))


def in_fp32(name: str, array: np.ndarray) -> Value:
    """A constant in fp32."""
    return Value(name, TensorType("fp32", array.shape), np.asarray(array, np.float32))


def keeps_steps(node: Node, before: Node) -> bool:
    """Whether a nearest_steps gives back the results of another one as they are."""
    if node.op != NAME or before.op != NAME or "units" not in node.operands or node.get("y") is not None:
        return False
    low, high, zero, scale = (stated_of(node, name) for name in MADE)
    least, most, moved, size = (stated_of(before, name) for name in MADE)
    units = float(numbers(node["units"]).reshape(()))
    return zero == 0 and scale == size and abs(units * scale - 1) < SAME \
        and low <= least + moved and most + moved <= high


def reads_whole_sums(node: Node) -> bool:
    """Whether what it reads are whole steps beside WHOLE: a sum that was rounded by being stored."""
    return node.op == NAME and "units" not in node.operands


def stated_of(node: Node, name: str) -> float:
    """A number of a nearest_steps, its own where it is not given."""
    value = node.get(name)
    return STATED[name] if value is None else float(numbers(value).reshape(()))


def unclamped(node: Node, producers: Producers) -> Node:
    """A nearest_steps, with a relu or clip before it among its bounds."""
    found = _unclamped(Steps(node["x"], float(numbers(node["units"]).reshape(()))), producers)
    if found.x is node["x"]:
        return node
    bounds = {name: number(f"{node.output.name}_{name}", float(np.clip(each, stated_of(node, "low"),
                                                                       stated_of(node, "high"))))
              for name, each in (("low", found.low), ("high", found.high))}
    return replace(node, operands={**node.operands, "x": found.x, **bounds})


Look = Callable[[Value, Producers], Steps | None]
ENDS = ("add", "clip", "mul", "sub")
"""What such a node may be."""


def written_steps(node: Node, names: set[str], producers: Producers) -> tuple[Node, ...] | None:
    """A node whose result is whole steps of something, or a number of such, as a nearest_steps."""
    found = _made_by(node, producers) if node.op in ENDS and node.output.dtype in FLOATS else None
    if found is None or not found.holdable or found.x.dtype != node.output.dtype:
        return None
    if not found.moves and found.x.type != node.output.type:
        return None
    given = {"units": found.units, "low": found.low, "high": found.high, "zero": found.zero, "scale": found.scale}
    constants = {name: number(f"{node.output.name}_{name}", each) for name, each in given.items()}
    made = [replace(node, op=NAME, operands={"x": found.x, **constants})]
    for movement in found.moves:
        type_ = TensorType(node.output.dtype, movement["x"].shape)
        held = Value(fresh_name(f"{node.output.name}_held", names), type_)
        made[-1] = replace(made[-1], outputs=(held,))
        made.append(replace(movement, operands={**movement.operands, "x": held}, outputs=node.outputs))
    return tuple(made)


def _steps(value: Value, producers: Producers) -> Steps | None:
    """What a value is, where it is whole steps with bounds."""
    node = producers.get(id(value))
    return None if node is None else _made_by(node, producers)


def _made_by(node: Node, producers: Producers) -> Steps | None:
    if node.op == "cast":
        return _cast(node, producers)
    if len(node.outputs) == 1 and node.output.dtype in RANGES and (source := numbers_from(node)) is not None:
        before = _steps(source, producers)
        return None if before is None else replace(before, moves=(*before.moves, node))
    if node.op == "clip":
        return _clipped(node, producers)
    return _moved(node, _steps, producers) or _scaled(node, producers)


def _clipped(node: Node, producers: Producers) -> Steps | None:
    """Whole steps, or what was rounded to some, with bounds."""
    before = _steps(node["x"], producers) or _rounded(node["x"], producers)
    low, high = scalar(node["alpha"]), scalar(node["beta"])
    if before is None or before.scale != 1 or low is None or high is None:
        return None
    return before.bounded(low, high)


def _cast(node: Node, producers: Producers) -> Steps | None:
    """To a type that holds every result, or back from it."""
    found, bounds = _steps(node["x"], producers), RANGES.get(node.output.dtype)
    if found is None or (bounds is None and node.output.dtype not in FLOATS):
        return None
    whole = found.scale == 1 and found.zero == int(found.zero)
    held = bounds is None or (whole and bounds[0] <= found.low + found.zero and found.high + found.zero <= bounds[1])
    return found if held else None


def _moved(node: Node, look: Look, producers: Producers) -> Steps | None:
    """What `look` finds, and a whole zero point."""
    number = scalar(node["y"]) if node.op in ("add", "sub") else None
    before = None if number is None or not number.is_integer() else look(node["x"], producers)
    if before is None or number is None or before.scale != 1:
        return None
    return replace(before, zero=before.zero + (number if node.op == "add" else -number))


def _scaled(node: Node, producers: Producers) -> Steps | None:
    """Whole steps times the size of one."""
    if node.op != "mul":
        return None
    number, before = _number(node["y"]), _steps(node["x"], producers)
    if before is None or not number or before.scale != 1 or not np.isfinite(np.float16(number)):
        return None
    return replace(before, scale=number)


def _rounded(value: Value, producers: Producers) -> Steps | None:
    """round(x * units), with a zero point or without."""
    node = producers.get(id(value))
    if node is None:
        return None
    if node.op != "round":
        return _moved(node, _rounded, producers)
    before = producers.get(id(node["x"]))
    number = None if before is None or before.op not in ("mul", "real_div") else _number(before["y"])
    if before is None or not number:
        return Steps(node["x"], 1.0)
    units = number if before.op == "mul" else 1 / number
    return _unclamped(Steps(before["x"], units), producers)


def _unclamped(found: Steps, producers: Producers) -> Steps:
    """A relu or clip before it bounds the steps as well."""
    node = producers.get(id(found.x))
    if node is None or node.op not in ("relu", "clip") or found.units < 0:
        return found
    low, high = (0.0, np.inf) if node.op == "relu" else (scalar(node["alpha"]), scalar(node["beta"]))
    if low is None or high is None:
        return found
    return replace(found, x=node["x"], low=float(np.rint(low * found.units)), high=float(np.rint(high * found.units)))


def _number(value: Value) -> float | None:
    """A constant of one number, in all digits the model states."""
    if not value.constant or value.type.elements != 1 or value.dtype not in FLOATS:
        return None
    return float(numbers(value).reshape(-1)[0])
