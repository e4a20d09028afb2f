"""roi_align: each region of an image cut into bins, and each bin the mean or the largest of samples in it, as ONNX's
RoiAlign defines it.

Where the regions lie is known when the model runs, and the engine's addresses cannot depend on data: the host computes
this.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.operands import Arguments, refusal
from openane.ops.sampled import sampled
from openane.ops.spec import Op, Parameter

MODES = ("avg", "max")
PARAMETERS = (
    Parameter("x"), Parameter("rois"), Parameter("batch_indices", kind="index"),
    Parameter("output_height", const=True, default=1, kind="int32"),
    Parameter("output_width", const=True, default=1, kind="int32"),
    Parameter("sampling_ratio", const=True, default=0, kind="int32"),
    Parameter("spatial_scale", const=True, default=1.0),
    Parameter("half_pixel", const=True, default=True, kind="bool"),
    Parameter("mode", const=True, default="avg", kind="string"),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("roi_align", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(4, 4))
    rois = arguments.tensor("rois", ranks=(2, 2))
    numbers = arguments.tensor("batch_indices", ("int32",), (1, 1))
    if rois.shape[1] != 4 or numbers.shape[0] != rois.shape[0]:
        raise refusal("roi_align", "rois", f"must be [{numbers.shape[0]}, 4], one for each batch index",
                      list(rois.shape))
    arguments.text("mode", MODES), arguments.flag("half_pixel"), arguments.integer("sampling_ratio", 0, 256)
    size = tuple(arguments.integer(side, 1, 1 << 15) for side in ("output_height", "output_width"))
    return (TensorType(x.dtype, (rois.shape[0], x.shape[1], *size)),)


def _reference(*, x: np.ndarray, rois: np.ndarray, batch_indices: np.ndarray, output_height: np.ndarray,
               output_width: np.ndarray, sampling_ratio: np.ndarray, spatial_scale: np.ndarray,
               half_pixel: np.ndarray, mode: str) -> tuple[np.ndarray, ...]:
    bins = int(output_height), int(output_width)
    found = [_region(x[int(number)], corners * float(spatial_scale) - 0.5 * bool(half_pixel), bins,
                     int(sampling_ratio), bool(half_pixel), str(mode))
             for corners, number in zip(rois.astype(np.float64), batch_indices, strict=True)]
    return (np.stack(found).astype(x.dtype),)


def _region(image: np.ndarray, corners: np.ndarray, bins: tuple[int, int], ratio: int, exact: bool,
            mode: str) -> np.ndarray:
    """[C, *bins] of one region, (x, y, x, y) in elements of the image [C, H, W]. Unless they are `exact`, its sides are
    at least 1."""
    size = corners[[3, 2]] - corners[[1, 0]]
    size = size if exact else np.maximum(size, 1)
    places, counts = [], []
    for start, extent, number, whole in zip(corners[[1, 0]], size, bins, image.shape[1:], strict=True):
        count = ratio or max(int(np.ceil(extent / number)), 1)
        at = start + extent / number * (np.arange(number * count) + 0.5) / count
        places.append(np.where((at < -1) | (at > whole), -np.inf, at.clip(0, whole - 1)))
        counts.append(count)
    rows, columns = np.meshgrid(*places, indexing="ij")
    lost = np.isinf(rows) | np.isinf(columns)
    at = np.where(lost[..., None], 0, np.stack([columns, rows], -1))
    held = _samples(image, at[None], mode)
    held[:, lost] = 0
    split = held.reshape(len(image), bins[0], counts[0], bins[1], counts[1])
    return np.asarray(split.mean((2, 4)) if mode == "avg" else split.max((2, 4)))


def _samples(image: np.ndarray, at: np.ndarray, mode: str) -> np.ndarray:
    """[C, rows, columns]: sums of four neighbours by their nearness, or the largest of those products."""
    def inside(number: np.ndarray, extent: int) -> np.ndarray:
        return np.asarray(number.clip(0, extent - 1))
    if mode == "avg":
        return np.asarray(sampled(image[None].astype(np.float64), at, inside, 0.0)[0])
    low, share = np.floor(at[0]), at[0] - np.floor(at[0])
    parts = []
    for right in (0, 1):
        for below in (0, 1):
            part = np.where(right, share[..., 0], 1 - share[..., 0]) * np.where(below, share[..., 1], 1 - share[..., 1])
            column = inside((low[..., 0] + right).astype(np.int64), image.shape[2])
            row = inside((low[..., 1] + below).astype(np.int64), image.shape[1])
            parts.append(part * image[:, row, column])
    return np.asarray(np.max(parts, 0))


def known_regions(node: Node, limits: Limits) -> bool:
    """Where the regions lie depends on data, and the engine's addresses cannot: the host computes this."""
    return False


OPS = (Op("roi_align", PARAMETERS, _infer, _reference, rules=(known_regions,), positions="rois"),)
