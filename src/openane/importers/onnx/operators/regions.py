"""ONNX operators that read images where data says so, and choose among boxes: the host computes them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.importers.onnx.step import Handler, OnnxStep, Operand

SAMPLINGS = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest"}


def _grid_sample(step: OnnxStep) -> Operand:
    x, given = step.real(0), step.operand(1)
    grid = given.astype(np.float32) if isinstance(given, np.ndarray) else step.real(1)  # in all digits
    if x.type.rank != 4:
        raise UnsupportedError(step.label, "images are sampled in two dimensions", limit="[N, C, H, W]",
                               found=list(x.shape), remedy="sample a volume as images, or on the host")
    mode, padding = step.text("mode", "linear"), step.text("padding_mode", "zeros")
    if mode not in SAMPLINGS:
        raise step.refuse("mode", mode, f"one of {', '.join(SAMPLINGS)}")
    corners = bool(step.integer("align_corners", 0))
    paddings = {"zeros": "constant", "border": "border", "reflection": "reflection" if corners else "symmetric"}
    if padding not in paddings:
        raise step.refuse("padding_mode", padding, f"one of {', '.join(paddings)}")
    return step.add("resample", x=x, coordinates=grid, sampling_mode=SAMPLINGS[mode], padding_mode=paddings[padding],
                    padding_value=0.0, coordinates_mode="normalized_minus_one_to_one", align_corners=corners)


def _roi_align(step: OnnxStep) -> Operand:
    exact = step.text("coordinate_transformation_mode", "half_pixel" if step.version >= 16 else "output_half_pixel")
    if exact not in ("half_pixel", "output_half_pixel"):
        raise step.refuse("coordinate_transformation_mode", exact, "one of half_pixel, output_half_pixel")
    return step.add("roi_align", x=step.real(0), rois=step.real(1), batch_indices=step.number(2),
                    output_height=step.integer("output_height", 1), output_width=step.integer("output_width", 1),
                    sampling_ratio=step.integer("sampling_ratio", 0), mode=step.text("mode", "avg"),
                    spatial_scale=np.float16(step.real_attribute("spatial_scale", 1.0)),
                    half_pixel=exact == "half_pixel")


def _non_max_suppression(step: OnnxStep) -> Operand:
    """[rows, 3] of batch, class and box. Rows behind those that are kept hold -1: the shape is static."""
    most = int(step.number_in(2, "max_output_boxes_per_class")) if step.has(2) else 0
    if most < 1:
        raise GraphError(f"{step.label}: max_output_boxes_per_class must be 1 or more, found {most}")
    bounds = {name: step.number_in(index, name) for index, name in ((3, "iou_threshold"), (4, "score_threshold"))
              if step.has(index)}
    boxes, scores = step.real(0), step.real(1)
    most = min(most, *boxes.shape[1:2])  # exporters say the largest int64 where there is no limit
    warnings.warn(f"{step.label}: its result has a row for every box that may be kept, {most} for each class of each "
                  "image, since shapes are static; rows behind those that are kept hold -1, which is no box: leave "
                  "them out of what is made of them", RuntimeWarning, stacklevel=2)
    return step.add("non_maximum_suppression", boxes=boxes, scores=scores, most=most,
                    overlap=np.float32(bounds.get("iou_threshold", 0.0)),
                    least_score=np.float32(bounds.get("score_threshold", -np.inf)),
                    centred=bool(step.integer("center_point_box", 0)))


OPERATORS: Mapping[str, Handler] = {
    "GridSample": _grid_sample, "NonMaxSuppression": _non_max_suppression, "RoiAlign": _roi_align,
}
