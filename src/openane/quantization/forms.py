"""One weight in each form: the operation of MIL that gives it back, its operands, and what it gives.

    int8      constexpr_affine_dequantize: 8 bits and a scale per channel, no offset
    int8-blocks  constexpr_blockwise_shift_scale: 8 bits and a scale per channel and 32 (or so many) inputs
    int8-offsets  the same with an offset beside each scale
    int8-columns  two constexpr_blockwise_shift_scale: 8 bits, a scale and an offset per channel, of that a scale per
              input
    palette4  constexpr_lut_to_dense: 16 numbers for the whole weight, found by k-means, and 4 bits each
    palette6  the same with 64 numbers and 6 bits
    sparse    constexpr_sparse_to_dense: a bit each, and what is not 0 as it is; the smallest are made 0

Scales and numbers of palettes have the weight's own element type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.graph import TensorType, Value, mil_type
from openane.graph.mil.packed import byte_count, to_bytes
from openane.ops.compressed import shifted, spread
from openane.quantization.columns import column_scales
from openane.quantization.steps import BlockSteps, block_steps, folded, nearest_steps

BITS = {WeightForm.PALETTE4: 4, WeightForm.PALETTE6: 6}
"""Bits of a number's place in its palette."""
INT8 = 127
BLOCK = 32
"""Inputs that share a scale, unless one says otherwise."""
ROUNDS = 40
BINS = 4096
PACKED_OPSETS = frozenset(("ios16", "ios17"))
"""Opsets in which palettes and masks are bytes of bits beside the shape."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on constants: its name and operands by name, arrays with the MIL dtype of their elements."""

    name: str
    operands: Mapping[str, tuple[str, np.ndarray]]

    @property
    def size(self) -> int:
        """Bytes of its operands in a file."""
        return sum(byte_count(dtype, array.size) for dtype, array in self.operands.values())

    def values(self, name: str) -> dict[str, Value]:
        """The operands as constants of a graph, called after `name`."""
        return {key: Value(f"{name}_{key}", TensorType(dtype, array.shape), array)
                for key, (dtype, array) in self.operands.items()}


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A weight in a form: the operation that gives it back, and what that gives, in the weight's shape and type."""

    form: WeightForm
    operation: Operation
    array: np.ndarray
    bias: np.ndarray | None = None
    """What the layer adds with this weight, where that is not what it added before."""
    behind: Operation | None = None
    """Where the operation's result is not the weight yet: what makes it of that, its operand `data`."""

    @property
    def size(self) -> int:
        """Bytes in a file."""
        return self.operation.size + (0 if self.behind is None else self.behind.size)


@dataclass(frozen=True, slots=True)
class Storing:
    """What forms leave open: `zeros` is the share of numbers that the sparse form makes 0, `block` how many inputs
    share a scale of int8-blocks, and `packed` says that bits are stored as bytes, as before iOS 18."""

    zeros: float = 0.5
    block: int = BLOCK
    packed: bool = False


def store(form: WeightForm, weight: np.ndarray, axis: int, how: Storing = Storing()) -> StoredWeight:
    """A weight of fp16 or fp32 in a form. `axis` is the dimension that has a scale for each place."""
    if form is WeightForm.INT8:
        return _int8(weight, axis % weight.ndim)
    if form is WeightForm.INT8_BLOCKS:
        wide = weight.astype(np.float32, copy=False)
        scale = block_scales(wide, axis % weight.ndim, weight.dtype, how.block)
        return blocks_weight(nearest_integers(wide, spread(scale.astype(np.float32), weight.shape)), scale)
    if form is WeightForm.INT8_OFFSETS:
        wide = weight.astype(np.float32, copy=False)
        steps = block_steps(wide, axis % weight.ndim, weight.dtype, how.block)
        return offsets_weight(nearest_steps(wide, *steps.laid(weight.shape)), steps)
    if form is WeightForm.INT8_COLUMNS:
        return _int8_columns(weight, axis % weight.ndim)
    if form is WeightForm.SPARSE:
        return _sparse(weight, how.zeros, how.packed)
    return _palette(form, weight, how.packed)


def _int8(weight: np.ndarray, axis: int) -> StoredWeight:
    """Symmetric: 127 stands for the largest magnitude of the channel."""
    wide = weight.astype(np.float32, copy=False)
    scale = channel_scales(wide, axis, weight.dtype)
    return int8_weight(nearest_integers(wide, along(scale, axis, weight.ndim)), scale, axis, weight.dtype)


def channel_scales(weight: np.ndarray, axis: int, dtype: np.dtype[np.generic]) -> np.ndarray:
    """What 1 stands for in each channel, so that 127 is the largest magnitude, in an element type."""
    return scales(np.abs(weight).max(axis=tuple(d for d in range(weight.ndim) if d != axis)), dtype)


def along(scale: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """Scales [channels] as float32 of a rank, along a dimension."""
    return scale.astype(np.float32).reshape([-1 if d == axis else 1 for d in range(rank)])


def nearest_integers(numbers: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Whole numbers from -127 to 127, of the type of `numbers`, whose products with the scales are nearest."""
    return np.clip(np.rint(numbers / np.where(scale == 0, np.float32(1), scale)), -INT8, INT8)


def int8_weight(integers: np.ndarray, scale: np.ndarray, axis: int, dtype: np.dtype[np.generic]) -> StoredWeight:
    """The weight of an element type that integers and the scales of its channels stand for."""
    data = integers.astype(np.int8)
    operation = Operation("constexpr_affine_dequantize", {
        "quantized_data": ("int8", data), "zero_point": ("int8", np.zeros((), np.int8)),
        "scale": (mil_type(scale.dtype), scale), "axis": ("int32", np.array(axis, np.int32))})
    return StoredWeight(WeightForm.INT8, operation, (data * along(scale, axis, data.ndim)).astype(dtype))


def scales(largest: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray:
    """What 1 of 127 stands for where so large a magnitude is the largest, in an element type. Where the scale is so
    small that rounding it down would cut off large numbers, it is the next larger one."""
    exact = largest / np.float32(INT8)
    found = exact.astype(dtype)
    short = found.astype(np.float32) * (INT8 + 0.5) < largest
    return np.where(short, np.nextafter(found, dtype.type(np.inf)), found)


def block_scales(weight: np.ndarray, axis: int, dtype: np.dtype[np.generic], block: int = BLOCK) -> np.ndarray:
    """What 1 stands for in each block, so that 127 is its largest magnitude: blocks are one channel wide and `block`
    long in the first other dimension that can be cut so, whole in all others."""
    parts, inside = folded(weight, axis, block)
    return scales(np.abs(parts).max(inside), dtype)


def blocks_weight(integers: np.ndarray, scale: np.ndarray) -> StoredWeight:
    """The weight, of the scales' element type, that integers and the scales of their blocks stand for."""
    data = integers.astype(np.int8)
    operation = Operation("constexpr_blockwise_shift_scale", {
        "data": ("int8", data), "scale": (mil_type(scale.dtype), scale)})
    return StoredWeight(WeightForm.INT8_BLOCKS, operation, shifted(data, scale, None).astype(scale.dtype))


def offsets_weight(integers: np.ndarray, steps: BlockSteps) -> StoredWeight:
    """The weight, of the scales' element type, that integers stand for, by the steps of their blocks."""
    data = integers.astype(np.int8)
    operation = Operation("constexpr_blockwise_shift_scale", {
        "data": ("int8", data), "scale": (mil_type(steps.scale.dtype), steps.scale), "offset": ("int8", steps.offset)})
    array = shifted(data, steps.scale, steps.offset).astype(steps.scale.dtype)
    return StoredWeight(WeightForm.INT8_OFFSETS, operation, array)


def _int8_columns(weight: np.ndarray, axis: int) -> StoredWeight:
    wide = weight.astype(np.float32)
    rows = np.moveaxis(wide, axis, 0)
    found = column_scales(rows.reshape(1, rows.shape[0], -1), np.ones((1, wide.size // rows.shape[0])))
    columns = np.expand_dims(found.astype(np.float32).reshape(rows.shape[1:]), axis)
    steps = block_steps(wide / columns, axis, weight.dtype, None)
    return columns_weight(nearest_steps(wide / columns, *steps.laid(weight.shape)), steps, columns)


def columns_weight(integers: np.ndarray, steps: BlockSteps, columns: np.ndarray) -> StoredWeight:
    """The weight, of the scales' element type, that integers, the steps of its channels and the scales of its inputs
    stand for: powers of two of its rank, for one or more groups of channels."""
    rows = offsets_weight(integers, steps)
    kind = steps.scale.dtype
    array = (rows.array * spread(columns, integers.shape)).astype(kind)
    scales_each = {"scale": (mil_type(kind), columns.astype(kind))}
    behind = None if (columns == 1).all() else Operation(rows.operation.name, scales_each)
    return StoredWeight(WeightForm.INT8_COLUMNS, rows.operation, array, behind=behind)


def _palette(form: WeightForm, weight: np.ndarray, packed: bool) -> StoredWeight:
    wide = weight.astype(np.float32)
    lut = centres(wide, 2 ** BITS[form]).astype(weight.dtype)
    return palette_weight(form, places(wide, lut), lut, packed)


def places(numbers: np.ndarray, lut: np.ndarray) -> np.ndarray:
    """Which of the ascending numbers of a palette is the nearest to each."""
    wide = lut.astype(np.float32)
    return np.searchsorted((wide[1:] + wide[:-1]) / 2, numbers)


def palette_weight(form: WeightForm, indices: np.ndarray, lut: np.ndarray, packed: bool) -> StoredWeight:
    """The weight of the palette's element type whose numbers have these places in it."""
    kind, numbers, short = mil_type(lut.dtype), f"uint{BITS[form]}", indices.astype(np.uint8)
    if packed:
        data = np.frombuffer(to_bytes(short, numbers), np.uint8)
        operands = {"indices": ("uint8", data), "lut": (kind, lut), "shape": ("uint32", _extents(short))}
    else:
        operands = {"indices": (numbers, short), "lut": (kind, lut.reshape(*(1,) * short.ndim, lut.size, 1))}
    return StoredWeight(form, Operation("constexpr_lut_to_dense", operands), lut[short])


def centres(values: np.ndarray, entries: int, density: float = 1 / 3, rounds: int = ROUNDS,
            weights: np.ndarray | None = None) -> np.ndarray:
    """So many ascending numbers, float32: those of least squared error that k-means on a histogram of `values` finds,
    in which each counts as much as `weights`, of the same shape, say.
    It begins with as many of them for a number of values as a power of that, `density`, says; the cube root is best for
    many entries (Panter and Dite), 1 begins with evenly filled classes."""
    counts, edges = np.histogram(values, BINS, weights=weights)
    middles = (edges[1:] + edges[:-1]) / 2
    filled = np.cumsum(counts ** density)
    found = np.interp((np.arange(entries) + 0.5) / entries, filled / filled[-1], middles)
    for _ in range(rounds):
        classes = np.searchsorted((found[1:] + found[:-1]) / 2, middles)
        weight = np.bincount(classes, counts, entries)
        total = np.bincount(classes, counts * middles, entries)
        found = np.sort(np.where(weight > 0, total / np.maximum(weight, 1), found))
    return np.asarray(found, np.float32)


def _sparse(weight: np.ndarray, zeros: float, packed: bool) -> StoredWeight:
    """The share `zeros` of the numbers, those of the smallest magnitude, made 0: more where more are 0 already."""
    flat = weight.reshape(-1)
    dropped = min(int(zeros * flat.size), flat.size - 1)
    kept = flat != 0
    if dropped:
        kept[np.argpartition(np.abs(flat), dropped - 1)[:dropped]] = False
    if not kept.any():
        kept[0] = True  # the operation wants one number at least
    mask = kept.reshape(weight.shape)
    kind = mil_type(weight.dtype)
    if packed:
        bits = np.frombuffer(to_bytes(mask.astype(np.uint8), "uint1"), np.uint8)
        operands = {"nonzero_data": (kind, flat[kept]), "mask": ("uint8", bits), "shape": ("uint32", _extents(weight))}
    else:
        operands = {"nonzero_data": (kind, flat[kept]), "mask": ("uint1", mask.astype(np.uint8))}
    array = np.where(mask, weight, weight.dtype.type(0))
    return StoredWeight(WeightForm.SPARSE, Operation("constexpr_sparse_to_dense", operands), array)


def _extents(weight: np.ndarray) -> np.ndarray:
    return np.array(weight.shape, np.uint32)


