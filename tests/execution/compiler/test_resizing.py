"""Resized images and sums along an axis, against their references within 2^-10 of the largest element per dimension."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.compiler import compile
from openane.errors import GraphError, UnsupportedError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.sampling import MODES

FEW = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
IMAGES = st.lists(st.integers(1, 9), min_size=3, max_size=5).map(tuple)
SIDE = st.integers(1, 40)
LINEAR = {"absolute": 2 * 2 * 2.0 ** -10, "relative": 0}
EXACT = {"absolute": 0, "relative": 0}


@FEW
@given(shape=IMAGES, height=SIDE, width=SIDE, mode=st.sampled_from(MODES))
def test_sizes(hold, single, shape, height, width, mode):
    size = {"target_size_height": height, "target_size_width": width}
    hold(single("resize_bilinear", shape, sampling_mode=mode, **size), **LINEAR)
    hold(single("resize_nearest_neighbor", shape, **size), **EXACT)
    hold(single("resize", shape, resized_dims=2, sampling_mode=mode,
                   interpolation_mode="NEAREST_NEIGHBOR", shape=[0, height, width]), **EXACT)


@FEW
@given(shape=IMAGES, factors=st.tuples(*[st.sampled_from([1, 2, 3, 1.5, 2.6, 0.5])] * 2), corners=st.booleans())
def test_factors(hold, single, shape, factors, corners):
    shape = (*shape[:-2], shape[-2] + 1, shape[-1] + 1)
    scale = dict(zip(("scale_factor_height", "scale_factor_width"), factors, strict=True))
    hold(single("upsample_bilinear", shape, align_corners=corners, **scale), **LINEAR)
    hold(single("upsample_nearest_neighbor", shape, **scale), **EXACT)


def test_tasks_of_common_resizes(hold, single):
    image = (1, 16, 20, 24)
    scale = {"scale_factor_height": 2, "scale_factor_width": 2}
    assert len(hold(single("upsample_bilinear", image, align_corners=False, **scale), **LINEAR).program.tasks) == 2
    assert len(hold(single("upsample_nearest_neighbor", image, **scale), **EXACT).program.tasks) == 4


def test_large_images_are_mixed_in_blocks(hold, single):
    hold(single("resize_bilinear", (1, 2, 300, 40), target_size_height=600, target_size_width=50,
                   sampling_mode="UNALIGN_CORNERS"), **LINEAR)


@pytest.mark.parametrize("modes", [("fast", "exact")])
def test_nearest_neighbours_keep_their_bits(execute, single, modes):
    graph = single("upsample_nearest_neighbor", (1, 3, 4, 5), scale_factor_height=2, scale_factor_width=3)
    x = np.resize(np.array([-0.0, np.inf, 6e-8, -np.inf, 65504], np.float16), (1, 3, 4, 5))
    for mode in modes:
        found, wanted = execute(compile(graph), {"x": x}, mode)["result"], evaluate(graph, {"x": x})["result"]
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@FEW
@given(shape=st.lists(st.integers(1, 12), min_size=1, max_size=5).map(tuple), data=st.data(), exclusive=st.booleans(),
       reverse=st.booleans())
def test_running_sums(hold, single, shape, data, exclusive, reverse):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    hold(single("cumsum", shape, axis=axis, exclusive=exclusive, reverse=reverse), absolute=2.0 ** -12,
            relative=2.0 ** -10)


def test_long_running_sums(hold, single):
    hold(single("cumsum", (3, 700), axis=1), low=0, high=1, absolute=0, relative=2.0 ** -10)
    with pytest.raises(UnsupportedError, match="at most 2048"):
        compile(single("cumsum", (3000,)))


@FEW
@given(shape=st.lists(st.integers(1, 9), min_size=2, max_size=5).map(tuple), lower=st.integers(-1, 5),
       upper=st.integers(-1, 5))
def test_bands(hold, single, shape, lower, upper):
    hold(single("band_part", shape, lower=lower, upper=upper), **EXACT)


@FEW
@given(count=st.integers(1, 3), height=st.integers(1, 6), width=st.integers(1, 40), mode=st.sampled_from(MODES),
       order=st.sampled_from(["CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST",
                              "CENTER_SIZE_WIDTH_FIRST"]), value=st.sampled_from([0.0, 2.5]), form=st.integers(0, 2))
def test_crops(hold, single, count, height, width, mode, order, value, form):
    rng = np.random.default_rng(count * 7 + height)
    boxes = rng.uniform(-0.2, 1.2, (count, 4)).astype(np.float32)
    images = rng.integers(0, 2, count)
    place = {"boxes": boxes, "box_indices": images.astype(np.int32)}
    if form:
        place = {"roi": (boxes if form == 1 else np.concatenate([images[:, None], boxes], 1, dtype=np.float32))
                 .reshape(count, 1, -1, 1, 1)}
    hold(single("crop_resize", (2, 3, 7, 9), target_height=height, target_width=width, sampling_mode=mode,
                   normalized_coordinates=True, box_coordinate_mode=order, pad_value=np.float16(value), **place),
            absolute=2e-2, relative=0)


@pytest.mark.parametrize("padding", ["constant", "border", "reflection", "symmetric"])
@pytest.mark.parametrize("sampling", ["bilinear", "nearest"])
@pytest.mark.parametrize("corners", [True, False])
def test_constant_coordinates(hold, single, padding, sampling, corners):
    at = np.random.default_rng(1).uniform(-1.5, 1.5, (2, 4, 5, 2)).astype(np.float32)
    hold(single("resample", (2, 3, 6, 7), coordinates=at, sampling_mode=sampling, padding_mode=padding,
                   padding_value=1.0, coordinates_mode="normalized_minus_one_to_one", align_corners=corners),
            absolute=6e-3)


def test_affine_transforms(hold, single):
    settings_ = {"output_height": 5, "output_width": 4, "sampling_mode": "bilinear", "padding_mode": "constant",
                 "padding_value": 0.0, "coordinates_mode": "normalized_minus_one_to_one", "align_corners": True}
    turn = np.float32([[0.7, 0.2, 0.1, -0.3, 0.8, 0.0]])
    hold(single("affine", (2, 3, 6, 7), transform_matrix=turn, **settings_), absolute=6e-3)
    same = {**settings_, "output_height": 6, "output_width": 7}
    hold(single("affine", (1, 3, 6, 7), transform_matrix=np.float32([[1, 0, 0, 0, 1, 0]]), **same), absolute=2e-3)


def test_runtime_boxes_are_refused():
    builder = GraphBuilder()
    x, boxes = builder.input("x", "fp16", (1, 3, 8, 8)), builder.input("boxes", "fp16", (1, 4))
    graph = builder.finish({"y": builder.single("crop_resize", x=x, boxes=boxes, target_height=2, target_width=2)})
    with pytest.raises(UnsupportedError, match="Boxes must be constants"):
        compile(graph)


@pytest.mark.parametrize(("op", "settings_", "said"), [
    ("resize_bilinear", {"target_size_height": 0}, "must be 1"),
    ("resize_bilinear", {"sampling_mode": "HALF"}, "must be one of"),
    ("upsample_nearest_neighbor", {"scale_factor_height": -1}, "above 0"),
    ("upsample_bilinear", {"align_corners": True, "half_pixel_centers": True}, "must be false"),
    ("upsample_nearest_neighbor", {"scale_factor_height": 1e9}, "at most 32768"),
])
def test_sizes_that_do_not_fit_are_named(op, settings_, said):
    builder = GraphBuilder()
    with pytest.raises(GraphError, match=said):
        builder.single(op, x=builder.input("x", "fp16", (1, 2, 4, 4)), **settings_)
