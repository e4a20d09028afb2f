"""ONNX Col2Im: columns of windows laid back where the windows were taken, and added where they overlap: a transposed
convolution, whose kernel for each place of the window is one there and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from operator import mul

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand


def _columns_to_image(step: OnnxStep) -> Operand:
    """Of columns [N, C * window, places]. Windows that lie beside each other are only moved."""
    x, image, window = step.real(0), step.integers_in(1, "image_shape"), step.integers_in(2, "block_shape")
    spatial = len(image)
    ones = (1,) * spatial
    strides, dilations = (step.integers(name, ones, spatial) for name in ("strides", "dilations"))
    pads = step.integers("pads", (0,) * 2 * spatial, 2 * spatial)
    places = _places(step, image, window, strides, dilations, pads)
    if x.type.rank != 3 or x.shape[1] % prod(window) or x.shape[2] != prod(places):
        raise GraphError(f"{step.label}: the columns must be [batch, channels * {prod(window)}, {prod(places)}], found "
                         f"{list(x.shape)}")
    channels = x.shape[1] // prod(window)
    if spatial < 3 and strides == window and tuple(map(mul, window, places)) == image:
        return _beside_each_other(step, x, window, places)
    kernel = np.eye(prod(window), dtype=np.float16).reshape(prod(window), 1, *window)
    weight = np.tile(kernel, (bounded(step, (channels * prod(window), *window))[0] // prod(window), 1, *ones))
    columns = step.reshaped(x, (*x.shape[:2], *places), "places")
    return step.add("conv_transpose", x=columns, weight=weight, groups=channels, strides=strides, dilations=dilations,
                    pad_type="custom", pad=[side for before in pads[:spatial] for side in (before, 0)],
                    output_shape=(x.shape[0], channels, *image))


def _places(step: OnnxStep, image: Sequence[int], window: Sequence[int], strides: Sequence[int],
            dilations: Sequence[int], pads: Sequence[int]) -> list[int]:
    """How many windows there are along each dimension of the image."""
    if len(window) != len(image) or min(*image, *window, *strides, *dilations, 1) < 1 or min(pads, default=0) < 0:
        raise GraphError(f"{step.label}: image {list(image)}, block {list(window)}, strides {list(strides)}, dilations "
                         f"{list(dilations)} must be positive and as many, pads {list(pads)} at least 0")
    return [(extent + before + after - (size - 1) * dilation - 1) // stride + 1
            for extent, before, after, size, dilation, stride
            in zip(image, pads[:len(image)], pads[len(image):], window, dilations, strides, strict=True)]


def _beside_each_other(step: OnnxStep, x: Value, window: Sequence[int], places: list[int]) -> Value:
    """Windows in up to two dimensions: places and window of each change sides and become a dimension of the image."""
    count, channels = len(window), x.shape[1] // prod(window)
    split = step.reshaped(x, (x.shape[0] * channels, *window, *places), "split")
    order = [0, *(side for axis in range(count) for side in (1 + count + axis, 1 + axis))]
    turned = step.add("transpose", "beside", x=split, perm=order)
    return step.reshaped(turned, (x.shape[0], channels, *map(mul, window, places)))


OPERATORS: Mapping[str, Handler] = {"Col2Im": _columns_to_image}
