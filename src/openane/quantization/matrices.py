"""A layer's weight as matrices that multiply vectors: what a convolution or a product with a constant does to numbers.

Calibrated rounding works on rows of outputs and columns of inputs. Other layers (recurrent ones, tables, transposed
convolutions, weights that several nodes share) have no such view here and are rounded to the nearest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from openane.graph import Node, Value
from openane.ops import get_op
from openane.ops.conv import conv_window, patches
from openane.ops.window import Window
from openane.quantization.layers import Layer

MOST_ROWS = 4096
"""Windows of an image that are looked at for one sample: evenly spread ones where there are more."""
MOST_INPUTS = 8192
"""Columns a matrix can have: more need half a gigabyte for their second moments."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """The weight of a node as `groups` matrices [outputs, inputs]: its dimensions in `order` (outputs first), reshaped.
    `biased` says whether the node adds a constant to every output; `other` is the operand multiplied with, `turned`
    where its vectors are columns, `windows` where they are what a convolution sees."""

    node: Node
    order: tuple[int, ...]
    groups: int
    biased: bool
    other: str = "x"
    turned: bool = False
    windows: bool = False

    def rows(self, weight: np.ndarray) -> np.ndarray:
        """A weight [...] as matrices [groups, outputs, inputs] of float64."""
        turned = weight.transpose(self.order)
        return turned.reshape(self.groups, turned.shape[0] // self.groups, -1).astype(np.float64)

    def weight(self, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Matrices as a weight of a shape again."""
        turned = rows.reshape([shape[dimension] for dimension in self.order])
        return np.ascontiguousarray(turned.transpose(np.argsort(self.order)))

    def vectors(self, arrays: Mapping[int, np.ndarray]) -> np.ndarray:
        """What the matrices are multiplied with, [groups, vectors, inputs] float32, of operands by id(value)."""
        x = arrays[id(self.node[self.other])]
        if self.windows:
            return self._windows(x)
        vectors = np.swapaxes(x, -1, -2) if self.turned else x
        return np.asarray(vectors, np.float32).reshape(1, -1, vectors.shape[-1])

    def results(self, array: np.ndarray) -> np.ndarray:
        """What has the shape of the node's result, as `vectors` has what it reads: [groups, vectors, outputs]
        float32."""
        y = np.asarray(array, np.float32)
        if not self.windows:
            vectors = np.swapaxes(y, -1, -2) if self.other == "y" else y
            return vectors.reshape(1, -1, vectors.shape[-1])
        window = conv_window(self.node.operands)
        looked = y[self._looked(window)]
        grouped = looked.reshape(looked.shape[0], self.groups, -1, *looked.shape[2:])
        last = (1, 0, *range(3, grouped.ndim), 2)
        return np.ascontiguousarray(grouped.transpose(last)).reshape(self.groups, -1, grouped.shape[2])

    def _looked(self, window: Window) -> tuple[slice, ...]:
        """The windows of each channel that are looked at."""
        space = len(window.axes)
        step = int(np.ceil((prod(window.results) / MOST_ROWS) ** (1 / space)))
        return (slice(None), slice(None), *(slice(None, None, step),) * space)

    def _windows(self, x: np.ndarray) -> np.ndarray:
        window = conv_window(self.node.operands)
        space = len(window.axes)
        views = patches(np.asarray(x, np.float32), window)[self._looked(window)]
        grouped = views.reshape(views.shape[0], self.groups, -1, *views.shape[2:])
        places = (0, *range(3, 3 + space))
        taps = tuple(range(3 + space, 3 + 2 * space))
        columns = grouped.transpose(1, *places, 2, *taps)
        inputs = grouped.shape[2] * prod(window.kernel for window in window.axes)
        return np.ascontiguousarray(columns).reshape(self.groups, -1, inputs)


def matrices_of(layer: Layer) -> Matrices | None:
    """A layer's weight as matrices; None where there is no such view."""
    node, weight = layer.nodes[0], layer.weight
    if len(layer.nodes) > 1 or weight.type.rank < 2:
        return None
    if get_op(node.op).product is None:
        return None
    if node.get("y") is not None:
        found = _product(node, weight, layer.axis)
    elif weight.type.rank == 2:
        found = _linear(node, weight, layer.axis)
    else:
        found = _convolution(node, weight) if layer.axis == 0 else None
    if found is None or weight.type.elements // weight.shape[found.order[0]] > MOST_INPUTS:
        return None
    return found


def _convolution(node: Node, weight: Value) -> Matrices | None:
    if node["weight"] is not weight or node["x"] is weight:
        return None
    groups = node.get("groups")
    return Matrices(node, tuple(range(weight.type.rank)), 1 if groups is None else int(groups.array()), _biased(node),
                    windows=True)


def _linear(node: Node, weight: Value, axis: int) -> Matrices | None:
    return None if weight.type.rank != 2 or node["x"].constant else Matrices(node, (axis, 1 - axis), 1, _biased(node))


def _product(node: Node, weight: Value, axis: int) -> Matrices | None:
    right = node["y"] is weight
    name = "x" if right else "y"
    if weight.type.rank != 2 or node[name].constant or node[name].type.rank < 2:
        return None
    turned = _flag(node, "transpose_x") if right else not _flag(node, "transpose_y")
    return Matrices(node, (axis, 1 - axis), 1, False, name, turned)


def _biased(node: Node) -> bool:
    bias = node.get("bias")
    return bias is not None and isinstance(bias.data, np.ndarray)


def _flag(node: Node, name: str) -> bool:
    flag = node.get(name)
    return flag is not None and bool(flag.array().any())
