"""What is seen through each place of a sliding window, for windows that no operation of MIL slides.

A tap is one place of the kernel: a strided slice of the padded input. Pools with gaps fold their taps one after the
other; convolutions by computed weights are products of the weights with the taps side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.step import ImportStep

MOST_TAPS = 1024

Pairs = list[tuple[int, int]]
"""Padding before and after each spatial axis."""


def reach(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Elements from the first place of a window with gaps to its last, along each axis."""
    return [(extent - 1) * dilation + 1 for extent, dilation in zip(kernel, dilations, strict=True)]


def window_taps(step: ImportStep, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
                pairs: Pairs, results: Sequence[int], fill: float) -> list[Value]:
    """x [N, C, *spatial] under each tap, [N, C, *results], in row-major order of the kernel; padding holds `fill`.
    UnsupportedError beyond MOST_TAPS."""
    if prod(kernel) > MOST_TAPS:
        raise UnsupportedError(step.label, "the kernel has too many taps to be taken apart", limit=MOST_TAPS,
                               found=prod(kernel), remedy="constant weights and no gaps, or a smaller kernel")
    last = [(count - 1) * stride + length for count, stride, length
            in zip(results, strides, reach(kernel, dilations), strict=True)]
    wide = [(before, max(after, need - extent - before))
            for (before, after), need, extent in zip(pairs, last, x.shape[2:], strict=True)]
    if any(map(any, wide)):
        pad = (0, 0, 0, 0, *(count for pair in wide for count in pair))
        x = step.add("pad", part="padded", x=x, pad=pad, mode="constant", constant_val=fill)
    found = []
    for tap in product(*map(range, kernel)):
        begin = [place * dilation for place, dilation in zip(tap, dilations, strict=True)]
        end = [start + (count - 1) * stride + 1 for start, count, stride in zip(begin, results, strides, strict=True)]
        found.append(step.add("slice_by_index", part="tap", x=x, begin=(0, 0, *begin), end=(*x.shape[:2], *end),
                              stride=(1, 1, *strides)))
    return found
