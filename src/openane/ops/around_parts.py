"""What windows read of a part of the positions of an axis. Beyond the part it stands again, times so much less that
borders make numbers smaller by as much as they do in the whole: of few positions most are at a border, and what misses
all that lies beyond would seem to be far smaller behind many layers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from openane.ops.window import WindowAxis
from openane.rounding import ceil_div


@lru_cache(maxsize=1 << 8)
def around(axis: WindowAxis, extent: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Which of `extent` positions stand where the windows read that are their share of an axis, and what they are
    multiplied by, float32; None where all are by 1. What a tap reads beyond the part is in the whole beyond it as
    often as the shares leave out: windows sum numbers of either sign, whose squares add up."""
    count = max(1, axis.result * extent // axis.extent)
    size = (count - 1) * axis.stride + axis.reach
    left, seen = np.zeros(size), np.zeros(size)
    for tap in range(axis.kernel):
        first = tap * axis.dilation
        (before, behind), (all_before, all_behind) = (
            _beyond(axis, first - axis.before, *many) for many in ((count, extent), (axis.result, axis.extent)))
        ends = (before, all_before, first), (behind, all_behind, first + (count - behind) * axis.stride)
        for near, far, start in ends:
            if near:
                places = slice(start, start + near * axis.stride, axis.stride)
                left[places] += max(0.0, 1 - far * count / (near * axis.result))
                seen[places] += 1
    factors = np.sqrt(np.divide(left, seen, out=np.ones(size), where=seen > 0)).astype(np.float32)
    return np.arange(-axis.before, size - axis.before) % extent, None if (factors == 1).all() else factors


def _beyond(axis: WindowAxis, tap: int, count: int, extent: int) -> tuple[int, int]:
    """How many of so many windows read before an axis of this extent, and behind it, with the tap that the first window
    has at position `tap`."""
    before, behind = ceil_div(-tap, axis.stride), count - ceil_div(extent - tap, axis.stride)
    return min(max(0, before), count), min(max(0, behind), count)
