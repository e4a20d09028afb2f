"""Sums and means of a tensor over some axes, by whatever operation they are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from openane.graph import Node, Value
from openane.ops import arguments
from openane.ops.late_constant import beginning
from openane.ops.pool import pool_window
from openane.record_classes import dataclass

FEW = 8


@dataclass(frozen=True, slots=True)
class Average:
    """`factor` times the sum of x, or of its squares, over `axes`, or the root of that. `kept`: the shape of what is
    repeated in the result; `slack`: how far the factor times the count may be from 1 and mean 1."""

    x: Value
    axes: tuple[int, ...]
    factor: float
    square: bool = False
    root: bool = False
    slack: float = 0.0

    @property
    def count(self) -> int:
        """Elements to a sum."""
        return prod(self.x.shape[axis] for axis in self.axes)

    @property
    def kept(self) -> tuple[int, ...]:
        """The shape of x with 1 along the axes."""
        return tuple(1 if axis in self.axes else extent for axis, extent in enumerate(self.x.shape))


def average_of(node: Node) -> Average | None:
    """The sum or mean a node takes; None for other nodes."""
    reader = _READERS.get(node.op)
    return None if reader is None else reader(node)


def _reduction(node: Node) -> Average:
    x = node["x"]
    axes = arguments(node).axes("axes", x.type.rank)
    axes = tuple(range(x.type.rank)) if axes is None else tuple(sorted(axes))
    count = prod(x.shape[axis] for axis in axes)
    square = node.op in ("reduce_sum_square", "reduce_l2_norm")
    return Average(x, axes, 1 / count if node.op == "reduce_mean" else 1.0, square, node.op == "reduce_l2_norm")


def _pool(node: Node) -> Average | None:
    """A pool whose window is the image."""
    x, window = node["x"], pool_window(node.op, node.operands)
    axes = tuple(range(2, x.type.rank))
    if not all(axis.whole for axis in window.axes):
        return None
    return Average(x, axes, 1 / prod(x.shape[axis] for axis in axes))


def _product(node: Node) -> Average | None:
    """A product with a matrix that holds one number everywhere."""
    x, weight = node["x"], node.get("weight") or node["y"]
    if x.constant or weight.type.rank > 2 or weight.type.elements // x.shape[-1] not in (1, x.shape[-1]):
        return None
    if not _even(weight) or _given(node, "bias") or _given(node, "transpose_x"):
        return None
    return _weighted(x, (x.type.rank - 1,), float(weight.array().flat[0]))


def _convolution(node: Node) -> Average | None:
    """A 1x1 convolution that adds all channels up, alike."""
    x, weight = node["x"], node["weight"]
    if prod(weight.shape[2:]) != 1 or weight.shape[1] != x.shape[1] or weight.shape[0] not in (1, x.shape[1]):
        return None
    if node.output.shape[2:] != x.shape[2:] or not _even(weight) or _given(node, "bias"):
        return None
    return _weighted(x, (1,), float(weight.array().flat[0]))


def _given(node: Node, name: str) -> bool:
    """Whether an operand that may be left out, or be 0, says something."""
    value = node.get(name)
    return value is not None and not (value.constant and not value.array().any())


def _weighted(x: Value, axes: tuple[int, ...], factor: float) -> Average:
    """The factor is what fp16 holds of a number."""
    count = prod(x.shape[axis] for axis in axes)
    return Average(x, axes, factor, slack=max(1e-3, 2.0 ** -25 * count))


def _even(weight: Value) -> bool:
    """Whether a constant holds one number everywhere, and not 0."""
    if not weight.constant:
        return False
    first = beginning(weight, FEW)  # most differ here
    alike = bool(first.size) and bool(first[0]) and bool((first == first[0]).all())
    return alike and bool((weight.array() == first[0]).all())


_READERS: Mapping[str, Callable[[Node], Average | None]] = {
    "reduce_mean": _reduction, "reduce_sum": _reduction, "reduce_sum_square": _reduction, "reduce_l2_norm": _reduction,
    "avg_pool": _pool, "matmul": _product, "linear": _product, "conv": _convolution,
}
