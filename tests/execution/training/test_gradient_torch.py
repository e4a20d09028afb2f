"""Gradient rules against PyTorch's, in float64."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradients import summed, wide
from support.needs import library

from openane.training.gradient import gradient, promote

torch = library("torch")
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


@pytest.mark.parametrize(("name", "settings"), [
    ("clip", {"alpha": -1.0, "beta": 2.5}), ("clip", {"alpha": -0.25, "beta": 6.0})])
def test_at_its_bounds_clip_has_the_slope_of_the_inside(name, settings):
    """PyTorch's answer there depends on its version: 1 for long, 0 in 2.15. Elsewhere the slopes are the same."""
    graph = summed({"x": CORNERS}, lambda b, v: b.add(name, **v, **settings))
    found = wide(gradient(graph, "loss", ["x"]), {"x": CORNERS})["gradient_x"]
    low, high = settings.values()
    assert ((found > 0) == (np.clip(CORNERS, low, high) == CORNERS)).all()
    assert {low, high} <= set(CORNERS)
    between = np.array([number for number in CORNERS if number not in (low, high)])
    agree({"x": between}, lambda b, v: b.add(name, **v, **settings), lambda x: x.clamp(low, high))


ALONG = np.array([[2, 0, 0, 1], [1, 1, 2, 2]], np.int32)
IMAGE = draws(2, 3, 5, 6, seed=4)


@pytest.mark.parametrize(("name", "settings", "function"), [
    ("gather_along_axis", {"indices": ALONG, "axis": 0},
     lambda x: torch.take_along_dim(x, torch.tensor(ALONG).long(), 0)),
    ("gather_nd", {"indices": ALONG.T[:, :, None].copy()}, lambda x: x[torch.tensor(ALONG.T)]),
    ("gather_nd", {"indices": ALONG.T.copy()}, lambda x: x[torch.tensor(ALONG[0]), torch.tensor(ALONG[1])]),
    ("sliding_windows", {"axis": 1, "size": 3}, lambda x: x.unfold(1, 3, 1)),
    ("topk", {"k": 2, "axis": 1, "return_indices": False}, lambda x: torch.topk(x, 2, 1)[0]),
    ("reduce_prod", {"axes": [0]}, lambda x: torch.prod(x, 0)),
    ("pad", {"pad": [2, 1], "mode": "reflect"}, lambda x: F.pad(x, (2, 1), mode="reflect")),
    ("pad", {"pad": [2, 3], "mode": "replicate"}, lambda x: F.pad(x, (2, 3), mode="replicate")),
])
def test_picking(name, settings, function):
    agree({"x": draws(3, 4)}, lambda b, v: b.add(name, **v, **settings), function)


@pytest.mark.parametrize("mode", ["update", "add", "mul", "max", "min"])
def test_writing(mode):
    """Each place once: with several updates of a place PyTorch promises no order and shares maxima."""
    at = np.array([[2, 0, 1, 1]], np.int32)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}

    def theirs(data, updates):
        where = torch.tensor(at).long()
        return torch.scatter(data, 0, where, updates) if mode == "update" else \
            torch.scatter_reduce(data, 0, where, updates, names[mode])

    agree({"data": draws(3, 4), "updates": draws(1, 4, seed=1)},
          lambda b, v: b.add("scatter_along_axis", **v, indices=at, axis=0, mode=mode), theirs)


def test_writing_a_slice():
    agree({"x": draws(3, 4), "update": draws(3, 2, seed=1)},
          lambda b, v: b.add("slice_update", **v, begin=[0, 1], end=[3, 4], stride=[1, 2]),
          lambda x, update: torch.slice_scatter(x, update, 1, 1, 4, 2))


@pytest.mark.parametrize(("name", "settings", "function"), [
    ("resize", {"shape": np.int32([7, 4]), "resized_dims": np.int32(2), "sampling_mode": "UNALIGN_CORNERS"},
     lambda x: F.interpolate(x, size=(7, 4), mode="bilinear")),
    ("resize", {"shape": np.int32([7, 4]), "resized_dims": np.int32(2), "sampling_mode": "STRICT_ALIGN_CORNERS"},
     lambda x: F.interpolate(x, size=(7, 4), mode="bilinear", align_corners=True)),
    ("resize", {"shape": np.int32([7, 4]), "resized_dims": np.int32(2), "interpolation_mode": "NEAREST_NEIGHBOR"},
     lambda x: F.interpolate(x, size=(7, 4), mode="nearest-exact")),
    ("local_response_norm", {"size": 3, "alpha": 0.5, "beta": 0.75, "k": 2.0},
     lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 2.0)),
])
def test_images(name, settings, function):
    agree({"x": IMAGE}, lambda b, v: b.add(name, **v, **settings), function)


@pytest.mark.parametrize(("padding", "theirs", "corners"), [
    ("constant", "zeros", True), ("border", "border", False), ("reflection", "reflection", True),
    ("symmetric", "reflection", False)])
def test_samples_of_images(padding, theirs, corners):
    at = draws(2, 4, 3, 2, seed=5).astype(np.float32)
    agree({"x": IMAGE}, lambda b, v: b.add("resample", **v, coordinates=at, sampling_mode="bilinear", padding_value=0.0,
                                           padding_mode=padding, coordinates_mode="normalized_minus_one_to_one",
                                           align_corners=corners),
          lambda x: F.grid_sample(x, torch.tensor(at.astype(np.float64)), padding_mode=theirs, align_corners=corners))


def test_softplus_by_channel():
    agree({"x": IMAGE}, lambda b, v: b.add("softplus_parametric", **v),
          lambda x, alpha, beta: alpha[:, None, None] * F.softplus(x * beta[:, None, None]),
          {"alpha": draws(3, seed=1), "beta": draws(3, seed=2)})


def recurrent_weights(gates, size=4, hidden=3):
    shapes = {"weight_ih": (gates * hidden, size), "weight_hh": (gates * hidden, hidden), "bias": (gates * hidden,)}
    return {name: draws(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}


def test_lstm():
    """PyTorch stacks gates i, f, z, o."""
    def theirs(x, initial_h, initial_c, weight_ih, weight_hh, bias):
        def turned(stacked):
            i, f, o, z = stacked.chunk(4)
            return torch.cat([i, f, z, o])

        module = torch.nn.LSTM(4, 3).double()
        weights = {"weight_ih_l0": turned(weight_ih), "weight_hh_l0": turned(weight_hh), "bias_ih_l0": turned(bias),
                   "bias_hh_l0": torch.zeros(12, dtype=torch.float64)}
        states, (last, cell) = torch.func.functional_call(module, weights, (x, (initial_h[None], initial_c[None])))
        return states, last[0], cell[0]

    states = {"initial_h": draws(2, 3, seed=6), "initial_c": draws(2, 3, seed=7)}
    agree({"x": draws(5, 2, 4), **states}, lambda b, v: b.add("lstm", **v, output_sequence=True), theirs,
          recurrent_weights(4))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_rnn(activation):
    def theirs(x, initial_h, weight_ih, weight_hh, bias):
        module = torch.nn.RNN(4, 3, nonlinearity=activation).double()
        weights = {"weight_ih_l0": weight_ih, "weight_hh_l0": weight_hh, "bias_ih_l0": bias,
                   "bias_hh_l0": torch.zeros(3, dtype=torch.float64)}
        states, last = torch.func.functional_call(module, weights, (x, initial_h[None]))
        return states, last[0]

    agree({"x": draws(5, 2, 4), "initial_h": draws(2, 3, seed=6)},
          lambda b, v: b.add("rnn", **v, output_sequence=True, activation=activation), theirs, recurrent_weights(1))


def test_gru():
    """Step by step: PyTorch's own GRU multiplies by the reset gate behind the product."""
    def theirs(x, initial_h, weight_ih, weight_hh, bias):
        state, states = initial_h, []
        for step in x:
            r, o, z = (step @ weight_ih.T + bias).chunk(3, 1)
            by_r, by_o, by_z = weight_hh.chunk(3)
            reset, update = torch.sigmoid(r + state @ by_r.T), torch.sigmoid(z + state @ by_z.T)
            new = torch.tanh(o + (reset * state) @ by_o.T)
            state = (1 - update) * new + update * state
            states.append(state)
        return torch.stack(states), state

    agree({"x": draws(5, 2, 4), "initial_h": draws(2, 3, seed=6)},
          lambda b, v: b.add("gru", **v, output_sequence=True), theirs, recurrent_weights(3))
