"""Which constants of a node become which bytes of a program, written down while it is lowered.

Constants reach their packing as views of a node's operands: the place in memory tells which elements they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np

from openane.compiler.weights.layout_records import ConstantForm, ConstantPiece, Picked, WeightView
from openane.compiler.weights.pack import PackedCoefficients
from openane.engine import Packing
from openane.graph import Node
from openane.ops import get_op

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
        self._norms: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def packed(self, node: Node | None, packed: PackedCoefficients, offset: int, table: bool) -> None:
        """Weights of a node were stored as coefficients."""
        if node is None or not (keeps_weights(node) or get_op(node.op).channel_affine) or packed.weights is None \
                or packed.packing is Packing.PALETTE:
            self.unknown(node)
            return
        weights, bias = self._seen(node, packed.weights, 0), self._seen(node, packed.bias, 1)
        kernel = (held := node.get("weight")) is not None and held.type.rank > 2 and packed.weights.size <= PICKED
        if (weights is None and not kernel) or (bias is None and packed.bias is not None):
            self.unknown(node)
            return
        sparse = packed.form is None
        operand, view = weights or ("weight", WeightView(0, packed.weights.shape, (0,) * packed.weights.ndim))
        piece = ConstantPiece(0, offset, ConstantForm.SPARSE if sparse else ConstantForm.DENSE, view,
                              None if bias is None else bias[1], packed.lanes, table, packed.streams if sparse else ())
        self.pieces.setdefault(id(node), []).append(Traced(operand, "" if bias is None else bias[0], piece,
                                                           None if weights else packed.weights))

    def stored(self, node: Node | None, array: np.ndarray, offset: int) -> None:
        """A tensor of a node was stored as rows."""
        found = None if node is None or not get_op(node.op).stores or array.size < 2 else _view(node, array)
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

    def _seen(self, node: Node, array: np.ndarray | None, place: int) -> tuple[str, WeightView] | None:
        """The operand and the elements of it that an array is; `place` 0 of weights, 1 of biases."""
        if array is None:
            return None
        affine = get_op(node.op).channel_affine
        if affine is None:
            return _view(node, array)
        if id(node) not in self._norms:
            self._norms[id(node)] = affine(node)
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        same = base.dtype == np.float64 and np.array_equal(base.reshape(-1), self._norms[id(node)][place])
        view = _elements(base, array) if same else None
        return None if view is None else (("gain", "offset")[place], view)


def keeps_weights(node: Node) -> bool:
    """Whether the lowering of a node does not depend on the values of its weights."""
    product = get_op(node.op).product
    return product is not None and product.kept


def _merged(extents: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Extent and stride of one dimension in place of several, None where no stride says the same."""
    known = [(extent, step) for extent, step in zip(extents, strides, strict=True) if extent > 1]
    follows = all(step == inner[0] * inner[1] for (_, step), inner in pairwise(known))
    return (prod(extents), known[-1][1] if known else 0) if follows else None


def _view(node: Node, array: np.ndarray) -> tuple[str, WeightView] | None:
    """The one operand of a node whose memory an array lies in, and which elements it is."""
    found = []
    for name, operand in node.operands.items():
        for number, value in enumerate(operand if isinstance(operand, tuple) else (operand,)):
            view = _elements(value.data, array) if isinstance(value.data, np.ndarray) else None
            if view is not None:
                found.append((f"{name}.{number}" if isinstance(operand, tuple) else name, view))
    return found[0] if len(found) == 1 else None


def _elements(data: np.ndarray, array: np.ndarray) -> WeightView | None:
    """Which elements of `data`, counted as they lie in memory, an array is; None where it lies elsewhere."""
    if data.dtype != array.dtype or not data.size or not array.size or not _filled(data):
        return None
    size = data.itemsize
    first = (address(array) - address(data))
    last = first + sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True))
    if first < 0 or last + size > data.nbytes or first % size or any(step % size or step < 0 for step in array.strides):
        return None
    return WeightView(first // size, array.shape, tuple(step // size for step in array.strides))


def _filled(data: np.ndarray) -> bool:
    """Whether an array's elements lie one behind the other in memory, in the order of some of its dimensions."""
    if data.flags.c_contiguous or data.flags.f_contiguous:
        return True
    steps = sorted((step, extent) for step, extent in zip(data.strides, data.shape, strict=True) if extent > 1)
    known = data.itemsize
    for step, extent in steps:
        if step != known:
            return False
        known *= extent
    return True


def address(array: np.ndarray) -> int:
    """Where an array's first element lies in memory."""
    return int(array.__array_interface__["data"][0])
