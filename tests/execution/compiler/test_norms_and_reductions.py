"""Composed norms and reductions against their references; norms recognised in the pattern a converter writes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.compiler import compile
from openane.errors import UnsupportedError
from openane.ops.build import GraphBuilder
from openane.passes.order import simplify

FEW = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
EXTENTS = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
IMAGES = st.lists(st.integers(1, 9), min_size=3, max_size=4).map(tuple)
BOUNDS = {  # absolute beside one part in 200
    "reduce_sum_square": 4e-3, "reduce_l1_norm": 4e-3, "reduce_l2_norm": 4e-3, "reduce_log_sum": 8e-3,
    "reduce_log_sum_exp": 8e-3,
}


@FEW
@given(shape=EXTENTS, data=st.data(), op=st.sampled_from(sorted(BOUNDS)), keep=st.booleans())
def test_reductions_over_any_axes(hold, single, shape, data, op, keep):
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(0, len(shape) - 1), min_size=1).map(sorted)))
    low = 0.05 if op == "reduce_log_sum" else -2.0
    hold(single(op, shape, axes=axes, keep_dims=keep), low=low, absolute=BOUNDS[op], relative=5e-3)


def test_exponentials_and_squares_stay_in_range(hold, single):
    hold(single("reduce_log_sum_exp", (4, 300), axes=[1]), low=-900, high=900, absolute=1e-2, relative=2e-3)
    hold(single("reduce_l2_norm", (4, 4096), axes=[1]), low=-100, high=100, absolute=0, relative=5e-3)
    hold(single("reduce_l2_norm", (4, 64), axes=[1]), low=-0.05, high=0.05, absolute=0, relative=1e-2)


@pytest.mark.parametrize(("shape", "axes"), [((3, 48), [1]), ((2, 3, 5), None), ((2, 7, 3, 4), [1, 3])])
def test_products_of_elements(hold, single, shape, axes):
    hold(single("reduce_prod", shape, axes=axes), low=-1.9, high=1.9, absolute=1e-2, relative=2e-2)


def test_products_of_many_are_not_held_times_what_makes_others_infinite(hold, single):
    """Drawn inputs, of which ranges are measured, have products near 0; these have some near 1."""
    hold(single("reduce_prod", (3, 256), axes=[1]), low=0.99, high=1.01, absolute=1e-2, relative=6e-2)


def test_sums_of_too_many_exponentials_are_refused(single):
    with pytest.raises(UnsupportedError, match="At most 32768 elements"):
        compile(single("reduce_log_sum_exp", (3, 40000), axes=[1]))


@FEW
@given(shape=IMAGES, data=st.data())
def test_instance_norm(hold, single, shape, data):
    rng = np.random.default_rng(sum(shape))
    vectors = {name: rng.standard_normal(shape[1]) for name in ("gamma", "beta") if data.draw(st.booleans())}
    hold(single("instance_norm", shape, epsilon=1e-2, **vectors), absolute=3e-2, relative=1e-2)


@FEW
@given(shape=st.lists(st.integers(1, 9), min_size=3, max_size=5).map(tuple), scale=st.sampled_from([0.5, 30.0, 3000.0]))
def test_l2_norm(hold, single, shape, scale):
    hold(single("l2_norm", shape, epsilon=1e-3), low=-scale, high=scale, absolute=2e-3, relative=5e-3)


@FEW
@given(shape=IMAGES, size=st.sampled_from([1, 3, 5]), alpha=st.sampled_from([0.0, 1e-4, 0.5]),
       beta=st.sampled_from([0.5, 0.75]), k=st.sampled_from([1.0, 2.0]), scale=st.sampled_from([2.0, 50.0]))
def test_local_response_norm(hold, single, shape, size, alpha, beta, k, scale):
    hold(single("local_response_norm", shape, size=size, alpha=alpha, beta=beta, k=k), low=-scale, high=scale,
         absolute=4e-3, relative=1e-2)


@pytest.mark.parametrize(("settings_", "sentence"), [({"size": 4}, "size must be odd"),
                                                     ({"size": 3, "k": 0.0}, "k must be more than 0")])
def test_local_response_norms_without_a_meaning(single, settings_, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        compile(single("local_response_norm", (1, 8, 4, 4), **settings_))


def spelled(builder, x, axes, *, centre, root, square):
    """A norm over `axes` written out; None for the statistics a variant does not have."""
    over = {"axes": axes, "keep_dims": True}
    if centre:
        x = builder.single("sub", x=x, y=builder.single("reduce_mean", x=x, **over))
    squares = {"mul": {"x": x, "y": x}, "square": {"x": x}, "pow": {"x": x, "y": 2.0}}[square]
    mean = builder.single("reduce_mean", x=builder.single(square, **squares), **over)
    if root == "epsilon":
        return builder.single("mul", x=builder.single("rsqrt", x=mean, epsilon=1e-3), y=x)
    spread = builder.single("add", x=mean, y=1e-3)
    if root == "rsqrt":
        return builder.single("mul", x=x, y=builder.single("rsqrt", x=spread))
    if root == "pow":
        return builder.single("mul", x=x, y=builder.single("pow", x=spread, y=-0.5))
    deviation = builder.single("sqrt", x=spread)
    if root == "inverse":
        return builder.single("mul", x=x, y=builder.single("real_div", x=1.0, y=deviation))
    return builder.single("real_div", x=x, y=deviation)


@pytest.mark.parametrize("square", ["mul", "square", "pow"])
@pytest.mark.parametrize("root", ["rsqrt", "epsilon", "pow", "inverse", "divide"])
@pytest.mark.parametrize("centre", [False, True])
def test_norms_are_recognised(hold, centre, root, square):
    rng = np.random.default_rng(1)
    builder = GraphBuilder()
    y = spelled(builder, builder.input("x", "fp16", (2, 10, 48)), [2], centre=centre, root=root, square=square)
    y = builder.single("mul", x=y, y=rng.standard_normal(48))
    y = builder.single("add", x=y, y=rng.standard_normal((1, 1, 48)))
    graph = builder.finish({"y": y})
    assert [node.op for node in simplify(graph).nodes] == (["layer_norm"] if centre else ["rms_norm", "add"])
    hold(graph, absolute=1e-2, relative=1e-2)


@pytest.mark.parametrize("gamma", [False, True])
def test_moments_and_one_affine_step_are_a_layer_norm(hold, gamma):
    rng = np.random.default_rng(4)
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 10, 48))
    mean = builder.single("reduce_mean", x=x, axes=[-1], keep_dims=True)
    squares = builder.single("square", x=builder.single("sub", x=x, y=mean))
    variance = builder.single("reduce_mean", x=squares, axes=[-1], keep_dims=True)
    gain = builder.single("rsqrt", x=builder.single("add", x=variance, y=1e-3))
    gain = builder.single("mul", x=gain, y=rng.standard_normal(48)) if gamma else gain
    back = builder.single("mul", x=gain, y=mean) if gamma else builder.single("mul", x=mean, y=gain)
    shift = builder.single("sub", x=builder.constant(rng.standard_normal(48).astype(np.float16)), y=back)
    graph = builder.finish({"y": builder.single("add", x=builder.single("mul", x=x, y=gain), y=shift)})
    assert [node.op for node in simplify(graph).nodes] == ["layer_norm"]
    hold(graph, absolute=1e-2, relative=1e-2)


def test_group_normalisation(hold):
    """Normalised groups of channels, a gain and an offset per channel as one operation with the activation fused."""
    rng = np.random.default_rng(2)
    builder = GraphBuilder()
    grouped = builder.single("reshape", x=builder.input("x", "fp16", (2, 16, 6, 6)), shape=[2, 4, 4, 6, 6])
    y = spelled(builder, grouped, [2, 3, 4], centre=True, root="rsqrt", square="square")
    y = builder.single("reshape", x=y, shape=[2, 16, 6, 6])
    y = builder.single("mul", x=y, y=rng.standard_normal((16, 1, 1)))
    y = builder.single("add", x=y, y=rng.standard_normal((1, 16, 1, 1)))
    graph = builder.finish({"y": builder.single("silu", x=y)})
    assert [node.op for node in simplify(graph).nodes] == ["reshape", "layer_norm", "reshape", "batch_norm", "silu"]
    hold(graph, absolute=2e-2, relative=1e-2)


def test_squares_of_large_activations_do_not_overflow(hold):
    """Residual streams of language models: x^2 is beyond fp16, its mean's root is not."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (8, 64))
    y = spelled(builder, x, [1], centre=False, root="rsqrt", square="square")
    hold(builder.finish({"y": y}), low=-2000, high=2000, absolute=2e-3, relative=5e-3)


@pytest.mark.parametrize("form", ["sum", "sum_square", "norm"])
def test_vectors_of_unit_length(hold, form):
    """Divided by the root of a sum: nothing beyond fp16 is written where the squares are large."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (3, 10, 32))
    over = {"axes": [-1], "keep_dims": True}
    if form == "norm":
        length = builder.single("maximum", x=builder.single("reduce_l2_norm", x=x, **over), y=1e-6)
        y = builder.single("real_div", x=x, y=length)
    else:
        total = builder.single("reduce_sum", x=builder.single("mul", x=x, y=x), **over) if form == "sum" else \
            builder.single("reduce_sum_square", x=x, **over)
        y = builder.single("mul", x=x, y=builder.single("rsqrt", x=total, epsilon=1e-6))
    graph = builder.finish({"y": y})
    assert [node.op for node in simplify(graph).nodes] == ["rms_norm"]
    model = hold(graph, low=-500, high=500, absolute=1e-3, relative=5e-3)
    assert len(model.program.tasks) == 2


def test_what_is_no_norm_is_left_alone():
    builder = GraphBuilder()
    x, other = builder.input("x", "fp16", (4, 8)), builder.input("other", "fp16", (4, 8))
    mean = builder.single("reduce_mean", x=builder.single("square", x=other), axes=[1], keep_dims=True)
    y = builder.single("mul", x=x, y=builder.single("rsqrt", x=mean, epsilon=1e-3))
    assert "rms_norm" not in {node.op for node in simplify(builder.finish({"y": y})).nodes}


@FEW
@given(shape=EXTENTS, data=st.data())
def test_log_softmax_keeps_small_probabilities(hold, shape, data):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    y = builder.single("log", x=builder.single("softmax", x=x, axis=axis), epsilon=1e-30)
    hold(builder.finish({"y": y}), low=-40, high=40, absolute=1e-2, relative=2e-3)
