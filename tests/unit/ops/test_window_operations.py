"""Convolution and pooling against onnxruntime, and against their definitions where it has none."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openane.errors import GraphError

AUTO_PAD = {"valid": "VALID", "same": "SAME_UPPER", "same_lower": "SAME_LOWER"}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Spatial extents, kernel and MIL attributes of a window that fits."""
    axes = draw(st.integers(1, 2))
    extents, kernel, strides = [draw(st.lists(st.integers(1, high), min_size=axes, max_size=axes))
                                for high in (12, 4, 3)]
    pad_type = draw(st.sampled_from(["valid", "same", "same_lower", "custom"]))
    pad = [draw(st.integers(0, size - 1)) for size in kernel for _ in range(2)] if pad_type == "custom" else None
    if pad_type in ("valid", "custom"):
        pairs = zip(pad[::2], pad[1::2], strict=True) if pad else [(0, 0)] * axes
        assume(all(e + b + a >= k for e, k, (b, a) in zip(extents, kernel, pairs, strict=True)))
    if pad_type.startswith("same"):  # MIL never pads less than nothing; onnxruntime's pooling then crops
        assume(all(s <= k for s, k in zip(strides, kernel, strict=True)))
    return {"extents": extents, "kernel": kernel, "strides": strides, "pad_type": pad_type, "pad": pad}


def test_same_padding_never_crops(apply: Any) -> None:
    x = noise(1, 1, 7)
    for pad_type in ("same", "same_lower"):
        pooled = apply("max_pool", x=x, kernel_sizes=[1], strides=[3], pad_type=pad_type)
        np.testing.assert_array_equal(pooled, x[..., ::3])


def onnx_padding(window: dict[str, Any]) -> dict[str, Any]:
    if window["pad_type"] == "custom":
        return {"pads": window["pad"][::2] + window["pad"][1::2]}
    return {"auto_pad": AUTO_PAD[window["pad_type"]]}


@settings(max_examples=60, deadline=None)
@given(windows(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_conv_is_onnx_conv(apply: Any, onnx_node: Any, window: dict[str, Any], groups: int, per_group: int,
                           outputs: int, batch: int, with_bias: bool) -> None:
    x = noise(batch, groups * per_group, *window["extents"])
    weight = noise(groups * outputs, per_group, *window["kernel"])
    bias = noise(groups * outputs) if with_bias else None
    ours = apply("conv", x=x, weight=weight, bias=bias, strides=window["strides"], pad_type=window["pad_type"],
                 pad=window["pad"], groups=groups)
    theirs = onnx_node("Conv", x, weight, *([] if bias is None else [bias]), strides=window["strides"],
                       group=groups, **onnx_padding(window))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dilations", [(2, 1), (1, 3), (2, 2)])
def test_conv_dilates(apply: Any, onnx_node: Any, dilations: tuple[int, int]) -> None:
    x, weight = noise(2, 3, 9, 11), noise(4, 3, 3, 2)
    ours = apply("conv", x=x, weight=weight, dilations=dilations, strides=(2, 1))
    theirs = onnx_node("Conv", x, weight, dilations=dilations, strides=(2, 1))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_conv_covers_three_axes(apply: Any, onnx_node: Any) -> None:
    x, weight = noise(1, 4, 5, 6, 7), noise(6, 2, 2, 3, 1)
    ours = apply("conv", x=x, weight=weight, groups=2, strides=(2, 1, 3))
    np.testing.assert_allclose(ours, onnx_node("Conv", x, weight, group=2, strides=(2, 1, 3)), rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(windows())
def test_max_pool_is_onnx_max_pool(apply: Any, onnx_node: Any, window: dict[str, Any]) -> None:
    x = noise(2, 3, *window["extents"])
    try:
        ours = apply("max_pool", x=x, kernel_sizes=window["kernel"], strides=window["strides"],
                     pad_type=window["pad_type"], pad=window["pad"])
    except GraphError as error:
        assume("without an element" not in str(error))
        raise
    theirs = onnx_node("MaxPool", x, kernel_shape=window["kernel"], strides=window["strides"], **onnx_padding(window))
    np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=60, deadline=None)
@given(windows(), st.booleans())
def test_avg_pool_is_onnx_average_pool(apply: Any, onnx_node: Any, window: dict[str, Any], exclude: bool) -> None:
    x = noise(1, 2, *window["extents"])
    try:
        ours = apply("avg_pool", x=x, kernel_sizes=window["kernel"], strides=window["strides"],
                     pad_type=window["pad_type"], pad=window["pad"], exclude_padding_from_average=exclude)
    except GraphError as error:
        assume("without an element" not in str(error))
        raise
    theirs = onnx_node("AveragePool", x, kernel_shape=window["kernel"], strides=window["strides"],
                       count_include_pad=int(not exclude), **onnx_padding(window))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def windows_of(x: np.ndarray, kernel: int, stride: int, pad: int, results: int) -> list[np.ndarray]:
    """The elements of x (one axis) in each window, and how many padded zeros are in it, window by window."""
    found = []
    for start in range(-pad, -pad + results * stride, stride):
        low, high = max(start, 0), min(start + kernel, len(x))
        padded = min(start + kernel, len(x) + pad) - start - (high - low)
        found.append(np.concatenate([x[low:high], np.full(padded, np.nan)]))
    return found


@pytest.mark.parametrize(("extent", "kernel", "stride", "pad"), [
    (extent, kernel, stride, pad) for extent, kernel, stride, pad in product(range(3, 9), (2, 3), (1, 2, 3), (0, 1))
    if kernel <= extent and stride <= kernel])
def test_pooling_in_ceiling_mode_counts_the_started_window(apply: Any, extent: int, kernel: int, stride: int,
                                                           pad: int) -> None:
    x = noise(1, 1, extent)
    settings_ = {"kernel_sizes": [kernel], "strides": [stride], "pad_type": "custom", "pad": [pad, pad],
                 "ceil_mode": True}
    largest = apply("max_pool", x=x, **settings_)[0, 0]
    free = extent + 2 * pad - kernel
    expected = free // stride + 1 + (free % stride > 0 and (free // stride + 1) * stride < extent + pad)
    assert len(largest) == expected
    parts = windows_of(x[0, 0], kernel, stride, pad, expected)
    np.testing.assert_array_equal(largest, [np.nanmax(part) for part in parts])
    average = apply("avg_pool", x=x, exclude_padding_from_average=False, **settings_)[0, 0]
    np.testing.assert_allclose(average, [np.nansum(part) / len(part) for part in parts], rtol=1e-5, atol=1e-6)
    real = apply("avg_pool", x=x, exclude_padding_from_average=True, **settings_)[0, 0]
    np.testing.assert_allclose(real, [np.nanmean(part) for part in parts], rtol=1e-5, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
def test_conv_transpose_is_onnx_conv_transpose(apply: Any, onnx_node: Any, data: st.DataObject, axes: int,
                                               groups: int, per_group: int, outputs: int) -> None:
    extents, kernel, strides, dilations = (
        data.draw(st.lists(st.integers(1, high), min_size=axes, max_size=axes)) for high in (6, 4, 4, 3))
    full = [(e - 1) * s + (k - 1) * d + 1 for e, k, s, d in zip(extents, kernel, strides, dilations, strict=True)]
    pads = [data.draw(st.integers(0, (extent - 1) // 2)) for extent in full for _ in range(2)]
    x, weight = noise(2, groups * per_group, *extents), noise(groups * per_group, outputs, *kernel)
    bias = noise(groups * outputs)
    ours = apply("conv_transpose", x=x, weight=weight, bias=bias, strides=strides, dilations=dilations, groups=groups,
                 pad_type="custom", pad=pads)
    theirs = onnx_node("ConvTranspose", x, weight, bias, strides=strides, dilations=dilations, group=groups,
                       pads=pads[::2] + pads[1::2])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 2), (3, 2), (4, 2), (3, 3), (5, 2), (2, 3)])
def test_conv_transpose_same_gives_stride_times_as_many(apply: Any, kernel: int, stride: int) -> None:
    """Tap by tap; `same` crops the full result evenly, the odd element behind, and fills up with zeros behind."""
    x, weight = noise(1, 1, 6), noise(1, 1, kernel)
    full = np.zeros(6 * stride + kernel)
    for i, tap in product(range(6), range(kernel)):
        full[i * stride + tap] += x[0, 0, i] * weight[0, 0, tap]
    before = max(5 * stride + kernel - 6 * stride, 0) // 2
    ours = apply("conv_transpose", x=x, weight=weight, strides=[stride], pad_type="same")
    np.testing.assert_allclose(ours[0, 0], full[before:before + 6 * stride], rtol=1e-5, atol=1e-6)


def test_conv_transpose_refuses_what_does_not_fit(apply: Any) -> None:
    x, weight = noise(1, 4, 5), noise(4, 3, 2)
    for operands, message in (({"groups": 3}, "'weight'"), ({"pad_type": "custom"}, "'pad' must be given"),
                              ({"pad_type": "custom", "pad": [5, 5]}, "at least one result"),
                              ({"output_shape": [1, 2, 9]}, r"must begin with \[1, 3\]"),
                              ({"bias": noise(2)}, r"'bias' must have shape \[3\]")):
        with pytest.raises(GraphError, match=message):
            apply("conv_transpose", x=x, weight=weight, **operands)


def test_l2_pool_is_onnx_lp_pool(apply: Any, onnx_node: Any) -> None:
    x = noise(2, 3, 9, 10)
    ours = apply("l2_pool", x=x, kernel_sizes=[3, 2], strides=[2, 3], pad_type="custom", pad=[1, 0, 0, 1])
    theirs = onnx_node("LpPool", x, p=2, kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 0, 1])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
