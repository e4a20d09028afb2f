"""Strided tensors: what `lower` functions and the compiler pass around.

A `Tensor` is a logical tensor of any rank lying somewhere in memory or L2 with one byte stride per dimension.
Transposes, slices and most reshapes only change the strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from openane.engine import DType, Space
from openane.record_classes import dataclass

ELEMENT = 2
"""Bytes per element of what the engine computes: fp16. Surfaces of one-byte elements are moved or converted."""
REMEMBERED = 1 << 12


@dataclass(frozen=True, slots=True)
class Tensor:
    """A strided view: `slot` names a buffer (or an L2 block), `offset` and `strides` are bytes, multiples of
    `alignment` wherever the engine is to address them.

    A dimension of extent 1 or one that is broadcast has stride 0. `dtype` is fp16 but for surfaces of one-byte ports.
    """

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int
    space: Space = Space.MEMORY
    dtype: DType = DType.FLOAT16

    def __post_init__(self) -> None:
        if 1 in self.shape:
            object.__setattr__(self, "strides", _normal(self.shape, self.strides))

    @property
    def element(self) -> int:
        """Bytes per element."""
        return self.dtype.size

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements, broadcast ones counted each time."""
        return prod(self.shape)

    @property
    def contiguous(self) -> int | None:
        """The dimension whose neighbours are adjacent in memory, or None."""
        element = self.element
        found = [axis for axis, stride in enumerate(self.strides) if stride == element]
        return found[0] if len(found) == 1 else None

    @property
    def aligned(self) -> bool:
        """Whether the engine can address the tensor: one contiguous dimension at most, everything else aligned."""
        element, unit = self.element, self.alignment
        if self.offset % unit or self.strides.count(element) > 1:
            return False
        return all(stride == element or stride % unit == 0 for stride in self.strides)

    def transpose(self, order: Sequence[int]) -> Tensor:
        """The same elements with dimensions reordered: new dimension i is old dimension order[i]."""
        return self.only(order)

    def only(self, dims: Sequence[int]) -> Tensor:
        """What lies at the start of every dimension but `dims`, which come in that order."""
        return self.seen(self.offset, tuple([self.shape[d] for d in dims]), tuple([self.strides[d] for d in dims]))

    def at(self, axis: int, position: int) -> Tensor:
        """What lies at one position of a dimension, without that dimension."""
        return self.part(axis, position, 1).only([d for d in range(self.rank) if d != axis])

    def seen(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        """Another view of the same storage."""
        return Tensor(self.slot, offset, shape, strides, self.alignment, self.space, self.dtype)

    def part(self, axis: int, start: int, size: int, step: int = 1) -> Tensor:
        """Elements start, start+step, ... (`size` of them) of one dimension."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis], strides[axis] = size, self.strides[axis] * step
        offset = self.offset + start * self.strides[axis]
        return self.seen(offset, tuple(shape), tuple(strides))

    def reshape(self, shape: Sequence[int]) -> Tensor | None:
        """The same elements in row-major order under another shape, or None when strides cannot express it or the
        engine could not address the result."""
        target = tuple(shape)
        if self.elements == 0 or prod(target) != self.elements:
            return None
        strides = _reshaped_strides(self.shape, self.strides, target)
        if strides is None:
            return None
        view = self.seen(self.offset, target, strides)
        return view if view.aligned or not self.aligned else None

    def expand(self, shape: Sequence[int]) -> Tensor:
        """Broadcast to `shape` by numpy's rules: missing and extent-1 dimensions get stride 0."""
        missing = len(shape) - self.rank
        own = (1,) * missing + self.shape
        strides = (0,) * missing + self.strides
        return self.seen(self.offset, tuple(shape), tuple(
            0 if mine == 1 else stride for mine, stride in zip(own, strides, strict=True)))


@lru_cache(maxsize=REMEMBERED)
def _normal(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, 0 where a dimension has one element. Remembered: tensors of a network are much alike."""
    return tuple([0 if extent == 1 else stride for extent, stride in zip(shape, strides, strict=True)])


def _reshaped_strides(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of a row-major reshape that moves nothing, or None."""
    old = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    result: list[int] = []
    room, stride = 1, 0
    for extent in reversed(target):
        if extent == 1:
            result.append(0)
            continue
        while room % extent or room < extent:
            if not old:
                return None
            outer, outer_stride = old.pop()
            if room > 1 and outer_stride != stride * room:
                return None
            stride = stride if room > 1 else outer_stride
            room *= outer
        result.append(stride)
        stride, room = stride * extent, room // extent
    return tuple(reversed(result)) if room == 1 and not old else None


def as_planes(tensor: Tensor) -> Tensor:
    """[N, C, W] as [N, C, 1, W]; [N, C, H, W] as it is."""
    if tensor.rank == 4:
        return tensor
    (n, c, w), (sn, sc, sw) = tensor.shape, tensor.strides
    return tensor.seen(tensor.offset, (n, c, 1, w), (sn, sc, 0, sw))


def plane_axis(rank: int) -> int | None:
    """The dimension that surfaces of this rank store as planes (C of N, C, H, W, right-aligned); None without one."""
    return rank - 3 if rank in (3, 4) else 1 if rank == 5 else None
