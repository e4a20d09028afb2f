"""Convolutions of a part of the positions of an image, in few steps: a network has a hundred, each of few windows, and
what is done around their products takes longer than these."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from openane.graph import Node
from openane.ops.around_parts import around
from openane.ops.half_bits import from_half
from openane.ops.kept_windows import window_of
from openane.ops.window import WindowAxis
from openane.record_classes import dataclass

FEW = 1 << 10
"""Numbers that all windows read of one channel, up to which they are picked out one by one; of more it is quicker to
pick out the positions they read, and to copy rows of these."""
MOST = 1 << 20
"""Numbers that all windows read which are laid out at once."""
KEPT = 1 << 6
"""Forms of windows whose places are kept."""
LONGEST = 1 << 14
"""Places that are kept, of one form."""

Axes = tuple[WindowAxis, ...]
Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Places:
    """Which positions of a part are read, and what these are multiplied by, float32; None where all are by 1. No places
    are all of them, as they are. `around`: the extents of what is read, where windows slide over that; None where each
    window has its places, tap by tap."""

    places: np.ndarray | None
    shares: np.ndarray | None
    around: Extents | None
    results: Extents


def convolved_in_part(node: Node, part: np.ndarray) -> np.ndarray | None:
    """What a convolution with constants makes of a part, float32, of the positions of its x, none of the channels
    missing; None of many windows."""
    axes, extents = window_of(node).axes, part.shape[2:]
    if prod(extents) > LONGEST:
        return None
    found = _places(axes, extents)
    if prod(part.shape[:2]) * prod(axis.kernel for axis in axes) * prod(found.results) > MOST:
        return None
    made = _product(node, _read(part, axes, found))
    if (bias := node.get("bias")) is not None:
        np.add(made, from_half(bias.array()).reshape(-1, 1), out=made)
    return made.reshape(*made.shape[:2], *found.results)


def _read(part: np.ndarray, axes: Axes, found: _Places) -> np.ndarray:
    """What every window reads of every channel, [N, C, ...] with the taps before the windows."""
    flat = part.reshape(*part.shape[:2], -1)
    if found.places is not None:
        flat = flat.take(found.places, axis=2, mode="clip")  # all are inside
        if found.shares is not None:
            np.multiply(flat, found.shares, out=flat)
    if found.around is None:
        return flat
    wide = flat.reshape(*part.shape[:2], *found.around)
    own, steps = wide.strides[2:], tuple(axis.stride for axis in axes)
    taps = tuple(axis.dilation * step for axis, step in zip(axes, own, strict=True))
    moves = tuple(stride * step for stride, step in zip(steps, own, strict=True))
    return np.lib.stride_tricks.as_strided(
        wide, (*part.shape[:2], *(axis.kernel for axis in axes), *found.results), (*wide.strides[:2], *taps, *moves))


def _product(node: Node, read: np.ndarray) -> np.ndarray:
    """The channels of every window, in a row."""
    numbers, groups = from_half(node["weight"].array()), node.get("groups")
    count, images = 1 if groups is None else int(groups.array()), len(read)
    rows = numbers.reshape(count, len(numbers) // count, -1)
    columns = read.reshape(images, count, rows.shape[2], -1)
    made: np.ndarray = rows[0] @ columns[0, 0] if images == count == 1 else np.matmul(rows, columns)
    return made.reshape(images, len(numbers), -1)


@lru_cache(maxsize=KEPT)
def _places(axes: Axes, extents: Extents) -> _Places:
    """What the share of the windows reads that parts of these extents have."""
    places, shares, read = np.zeros((), np.intp), np.ones((), np.float32), list[np.ndarray]()
    for axis, extent in zip(axes, extents, strict=True):
        at, times = _along(axis, extent)
        places, shares = np.add.outer(places * extent, at), np.multiply.outer(shares, times)
        count = (len(at) - axis.reach) // axis.stride + 1
        read.append((np.arange(axis.kernel) * axis.dilation)[:, None] + np.arange(count) * axis.stride)
    results, wide = tuple(each.shape[1] for each in read), places.shape
    if all(axis.kernel == 1 for axis in axes) or prod(each.size for each in read) <= FEW:
        places, shares, wide = _picked(places, read), _picked(shares, read), ()
    flat, plain = places.ravel(), bool((shares == 1).all())
    whole = plain and len(flat) == prod(extents) and bool((flat == np.arange(len(flat))).all())
    return _Places(None if whole else flat, None if plain else shares.ravel(), wide or None, results)


def _picked(numbers: np.ndarray, read: list[np.ndarray]) -> np.ndarray:
    """Of numbers by position what each tap of each window reads, [*taps, *windows]; by axis what is `read` of it."""
    shape = tuple(extent for each in read for extent in each.shape)
    taps_first = *range(0, len(shape), 2), *range(1, len(shape), 2)
    picked: np.ndarray = numbers[np.ix_(*map(np.ravel, read))]
    return picked.reshape(shape).transpose(taps_first)


def _along(axis: WindowAxis, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of so many positions of an axis are read, and what they are multiplied by: zeros around what is whole."""
    if axis.extent != extent:
        at, times = around(axis, extent)
        return at, np.ones(len(at), np.float32) if times is None else times
    at = np.arange(-axis.before, extent + axis.after)
    return np.clip(at, 0, extent - 1), ((at >= 0) & (at < extent)).astype(np.float32)
