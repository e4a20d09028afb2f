"""Averages of windows of whole steps that become whole steps again.

Sums of few steps are whole numbers that fp16 holds, so a convolution with ones makes them as they are; what they are
divided by goes into the two factors of the rounding behind it. The average of four is in the middle between two steps
every fourth time, and of six at a border every sixth: there the even one is taken, as fp32 does more often than not.
"""

from __future__ import annotations

import math

import numpy as np

from openane.graph import Node, Value, numpy_type
from openane.ops.operands import Arguments
from openane.ops.pool import AVG_PARAMETERS, divisors, pool_window
from openane.ops.rewriter import Rewriter
from openane.ops.rounding import EXACT_WHOLE
from openane.record_classes import dataclass

ODD = 2
"""How many times larger sums may be than whole numbers that are exact: even ones are, and few averages get there."""


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Nodes that sum windows, their result, and the average: that times `factor` and, where windows hold different
    counts of elements, times a constant."""

    nodes: tuple[Node, ...]
    sums: Value
    factor: float
    shares: np.ndarray | None


def window_sums(node: Node, x: Value, most: float, names: set[str]) -> WindowSums | None:
    """The sums of an average pool of x, whole steps of at most so many; None for other nodes and sums too large."""
    window = pool_window(node.op, node.operands) if node.op == "avg_pool" else None
    if window is None or window.whole or math.prod(window.kernel) * most > ODD * EXACT_WHOLE:
        return None
    rewriter = Rewriter(node, names, node.source)
    ones = np.ones((x.shape[1], 1, *window.kernel), numpy_type(x.dtype))
    pad = [extent for axis in window.axes for extent in (axis.before, axis.after + axis.overhang)]
    sums = rewriter.single("conv", f"{node.output.name}_sums", x=x, weight=ones, strides=list(window.strides),
                           pad_type="custom", pad=pad, groups=x.shape[1])
    exclude = Arguments(node.op, AVG_PARAMETERS, node.operands).flag("exclude_padding_from_average")
    counts = divisors(window, exclude).astype(int)
    multiple = math.lcm(*map(int, np.unique(counts)))
    if multiple > EXACT_WHOLE * counts.min():
        multiple = int(counts.max())
    shares = None if (counts == counts.max()).all() else (multiple / counts)[None, None]
    return WindowSums(rewriter.made, sums, 1 / multiple, shares)
