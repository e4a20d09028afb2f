"""Parts of norms that are written out and quantised part by part: variances and mean squares of rows, and rows of steps
or of an input, less their mean or as they are, divided by the root of steps.

A variance is a whole_spread, a quotient a whole_norm whose root is given: nothing of either is rounded before its
result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Value
from openane.ops import whole_norm
from openane.ops.arithmetic import scalar
from openane.ops.averages import Average, average_of
from openane.ops.moments import CLOSE
from openane.ops.step_norms import StepNorm, exact, few, of_rows, rows_over, size
from openane.ops.step_operands import StepOperands
from openane.ops.written_steps import in_fp32, number, stated_of

SLACK = 1e-6
"""How far what a mean multiplies a sum by may be from one by the count."""


def step_spread(node: Node, units: float, among: StepOperands) -> StepNorm | None:
    """The mean square of rows, of steps or of any numbers, or of such less their mean, that is taken `units` times and
    becomes whole steps; None for other nodes."""
    result, behind = _multiple(node.output, among.producers)
    maker = among.producers.get(id(result))
    found = None if maker is None else average_of(maker)
    if found is None or not found.square or found.root:
        return None
    value, times = _multiple(found.x, among.producers)
    factor = behind * found.factor * times ** 2  # one by the count, but for what fp16 holds of that
    x = _less_mean(value, found.axes, among.producers) or value
    steps, shape = among.known(x), rows_over(x, found.axes)
    if shape is None or not few(steps):
        return None
    share = factor * found.count
    units *= (1.0 if abs(share - 1) < CLOSE else share) * size(steps) ** 2
    return of_rows("whole_spread", x, shape, node, among, units=number("units", units), centred=x is not value)


def step_quotient(node: Node, units: float, among: StepOperands) -> StepNorm | None:
    """Rows of steps or of an input's numbers, or such less their mean, divided by the root of steps, one to a row; None
    for other nodes."""
    root = among.producers.get(id(node["y"])) if node.op == "real_div" else None
    axes = None if root is None or root.op != "sqrt" else _one_for(root["x"].shape, node["x"].shape)
    if root is None or axes is None or node["x"].shape != node.output.shape:
        return None
    x = _less_mean(node["x"], axes, among.producers) or node["x"]
    steps, spread, shape = among.known(x), among.known(root["x"]), rows_over(x, axes)
    if spread is None or shape is None or not exact(x, among):
        return None
    gain = units * size(steps) / float(np.sqrt(abs(stated_of(spread, "scale"))))
    if not 0 < abs(gain) <= whole_norm.LARGEST_GAIN:
        return None
    return of_rows("whole_norm", x, shape, node, among, root["x"],
                   gain=in_fp32("gain", np.full((1, 1, 1), gain)), centred=x is not node["x"])


def _one_for(below: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The last axes, where one number stands for all along them and each other position has its own; None where that is
    not so."""
    kept = next((place for place, extents in enumerate(zip(shape, below, strict=False)) if len(set(extents)) > 1),
                len(shape))
    return tuple(range(kept, len(shape))) if below == (*shape[:kept], *(1,) * (len(shape) - kept)) else None


def _multiple(value: Value, producers: Mapping[int, Node]) -> tuple[Value, float]:
    """What a value is so many times of."""
    factor = 1.0
    while (maker := producers.get(id(value))) is not None and maker.op == "mul" and maker["x"].shape == value.shape \
            and (times := scalar(maker["y"])) is not None:
        value, factor = maker["x"], factor * times
    return value, factor


def _less_mean(value: Value, axes: tuple[int, ...], producers: Mapping[int, Node]) -> Value | None:
    """What a value is, less its mean over these axes; None where it is something else."""
    node = producers.get(id(value))
    maker = producers.get(id(node["y"])) if node is not None and node.op == "sub" else None
    mean: Average | None = None if maker is None else average_of(maker)
    if node is None or mean is None or mean.square or mean.root or mean.x is not node["x"]:
        return None
    alike = sorted(axes) == sorted(axis for axis in mean.axes if value.shape[axis] > 1)
    return node["x"] if alike and abs(mean.factor * mean.count - 1) < max(SLACK, mean.slack) else None
