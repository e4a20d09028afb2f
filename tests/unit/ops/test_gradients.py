"""Gradient rules against central differences of the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gradients import SETTINGS, hold, summed, wide
from support.unary import FUNCTIONS

from openane.errors import GraphError
from openane.training.gradient import gradient

SOME = settings(max_examples=15, deadline=None, derandomize=True)
POSITIVE = ("digamma", "inverse", "lgamma", "log", "log1p", "rsqrt", "sqrt")
INSIDE = ("acos", "asin", "atanh", "erfinv")
WITHOUT = ("trigamma",)
"""Functions whose gradient is refused."""
FLAT = ("ceil", "floor", "round", "sign")
MOVING = sorted(FUNCTIONS.keys() - {*FLAT, *WITHOUT})


def draws(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape)


def single(op: str, **operands: Any):
    """What makes one node of the inputs named as its operands."""
    return lambda builder, values: builder.add(op, **{**operands, **values})


@pytest.mark.parametrize("name", MOVING)
def test_functions_of_one_tensor(name):
    x = draws(40, low=0.1) if name in POSITIVE else draws(40, low=-0.9, high=0.9) if name in INSIDE else \
        draws(40, low=-1.2, high=1.2) if name == "tan" else draws(40, low=0.1, high=0.9) if name == "ndtri" else \
        draws(40)
    hold({"x": x}, single(name, **SETTINGS.get(name, {})))


@pytest.mark.parametrize("name", WITHOUT)
def test_functions_without_a_gradient_say_so(name):
    with pytest.raises(GraphError, match=f"{name} has no gradient"):
        hold({"x": draws(8, low=0.5)}, single(name))


@pytest.mark.parametrize("mode", ["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"])
def test_gelu_far_from_zero_too(mode):
    x = np.array([-80.0, -9, -3, -0.5, 0.2, 2, 7, 90])
    hold({"x": x}, single("gelu", mode=mode))
    hold({"x": x * 8}, single("gelu", mode=mode, exponent=3))


def test_softplus_family_and_slopes_of_both_signs():
    hold({"x": draws(30)}, single("elu", alpha=1.0))
    hold({"x": draws(30)}, single("clamped_relu", alpha=-0.5, beta=0.7))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "real_div", "maximum", "minimum", "pow"])
@SOME
@given(data=st.data())
def test_two_tensors_broadcast(name, data):
    full = data.draw(st.lists(st.integers(1, 3), min_size=0, max_size=4))
    shapes = []
    for _ in range(2):
        kept = [data.draw(st.sampled_from([extent, 1])) for extent in full]
        shapes.append(kept[data.draw(st.integers(0, len(kept))):])
    x, y = (draws(*shape, seed=i, low=0.5) for i, shape in enumerate(shapes))
    hold({"x": x, "y": y}, single(name))


def test_remainders():
    hold({"x": np.array([[5.3], [-4.2], [7.1]]), "y": np.array([2.0, 3.0])}, single("mod"))


@pytest.mark.parametrize("exponent", [-1.5, -1.0, 0.5, 1.0, 2.0, 3.0])
def test_powers_of_and_with_constants(exponent):
    hold({"x": draws(9, low=0.3)}, single("pow", y=exponent))
    hold({"y": draws(9)}, single("pow", x=abs(exponent)))


@SOME
@given(data=st.data())
def test_matrix_products(data):
    batch = data.draw(st.lists(st.integers(1, 2), max_size=2))
    rows, depth, columns = (data.draw(st.integers(1, 4)) for _ in range(3))
    left, right = data.draw(st.booleans()), data.draw(st.booleans())
    x = [depth, rows] if left else [rows, depth]
    y = [columns, depth] if right else [depth, columns]
    front = [data.draw(st.sampled_from([[], batch, [1] * len(batch)])) for _ in range(2)]
    hold({"x": draws(*front[0], *x), "y": draws(*front[1], *y, seed=1)},
         single("matmul", transpose_x=left, transpose_y=right))


@pytest.mark.parametrize(("x", "y"), [((4,), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((4,), (4, 3))])
def test_products_of_vectors(x, y):
    hold({"x": draws(*x), "y": draws(*y, seed=1)}, single("matmul"))


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_linear(shape):
    weight, bias = draws(4, 5, seed=1).astype(np.float32), draws(4, seed=2).astype(np.float32)
    hold({"x": draws(*shape)}, single("linear", weight=weight, bias=bias))


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square",
                                  "reduce_l2_norm", "reduce_l1_norm", "reduce_log_sum", "reduce_log_sum_exp"])
@pytest.mark.parametrize("axes", [None, [-1], [0, 2]])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(name, axes, keep):
    hold({"x": draws(2, 3, 4, low=0.2)}, single(name, axes=axes, keep_dims=keep))


def test_equal_largest_elements_share():
    joint = gradient(summed({"x": draws(3)}, single("reduce_max")), "loss", ["x"])
    weight = wide(joint, {"x": np.array([1.0, 2.0, 0.0])})["gradient_x"].max()
    assert np.allclose(wide(joint, {"x": np.array([1.0, 1.0, 0.0])})["gradient_x"], [weight / 2, weight / 2, 0])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis):
    hold({"x": draws(2, 3, 4)}, single("softmax", axis=axis))
    hold({"x": draws(2, 3, 4)}, single("softmax", axis=axis, scale=0.25))


@pytest.mark.parametrize(("name", "operands"), [
    ("reshape", {"shape": [4, -1]}), ("transpose", {"perm": [2, 0, 1]}), ("expand_dims", {"axes": [0, -1]}),
    ("flatten2d", {"axis": 1}), ("identity", {}), ("reverse", {"axes": [0, 2]}), ("cast", {"dtype": "fp32"}),
    ("cumsum", {"axis": 2, "exclusive": True}), ("cumsum", {"axis": 1, "reverse": True}),
    ("slice_by_index", {"begin": [0, 1, 0], "end": [2, 3, 4], "stride": [1, 1, 2]}),
    ("slice_by_index", {"begin": [1, -1, 3], "end": [0, -4, -5], "stride": [-1, -2, -1], "end_mask": [True] * 3}),
    ("slice_by_index", {"begin": [0, 1, 2], "end": [2, 3, 4], "squeeze_mask": [False, True, False]}),
    ("slice_by_index", {"begin": [0, 0, 1], "end": [2, 3, 4], "stride": [1, 2, 3]}),
    ("slice_by_size", {"begin": [1, 0, 2], "size": [-1, 2, 1]}),
    ("crop", {"crop_height": [1, 0], "crop_width": [0, 2]}),
    ("tile", {"reps": [2, 1, 3]}), ("pad", {"pad": [1, 2, 0, 1], "mode": "constant", "constant_val": 3.0}),
    ("split", {"axis": 2, "num_splits": 2}), ("split", {"axis": 1, "split_sizes": [1, 2]}),
    ("gather", {"axis": 1, "indices": np.array([2, 0, 2, 1], np.int32)}),
    ("gather", {"axis": 0, "indices": np.array([[1], [0]], np.int32)}),
])
def test_movement(name, operands):
    hold({"x": draws(2, 3, 4)}, single(name, **operands))


@pytest.mark.parametrize(("name", "operands"), [
    ("depth_to_space", {"block_size": 2}), ("pixel_shuffle", {"upscale_factor": 2}),
    ("space_to_depth", {"block_size": 2}), ("pixel_unshuffle", {"downscale_factor": 2}),
    ("space_to_batch", {"block_shape": [2, 2], "paddings": [[1, 1], [0, 0]]}),
    ("batch_to_space", {"block_shape": [2, 2], "crops": [[1, 0], [0, 2]]}), ("band_part", {"lower": 1, "upper": 0}),
    ("upsample_nearest_neighbor", {"scale_factor_height": 2.0, "scale_factor_width": 3.0}),
    ("upsample_bilinear", {"scale_factor_height": 2.0, "scale_factor_width": 1.5}),
    ("resize_nearest_neighbor", {"target_size_height": 3, "target_size_width": 5}),
    ("resize_bilinear", {"target_size_height": 5, "target_size_width": 6, "sampling_mode": "ALIGN_CORNERS"}),
])
def test_images(name, operands):
    hold({"x": draws(4, 4, 4, 6)}, single(name, **operands))


def test_squeeze():
    hold({"x": draws(2, 1, 4)}, single("squeeze", axes=[1]))


@pytest.mark.parametrize("interleave", [False, True])
def test_joined_tensors(interleave):
    shapes = [(2, 3, 2), (2, 3, 2)] if interleave else [(2, 3, 2), (2, 1, 2)]
    inputs = {name: draws(*shape, seed=i) for i, (name, shape) in enumerate(zip("ab", shapes, strict=True))}
    hold(inputs, lambda b, v: b.add("concat", values=(v["a"], np.ones(shapes[0], np.float32), v["b"])
                                    if interleave else (v["a"], v["b"]), axis=1, interleave=interleave))
    same = {"a": draws(2, 3), "b": draws(2, 3, seed=1)}
    for axis in (0, 1, -1):
        hold(same, lambda b, v, axis=axis: b.add("stack", values=(v["a"], v["b"], v["a"]), axis=axis))


def test_a_part_of_a_split_alone():
    hold({"x": draws(2, 6)}, lambda b, v: b.add("split", x=v["x"], axis=1, num_splits=3)[1])


@pytest.mark.parametrize("mask", [(3, 4), (4,), (2, 1, 1)])
def test_select(mask):
    condition = np.random.default_rng(3).random(mask) < 0.5
    hold({"a": draws(2, 3, 4), "b": draws(1, 4, seed=1)}, single("select", cond=condition))


@pytest.mark.parametrize("axes", [None, [-1], [1, 2]])
@pytest.mark.parametrize("vectors", [False, True])
def test_layer_norm(axes, vectors):
    shape = tuple((2, 3, 4)[axis] for axis in axes or (0, 1, 2))
    more = {"gamma": draws(*shape, seed=1).astype(np.float32),
            "beta": draws(*shape, seed=2).astype(np.float32)} if vectors else {}
    hold({"x": draws(2, 3, 4)}, single("layer_norm", axes=axes, epsilon=0.01, **more))


def test_other_norms():
    gamma = draws(4, seed=1).astype(np.float32)
    hold({"x": draws(2, 3, 4)}, single("rms_norm", axes=[-1], gamma=gamma, epsilon=0.01))
    hold({"x": draws(2, 2, 2, 3)}, single("l2_norm", epsilon=0.01))
    vectors = {name: draws(3, seed=i, low=0.3).astype(np.float32)
               for i, name in enumerate(("mean", "variance", "gamma", "beta"))}
    hold({"x": draws(2, 3, 2, 2)}, single("batch_norm", **vectors))
    hold({"x": draws(2, 3, 2, 2)}, single("instance_norm", gamma=vectors["gamma"], beta=vectors["beta"]))


@SOME
@given(data=st.data())
def test_attention(data):
    target, source, size = (data.draw(st.integers(1, 4)) for _ in range(3))
    mask = np.random.default_rng(source).random((target, source)) < 0.7
    mask[:, 0] = True
    inputs = {"query": draws(1, 2, target, size), "key": draws(1, 2, source, size, seed=1),
              "value": draws(1, 2, source, 3, seed=2)}
    masked = data.draw(st.booleans())
    hold(inputs, lambda b, v: b.add("scaled_dot_product_attention", **v,
                                    attn_mask=b.constant(mask) if masked else None))


@pytest.mark.parametrize("equation", ["nchw,nwhu->nchu", "chw,whr->chr", "ab,bc->ac", "ab,ab->ab", "abc,bd->acd"])
def test_einsum(equation):
    extents = dict(zip("abcdhnruw", (2, 3, 2, 2, 3, 2, 2, 3, 2), strict=True))
    terms = equation.partition("->")[0].split(",")
    inputs = {name: draws(*(extents[letter] for letter in term), seed=i)
              for i, (name, term) in enumerate(zip("xy", terms, strict=True))}
    hold(inputs, lambda b, v: b.add("einsum", values=(v["x"], v["y"]), equation=equation))
