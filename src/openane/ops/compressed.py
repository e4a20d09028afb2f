"""What operations on compressed weights (constexpr_*) share: packed bits, tables, masks, scales by block.

They take constants and give constants, so compilation folds them: the engine reads fp16 weights, and the folded ones
are what an uncompressed model would state. How H13 stores palettised coefficients is not known (KernelCfg has fields
for them, no Apple-made section shows the payload), so tables are not streamed. Zeros are: stride-2 convolutions store
their weights zero-skipping, wherever they came from; at stride 1 the order of taps in that form is not proved and
weights are stored dense. Elements of fewer than 8 bits are held as int8 or uint8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.chips import Limits
from openane.graph import PACKED_BITS, Node, Value
from openane.ops.evaluate import evaluate_node
from openane.ops.lowering import Lowering
from openane.ops.operands import MAXIMUM_ELEMENTS, Arguments, refusal
from openane.ops.rules import ENGINE

FLOATS = ("fp16", "fp32")
BYTES = ("uint8", "int8", *PACKED_BITS)
INDICES = ("uint8", *(dtype for dtype in PACKED_BITS if dtype.startswith("u")))
ANY = (*BYTES, *FLOATS)


def known_operands(node: Node, limits: Limits) -> bool:
    """Its operands must be constants."""
    return all(value.constant for value in node.values())


RULES = (known_operands, *ENGINE)


def lower_constant(node: Node, lowering: Lowering) -> None:
    """Results of constants, where they are results of the model and so were not folded."""
    for value, array in zip(node.outputs, evaluate_node(node, {}), strict=True):
        lowering.bind(value, lowering.constant(array), value.shape)


def stated_shape(arguments: Arguments) -> tuple[int, ...]:
    """The operand `shape` of the forms that pack their elements into bytes."""
    data = arguments.constant("shape")
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "iu" or data.ndim != 1 or data.size > 8:
        raise refusal(arguments.op, "shape", "must be a vector of up to 8 integers")
    shape = tuple(int(extent) for extent in data)
    if min(shape, default=1) < 1 or elements(shape) > MAXIMUM_ELEMENTS:
        raise refusal(arguments.op, "shape", f"must be positive and hold at most {MAXIMUM_ELEMENTS} elements",
                      list(shape))
    return shape


def elements(shape: Sequence[int]) -> int:
    """Product of the extents, without overflow."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def require_size(arguments: Arguments, name: str, value: Value, count: int) -> None:
    """GraphError unless the vector holds `count` elements."""
    if value.shape != (count,):
        raise refusal(arguments.op, name, f"must be a vector of {count} elements", value.type)


def unpacked(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """`count` numbers of `bits` bits from bytes, low bits first, numbers across byte borders included; uint8."""
    if bits == 8:
        return data[:count]
    single = np.unpackbits(np.ascontiguousarray(data), bitorder="little", count=count * bits).reshape(count, bits)
    return np.packbits(single, axis=1, bitorder="little")[:, 0]


def require_blocks(arguments: Arguments, name: str, shape: Sequence[int], blocks: Sequence[int]) -> None:
    """GraphError unless every extent of `shape` is a multiple of that of `blocks`."""
    if len(blocks) != len(shape) or any(extent % count for extent, count in zip(shape, blocks, strict=True)):
        raise refusal(arguments.op, name, f"must divide every dimension of {list(shape)}", list(blocks))


def spread(blocks: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Values by block as values by element: every dimension repeated up to `shape`."""
    for axis, extent in enumerate(shape):
        if blocks.shape[axis] != extent:
            blocks = np.repeat(blocks, extent // blocks.shape[axis], axis)
    return blocks


def shifted(data: np.ndarray, scale: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
    """scale * (data - offset), scale and offset by block; float32."""
    wide = data.astype(np.float32)
    if offset is not None:
        wide = wide - spread(offset.astype(np.float32), data.shape)
    return np.asarray(wide * spread(scale.astype(np.float32), data.shape), np.float32)


def looked_up(indices: np.ndarray, lut: np.ndarray, vector_axis: int | None) -> np.ndarray:
    """Entries of tables by block: lut [*blocks, entries, vector], indices of the blocks' rank. Vectors run along
    `vector_axis` of the result."""
    places = np.minimum(indices.astype(np.int64), lut.shape[-2] - 1)
    vectors = [spread(lut[..., part], (*indices.shape, lut.shape[-2])) for part in range(lut.shape[-1])]
    found = [np.take_along_axis(table, places[..., None], -1)[..., 0] for table in vectors]
    if len(found) == 1:
        return found[0]
    axis = (0 if vector_axis is None else vector_axis) % indices.ndim
    joined = np.stack(found, axis + 1)
    return joined.reshape(*indices.shape[:axis], -1, *indices.shape[axis + 1:])


def lut_axis(arguments: Arguments, indices_shape: Sequence[int], lut: Value) -> int | None:
    """Checks tables [*blocks, entries, vector] against indices; the axis their vectors run along, None for single
    values. GraphError when they do not fit."""
    rank = len(indices_shape)
    if lut.type.rank != rank + 2 or rank < 1:
        raise refusal(arguments.op, "lut", f"must have two dimensions more than the {rank} of the indices", lut.type)
    require_blocks(arguments, "lut", indices_shape, lut.shape[:-2])
    entries = lut.shape[-2]
    if entries & (entries - 1) or not 2 <= entries <= 256:
        raise refusal(arguments.op, "lut", "must have 2 to 256 entries, a power of two", entries)
    if arguments.given("vector_axis"):
        axis = arguments.axis("vector_axis", rank)
        return axis if lut.shape[-1] > 1 else None
    if lut.shape[-1] > 1:
        raise refusal(arguments.op, "vector_axis", "must be given for tables of vectors")
    return None


def masked(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A tensor of the mask's shape that holds `values` in row-major order where the mask is not 0, zeros elsewhere."""
    dense = np.zeros(mask.shape, values.dtype)
    places = mask != 0
    dense[places] = values[:int(places.sum())] if values.size >= places.sum() else np.resize(values, int(places.sum()))
    return dense
