"""What two accesses to one storage have to do with each other, from their loops alone: whether one touches a byte or
lies within the other, and what it becomes when the tensor is laid out differently."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from openane.engine.access import Access, Shape

REMEMBERED = 1 << 12
Loops = tuple[tuple[int, int], ...]
"""(extent, byte stride) of each dimension of a tensor, from outermost to innermost."""


def dimensions(access: Access) -> Loops:
    """The loops of an access that visit more than one element, outermost first."""
    return _dimensions(access.shape, access.strides)


@lru_cache(maxsize=REMEMBERED)
def _dimensions(shape: Shape, strides: Shape) -> Loops:
    real = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    return tuple(sorted(real, key=lambda loop: -loop[1]))


@lru_cache(maxsize=REMEMBERED)
def nested(loops: Loops) -> bool:
    """Whether every loop steps over the whole of those inside it: then each element has one place in them."""
    inner = 1
    for extent, stride in reversed(loops):
        if stride < inner:
            return False
        inner = extent * stride
    return True


def touches(access: Access, place: int) -> bool:
    """Whether the byte `place` is one of an element the access walks; where its loops overlap, whether it lies between
    the first and the last."""
    loops = dimensions(access)
    low, high = access.span
    if not nested(loops) or access.interleave > 1:
        return low <= place < high
    rest = place - access.offset
    for extent, stride in loops:
        rest -= max(0, min(rest // stride, extent - 1)) * stride
    return 0 <= rest < access.dtype.size


def contains(access: Access, part: Access) -> bool:
    """Whether every element `part` walks is one that `access` walks; False as well where their loops do not tell."""
    return _moved(part, access, access) is not None


def relaid(access: Access, old: Access, new: Access) -> Access | None:
    """What `access` walks inside the tensor `old`, walked where the same tensor lies as `new`.

    `old` and `new` have one shape. None where a loop of `access` crosses dimensions of `old`, leaves it, or walks bytes
    that are not its elements, and where one of the three is interleaved.
    """
    found = _moved(access, old, new)
    return None if found is None else access.relocated(new.space, new.slot, *found)


def _moved(access: Access, old: Access, new: Access) -> tuple[int, Shape] | None:
    """Offset and strides of what `relaid` gives."""
    if access.interleave > 1 or old.interleave > 1 or new.interleave > 1:
        return None
    loops = _loops_within(access.shape, access.strides, old.shape, old.strides, new.strides)
    offset, rest = new.offset, access.offset - old.offset
    if loops is None or rest < 0:
        return None
    for stride, after, room in loops.steps:
        position, rest = divmod(rest, stride)
        if position > room:
            return None
        offset += position * after
    return None if rest else (offset, loops.strides)


class _Within(NamedTuple):
    """Loops inside a tensor: their strides where it lies anew, and for each dimension, outermost first, its byte stride
    then and now and the positions it leaves for where the loops begin."""

    strides: Shape
    steps: tuple[tuple[int, int, int], ...]


@lru_cache(maxsize=REMEMBERED)
def _loops_within(shape: Shape, strides: Shape, whole: Shape, before: Shape, after: Shape) -> _Within | None:
    """Loops `shape`, `strides` inside a tensor of extents `whole`, walked with the strides `after` instead of `before`;
    None where they do not fit."""
    loops = _dimensions(whole, before)
    if not nested(loops):
        return None
    renamed = {old: new for extent, old, new in zip(whole, before, after, strict=True) if extent > 1}
    room = {stride: extent - 1 for extent, stride in loops}
    walked = [0] * 5
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if extent == 1 or stride == 0:
            continue
        base = max(filter(stride.__ge__, room), default=0)
        if not base or stride % base:
            return None
        room[base] -= (extent - 1) * (stride // base)
        walked[axis] = stride // base * renamed[base]
    if min(room.values(), default=0) < 0:
        return None
    n, c, d, h, w = walked
    return _Within((n, c, d, h, w), tuple((stride, renamed[stride], left) for stride, left in room.items()))
