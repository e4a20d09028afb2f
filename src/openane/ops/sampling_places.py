"""Where images are sampled, in more digits than fp16 has: what constants do to places behind the last thing that is
computed is done as they are read, in fp64.

A place in a large image needs digits for the image and for its fraction; a displacement is small, and what it is added
to is mostly a grid that is known. So of `grid + flow` the flow alone is rounded to fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from openane.graph import Node, Operand, RoundedConstant, TensorType, Value
from openane.ops import arguments
from openane.ops.evaluate import evaluate_node
from openane.ops.rewriter import Rewriter
from openane.record_classes import dataclass

MOVES = frozenset(["expand_dims", "gather", "reshape", "reverse", "slice_by_index", "slice_by_size", "squeeze", "tile",
                   "transpose"])
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class SamplingPlaces:
    """scale * x + offset, arrays of the shape of x, which `make` builds."""

    make: Callable[[Rewriter], Value]
    scale: np.ndarray
    offset: np.ndarray

    def times(self, number: np.ndarray | float) -> SamplingPlaces:
        """The places multiplied."""
        return replace(self, scale=self.scale * number, offset=self.offset * number)

    def plus(self, number: np.ndarray) -> SamplingPlaces:
        """The places moved."""
        return replace(self, offset=self.offset + number)


def relative_places(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """A sampling whose coordinates are computed, with what constants do to them as its operands `scale` and `offset`;
    None where that is nothing."""
    where = node.get("coordinates")
    read_already = node.get("scale") is not None or node.get("offset") is not None
    if node.op != "resample" or where is None or where.constant or read_already:
        return None
    places = _read(where, producers, DEEPEST)
    if not (places.scale != 1).any() and not places.offset.any():
        return None
    rewriter = Rewriter(node, names)
    settings = {name: operand for name, operand in node.operands.items() if name != "coordinates"}
    return rewriter.instead([rewriter.single(
        node.op, coordinates=places.make(rewriter), scale=places.scale.astype(np.float32),
        offset=places.offset.astype(np.float32), **_any(settings))])


def _any(operands: dict[str, Operand]) -> dict[str, Any]:
    return dict(operands)


def _read(value: Value, producers: Mapping[int, Node], deep: int) -> SamplingPlaces:
    """What a value is, and what constants did to it."""
    if value.constant:
        nothing = np.zeros(value.shape, np.float16)
        return SamplingPlaces(lambda rewriter: rewriter.constant(nothing), np.ones(value.shape), _numbers(value))
    node = producers.get(id(value))
    found = None if node is None or not deep or value.dtype != "fp16" else _through(node, value, producers, deep - 1)
    return found or SamplingPlaces(lambda rewriter: value, np.ones(value.shape), np.zeros(value.shape))


def _through(node: Node, value: Value, producers: Mapping[int, Node], deep: int) -> SamplingPlaces | None:
    if node.op in ("add", "sub", "mul", "real_div"):
        return _arithmetic(node, value, producers, deep)
    if node.op in MOVES and all(each is node["x"] or each.constant for each in node.values()):
        inner, others = _read(node["x"], producers, deep), {**node.operands}
        others.pop("x")
        return SamplingPlaces(lambda rewriter: rewriter.single(node.op, x=inner.make(rewriter), **_any(others)),
                              _moved(node, inner.scale), _moved(node, inner.offset))
    if node.op == "concat" and not arguments(node).flag("interleave"):
        values, axis = arguments(node).tensors("values"), arguments(node).axis("axis", value.type.rank)
        parts = [_read(each, producers, deep) for each in values]
        return SamplingPlaces(
            lambda rewriter: rewriter.single("concat", values=tuple(part.make(rewriter) for part in parts), axis=axis),
            *(np.concatenate([getattr(part, name) for part in parts], axis) for name in ("scale", "offset")))
    return None


def _arithmetic(node: Node, value: Value, producers: Mapping[int, Node], deep: int) -> SamplingPlaces | None:
    x, y = node["x"], node["y"]
    constant, other = (y, x) if y.constant else (x, y)
    if not constant.constant or other.shape != value.shape or (node.op == "real_div" and constant is x):
        return None
    number, inner = _numbers(constant), _read(other, producers, deep)
    if node.op == "real_div":
        return None if not number.all() else inner.times(1 / number)
    if node.op == "mul":
        return inner.times(number)
    if node.op == "sub" and constant is y:
        return inner.plus(-number)
    return (inner.times(-1.0) if node.op == "sub" else inner).plus(number)


def _numbers(constant: Value) -> np.ndarray:
    array = constant.digits() if isinstance(constant, RoundedConstant) else constant.array()
    return array.astype(np.float64)


def _moved(node: Node, array: np.ndarray) -> np.ndarray:
    stands = Value("moved", TensorType("fp32", array.shape), array.astype(np.float32))
    moved = replace(node, operands={**node.operands, "x": stands},
                    outputs=(Value("moved", TensorType("fp32", node.output.shape)),))
    return evaluate_node(moved, {})[0].astype(np.float64)
