"""ONNX DeformConv: every tap of the kernel reads the image where an offset moves it, and the taps are channels of a
convolution of one element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand


def _deformed(step: OnnxStep) -> Operand:
    """Positions are numbers of fp16, as everything that is computed: from element 64 on they lie 1/16 apart or more."""
    x, weight, offset = step.real(0), step.array(1, "the weight of a deformable convolution"), step.real(2)
    if x.type.rank != 4 or weight.ndim != 4:
        raise UnsupportedError(step.label, "images are sampled in two dimensions", limit="[N, C, H, W]",
                               found=list(x.shape), remedy="sample a volume as images, or on the host")
    batch, channels, kernel = x.shape[0], x.shape[1], weight.shape[2:]
    sets, groups = step.integer("offset_group", 1), step.integer("group", 1)
    results, taps = tuple(offset.shape[2:]), prod(kernel)
    if sets < 1 or channels % sets or offset.shape[:2] != (batch, 2 * sets * taps) or offset.type.rank != 4:
        raise GraphError(f"{step.label}: offsets must be [{batch}, {2 * taps} * offset_group, rows, columns], found "
                         f"{list(offset.shape)} with offset_group {sets} of {channels} channels")
    offset = step.reshaped(offset, (batch * sets, taps, 2, prod(results)), "offsets")
    moved = step.add("gather", "across_first", x=offset, indices=np.array([1, 0], np.int32), axis=2)
    places = step.add("add", "places", x=step.add("transpose", "pairs", x=moved, perm=(0, 1, 3, 2)),
                      y=_taps(step, kernel, results))
    images = step.reshaped(x, (batch * sets, channels // sets, *x.shape[2:]), "images")
    read = step.add("resample", "read", x=images, coordinates=places, sampling_mode="bilinear", padding_mode="constant",
                    padding_value=0.0, coordinates_mode="unnormalized", align_corners=True)
    if step.has(4):
        read = step.add("mul", "masked", x=read, y=_mask(step, (batch * sets, 1, taps, prod(results))))
    rows = np.asarray(weight, np.float32).reshape(len(weight), -1, 1, 1)
    bias = step.real(3) if step.has(3) else None
    known = bias is None or bias.constant
    made = step.add("conv", "" if known else "product", weight=step.rounded(rows, 1), groups=groups, pad_type="valid",
                    x=step.reshaped(read, (batch, channels * taps, *results), "taps"), bias=bias if known else None)
    return made if known else step.add("add", x=made, y=step.add("reshape", "bias", x=bias, shape=(-1, 1, 1)))


def _mask(step: OnnxStep, shape: tuple[int, ...]) -> Value:
    mask = step.real(4)
    if mask.type.elements != prod(shape):
        raise GraphError(f"{step.label}: the mask must have {prod(shape)} elements, found {list(mask.shape)}")
    return step.reshaped(mask, shape, "mask")


def _taps(step: OnnxStep, kernel: Sequence[int], results: Sequence[int]) -> np.ndarray:
    """[1, taps, results, 2]: where each tap lies before it is moved, across and down."""
    strides, dilations = (step.integers(name, (1, 1), 2) for name in ("strides", "dilations"))
    pads = step.integers("pads", (0, 0, 0, 0), 4)
    bounded(step, (2 * prod(kernel), prod(results)))
    down, across = (np.arange(size)[:, None] * dilation + np.arange(count) * stride - pad for size, count, dilation,
                    stride, pad in zip(kernel, results, dilations, strides, pads[:2], strict=True))
    shape = (*kernel, *results)
    pairs = np.stack([np.broadcast_to(across[None, :, None], shape),
                      np.broadcast_to(down[:, None, :, None], shape)], -1)
    return pairs.reshape(1, prod(kernel), prod(results), 2).astype(np.float16)


OPERATORS: Mapping[str, Handler] = {"DeformConv": _deformed}
