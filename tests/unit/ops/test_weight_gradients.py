"""Gradients of convolutions, pools and of operations' weights against central differences of the references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gradient_cases import CASES
from support.gradients import hold
from support.unary import FUNCTIONS

from openane.ops import all_ops
from openane.ops.gradients import stopped

SOME = settings(max_examples=10, deadline=None, derandomize=True)


def draws(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape)


@st.composite
def windows(draw: st.DrawFn, spatial: int, dilated: bool = True) -> tuple[dict[str, Any], list[int], list[int]]:
    """Operands of a window, its kernel, and extents it fits."""
    kernel = draw(st.lists(st.integers(1, 3), min_size=spatial, max_size=spatial))
    strides = draw(st.lists(st.integers(1, 2), min_size=spatial, max_size=spatial))
    dilations = [draw(st.integers(1, 2)) if dilated else 1 for _ in kernel]
    extents = [(k - 1) * d + 1 + draw(st.integers(0, 3)) for k, d in zip(kernel, dilations, strict=True)]
    operands: dict[str, Any] = {"strides": strides, "pad_type": draw(st.sampled_from(["valid", "same", "custom"]))}
    if operands["pad_type"] == "custom":
        operands["pad"] = [draw(st.integers(0, (k - 1) * d)) for k, d in zip(kernel, dilations, strict=True)
                           for _ in range(2)]
    if dilated:
        operands["dilations"] = dilations
    return operands, kernel, extents


@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, "each"])
@SOME
@given(data=st.data())
def test_convolutions(spatial, groups, data):
    operands, kernel, extents = data.draw(windows(spatial))
    channels = 2 * data.draw(st.integers(1, 2)) if groups == 2 else 2
    count = channels if groups == "each" else groups
    outs = channels if groups == "each" else 2 * data.draw(st.integers(1, 2))
    weights = {"weight": draws(outs, channels // count, *kernel, seed=1), "bias": draws(outs, seed=2)}
    hold({"x": draws(data.draw(st.integers(1, 2)), channels, *extents)},
         lambda b, v: b.add("conv", **v, **operands, groups=count), weights)


@pytest.mark.parametrize("groups", [1, 2])
@SOME
@given(data=st.data())
def test_transposed_convolutions(groups, data):
    operands, kernel, extents = data.draw(windows(2))
    if operands["pad_type"] == "custom":
        operands["pad"] = [0, 1, 0, 0] if kernel[0] > 1 and extents[0] > 1 else [0] * 4
    weight = draws(4, 2, *kernel, seed=1).astype(np.float32)
    x = draws(1, 4, *extents)
    hold({"x": x}, lambda b, v: b.add("conv_transpose", **v, weight=weight, **operands, groups=groups),
         {"bias": draws(2 * groups, seed=2)})
    hold({"x": x}, lambda b, v: b.add("conv_transpose", **v, **operands, groups=groups), {"weight": weight})


def test_a_convolution_by_x_alone():
    weight = draws(3, 2, 3, 3, seed=1).astype(np.float32)
    hold({"x": draws(1, 2, 6, 5)}, lambda b, v: b.add("conv", **v, weight=weight, strides=[2, 1], pad_type="same"))


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
@SOME
@given(data=st.data())
def test_pools(name, data):
    operands, kernel, extents = data.draw(windows(2, dilated=False))
    if operands["pad_type"] == "custom":
        operands["pad"] = [(k - 1) // 2 for k in kernel for _ in range(2)]
        operands["ceil_mode"] = min(kernel) > 1 and data.draw(st.booleans())
    if name == "avg_pool":
        operands["exclude_padding_from_average"] = data.draw(st.booleans())
    x = np.random.default_rng(5).permutation(2 * 2 * int(np.prod(extents))).reshape(2, 2, *extents) / 8
    hold({"x": x}, lambda b, v: b.add(name, **v, kernel_sizes=kernel, **operands))


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_linear(shape):
    hold({"x": draws(*shape)}, lambda b, v: b.add("linear", **v),
         {"weight": draws(4, 5, seed=1), "bias": draws(4, seed=2)})


def test_a_bias_alone():
    weight = draws(4, 5, seed=1).astype(np.float32)
    hold({"x": draws(2, 5)}, lambda b, v: b.add("linear", **v, weight=weight), {"bias": draws(4, seed=2)})


@pytest.mark.parametrize("axes", [None, [-1], [1, 2]])
def test_layer_norm(axes):
    shape = tuple((2, 3, 4)[axis] for axis in axes or (0, 1, 2))
    hold({"x": draws(2, 3, 4)}, lambda b, v: b.add("layer_norm", **v, axes=axes, epsilon=0.01),
         {"gamma": draws(*shape, seed=1), "beta": draws(*shape, seed=2)})


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_norms_per_channel(name):
    more = {"mean": draws(3, seed=3), "variance": draws(3, seed=4, low=0.3)} if name == "batch_norm" else {}
    hold({"x": draws(2, 3, 2, 2)},
         lambda b, v: b.add(name, **v, **{key: data.astype(np.float32) for key, data in more.items()}),
         {"gamma": draws(3, seed=1), "beta": draws(3, seed=2)})


def test_slopes_per_channel():
    hold({"x": draws(2, 3, 2, 2)}, lambda b, v: b.add("prelu", **v), {"alpha": draws(3, seed=1)})


def test_a_weight_that_is_used_twice():
    hold({"x": draws(2, 4)}, lambda b, v: b.add("linear", x=b.single("linear", **v), weight=v["weight"]),
         {"weight": draws(4, 4, seed=1)})


def test_every_rule_is_tried():
    """A new rule needs a line here, in test_gradients or among the cases of test_more_gradients."""
    text = "".join(Path(__file__).with_name(name).read_text() for name in ("test_gradients.py", Path(__file__).name))
    ruled = {name for name, op in all_ops().items() if op.gradient not in (None, stopped) or op.expand is not None}
    ruled -= {*FUNCTIONS, *(case.op for case in CASES)}
    assert {name for name in ruled if f'"{name}"' not in text} <= {"reshape_like"}
