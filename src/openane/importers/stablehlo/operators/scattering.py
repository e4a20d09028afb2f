"""StableHLO's scatter: elements or slices written at positions, or combined with what is there.

Positions that are known become constants: sums are a product with a matrix of ones and zeros, and everything else is
gathered to where it belongs. Sums at positions that are computed are the same product with a matrix of comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.graph import Value
from openane.importers.stablehlo.operators.reductions import tried
from openane.importers.stablehlo.positions import Windows, elements, windows
from openane.importers.stablehlo.step import Handler, Result, StableStep

NAMES = ("inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
         "scatter_indices_batching_dims")
COMBINED = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "mul": np.multiply}
LARGEST_MATRIX = 1 << 22
"""Elements of the matrix that sums what is scattered."""
MOST_TURNS = 64
"""How often one position may be named."""


def _scatter(step: StableStep) -> Result:
    if len(step.operands) != 3:
        raise step.refuse("operands", len(step.operands), "one tensor, its positions and what is written there")
    numbers = step.attribute("scatter_dimension_numbers")
    window, combine = windows(step, numbers, NAMES, None), _combination(step)
    places = step.operand(1)
    if isinstance(places.held, Value):
        return _at_computed(step, window, combine)
    spread = numbers.get("update_window_dims", []) if isinstance(numbers, dict) else []
    targets = elements(step, window, step.repeated(places), spread, clipped=False).reshape(-1)
    width = _whole(targets, window.shape)
    rows, update = (step.reshaped(step.value(at), (-1, width), name) for at, name in ((0, "rows"), (2, "updates")))
    kept = np.flatnonzero(targets[::width] >= 0)
    if not len(kept):
        return step.value(0)
    found = _written(step, rows, update, targets[::width][kept] // width, kept, combine)
    return step.reshaped(found, step.shape)


def _combination(step: StableStep) -> str:
    """The operation that combines what is there with what comes, or "" where it is replaced."""
    (before, new), (found,) = tried(step, step.statement.regions[0]) if len(step.statement.regions) == 1 else \
        (([np.zeros(1)] * 2), [np.ones(1)])
    if np.array_equal(found, new):
        return ""
    for name, function in COMBINED.items():
        if before.dtype.kind != "b" and np.array_equal(found, function(before, new)):
            return name
    raise step.refuse("region", "another function", f"what is written, or one of {', '.join(COMBINED)}")


def _whole(targets: np.ndarray, shape: tuple[int, ...]) -> int:
    """How many elements that lie side by side are written together: as many as the last axes have."""
    for axis in range(len(shape)):
        width = prod(shape[axis:])
        if width and targets.size % width == 0:
            parts = targets.reshape(-1, width)
            begins = parts[:, :1]
            if (begins % width == 0)[begins >= 0].all() and \
                    ((parts - begins == np.arange(width)) | (begins < 0)).all():
                return width
    return 1


def _written(step: StableStep, rows: Value, update: Value, targets: np.ndarray, sources: np.ndarray,
             combine: str) -> Value:
    """Rows with those of `update` at `sources` written to `targets`."""
    count = rows.shape[0]
    if combine == "add" and step.kind == "float" and count * update.shape[0] <= LARGEST_MATRIX:
        matrix = np.zeros((count, update.shape[0]), np.float16)
        np.add.at(matrix, (targets, sources), 1)
        summed = step.add("matmul", "summed", x=matrix, y=update)
        return summed if rows.constant and not rows.array().any() else step.add("add", "added", x=rows, y=summed)
    turns = _turns(targets) if combine else np.zeros(len(targets), np.int64)
    if turns.max() >= MOST_TURNS:
        raise step.refuse("scatter_indices", f"a position that is named {turns.max() + 1} times",
                          f"at most {MOST_TURNS} times")
    for turn in range(int(turns.max()) + 1):
        chosen = turns == turn
        origin, mask = np.zeros(count, np.int32), np.zeros((count, 1), np.bool_)
        origin[targets[chosen]], mask[targets[chosen]] = sources[chosen], True
        moved = step.add("gather", "moved", x=update, indices=origin, axis=0)
        if combine:
            moved = step.add(combine, "combined", x=rows, y=moved)
        rows = moved if mask.all() else step.add("select", "chosen", cond=mask, a=moved, b=rows)
    return rows


def _turns(targets: np.ndarray) -> np.ndarray:
    """How often each target was named before."""
    order = np.argsort(targets, kind="stable")
    turns = np.empty(len(targets), np.int64)
    turns[order] = np.arange(len(targets)) - np.searchsorted(targets[order], targets[order])
    return turns


def _at_computed(step: StableStep, window: Windows, combine: str) -> Value:
    """Whole slices of the first axis added at positions that are computed."""
    shape, places, update = window.shape, step.operand(1), step.operand(2)
    one = window.mapped == window.left_out == (0,) and not window.batched and window.sizes[1:] == shape[1:]
    numbers = step.attribute("scatter_dimension_numbers")
    behind = list(range(len(update.shape) - len(shape) + 1, len(update.shape)))
    if combine != "add" or not one or step.kind == "bool" or list(numbers.get("update_window_dims", [])) != behind:
        raise step.refuse("scatter_indices", "computed", "constants, or whole slices of axis 0 that are added")
    count = prod(places.shape)
    index = step.reshaped(step.as_value(places), (count, 1), "places")
    same = step.add("equal", "same", x=index, y=np.arange(shape[0], dtype=np.int32))
    hits = step.cast(same, "fp16", "hits")
    rows = step.cast(step.reshaped(step.as_value(update), (count, -1), "updates"), "fp16", "numbers")
    summed = step.reshaped(step.add("matmul", "summed", x=hits, y=rows, transpose_x=True), shape, "parts")
    return step.add("add", x=step.value(0), y=step.matched(summed, step.kind, "sums"))


OPERATORS: Mapping[str, Handler] = {"scatter": _scatter}
