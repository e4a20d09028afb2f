"""Programs from level 1 on: what a graph is rewritten to, and that they compute what they did."""

import numpy as np
import pytest

from openane.compiler import compile
from openane.errors import UnsupportedError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.optimisation import Choices, choices_of, level_of, with_choices, with_level
from openane.passes.in_strips import in_strips
from openane.passes.order import simplify
from openane.timing import program_time, rates


def drawn(seed, *shape):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype(np.float16)


def encoder(rows=80, width=64, heads=2, hidden=128):
    """A block of an encoder that normalises before attention and before the feed-forward net."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, rows, width))

    def normed(value, number):
        return build.single("layer_norm", x=value, axes=[-1], gamma=1 + drawn(number, width),
                            beta=drawn(number + 1, width), epsilon=1e-5)

    def linear(value, number, inputs, outputs):
        return build.single("linear", x=value, weight=drawn(number, outputs, inputs) / 4,
                            bias=drawn(number + 1, outputs))

    def split(value, order):
        seen = build.single("reshape", x=value, shape=[1, rows, heads, width // heads])
        return build.single("transpose", x=seen, perm=order)

    taken = normed(x, 1)
    q, k, v = (split(linear(taken, number, width, width), order)
               for number, order in ((3, [0, 2, 1, 3]), (5, [0, 2, 3, 1]), (7, [0, 2, 1, 3])))
    scores = build.single("real_div", x=build.single("matmul", x=q, y=k), y=np.array([5.6], np.float16))
    mixed = build.single("matmul", x=build.single("softmax", x=scores, axis=-1), y=v)
    joined = build.single("reshape", x=build.single("transpose", x=mixed, perm=[0, 2, 1, 3]), shape=[1, rows, width])
    x = build.single("add", x=x, y=linear(joined, 9, width, width))
    up = build.single("gelu", x=linear(normed(x, 11), 13, width, hidden), mode="EXACT")
    return build.finish({"y": build.single("add", x=x, y=linear(up, 15, hidden, width))})


def kinds(graph):
    return [node.op for node in graph.nodes]


def small(graph, strip_bytes=8192, products=0):
    return with_choices(with_level(graph, 1), Choices(strip_bytes, products))


@pytest.mark.parametrize("products", [0, 1])
@pytest.mark.parametrize("rows", [80, 97, 130])
def test_an_encoder_in_strips(compare, rows, products):
    graph = small(encoder(rows), products=products)
    assert kinds(simplify(graph)).count("softmax") > 1
    compare(graph, low=-1, high=1, absolute=3e-2, relative=1e-2)


@pytest.mark.parametrize("generation", ["h13", "h14", "h15", "h16", "h17", "h18"])
def test_every_generation(compare, generation):
    compare(small(encoder()), low=-1, high=1, absolute=3e-2, relative=1e-2, target=generation)


def test_strips_compute_the_same():
    graph = encoder(97)
    inputs = {"x": drawn(0, 1, 97, 64)}
    for products in (0, 1):
        strips = in_strips(graph, Choices(8192, products))
        strips.verify()
        assert len(strips.nodes) > len(graph.nodes)
        assert np.allclose(evaluate(strips, inputs)["y"], evaluate(graph, inputs)["y"], atol=2e-3)


def test_small_tensors_stay_whole():
    graph = encoder()
    assert in_strips(graph, Choices(1 << 19)) is graph
    assert in_strips(graph, Choices()) is graph


def test_a_region_ends_where_all_rows_are_read():
    """Keys are read whole by every row of scores."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 128, 64))
    a = build.single("gelu", x=build.single("mul", x=x, y=build.single("add", x=x, y=np.float16(1))), mode="EXACT")
    scores = build.single("softmax", x=build.single("matmul", x=a, y=a, transpose_y=True), axis=-1)
    graph = build.finish({"y": build.single("matmul", x=scores, y=a)})
    strips = in_strips(graph, Choices(8192))
    found = kinds(strips)
    assert found.count("concat") == 2
    assert "matmul" not in found[:found.index("concat")]


def test_gains_of_norms_are_in_the_weights_behind():
    graph = simplify(with_level(encoder(), 1))
    assert not any(name in node.operands for node in graph.nodes if node.op == "layer_norm"
                   for name in ("gamma", "beta"))
    assert any("gamma" in node.operands for node in simplify(encoder()).nodes if node.op == "layer_norm")


def test_a_norm_that_others_read_keeps_its_gains():
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 8, 64))
    normed = build.single("layer_norm", x=x, axes=[-1], gamma=drawn(1, 64), epsilon=1e-5)
    made = build.single("linear", x=normed, weight=drawn(2, 64, 64))
    graph = build.finish({"y": build.single("add", x=normed, y=made)})
    assert any("gamma" in node.operands for node in simplify(with_level(graph, 1)).nodes)


@pytest.mark.parametrize(("number", "kept"), [(8.0, False), (5.6, False), (1e-5, True), (0.0, True)])
def test_quotients_by_one_number_are_products(number, kept):
    """Unless fp16 does not hold the reciprocal."""
    build = GraphBuilder()
    quotient = build.single("real_div", x=build.input("x", "fp16", (2, 40)), y=np.array([number], np.float16))
    graph = with_level(build.finish({"y": quotient}), 1)
    assert ("real_div" in kinds(simplify(graph))) == kept


def test_levels():
    graph = encoder()
    assert level_of(graph) == 0
    assert with_level(graph, 0) is graph
    marked = with_level(graph, 2)
    assert level_of(marked) == 2
    assert with_level(marked, 0).metadata == graph.metadata
    assert choices_of(graph) == Choices()
    assert Choices.read("strip_bytes=64 else=3 strip_products=x") == Choices(64, 0)
    with pytest.raises(UnsupportedError, match="levels 0 to 3"):
        compile(graph, optimise=4)


def test_level_0_is_as_it_was():
    graph = encoder()
    assert compile(graph, optimise=0).program.tasks == compile(graph).program.tasks


def test_level_2_takes_what_is_modelled_to_be_fastest():
    """Of several ways, and never one slower than level 1's."""
    graph = encoder(rows=400, width=256, heads=4, hidden=1024)
    programs = [compile(graph, optimise=level).program for level in (0, 1, 2)]
    taken = [program_time(program, rates("m1")).seconds for program in programs]
    assert taken[2] <= taken[1] < 0.9 * taken[0]


def test_wide_channels_are_computed_in_strips(compare):
    """An expansion, a depthwise convolution and what clamps them, of some channels at a time."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 8, 20, 20))
    wide = build.single("relu", x=build.single("conv", x=x, weight=drawn(1, 48, 8, 1, 1), bias=drawn(2, 48)))
    deep = build.single("relu", x=build.single("conv", x=wide, weight=drawn(3, 48, 1, 3, 3), bias=drawn(4, 48),
                                               groups=48, strides=[2, 2], pad_type="same"))
    graph = small(build.finish({"y": build.single("conv", x=deep, weight=drawn(5, 12, 48, 1, 1))}), 16000)
    found = simplify(graph)
    assert kinds(found).count("conv") == 7
    assert all(node["weight"].constant for node in found.nodes if node.op == "conv")
    compare(graph, low=-1, high=1, absolute=3e-2, relative=1e-2)
