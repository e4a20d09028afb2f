"""Operands of engine operations: strided accesses to memory or to the L2 scratchpad.

An access is a set of up to five nested loops N, C, D, H, W (N is what the hardware calls a group) over elements of
one dtype. Transposes and broadcasts are nothing but strides: a dimension that is broadcast has stride 0, a result
written with channels and width swapped has its channel stride at element size. Normal form: a dimension of extent 1
has stride 0, so that equal accesses compare equal.
"""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from functools import lru_cache

from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.rounding import ceil_div

Shape = tuple[int, int, int, int, int]
"""Extents or byte strides in the order N, C, D, H, W."""

AXES = "NCDHW"
CHANNELS, DEPTH, HEIGHT, WIDTH = 1, 2, 3, 4
"""Positions of C, D, H and W in a shape."""
REMEMBERED = 1 << 12


class DType(StrEnum):
    """Element types the engine moves."""

    FLOAT16 = "fp16"
    INT8 = "int8"
    UINT8 = "uint8"

    __hash__ = str.__hash__  # an enum's own is many times slower

    @property
    def size(self) -> int:
        """Bytes per element."""
        return 2 if self is DType.FLOAT16 else 1


class Space(StrEnum):
    """Where an operand lives."""

    MEMORY = "memory"  # a buffer bound to a base-address slot
    L2 = "l2"          # the on-chip scratchpad, byte addresses
    CHAIN = "chain"    # handed over directly between consecutive operations; it has no address

    __hash__ = str.__hash__


class _Remembered:
    """What an access computes once; no part of what it is."""

    __slots__ = ("_span",)
    _span: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(_Remembered):
    """One strided operand. `offset` and `strides` are bytes; `slot` is the base-address slot of a memory
    access; in L2 it is 0 once an address is known.

    `interleave` I > 1: channels are stored in blocks of I, so element (n, c, d, h, w) lies at
    offset + n*N + (c // I)*C + d*D + h*H + w*W + (c % I)*size, with W normally I*size. With `packed` 4 it is W that is
    stored in blocks, C / I and W exchanged in this: how a result with channels and width swapped is interleaved.
    `copy`: an L2 access that receives the same elements on the way (a source kept resident, a result also stored).
    """

    space: Space = Space.MEMORY
    slot: int = 0
    offset: int = 0
    shape: Shape
    strides: Shape = (0, 0, 0, 0, 0)
    dtype: DType = DType.FLOAT16
    interleave: int = 1
    packed: int = CHANNELS
    copy: Access | None = None

    def __post_init__(self) -> None:
        if len(self.shape) != 5 or len(self.strides) != 5 or min(self.shape) < 1:
            raise ProgramError("an access needs five positive extents and five strides, "
                               f"not {self.shape}, {self.strides}")
        if self.interleave < 1:
            raise ProgramError(f"interleave must be at least 1, not {self.interleave}")
        if self.packed not in (CHANNELS, WIDTH) or (self.packed != CHANNELS and self.interleave == 1):
            raise ProgramError(f"only C, or W where elements are interleaved, is stored in blocks, not {self.packed}")
        if self.space is Space.CHAIN:
            object.__setattr__(self, "strides", (0, 0, 0, 0, 0))
            return
        extents = self.shape if self.interleave == 1 else self.blocks
        if 1 in extents:
            object.__setattr__(self, "strides", _normal(extents, self.strides))

    def relocated(self, space: Space, slot: int, offset: int, strides: Shape | None = None) -> Access:
        """The same elements elsewhere, in memory or in L2; in other strides, in normal form, where some are given."""
        return _made(space, slot, offset, self.shape, self.strides if strides is None else strides, self.dtype,
                     self.interleave, self.packed, self.copy)

    @property
    def repeats(self) -> bool:
        """Whether some dimension is broadcast: walked without moving."""
        return any(extent > 1 and stride == 0 for extent, stride in zip(self.shape, self.strides, strict=True))

    @property
    def elements(self) -> int:
        """Number of elements the loops visit (broadcast ones counted each time)."""
        n, c, d, h, w = self.shape
        return n * c * d * h * w

    @property
    def blocks(self) -> Shape:
        """Extents with the interleaved dimension counted in blocks."""
        counts = list(self.shape)
        counts[self.packed] = ceil_div(counts[self.packed], self.interleave)
        return counts[0], counts[1], counts[2], counts[3], counts[4]

    @property
    def span(self) -> tuple[int, int]:
        """Lowest byte touched and one past the highest, relative to the slot (or to the start of L2)."""
        try:
            return self._span
        except AttributeError:
            span = self._reach()
            object.__setattr__(self, "_span", span)
            return span

    def _reach(self) -> tuple[int, int]:
        below, above = _extent(self.shape if self.interleave == 1 else self.blocks, self.strides)
        last = min(self.interleave, self.shape[self.packed]) * self.dtype.size
        return self.offset + below, self.offset + above + last

    def __str__(self) -> str:
        dims = "x".join(str(extent) for extent in self.shape)
        if self.space is Space.CHAIN:
            return f"chain[{dims}]"
        place = f"slot{self.slot}" if self.space is Space.MEMORY else f"L2 block {self.slot}" if self.slot else "L2"
        text = f"{place}+0x{self.offset:x}[{dims}] strides {'/'.join(format(s, '#x') for s in self.strides)}"
        text += "" if self.dtype is DType.FLOAT16 else f" {self.dtype}"
        text += "" if self.interleave == 1 else f" interleave {self.interleave}"
        text += "" if self.packed == CHANNELS else " along W"
        return text + ("" if self.copy is None else f" (also {self.copy})")


def plain_access(space: Space, slot: int, offset: int, shape: Shape, strides: Shape, dtype: DType) -> Access:
    """An access to memory or L2 that is not interleaved, of extents of 1 at least and with strides in normal form, made
    without looking at them again."""
    return _made(space, slot, offset, shape, strides, dtype, 1, CHANNELS, None)


def _made(space: Space, slot: int, offset: int, shape: Shape, strides: Shape, dtype: DType, interleave: int,
          packed: int, copy: Access | None) -> Access:
    """An access with these values of its fields, which are not looked at."""
    made = object.__new__(Access)
    _put_space(made, space)
    _put_slot(made, slot)
    _put_offset(made, offset)
    _put_shape(made, shape)
    _put_strides(made, strides)
    _put_dtype(made, dtype)
    _put_interleave(made, interleave)
    _put_packed(made, packed)
    _put_copy(made, copy)
    return made


_put_space, _put_slot, _put_offset, _put_shape, _put_strides, _put_dtype, _put_interleave, _put_packed, _put_copy = (
    getattr(Access, field.name).__set__ for field in fields(Access))


@lru_cache(maxsize=REMEMBERED)
def _normal(extents: Shape, strides: Shape) -> Shape:
    """The strides in normal form. Remembered: the operations of a program repeat most of their loops."""
    n, c, d, h, w = [0 if extent == 1 else stride for extent, stride in zip(extents, strides, strict=True)]
    return n, c, d, h, w


@lru_cache(maxsize=REMEMBERED)
def _extent(extents: Shape, strides: Shape) -> tuple[int, int]:
    """How far loops reach below and above where they begin, in bytes."""
    reach = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
    return sum(step for step in reach if step < 0), sum(step for step in reach if step > 0)
