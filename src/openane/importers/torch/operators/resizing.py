"""PyTorch operators that give images another size: nearest neighbours, bilinear, smooth forms for shrinking."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep
from openane.ops.filters import CUBIC, TRIANGLE, Filter
from openane.ops.sampling import linear


def mixed(step: TorchStep, x: Value, matrices: Mapping[int, np.ndarray]) -> Value:
    """Products of axes with constant matrices of [elements of the axis, results]."""
    for axis, matrix in matrices.items():
        order = [*(other for other in range(x.type.rank) if other != axis), axis]
        back = [order.index(other) for other in range(x.type.rank)]
        last = x if axis == order[axis] else step.add("transpose", f"last{axis}", x=x, perm=order)
        x = step.add("matmul", f"mixed{axis}", x=last, y=matrix.astype(np.float16))
        x = x if axis == order[axis] else step.add("transpose", f"back{axis}", x=x, perm=back)
    return x


def _image(step: TorchStep) -> Value:
    return step.value("input" if step.given("input") else "self")


def _steps(step: TorchStep, x: Value) -> list[float]:
    """How far apart results lie, in elements of the image, by axis: PyTorch goes by a stated factor even where the
    size it leads to is rounded."""
    names = ("scales_d", "scales_h", "scales_w")[5 - x.type.rank:]
    stated = step.argument("scale_factors") or [step.argument(name) for name in names]
    return [1 / factor if factor else extent / size
            for factor, extent, size in zip(stated, x.shape[2:], step.shape[2:], strict=True)]


def _nearest(step: TorchStep) -> Result:
    """Whole factors repeat elements; others pick the element below each place."""
    x = _image(step)
    apart = _steps(step, x)
    factors = [whole / extent for whole, extent in zip(step.shape[2:], x.shape[2:], strict=True)]
    if len(apart) == 2 and factors == [1 / each for each in apart] and all(factor == int(factor) for factor in factors):
        return step.add("upsample_nearest_neighbor", x=x, scale_factor_height=factors[0],
                        scale_factor_width=factors[1])
    for axis, each in enumerate(apart, 2):
        places = np.floor(np.arange(step.shape[axis], dtype=np.float32) * np.float32(each)).astype(np.int32)
        x = step.add("gather", x=x, indices=np.minimum(places, x.shape[axis] - 1), axis=axis)
    return x


def _bilinear(step: TorchStep) -> Result:
    """Corners aligned, or half a pixel outside them."""
    x, aligned = _image(step), bool(step.argument("align_corners"))
    apart = _steps(step, x)
    if not aligned and apart != [extent / size for extent, size in zip(x.shape[2:], step.shape[2:], strict=True)]:
        return mixed(step, x, {axis: _between(x.shape[axis], step.shape[axis], each)
                               for axis, each in enumerate(apart, 2)})
    return step.add("resize_bilinear", x=x, target_size_height=step.shape[2], target_size_width=step.shape[3],
                    sampling_mode="STRICT_ALIGN_CORNERS" if aligned else "UNALIGN_CORNERS")


def _trilinear(step: TorchStep) -> Result:
    """Each axis by a matrix: one resizing of two of them would bring the third among the channels."""
    x, start = _image(step), 0.0 if step.argument("align_corners") else 0.5
    return mixed(step, x, {axis: _between(x.shape[axis], step.shape[axis], each, start)
                           for axis, each in enumerate(_apart(step, x), 2)})


def _apart(step: TorchStep, x: Value) -> list[float]:
    """As `_steps`; where corners are aligned, such that the last result lies on the last element."""
    if not step.argument("align_corners"):
        return _steps(step, x)
    return [(extent - 1) / max(size - 1, 1) for extent, size in zip(x.shape[2:], step.shape[2:], strict=True)]


def _between(extent: int, size: int, apart: float, start: float = 0.5) -> np.ndarray:
    """Linear interpolation [elements, results] where the first result lies `start` of a result behind the image's edge,
    and the first element as much of an element."""
    return linear((np.arange(size) + start) * apart - start, extent).T


def _smooth(kind: Filter) -> Handler:
    """Means that widen where an image shrinks, so that nothing is left out: antialias=True."""
    def handler(step: TorchStep) -> Result:
        x = _image(step)
        return mixed(step, x, {axis: kind.weights(x.shape[axis], step.shape[axis], each).T
                               for axis, each in enumerate(_apart(step, x), 2)})
    return handler


OPERATORS: Mapping[str, Handler] = {
    "_upsample_bicubic2d_aa": _smooth(CUBIC),
    "_upsample_bilinear2d_aa": _smooth(TRIANGLE),
    "upsample_bilinear2d": _bilinear, "upsample_nearest2d": _nearest, "upsample_nearest3d": _nearest,
    "upsample_trilinear3d": _trilinear,
}
