"""Every rule on the engine: graphs of one operation and its gradient compile without host operations, and give on the
simulator what they give in float32."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradients import hold_on_engine


def draws(*shape, seed=0, low=-2.0, high=2.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float16)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "real_div", "maximum", "minimum", "pow"])
@pytest.mark.parametrize("shapes", [((2, 3, 5), (2, 3, 5)), ((2, 3, 5), (5,)), ((1, 5), (4, 3, 1)), ((3, 4), (3, 1))])
def test_two_tensors(name, shapes):
    x, y = (draws(*shape, seed=i, low=0.5) for i, shape in enumerate(shapes))
    hold_on_engine({"x": x, "y": y}, lambda b, v: b.add(name, **v))


@pytest.mark.parametrize(("name", "settings"), [
    ("reduce_sum", {"axes": [0, 2]}), ("reduce_mean", {"axes": [-1]}), ("reduce_max", {"axes": [1]}),
    ("reduce_min", {}),
    ("reduce_l2_norm", {"axes": [2]}), ("reduce_log_sum_exp", {"axes": [1, 2]}), ("softmax", {"axis": 1}),
    ("transpose", {"perm": [2, 0, 1]}), ("cumsum", {"axis": 1}), ("reverse", {"axes": [2]}),
    ("tile", {"reps": [1, 2, 3]}),
    ("slice_by_index", {"begin": [0, 1, 1], "end": [2, 3, 4], "stride": [1, 1, 2]}),
    ("slice_by_index", {"begin": [1, 2, 3], "end": [0, 0, 0], "stride": [-1, -2, -1], "end_mask": [True, False, True]}),
    ("pad", {"pad": [1, 0, 2, 3], "mode": "constant"}), ("split", {"axis": 2, "split_sizes": [1, 3]}),
    ("gather", {"axis": 1, "indices": np.array([2, 0, 2, 1], np.int32)}), ("band_part", {"lower": 0, "upper": -1}),
    ("layer_norm", {"axes": [-1]}), ("rms_norm", {"axes": [1, 2]}), ("l2_norm", {}), ("flatten2d", {"axis": 1}),
])
def test_one_tensor_of_three_dimensions(name, settings):
    hold_on_engine({"x": draws(2, 3, 4)}, lambda b, v: b.add(name, **v, **settings))


@pytest.mark.parametrize(("name", "settings"), [
    ("max_pool", {"kernel_sizes": [3, 2], "strides": [2, 1], "pad_type": "custom", "pad": [1, 1, 0, 0]}),
    ("avg_pool", {"kernel_sizes": [2, 3], "strides": [1, 2], "pad_type": "same"}),
    ("depth_to_space", {"block_size": 2}), ("pixel_unshuffle", {"downscale_factor": 2}), ("instance_norm", {}),
    ("upsample_bilinear", {"scale_factor_height": 2.0, "scale_factor_width": 2.0}),
    ("resize_nearest_neighbor", {"target_size_height": 3, "target_size_width": 9}),
])
def test_images(name, settings):
    hold_on_engine({"x": draws(2, 4, 6, 8)}, lambda b, v: b.add(name, **v, **settings))


@pytest.mark.parametrize("settings", [
    {}, {"strides": [2, 1], "pad_type": "same"}, {"groups": 2, "pad_type": "same"}, {"groups": 4, "strides": [2, 2]},
    {"dilations": [1, 2], "pad_type": "custom", "pad": [1, 0, 2, 1]},
])
def test_convolutions(settings):
    groups = settings.get("groups", 1)
    hold_on_engine({"x": draws(2, 4, 7, 9)}, lambda b, v: b.add("conv", **v, **settings),
         {"weight": draws(4, 4 // groups, 3, 3, seed=1), "bias": draws(4, seed=2)})


def test_convolutions_with_constant_weights():
    for name in ("conv", "conv_transpose"):
        weight = draws(4, 4, 3, 3, seed=1)
        hold_on_engine({"x": draws(2, 4, 7, 6)}, lambda b, v, name=name, weight=weight: b.add(
            name, **v, weight=weight, strides=[2, 1], pad_type="custom", pad=[1, 1, 1, 1]))


def test_a_sequence():
    hold_on_engine({"x": draws(2, 3, 20)},
                   lambda b, v: b.add("conv", **v, strides=[2]), {"weight": draws(4, 3, 5, seed=1)})


@pytest.mark.parametrize(("x", "y", "left", "right"), [
    ((6, 8), (8, 5), False, False), ((8, 6), (5, 8), True, True), ((2, 3, 6, 8), (8, 5), False, False),
    ((2, 3, 6, 8), (2, 3, 5, 8), False, True), ((3, 8, 6), (2, 1, 8, 5), True, False), ((8,), (2, 8, 5), False, False),
])
def test_products(x, y, left, right):
    hold_on_engine({"x": draws(*x), "y": draws(*y, seed=1)},
         lambda b, v: b.add("matmul", **v, transpose_x=left, transpose_y=right))


def test_a_choice():
    condition = np.random.default_rng(3).random((3, 4)) < 0.5
    hold_on_engine({"a": draws(2, 3, 4), "b": draws(1, 4, seed=1)},
                   lambda b, v: b.add("select", cond=b.constant(condition), **v))
    hold_on_engine({"a": draws(2, 3, 4), "b": draws(2, 3, 4, seed=1)},
         lambda b, v: b.add("select", cond=b.single("greater", x=v["a"], y=v["b"]), **v))


def test_other_weights():
    hold_on_engine({"x": draws(2, 6, 4, 3)}, lambda b, v: b.add("prelu", **v), {"alpha": draws(6, seed=1)})
    hold_on_engine({"x": draws(2, 6, 4, 3)},
         lambda b, v: b.add("batch_norm", **v, mean=draws(6, seed=3), variance=draws(6, seed=4, low=0.5)),
         {"gamma": draws(6, seed=1), "beta": draws(6, seed=2)})
    hold_on_engine({"x": draws(2, 6, 4, 3)}, lambda b, v: b.add("instance_norm", **v),
         {"gamma": draws(6, seed=1), "beta": draws(6, seed=2)})
    hold_on_engine({"x": draws(2, 5, 8)}, lambda b, v: b.add("layer_norm", **v, axes=[1, 2]),
         {"gamma": draws(5, 8, seed=1), "beta": draws(5, 8, seed=2)})


@pytest.mark.parametrize("equation", ["nchw,nwhu->nchu", "abc,bd->acd"])
def test_einsum(equation):
    extents = dict(zip("abcdhnruw", (2, 3, 2, 4, 3, 2, 2, 3, 8), strict=True))
    terms = equation.partition("->")[0].split(",")
    inputs = {name: draws(*(extents[letter] for letter in term), seed=i)
              for i, (name, term) in enumerate(zip("xy", terms, strict=True))}
    hold_on_engine(inputs, lambda b, v: b.add("einsum", values=(v["x"], v["y"]), equation=equation))
