"""Layers that read or write at positions that are an input, and the choice among boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler, Result
from openane.importers.kept_boxes import suppressed

_MODES = ("update", "add", "sub", "mul", "div", "max", "min")
_SCATTERS = {"scatter": "scatter", "scatterAlongAxis": "scatter_along_axis", "scatterND": "scatter_nd"}


def _scatter(layer: CoremlLayer) -> Value:
    if len(layer.inputs) != 3:
        raise GraphError(f"{layer.label}: needs data, indices and updates, found {len(layer.inputs)} inputs")
    if not 0 <= layer.params.mode < len(_MODES):
        raise layer.refuse("mode", layer.params.mode, f"0..{len(_MODES) - 1}: {', '.join(_MODES)}")
    along: dict[str, Any] = {} if layer.kind == "scatterND" else {"axis": layer.params.axis}
    return layer.add(_SCATTERS[layer.kind], data=layer.real(0), indices=layer.cast(layer.inputs[1], "int32", "indices"),
                     updates=layer.real(2), mode=_MODES[layer.params.mode], **along)


def _gather_nd(layer: CoremlLayer) -> Value:
    if len(layer.inputs) != 2:
        raise GraphError(f"{layer.label}: needs a tensor and indices, found {len(layer.inputs)} inputs")
    return layer.add("gather_nd", x=layer.real(0), indices=layer.cast(layer.inputs[1], "int32", "indices"))


def _boxes(layer: CoremlLayer) -> Result:
    """Boxes [n, count, 4], scores [n, count, classes]: coordinates, scores, numbers and how many of the boxes that are
    kept. Thresholds that are inputs are not known here."""
    params, (boxes, scores) = layer.params, layer.reals(2)[:2]
    if len(layer.inputs) > 2:
        raise layer.refuse("a threshold or a number of boxes that is computed", f"{len(layer.inputs)} inputs",
                           "those that the layer states")
    kept = suppressed(layer.builder, boxes, scores, params.maxBoxes or boxes.shape[1], params.iouThreshold,
                      params.scoreThreshold, same=params.perClassSuppression)
    there = layer.cast(layer.add("greater_equal", "there", x=kept.numbers, y=0), "int32", "kept")
    return (kept.coordinates, kept.scores, kept.numbers, layer.add("reduce_sum", "count", x=there, axes=[1],
                                                                    keep_dims=False))


LAYERS: Mapping[str, Handler] = {**dict.fromkeys(_SCATTERS, _scatter), "gatherND": _gather_nd,
                                 "NonMaximumSuppression": _boxes}
