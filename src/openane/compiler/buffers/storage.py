"""Storage while a model is lowered: virtual buffers, to which placement gives addresses later, and the constant
section."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from io import SEEK_END, BytesIO

import numpy as np

from openane.chips import Limits
from openane.engine import DType, Space
from openane.ops.lowering import ELEMENT, Tensor
from openane.program import Layout
from openane.rounding import round_up

SAMPLED = 64
"""Bytes at either end by which constants that may be equal are told apart."""
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
    """The constant section while it is made. Pieces begin at multiples of what memory accesses are aligned to; equal
    pieces of one owner are stored once."""

    def __init__(self, limits: Limits) -> None:
        self._slot, self._alignment = limits.slots.constants, limits.memory_alignment
        self._data = BytesIO()  # gives its bytes away without another copy of all weights
        self._offsets: dict[tuple[Hashable, int, bytes, bytes], list[int]] = {}

    def add(self, piece: bytes, owner: Hashable = None) -> int:
        """Offset of `piece` in the section. Pieces of different owners are kept apart even when they are equal, as
        Apple's compiler keeps the weights of two operations; tables and vectors have no owner."""
        alike = self._offsets.setdefault((owner, len(piece), piece[:SAMPLED], piece[-SAMPLED:]), [])
        for known in alike:
            self._data.seek(known)
            if self._data.read(len(piece)) == piece:
                return known
        end = self._data.seek(0, SEEK_END)
        offset = round_up(end, self._alignment)
        self._data.write(bytes(offset - end))
        self._data.write(piece)
        alike.append(offset)
        return offset

    def taken(self) -> bytes:
        """The section; nothing can be added any more."""
        data = self._data.getvalue()
        self._data.close()
        return data

    def surface(self, array: np.ndarray) -> Tensor:
        """Stores an fp16 array with its rows padded as memory accesses need them."""
        with np.errstate(over="ignore"):
            values = np.asarray(array).astype(np.float16)
        values = np.atleast_1d(values)
        width = int(values.shape[-1])
        row = round_up(width * ELEMENT, self._alignment)
        rows = np.zeros((values.size // width, row // ELEMENT), "<f2")
        rows[:, :width] = values.reshape(-1, width)
        _, strides = padded(values.shape, self._alignment)
        return Tensor(self._slot, self.add(rows.tobytes()), values.shape, strides, self._alignment)


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
