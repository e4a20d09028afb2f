"""Forward and backward pass as one graph: compiled without host operations, run on the simulator, held to the same
graph in float32 and to what the graph refuses.

The bound is 0.5 % of a gradient's largest element: tables are within 0.4 % of most functions. Convolutions and their
inputs are quarters, small enough to be exact in fp16: a rounding would put elements on the other side of a relu's
corner, or change a window's maximum, and the gradients of both sides are right.
"""

from __future__ import annotations

import numpy as np
import pytest

import openane as ane
from openane.errors import GraphError, UnsupportedError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.training.gradient import computable, gradient, promote
from openane.training.gradient_losses import cross_entropy, mean_squared_error

BOUND = 5e-3


def quarters(rng, shape, most):
    """Multiples of 1/4, at most `most` of them."""
    return (rng.integers(-most, most + 1, shape) / 4).astype(np.float16)


class Network(GraphBuilder):
    """A GraphBuilder that draws its weights and remembers their names."""

    def __init__(self):
        super().__init__()
        self.rng, self.weights = np.random.default_rng(0), []

    def weight(self, name, *shape, positive=False):
        self.weights.append(name)
        drawn = self.rng.uniform(0.5, 1, shape) if positive else self.rng.normal(size=shape)
        return self.constant((drawn / np.prod(shape[1:]) ** 0.5).astype(np.float16), name)

    def linear(self, name, x, width):
        return self.single("linear", x=x, weight=self.weight(name, width, x.shape[-1]),
                           bias=self.weight(f"{name}_bias", width))

    def conv(self, name, x, channels, kernel=(3, 3), groups=1, **settings):
        self.weights += [name, f"{name}_bias"]
        weight, bias = (self.constant(quarters(self.rng, shape, 2), f"{name}{part}") for part, shape in
                        (("", (channels, x.shape[1] // groups, *kernel)), ("_bias", (channels,))))
        return self.single("conv", x=x, weight=weight, bias=bias, groups=groups, **settings)

    def norm(self, name, x):
        return self.single("layer_norm", x=x, axes=[-1], gamma=self.weight(f"{name}_gain", x.shape[-1], positive=True),
                           beta=self.weight(f"{name}_offset", x.shape[-1]))

    def classified(self, logits):
        target = self.input("target", "fp16", logits.shape)
        return self.finish({"loss": cross_entropy(self, logits, target)})


def classifier():
    net = Network()
    x = net.input("x", "fp16", (16, 64))
    hidden = net.single("relu", x=net.linear("first", x, 32))
    return net.classified(net.linear("last", hidden, 10)), net


def images():
    net = Network()
    x = net.input("x", "fp16", (2, 1, 8, 8))
    x = net.single("relu", x=net.conv("first", x, 8, pad_type="same"))
    x = net.single("max_pool", x=x, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
    x = net.single("relu", x=net.conv("second", x, 16, strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1], groups=2))
    x = net.single("silu", x=net.conv("third", x, 16, groups=16, pad_type="same"))
    x = net.single("avg_pool", x=x, kernel_sizes=[2, 2], strides=[1, 1], pad_type="valid")
    return net.classified(net.linear("last", net.single("reduce_mean", x=x, axes=[2, 3]), 10)), net


def normalised():
    net = Network()
    x = net.input("x", "fp16", (2, 8, 24))
    y = net.linear("last", net.norm("norm", x), 6)
    return net.finish({"loss": mean_squared_error(net, y, net.input("target", "fp16", y.shape))}), net


def attention():
    net, length, width, heads = Network(), 16, 32, 4
    x = net.input("x", "fp16", (1, length, width))
    normal = net.norm("norm", x)
    parts = {}
    for name in ("query", "key", "value"):
        shaped = net.single("reshape", x=net.linear(name, normal, width), shape=[1, length, heads, width // heads])
        parts[name] = net.single("transpose", x=shaped, perm=[0, 2, 1, 3])
    mask = net.constant(np.tril(np.ones((length, length), bool)))
    context = net.single("scaled_dot_product_attention", **parts, attn_mask=mask)
    joined = net.single("reshape", x=net.single("transpose", x=context, perm=[0, 2, 1, 3]), shape=[1, length, width])
    x = net.single("add", x=x, y=net.linear("out", joined, width))
    hidden = net.single("gelu", x=net.linear("wide", net.norm("second", x), 64), mode="TANH_APPROXIMATION")
    y = net.single("add", x=x, y=net.linear("narrow", hidden, width))
    return net.finish({"loss": mean_squared_error(net, y, net.input("target", "fp16", y.shape))}), net


def inputs_of(graph, rng):
    found = {}
    for value in graph.inputs:
        found[value.name] = quarters(rng, value.shape, 8)
        if value.name == "target" and value.shape[-1] == 10:
            found[value.name] = np.eye(10, dtype=np.float16)[rng.integers(0, 10, value.shape[:-1])]
    return found


@pytest.mark.parametrize("network", [classifier, images, normalised, attention])
def test_joint_graphs_on_the_simulator(network):
    graph, net = network()
    _, weights = promote(graph, net.weights)
    joint = gradient(graph, "loss", net.weights, scale=64.0)
    assert [v.name for v in joint.outputs] == ["loss", *(f"gradient_{name}" for name in net.weights)]
    model = ane.compile(joint)
    assert not model.host_operations
    inputs = {**inputs_of(graph, np.random.default_rng(3)), **weights}
    found, wanted = ane.run(model, inputs), evaluate(joint, inputs)
    for name, expected in wanted.items():
        if name == "gradient_key_bias":  # 0: attention does not change when all keys move
            assert np.abs(found[name]).max() <= 0.05
        else:
            assert np.abs(found[name] - expected).max() <= BOUND * np.abs(expected).max(), name


def test_weights_that_become_constants_again():
    graph, net = images()
    _, weights = promote(graph, net.weights)
    inputs = {**inputs_of(graph, np.random.default_rng(3)), **weights}
    kept = gradient(graph, "loss", net.weights, runtime=False)
    assert sum(node.op == "linear" for node in kept.nodes) == 1
    written = gradient(graph, "loss", net.weights)
    assert not any(node.op == "linear" for node in written.nodes)
    for name, expected in evaluate(written, inputs).items():
        assert np.allclose(evaluate(kept, inputs)[name], expected, atol=1e-4)


def test_promoted_weights_run_forward():
    graph, net = images()
    inputs = inputs_of(graph, np.random.default_rng(4))
    promoted, weights = promote(graph, net.weights)
    found = ane.run(ane.compile(promoted), {**inputs, **weights})["loss"]
    assert abs(found - evaluate(graph, inputs)["loss"]) < 2e-2
    kept, _ = promote(graph, net.weights, runtime=False)
    assert [node.op for node in kept.nodes] == [node.op for node in graph.nodes]
    assert [node.op for node in computable(kept).nodes] == [node.op for node in promoted.nodes]


def test_a_graph_with_runtime_weights_is_differentiated_too():
    graph, net = images()
    promoted, weights = promote(graph, net.weights)
    inputs = {**inputs_of(graph, np.random.default_rng(4)), **weights}
    model = ane.compile(gradient(promoted, "loss", net.weights))
    assert not model.host_operations
    wanted = evaluate(gradient(graph, "loss", net.weights), inputs)
    for name, expected in evaluate(gradient(promoted, "loss", net.weights), inputs).items():
        assert np.allclose(expected, wanted[name], atol=1e-4)


def test_the_loss_scale_as_an_input():
    graph, net = classifier()
    _, weights = promote(graph, net.weights)
    joint = gradient(graph, "loss", ["first", "last_bias"], scale=None)
    inputs = {**inputs_of(graph, np.random.default_rng(5)), **{name: weights[name] for name in ("first", "last_bias")}}
    model = ane.compile(joint)
    one, many = (ane.run(model, {**inputs, "loss_scale": np.full((), scale, np.float16)}) for scale in (8, 1024))
    for name in ("gradient_first", "gradient_last_bias"):
        assert np.abs(many[name] / 128 - one[name]).max() <= 2e-3 * np.abs(one[name]).max() + 1e-4


def test_graphs_of_fp32():
    builder = GraphBuilder()
    x, target = builder.input("x", "fp32", (6, 20)), builder.input("target", "fp32", (6, 5))
    weight = builder.constant(np.random.default_rng(0).normal(size=(5, 20)).astype(np.float32) / 4, "weight")
    graph = builder.finish({"loss": mean_squared_error(builder, builder.single("linear", x=x, weight=weight), target)})
    joint = gradient(graph, "loss", ["weight", "x"])
    assert {value.dtype for value in joint.outputs} == {"fp32"}
    model = ane.compile(joint)
    assert not model.host_operations
    inputs = {value.name: np.random.default_rng(1).normal(size=value.shape).astype(np.float32)
              for value in joint.inputs}
    found, wanted = ane.run(model, inputs), evaluate(joint, inputs)
    for name, expected in wanted.items():
        assert np.abs(found[name] - expected).max() <= 3e-3 * np.abs(expected).max()


def test_lookups_with_indices_at_run_time_are_refused():
    builder = GraphBuilder()
    table, rows = builder.input("table", "fp16", (5, 4)), builder.input("rows", "int32", (3,))
    found = builder.single("gather", x=table, indices=rows, axis=0)
    graph = builder.finish({"loss": builder.single("reduce_mean", x=found)})
    with pytest.raises(UnsupportedError, match="gather 'gather'") as caught:
        gradient(graph, "loss", ["table"])
    assert "one-hot" in str(caught.value.remedy)


def test_the_gradient_of_cross_entropy_is_softmax_less_target():
    builder = GraphBuilder()
    logits, target = (builder.input(name, "fp16", (6, 5)) for name in ("logits", "target"))
    joint = gradient(builder.finish({"loss": cross_entropy(builder, logits, target)}), "loss", ["logits"], scale=6.0)
    x = np.random.default_rng(0).uniform(-30, 30, (6, 5)).astype(np.float16)
    onehot = np.eye(5, dtype=np.float16)[[0, 1, 2, 3, 4, 0]]
    found = ane.run(ane.compile(joint), {"logits": x, "target": onehot})
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    share = powers / powers.sum(1, keepdims=True)
    assert np.abs(found["gradient_logits"] - (share - onehot)).max() < 4e-3
    loss = -np.log(share[onehot == 1]).mean()
    assert abs(found["loss"] - loss) <= 2e-3 * loss


def small():
    builder = GraphBuilder()
    x, n = builder.input("x", "fp16", (4, 3)), builder.input("n", "int32", (4, 3))
    y = builder.single("mul", x=builder.single("cast", x=n, dtype="fp16"), y=x)
    rounded = builder.single("floor", "rounded", x=x)
    return builder.finish({"loss": builder.single("reduce_mean", x=y), "y": y,
                           "stepped": builder.single("reduce_sum", x=rounded),
                           "worst": builder.single("reduce_prod", x=x)})


@pytest.mark.parametrize(("loss", "wrt", "what"), [
    ("missing", ["x"], "outputs are loss, y, stepped, worst"), ("y", ["x"], "must be one number"),
    ("loss", [], "at least one"), ("loss", ["x", "x"], "each once"), ("loss", ["nothing"], "input or constant"),
    ("loss", ["n"], "must hold fp16"), ("stepped", ["x"], "does not depend on 'x'"),
])
def test_what_is_refused(loss, wrt, what):
    with pytest.raises(GraphError, match=what):
        gradient(small(), loss, wrt)


def test_an_operation_without_a_rule_is_named():
    builder, table = GraphBuilder(), np.linspace(0, 1, 33)
    found = builder.single("lut_activation", x=builder.input("x", "fp16", (3,)), knots=table, clips=table[[0, -1]],
                           values=table[[0, -1]], exponent=5)
    graph = builder.finish({"loss": builder.single("reduce_sum", x=found)})
    with pytest.raises(UnsupportedError, match=r"lut_activation .*no gradient rule") as caught:
        gradient(graph, "loss", ["x"])
    assert caught.value.remedy


def test_scales_that_are_no_fp16_numbers():
    for scale in (0.0, 1e6, float("nan"), 1e-9):
        with pytest.raises(GraphError, match="scale"):
            gradient(small(), "loss", ["x"], scale=scale)
