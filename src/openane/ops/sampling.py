"""Where resized dimensions are sampled, and the interpolation that follows as a matrix.

Sampling modes are Core ML's; a grid lists the positions in the source, fractions between elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from openane.ops.lowering import Lowering, Tensor
from openane.ops.movement import taken_along

MODES = ("DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "OFFSET_CORNERS", "UNALIGN_CORNERS")

NEIGHBOURS = 2
"""Elements that an interpolated one is summed of, along one dimension."""


def grid(mode: str, extent: float, results: int) -> np.ndarray:
    """Positions of `results` samples in a source of `extent` elements, unclipped, float64."""
    steps = np.arange(results, dtype=np.float64)
    if mode in ("ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"):
        if results == 1:
            return np.full(1, (extent - 1) / 2 if mode == "ALIGN_CORNERS" else 0.0)
        return steps * (extent - 1) / (results - 1)
    if mode == "OFFSET_CORNERS":
        delta = max(1.0, extent - 1) / results
        return (steps + 0.5) * delta
    if mode == "UNALIGN_CORNERS":
        return (steps + 0.5) * extent / results - 0.5
    return steps * extent / results


def linear(positions: np.ndarray, extent: int) -> np.ndarray:
    """The matrix [positions, extent] of linear interpolation, positions beyond the ends clipped to them; float64."""
    at = positions.clip(0, extent - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, extent - 1)
    share = at - low
    matrix = np.zeros((len(at), extent))
    rows = np.arange(len(at))
    np.add.at(matrix, (rows, low), 1 - share)
    np.add.at(matrix, (rows, high), share)
    return matrix


def nearest(positions: np.ndarray, extent: int) -> np.ndarray:
    """The element nearest to each position, the later one where two are equally near."""
    return np.floor(positions + 0.5).clip(0, extent - 1).astype(np.int64)


def picks(matrix: np.ndarray) -> np.ndarray | None:
    """The elements a matrix selects when every row is one 1 among zeros, else None."""
    single = ((matrix == 1).sum(axis=1) == 1) & ((matrix != 0).sum(axis=1) == 1)
    return matrix.argmax(axis=1) if single.all() else None


def mapped(array: np.ndarray, matrices: Mapping[int, np.ndarray]) -> np.ndarray:
    """The array with matrix [results, elements] applied to each of the dimensions, in its element type."""
    result = array.astype(np.float64)
    for axis, matrix in matrices.items():
        result = np.moveaxis(np.tensordot(matrix, result, (1, axis)), 0, axis)
    return result.astype(array.dtype)


def lower_maps(lowering: Lowering, source: Tensor, matrices: Mapping[int, np.ndarray],
               place: Callable[[], Tensor]) -> Tensor:
    """The source with a matrix applied to each of the dimensions: positions picked by copies or views, sums by 1x1
    convolutions whose channels are the dimension, those that leave fewest elements first.

    Rows of what one convolution makes run along the dimension it made, so that the next can read its own as planes.
    """
    chosen = {axis: found for axis, matrix in matrices.items() if (found := picks(matrix)) is not None}
    mixed = {axis: matrix for axis, matrix in matrices.items() if axis not in chosen}
    if not mixed:
        return taken_along(lowering, source, chosen, place)
    order = sorted(mixed, key=lambda d: _growth(mixed[d], d == source.contiguous))
    fewer = {axis: at for axis, at in chosen.items() if len(at) <= source.shape[axis]}
    shape = [len(fewer.get(d, range(extent))) for d, extent in enumerate(source.shape)]
    tensor = taken_along(lowering, source, fewer, lambda: lowering.scratch(shape))
    later = {axis: at for axis, at in chosen.items() if axis not in fewer}
    *others, last = order
    for axis in others:
        tensor = _mixed(lowering, tensor, axis, mixed[axis])
    if later:
        return taken_along(lowering, _mixed(lowering, tensor, last, mixed[last]), later, place)
    target = place()
    lowering.mix(target, tensor, last, mixed[last])
    return target


def _mixed(lowering: Lowering, source: Tensor, axis: int, matrix: np.ndarray) -> Tensor:
    """The source with a matrix applied to one dimension, along which the rows of what is made run."""
    shape = [len(matrix) if d == axis else extent for d, extent in enumerate(source.shape)]
    target = lowering.scratch(shape, (*(d for d in range(len(shape)) if d != axis), axis))
    lowering.mix(target, source, axis, matrix)
    return target


def _growth(matrix: np.ndarray, row: bool) -> tuple[float, bool]:
    """Order of maps: shrinking ones first, then those that need no turned copy."""
    return len(matrix) / matrix.shape[1], row
