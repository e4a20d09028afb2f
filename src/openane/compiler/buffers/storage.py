"""Storage while a model is lowered: virtual buffers, to which placement gives addresses later, and the constant
section."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from enum import Enum

import numpy as np

from openane.chips import Limits
from openane.engine import DType, Space
from openane.ops.lowering import ELEMENT, Tensor
from openane.program import Constants, Layout
from openane.record_classes import dataclass
from openane.rounding import round_up

SAMPLED = 64
"""Bytes at either end by which constants that may be equal are told apart."""
KEPT = 1 << 20
"""Bytes from which on constants are not copied once more when all are there."""
LARGE = 1 << 25
"""Bytes from which on zeros come from the system, which makes them when they are touched; those of less memory the
process makes itself, all of them."""
FIRST_VIRTUAL_SLOT = 1000
"""Slot numbers from here on are virtual: placement replaces them."""


class BufferKind(Enum):
    """What a virtual buffer becomes."""

    SCRATCH = "scratch"
    L2 = "l2"
    PORT = "port"


@dataclass(frozen=True, slots=True)
class VirtualBuffer:
    """A buffer before it has an address: its size in bytes and what it becomes. A port also has the port's name and its
    surface."""

    size: int
    kind: BufferKind
    name: str = ""
    surface: Layout | None = None


class VirtualBuffers:
    """All virtual buffers of one program, by slot."""

    def __init__(self, table: Mapping[int, VirtualBuffer] | None = None) -> None:
        self.table = dict(table or {})

    def add(self, block: VirtualBuffer) -> int:
        """Registers a buffer and returns its virtual slot."""
        slot = FIRST_VIRTUAL_SLOT + len(self.table)
        self.table[slot] = block
        return slot

    def is_port(self, slot: int) -> bool:
        """Whether an input or output of the program is there; constants have a slot that is no buffer's."""
        return slot in self.table and self.table[slot].kind is BufferKind.PORT


class ConstantPool:
    """The constant section while it is made, in memory that is taken once for as much as is expected. Pieces begin at
    multiples of what memory accesses are aligned to; equal pieces of one owner are stored once."""

    def __init__(self, limits: Limits, expected: int = 0) -> None:
        """`expected`: about how many bytes will be added."""
        self._slot, self._alignment = limits.slots.constants, limits.memory_alignment
        self._data = _room(max(expected, KEPT))
        self._end = 0
        self._offsets: dict[tuple[Hashable, int, bytes, bytes], list[int]] = {}

    def add(self, piece: bytes) -> int:
        """Offset of `piece`, a table or vector that no operation owns, in the section."""
        return self.fill(len(piece), lambda place: np.copyto(place, np.frombuffer(piece, np.uint8)))

    def fill(self, size: int, write: Callable[[np.ndarray], None], owner: Hashable = None) -> int:
        """Offset of a piece of so many bytes, which `write` puts where it is shown zeros (uint8). Pieces of different
        owners are kept apart even when they are equal, as Apple's compiler keeps the weights of two operations."""
        offset = round_up(self._end, self._alignment)
        self._reserve(offset + size)
        piece = self._data[offset:offset + size]
        if len(self._data) < LARGE:
            self._data[self._end:offset + size] = 0
        write(piece)
        alike = self._offsets.setdefault((owner, size, piece[:SAMPLED].tobytes(), piece[-SAMPLED:].tobytes()), [])
        for known in alike:
            if np.array_equal(self._data[known:known + size], piece):
                piece[:] = 0
                return known
        self._end = offset + size
        alike.append(offset)
        return offset

    def _reserve(self, end: int) -> None:
        if end > len(self._data):
            more = _room(max(end, 2 * len(self._data)))
            more[:self._end] = self._data[:self._end]
            self._data = more

    def held(self, offset: int, size: int) -> bytes:
        """The bytes of a piece."""
        return self._data[offset:offset + size].tobytes()

    def taken(self) -> Constants:
        """The section; nothing can be added any more."""
        data, self._data = self._data[:self._end], self._data[:0]
        return data.tobytes() if len(data) < KEPT else data.data.toreadonly()

    def surface(self, array: np.ndarray) -> Tensor:
        """Stores an fp16 array with its rows padded as memory accesses need them."""
        with np.errstate(over="ignore"):
            values = np.asarray(array).astype(np.float16)
        values = np.atleast_1d(values)
        width = int(values.shape[-1])
        row = round_up(width * ELEMENT, self._alignment)
        count = values.size // width

        def write(place: np.ndarray) -> None:
            place.view("<f2").reshape(count, -1)[:, :width] = values.reshape(count, width)

        _, strides = padded(values.shape, self._alignment)
        return Tensor(self._slot, self.fill(count * row, write), values.shape, strides, self._alignment)


def _room(size: int) -> np.ndarray:
    """Memory for constants, of zeros where it is large."""
    return np.zeros(size, np.uint8) if size >= LARGE else np.empty(size, np.uint8)


def padded(shape: tuple[int, ...], align: int, order: tuple[int, ...] | None = None,
           element: int = ELEMENT) -> tuple[int, tuple[int, ...]]:
    """Size and strides of a tensor of `element`-byte elements whose rows are padded to `align` bytes.

    `order` lists dimensions from outermost to the contiguous one; None is row-major. A contiguous dimension of -1
    (order ends with -1) gives every element a cell of `align` bytes.
    """
    order = tuple(range(len(shape))) if order is None else order
    strides = [0] * len(shape)
    if order and order[-1] != -1:
        last = order[-1]
        strides[last] = element
        step = round_up(shape[last] * element, align)
        outer = order[:-1]
    else:
        step, outer = align, order[:-1]
    for d in reversed(outer):
        strides[d] = step
        step *= shape[d]
    return step, tuple(strides)


def port_layout(shape: tuple[int, ...], alignment: int, dtype: DType = DType.FLOAT16) -> Layout:
    """The surface of a tensor of rank 0 to 5: dimensions right-aligned as N, C, H, W (N, C, D, H, W for rank 5)."""
    full = surface_shape(shape)
    return Layout.packed(full, alignment, dtype)


def surface_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int, int]:
    """A logical shape as N, C, D, H, W."""
    if len(shape) == 5:
        n, c, d, h, w = shape
        return n, c, d, h, w
    n, c, h, w = (1,) * (4 - len(shape)) + shape
    return n, c, 1, h, w


def view(layout: Layout, slot: int, shape: tuple[int, ...], alignment: int) -> Tensor:
    """The tensor of logical `shape` that lies in `slot` as `layout` says (same rank rule as surface_shape)."""
    n, c, d, h, w = layout.strides
    strides = (n, c, d, h, w) if len(shape) == 5 else (n, c, h, w)[4 - len(shape):]
    return Tensor(slot, 0, shape or (1,), strides or (0,), alignment, Space.MEMORY, layout.dtype)
