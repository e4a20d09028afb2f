"""Gathers, scatters, block shuffles, padding and resizing against onnxruntime and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FEW = settings(max_examples=25, deadline=None)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@FEW
@given(SHAPES, st.data())
def test_slices_are_numpy_slices(apply: Any, shape: tuple[int, ...], data: Any) -> None:
    x = noise(*shape)
    begin = [data.draw(st.integers(-2 * e, 2 * e)) for e in shape]
    end = [data.draw(st.integers(-2 * e, 2 * e)) for e in shape]
    step = [data.draw(st.sampled_from([-2, -1, 1, 2])) for _ in shape]
    masks = [[data.draw(st.booleans()) for _ in shape] for _ in range(2)]
    index = tuple(slice(None if a else b, None if z else e, s)
                  for a, z, b, e, s in zip(*masks, begin, end, step, strict=True))
    expected = x[index]
    if expected.size:
        found = apply("slice_by_index", x=x, begin=begin, end=end, stride=step, begin_mask=masks[0], end_mask=masks[1])
        np.testing.assert_array_equal(found, expected)


@FEW
@given(SHAPES, st.data())
def test_gathers_and_scatters(apply: Any, onnx_node: Any, shape: tuple[int, ...], data: Any) -> None:
    x, rng = noise(*shape), np.random.default_rng(3)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    extent = shape[axis]
    at = rng.integers(-extent, extent, (2, 3))
    np.testing.assert_array_equal(apply("gather", x=x, indices=at.astype(np.int32), axis=axis),
                                  onnx_node("Gather", x, at, axis=axis))
    along = list(shape)
    along[axis] = 2
    at, updates = rng.integers(-extent, extent, along), noise(*along)
    np.testing.assert_array_equal(apply("gather_along_axis", x=x, indices=at.astype(np.int32), axis=axis),
                                  onnx_node("GatherElements", x, at, axis=axis))
    np.testing.assert_allclose(
        apply("scatter_along_axis", data=x, indices=at.astype(np.int32), updates=updates, axis=axis),
        onnx_node("ScatterElements", x, at, updates, axis=axis, reduction="add"), rtol=1e-5, atol=1e-6)
    depth = data.draw(st.integers(1, len(shape)))
    deep = np.stack([rng.integers(0, e, 3) for e in shape[:depth]], -1)
    np.testing.assert_array_equal(apply("gather_nd", x=x, indices=deep.astype(np.int32)),
                                  onnx_node("GatherND", x, deep))
    for mode in ("add", "mul", "max", "min"):
        updates = noise(3, *shape[depth:])
        found = apply("scatter_nd", data=x, indices=deep.astype(np.int32), updates=updates, mode=mode)
        expected = onnx_node("ScatterND", x, deep, updates, reduction=mode)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_scatter_along_one_axis(apply: Any) -> None:
    data, updates = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[5, 6, 7], [8, 9, 10]])
    at = np.int32([1, 0])
    np.testing.assert_array_equal(apply("scatter", data=data, indices=at, updates=updates),
                                  [[9, 11, 13], [9, 11, 13]])
    np.testing.assert_array_equal(apply("scatter", data=data, indices=np.int32([1, 1]), updates=updates, mode="update"),
                                  [[1, 2, 3], [8, 9, 10]])


def test_shuffles_are_those_of_onnx(apply: Any, onnx_node: Any) -> None:
    x = noise(2, 8, 3, 5)
    for name, factor, mode in (("depth_to_space", "block_size", "DCR"), ("pixel_shuffle", "upscale_factor", "CRD")):
        expected = onnx_node("DepthToSpace", x, blocksize=2, mode=mode)
        np.testing.assert_array_equal(apply(name, x=x, **{factor: 2}), expected)
    np.testing.assert_array_equal(apply("space_to_depth", x=noise(2, 3, 4, 6), block_size=2),
                                  onnx_node("SpaceToDepth", noise(2, 3, 4, 6), blocksize=2))
    back = apply("pixel_unshuffle", x=apply("pixel_shuffle", x=x, upscale_factor=2), downscale_factor=np.uint32(2))
    np.testing.assert_array_equal(back, x)


def test_depth_to_space_of_the_specification(apply: Any) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 8, 1, 2)
    found = apply("depth_to_space", x=x, block_size=2)
    np.testing.assert_array_equal(found[0, 0], [[1, 5, 2, 6], [9, 13, 10, 14]])


def test_space_and_batch(apply: Any) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    zeros = np.zeros((2, 2), np.int32)
    found = apply("space_to_batch", x=x, block_shape=[2, 2], paddings=zeros)
    np.testing.assert_array_equal(found[1, 0], [[1, 3], [9, 11]])
    np.testing.assert_array_equal(apply("batch_to_space", x=found, block_shape=[2, 2], crops=zeros), x)


@FEW
@given(SHAPES, st.data())
def test_reversals(apply: Any, onnx_node: Any, shape: tuple[int, ...], data: Any) -> None:
    x = noise(*shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    np.testing.assert_array_equal(apply("reverse", x=x, axes=[axis]), np.flip(x, axis))
    if len(shape) > 1:
        lengths = np.random.default_rng(1).integers(1, shape[1] + 1, shape[0])
        found = apply("reverse_sequence", x=x, lengths=lengths.astype(np.int32), seq_axis=1, batch_axis=0)
        np.testing.assert_array_equal(found, onnx_node("ReverseSequence", x, lengths, time_axis=1, batch_axis=0))


@FEW
@given(SHAPES, st.data(), st.booleans(), st.booleans())
def test_running_sums(apply: Any, onnx_node: Any, shape: tuple[int, ...], data: Any, exclusive: bool,
                      reverse: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    expected = onnx_node("CumSum", noise(*shape), np.array(axis), exclusive=int(exclusive), reverse=int(reverse))
    np.testing.assert_allclose(apply("cumsum", x=noise(*shape), axis=axis, exclusive=exclusive, reverse=reverse),
                               expected, rtol=1e-5, atol=1e-5)


@FEW
@given(st.tuples(*[st.integers(2, 9)] * 2), st.tuples(*[st.integers(2, 20)] * 2))
def test_resizing_is_that_of_onnx(apply: Any, onnx_node: Any, before: tuple[int, int], after: tuple[int, int]) -> None:
    x, none = noise(1, 2, *before), np.zeros(0, np.float32)
    factors = np.float32([1, 1, *(b / a for a, b in zip(before, after, strict=True))])
    target = {"target_size_height": after[0], "target_size_width": after[1]}
    for ours, theirs in (("STRICT_ALIGN_CORNERS", "align_corners"), ("DEFAULT", "asymmetric"),
                         ("UNALIGN_CORNERS", "half_pixel")):
        expected = onnx_node("Resize", x, none, factors, mode="linear", coordinate_transformation_mode=theirs)
        found = apply("resize_bilinear", x=x, sampling_mode=ours, **target)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    expected = onnx_node("Resize", x, none, factors, mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric")
    if all(b % a == 0 for a, b in zip(before, after, strict=True)):
        factors = {"scale_factor_height": after[0] // before[0], "scale_factor_width": after[1] // before[1]}
        np.testing.assert_array_equal(apply("upsample_nearest_neighbor", x=x, **factors), expected)
        np.testing.assert_array_equal(apply("resize_nearest_neighbor", x=x, **target), expected)


@pytest.mark.parametrize(("mode", "wanted"), [
    ("STRICT_ALIGN_CORNERS", [0, 0.25, 0.5, 0.75, 1]), ("DEFAULT", [0, 0.4, 0.8, 1, 1]),
    ("OFFSET_CORNERS", [0.1, 0.3, 0.5, 0.7, 0.9]), ("UNALIGN_CORNERS", [0, 0.1, 0.5, 0.9, 1])])
def test_sampling_modes(apply: Any, mode: str, wanted: list[float]) -> None:
    x = np.float32([[[0, 1]]])
    found = apply("resize_bilinear", x=x, target_size_width=5, sampling_mode=mode)
    np.testing.assert_allclose(found[0, 0], wanted, atol=1e-6)


def test_nearest_resize_picks_at_centres(apply: Any) -> None:
    x = np.float32([-1, 1]).reshape(1, 1, 2, 1)
    found = apply("resize", x=x, shape=[3, 2], resized_dims=2, interpolation_mode="NEAREST_NEIGHBOR")
    np.testing.assert_array_equal(found[0, 0], [[-1, -1], [1, 1], [1, 1]])


def test_boxes(apply: Any) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    size = {"target_height": 2, "target_width": 2, "sampling_mode": "ALIGN_CORNERS"}
    for box, wanted in (([1, 1, 2, 2], [6, 7, 10, 11]), ([2, 2, 1, 1], [11, 10, 7, 6])):
        found = apply("crop_resize", x=x, roi=np.float32(box).reshape(1, 1, 4, 1, 1), **size)
        np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-5)
    found = apply("crop_resize", x=x, boxes=np.float32([[0.1, 0.3, 1.3, 1.0]]), normalized_coordinates=True,
                  pad_value=np.float32(10), **size)
    np.testing.assert_allclose(found.ravel(), [3.1, 5.2, 10, 10], rtol=1e-5)


def test_what_needs_no_data(apply: Any) -> None:
    np.testing.assert_array_equal(apply("fill", shape=[2, 3], value=1.5), np.full((2, 3), 1.5))
    np.testing.assert_array_equal(apply("range_1d", start=1, end=8, step=3), [1, 4, 7])
    np.testing.assert_array_equal(apply("shape", x=noise(2, 3)), [2, 3])
    np.testing.assert_array_equal(apply("non_zero", x=np.float32([[0, 2], [3, 0]])), [[0, 1], [1, 0]])
    hot = apply("one_hot", indices=np.int32([2, 0]), one_hot_vector_size=3, axis=0)
    np.testing.assert_array_equal(hot, [[0, 1], [0, 0], [1, 0]])
