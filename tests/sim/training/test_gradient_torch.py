"""Gradient rules against PyTorch's, in float64."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradients import summed, wide

from openane.training.gradient import gradient, promote

torch = pytest.importorskip("torch", reason="PyTorch is the second opinion here: pip install torch")
F = torch.nn.functional

UNARY = {
    "abs": torch.abs, "atan": torch.atan, "cos": torch.cos, "erf": torch.erf, "exp": torch.exp, "exp2": torch.exp2,
    "relu": torch.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid, "silu": F.silu, "sin": torch.sin,
    "softplus": F.softplus, "softsign": F.softsign, "square": torch.square, "tanh": torch.tanh, "tan": torch.tan,
    "sinh": torch.sinh, "cosh": torch.cosh,
}
CORNERS = np.array([-3.0, -1, -0.25, 0, 0.5, 1, 2.5, 6, 7])
"""Zeros included: at corners the slopes are PyTorch's."""


def draws(*shape, seed=0, low=-1.5):
    return np.random.default_rng(seed).uniform(low, 1.5, shape).astype(np.float32).astype(np.float64)


def agree(inputs, made, function, weights=None):
    """The gradients of a weighted sum of what `made` and `function` give, by every input and constant."""
    graph, values = summed(inputs, made, weights=weights), {**inputs, **(weights or {})}
    plain, _ = promote(graph, list(weights or {}), runtime=False)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in values.items()}
    results = function(**tensors)
    rng = np.random.default_rng(0)
    loss = sum((result * torch.tensor(rng.uniform(0.25, 1, tuple(result.shape)).astype(np.float32).astype(np.float64))
                ).sum() for result in (results if isinstance(results, tuple) else (results,)))
    loss.backward()
    found = wide(gradient(graph, "loss", list(values)), values)
    assert np.allclose(wide(plain, values)["loss"], loss.item(), rtol=1e-5, atol=1e-5)
    for name, tensor in tensors.items():
        wanted = tensor.grad.numpy()
        assert np.allclose(found[f"gradient_{name}"], wanted, rtol=1e-4, atol=2e-5 * max(1, np.abs(wanted).max())), name


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor_and_their_corners(name):
    agree({"x": CORNERS}, lambda b, v: b.add(name, **v), lambda x: UNARY[name](x))


@pytest.mark.parametrize(("name", "settings", "function"), [
    ("leaky_relu", {"alpha": 0.25}, lambda x: F.leaky_relu(x, 0.25)), ("elu", {"alpha": 1.0}, F.elu),
    ("elu", {"alpha": 0.5}, lambda x: F.elu(x, 0.5)), ("gelu", {"mode": "EXACT"}, F.gelu),
    ("clip", {"alpha": -1.1, "beta": 1.1}, lambda x: x.clamp(-1.1, 1.1)),
    ("gelu", {"mode": "TANH_APPROXIMATION"}, lambda x: F.gelu(x, approximate="tanh")),
])
def test_functions_with_settings(name, settings, function):
    agree({"x": CORNERS}, lambda b, v: b.add(name, **v, **settings), lambda x: function(x))


@pytest.mark.parametrize(("name", "function"), [
    ("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("real_div", torch.div), ("pow", torch.pow),
    ("maximum", torch.maximum), ("minimum", torch.minimum),
])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((), (3, 2))])
def test_two_tensors(name, function, shapes):
    x, y = (draws(*shape, seed=i, low=0.3) for i, shape in enumerate(shapes))
    agree({"x": x, "y": y}, lambda b, v: b.add(name, **v), lambda x, y: function(x, y))


@pytest.mark.parametrize("settings", [
    {}, {"strides": [2, 1]}, {"pad": [1, 2]}, {"strides": [3, 2], "pad": [1, 1]}, {"dilations": [2, 1], "pad": [2, 0]},
    {"groups": 2, "strides": [1, 2]}, {"groups": 4, "pad": [1, 1]},
])
def test_convolutions(settings):
    pad, groups = settings.get("pad", [0, 0]), settings.get("groups", 1)
    operands = {**settings, "pad": [pad[0], pad[0], pad[1], pad[1]], "pad_type": "custom"}
    agree({"x": draws(2, 4, 7, 8)}, lambda b, v: b.add("conv", **v, **operands),
          lambda x, weight, bias: F.conv2d(x, weight, bias, settings.get("strides", 1), pad,
                                           settings.get("dilations", 1), groups),
          {"weight": draws(4, 4 // groups, 3, 2, seed=1), "bias": draws(4, seed=2)})


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_sequences(stride):
    agree({"x": draws(2, 3, 9)}, lambda b, v: b.add("conv", **v, strides=[stride], pad_type="valid"),
          lambda x, weight: F.conv1d(x, weight, stride=stride), {"weight": draws(5, 3, 4, seed=1)})


@pytest.mark.parametrize("stride", [1, 2])
def test_transposed_convolutions(stride):
    weight = draws(3, 2, 3, 3, seed=1)
    agree({"x": draws(1, 3, 4, 5)},
          lambda b, v: b.add("conv_transpose", **v, weight=weight.astype(np.float32), strides=[stride] * 2,
                             pad_type="custom", pad=[1, 1, 0, 0]),
          lambda x: F.conv_transpose2d(x, torch.tensor(weight), stride=stride, padding=(1, 0)))


def test_pools():
    x = np.random.default_rng(0).permutation(2 * 3 * 48).reshape(2, 3, 6, 8) / 16
    settings = {"kernel_sizes": [3, 2], "strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 0, 0]}
    agree({"x": x}, lambda b, v: b.add("max_pool", **v, **settings), lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0)))
    agree({"x": x}, lambda b, v: b.add("avg_pool", **v, **settings), lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0)))


def test_normalisations():
    vectors = {"gamma": draws(6, seed=1), "beta": draws(6, seed=2)}
    agree({"x": draws(2, 5, 6)}, lambda b, v: b.add("layer_norm", **v, axes=[-1], epsilon=1e-3),
          lambda x, gamma, beta: F.layer_norm(x, (6,), gamma, beta, 1e-3), vectors)
    agree({"x": draws(2, 6, 4, 3)}, lambda b, v: b.add("instance_norm", **v, epsilon=1e-3),
          lambda x, gamma, beta: F.instance_norm(x, weight=gamma, bias=beta, eps=1e-3), vectors)
    mean, variance = draws(6, seed=3), draws(6, seed=4, low=0.5)
    agree({"x": draws(2, 6, 4, 3)},
          lambda b, v: b.add("batch_norm", **v, mean=mean.astype(np.float32), variance=variance.astype(np.float32)),
          lambda x, gamma, beta: F.batch_norm(x, torch.tensor(mean), torch.tensor(variance), gamma, beta), vectors)


def test_normalisation_by_the_root_of_the_mean_square():
    def composed(b, v):
        mean = b.single("reduce_mean", x=b.single("square", x=v["x"]), axes=[-1], keep_dims=True)
        scaled = b.single("mul", x=v["x"], y=b.single("rsqrt", x=mean, epsilon=1e-3))
        return b.single("mul", x=scaled, y=v["gamma"])

    agree({"x": draws(3, 8)}, composed, lambda x, gamma: F.rms_norm(x, (8,), gamma, 1e-3), {"gamma": draws(8, seed=1)})


def test_reductions():
    for name, function in (("reduce_sum", torch.sum), ("reduce_mean", torch.mean), ("reduce_max", torch.amax),
                           ("reduce_min", torch.amin), ("reduce_log_sum_exp", torch.logsumexp)):
        agree({"x": np.round(draws(2, 3, 4) * 2) / 2}, lambda b, v, name=name: b.add(name, **v, axes=[1, 2]),
              lambda x, function=function: function(x, (1, 2)))


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    mask = np.tril(np.ones((5, 5), bool))
    inputs = {name: draws(2, 3, 5, 4, seed=i) for i, name in enumerate(("query", "key", "value"))}
    agree(inputs, lambda b, v: b.add("scaled_dot_product_attention", **v,
                                     attn_mask=b.constant(mask) if causal else None),
          lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=causal))


def test_softmaxes():
    agree({"x": draws(3, 4)}, lambda b, v: b.add("softmax", **v, axis=0), lambda x: F.softmax(x, 0))
    agree({"x": draws(3, 4)}, lambda b, v: b.add("log", x=b.single("softmax", **v, axis=1), epsilon=0.0),
          lambda x: F.log_softmax(x, 1))


def test_looking_up_and_moving():
    rows = np.array([[3, 0], [1, 3]], np.int32)
    agree({"x": draws(4, 3)}, lambda b, v: b.add("gather", **v, indices=rows, axis=0),
          lambda x: F.embedding(torch.tensor(rows), x))
    agree({"x": draws(2, 4, 6)}, lambda b, v: b.add("split", **v, axis=2, split_sizes=[1, 3, 2]),
          lambda x: torch.split(x, [1, 3, 2], 2))
    agree({"x": draws(2, 4)}, lambda b, v: b.add("tile", **v, reps=[3, 2]), lambda x: x.repeat(3, 2))
    agree({"x": draws(2, 4)}, lambda b, v: b.add("cumsum", **v, axis=1), lambda x: x.cumsum(1))
