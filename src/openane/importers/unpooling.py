"""Maxima put back where they were found, as SegNet's decoder does: of windows that do not overlap.

No position is computed. What was pooled is compared with its maxima, which says where these were; of equal numbers in a
window the first is taken, row by row, as PyTorch and ONNX Runtime do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.step import ImportStep
from openane.ops.pool import LOWEST
from openane.record_classes import dataclass

Shares = Mapping[tuple[int, ...], Value]
"""What goes to each place of a window."""


@dataclass(frozen=True, slots=True)
class PooledPlaces:
    """Where the maxima of x [N, C, *spatial] were found: kernel, strides and what lies before each axis."""

    x: Value
    maxima: Value
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def spatial(self) -> tuple[int, ...]:
        """Extents of what was pooled."""
        return self.x.shape[2:]


def unpooled(step: ImportStep, y: Value, places: PooledPlaces, extents: Sequence[int]) -> Value:
    """Zeros [N, C, *extents] but for y [N, C, ...] where the maxima of windows were. UnsupportedError where windows
    overlap, or the extents count positions in another way than those of what was pooled."""
    if y.type.elements != places.maxima.type.elements:
        raise UnsupportedError(step.label, "a number is put back for every maximum", found=list(y.shape),
                               limit=list(places.maxima.shape))
    if any(size > stride for size, stride in zip(places.kernel, places.strides, strict=True)):
        raise UnsupportedError(step.label, "windows whose maxima are put back must not overlap",
                               found=list(places.kernel), limit=list(places.strides),
                               remedy="nn.Upsample, or a transposed convolution")
    wanted = _along(places, extents)
    if wanted is None:
        raise UnsupportedError(step.label, "positions in rows of another length are other positions",
                               found=list(extents), remedy=f"state the size of what was pooled, {list(places.spatial)}")
    planes, count = prod(places.x.shape[:2]), places.maxima.shape[2:]
    whole = [number * stride for number, stride in zip(count, places.strides, strict=True)]
    x = _fitted(step, step.reshaped(places.x, (planes, *places.spatial), "pooled"), places.before, whole, LOWEST)
    y, maxima = (step.reshaped(value, (planes, *count), part) for value, part in ((y, "given"),
                                                                                  (places.maxima, "maxima")))
    found = _interleaved(step, _shares(step, x, y, maxima, places), places)
    return _fitted(step, found, [-before for before in places.before], wanted, 0.0)


def _along(places: PooledPlaces, extents: Sequence[int]) -> tuple[int, ...] | None:
    """The extents of the result along each axis of what was pooled; None where rows would have another length. Axes of
    one element may stand elsewhere."""
    given, real = [extent for extent in extents if extent > 1], [extent > 1 for extent in places.spatial]
    if len(given) != sum(real):
        return None
    left = iter(given)
    wanted = tuple(next(left) if several else 1 for several in real)
    rows = [(own, other) for own, other, several in zip(places.spatial, wanted, real, strict=True) if several][1:]
    return wanted if all(own == other for own, other in rows) else None


def _fitted(step: ImportStep, x: Value, before: Sequence[int], extents: Sequence[int], fill: float) -> Value:
    """x [planes, *spatial] with so many numbers before each axis, fewer where that is negative, and cut or filled up
    behind to the extents."""
    shape = x.shape[1:]
    begin = [max(0, -count) for count in before]
    end = [min(own, extent - count) for own, extent, count in zip(shape, extents, before, strict=True)]
    if any(begin) or tuple(end) != tuple(shape):
        x = step.add("slice_by_index", "inside", x=x, begin=[0, *begin], end=[x.shape[0], *end])
    pads = [(max(0, count), extent - max(0, count) - (last - first))
            for count, extent, first, last in zip(before, extents, begin, end, strict=True)]
    if not any(map(any, pads)):
        return x
    spread = [side for pair in ((0, 0), *pads) for side in pair]
    return step.add("pad", "filled", x=x, pad=spread, mode="constant", constant_val=fill)


def _shares(step: ImportStep, x: Value, y: Value, maxima: Value, places: PooledPlaces) -> Shares:
    """By the place in a window: y where the maximum was there and nowhere before it, else 0."""
    shares, left = {}, None
    taps = list(product(*map(range, places.kernel)))
    for tap in taps[:-1]:
        name = "_".join(map(str, tap))
        part = step.add("slice_by_index", f"tap{name}", x=x, begin=[0, *tap], end=list(x.shape),
                        stride=[1, *places.strides])
        here = step.add("cast", f"here{name}", x=step.add("equal", f"equal{name}", x=part, y=maxima), dtype="fp16")
        if left is not None:
            here = step.add("mul", f"first{name}", x=here, y=left)
        left = step.add("sub", f"left{name}", x=1.0 if left is None else left, y=here)
        shares[tap] = step.add("mul", f"share{name}", x=y, y=here)
    shares[taps[-1]] = y if left is None else step.add("mul", "share", x=y, y=left)
    return shares


def _interleaved(step: ImportStep, shares: Shares, places: PooledPlaces) -> Value:
    """The shares of every place beside each other, axis by axis, the last first."""
    for axis in reversed(range(len(places.kernel))):
        size, stride = places.kernel[axis], places.strides[axis]
        joined = {}
        for tap in product(*map(range, places.kernel[:axis])):
            parts = [shares[(*tap, place)] for place in range(size)]
            name = f"{axis}_{'_'.join(map(str, tap))}"
            shape = parts[0].shape
            value = parts[0]
            if stride > 1:
                value = step.add("stack", f"beside{name}", values=tuple(parts), axis=axis + 2)
            if stride > size:
                pad = [0, 0] * (axis + 2) + [0, stride - size] + [0, 0] * (value.type.rank - axis - 3)
                value = step.add("pad", f"apart{name}", x=value, pad=pad, mode="constant", constant_val=0.0)
            wanted = (*shape[:axis + 1], shape[axis + 1] * stride, *shape[axis + 2:])
            joined[tap] = step.reshaped(value, wanted, f"joined{name}")
        shares = joined
    return shares[()]
