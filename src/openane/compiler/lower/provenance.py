"""Which constants of a node become which bytes of a program, written down while it is lowered.

The lowering of a node is given its constants as arrays that carry a tag (see `constant_arrays`): when they come to be
packed it says which elements of which constant they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np

from openane.compiler.lower.constant_arrays import ConstantArray, elements
from openane.compiler.weights.layout_records import ConstantForm, ConstantPiece, Picked, WeightView
from openane.compiler.weights.pack import PackedCoefficients
from openane.engine import Packing
from openane.engine.changing import with_fields
from openane.graph import Node, TensorType, Value
from openane.ops import get_op
from openane.record_classes import dataclass

AFFINE = ("gain", "offset")
"""What a node that is nothing but that does to each channel."""
PICKED = 1 << 20
"""Weights of a kernel that is laid out anew are followed one by one up to this many."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A piece as a node's lowering stored it: which operand it is made of, and which the biases. `weights` is what was
    packed where that is no view of an operand; the piece's own view says nothing then."""

    operand: str
    bias: str
    piece: ConstantPiece
    weights: np.ndarray | None = None

    def picked(self, numbers: np.ndarray) -> Traced:
        """The same, its weights known to be those elements."""
        return replace(self, piece=replace(self.piece, weights=Picked(numbers)), weights=None)


class Provenance:
    """What became of the constants of each node that is lowered, by id(node)."""

    def __init__(self) -> None:
        self.pieces: dict[int, list[Traced]] = {}
        self.lost: set[int] = set()
        self._tagged: dict[int, Value] = {}

    def tagged(self, node: Node) -> Node:
        """The node with constants that can be told again; each has one array, whoever reads it."""
        operands = {name: tuple(map(self._known_again, operand)) if isinstance(operand, tuple) else
                    self._known_again(operand) for name, operand in node.operands.items()}
        return Node(node.op, operands, node.outputs, node.name, node.source)

    def latest(self, value: Value) -> Value:
        """The value by which lowered nodes name a constant."""
        return self._tagged.get(id(value), value)

    def channel_affine(self, node: Node) -> tuple[np.ndarray, np.ndarray]:
        """The gain and the offset of each channel, which can be told again."""
        affine = get_op(node.op).channel_affine
        assert affine is not None, "asked of nodes that are nothing but gain and offset"
        gain, offset = (ConstantArray.of(Value(name, TensorType("fp64", array.shape), array))
                        for name, array in zip(AFFINE, affine(node), strict=True))
        return gain, offset

    def _known_again(self, value: Value) -> Value:
        if not isinstance(value.data, np.ndarray) or value.data.dtype.kind != "f":
            return value
        if id(value) not in self._tagged:
            self._tagged[id(value)] = with_fields(value, {"data": ConstantArray.of(value)})
        return self._tagged[id(value)]

    def packed(self, node: Node | None, packed: PackedCoefficients, offset: int, table: bool) -> None:
        """Weights of a node were stored as coefficients."""
        traced = None if node is None or packed.packing is Packing.PALETTE else _traced(node, packed, offset, table)
        if node is None or traced is None:
            self.unknown(node)
        else:
            self.pieces.setdefault(id(node), []).append(traced)

    def shift_coefficients(self, start: int) -> None:
        """Coefficients lie behind the first `start` bytes of the constants."""
        for pieces in self.pieces.values():
            pieces[:] = [each if each.piece.form is ConstantForm.ROWS else
                         replace(each, piece=replace(each.piece, offset=start + each.piece.offset)) for each in pieces]

    def stored(self, node: Node | None, array: np.ndarray, offset: int) -> None:
        """A tensor of a node was stored as rows."""
        found = None if node is None or not get_op(node.op).stores or array.size < 2 else _operand(node, array)
        if node is None or found is None:
            self.unknown(node)
            return
        name, view = found
        width = view.shape[-1]
        rows = _merged(view.shape[:-1], view.strides[:-1])
        if rows is None:
            self.unknown(node)
            return
        seen = WeightView(view.offset, (rows[0], width), (rows[1], view.strides[-1]))
        self.pieces.setdefault(id(node), []).append(Traced(name, "", ConstantPiece(0, offset, ConstantForm.ROWS, seen)))

    def unknown(self, node: Node | None) -> None:
        """Something was stored for a node that may be made of its constants."""
        if node is not None:
            self.lost.add(id(node))


def _traced(node: Node, packed: PackedCoefficients, offset: int, table: bool) -> Traced | None:
    """What weights and biases are made of; None where that is not known."""
    if packed.weights is None or not (keeps_weights(node) or get_op(node.op).channel_affine):
        return None
    weights, (of_bias, bias) = _operand(node, packed.weights), _operand(node, packed.bias) or ("", None)
    if (bias is None and packed.bias is not None) or (weights is None and not _is_kernel(node, packed.weights)):
        return None
    operand, view = weights or ("weight", WeightView(0, packed.weights.shape, (0,) * packed.weights.ndim))
    form, streams = (ConstantForm.SPARSE, packed.streams) if packed.form is None else (ConstantForm.DENSE, ())
    piece = ConstantPiece(0, offset, form, view, bias, packed.lanes, table, streams)
    return Traced(operand, of_bias, piece, None if weights else packed.weights)


def _is_kernel(node: Node, weights: np.ndarray) -> bool:
    """Whether weights are those of a kernel, and few enough to be followed one by one."""
    held = node.get("weight")
    return held is not None and held.type.rank > 2 and weights.size <= PICKED


def keeps_weights(node: Node) -> bool:
    """Whether the lowering of a node does not depend on the values of its weights."""
    product = get_op(node.op).product
    return product is not None and product.kept


def _merged(extents: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Extent and stride of one dimension in place of several, None where no stride says the same."""
    known = [(extent, step) for extent, step in zip(extents, strides, strict=True) if extent > 1]
    follows = all(step == inner[0] * inner[1] for (_, step), inner in pairwise(known))
    return (prod(extents), known[-1][1] if known else 0) if follows else None


def _operand(node: Node, array: np.ndarray | None) -> tuple[str, WeightView] | None:
    """The one operand of a node whose elements an array is, and which: a name, with a number where the operand is
    several tensors; of a node that is nothing but gain and offset, these."""
    found = None if array is None else elements(array)
    if found is None:
        return None
    value, view = found
    if value.name in AFFINE and get_op(node.op).channel_affine is not None:
        return value.name, view
    names = [f"{name}.{number}" if isinstance(operand, tuple) else name for name, operand in node.operands.items()
             for number, each in enumerate(operand if isinstance(operand, tuple) else (operand,)) if each is value]
    return (names[0], view) if len(names) == 1 else None
