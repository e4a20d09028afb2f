"""Espresso models: layers, weight blobs, compressed files; what is not understood is refused by name."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.graph import Graph
from openane.importers import load_graph
from openane.importers.espresso.files import Blobs, read_json, read_shapes
from openane.importers.espresso.load import build_graph
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(6)
X = (1, 3, 4, 6)


def blob_file(blobs: dict[int, np.ndarray]) -> bytes:
    """A weight file."""
    data = {number: array.tobytes() for number, array in blobs.items()}
    table = b"".join(number.to_bytes(8, "little") + len(part).to_bytes(8, "little") for number, part in data.items())
    return len(data).to_bytes(8, "little") + table + b"".join(data.values())


def shape_entry(shape: tuple[int, ...]) -> dict[str, int]:
    return {**dict(zip(("n", "k", "h", "w"), (1,) * (4 - len(shape)) + shape, strict=True)), "_rank": len(shape)}


def network(layers: list[dict[str, Any]], **keys: Any) -> dict[str, Any]:
    """A network whose last layer is its output."""
    full = [{"name": f"layer{index}", "bottom": "x", "top": f"t{index}", "weights": {}, **layer}
            for index, layer in enumerate(layers)]
    full[-1]["attributes"] = {"is_output": 1}
    return {"storage": "model.espresso.weights", "format_version": 200, "layers": full, **keys}


def imported(layers: list[dict[str, Any]], blobs: dict[int, np.ndarray] | None = None, shape: tuple[int, ...] = X,
             **keys: Any) -> Graph:
    return build_graph(network(layers, **keys), {"x": shape}, Blobs(blob_file(blobs or {})))


def computed(layers: list[dict[str, Any]], blobs: dict[int, np.ndarray] | None = None, shape: tuple[int, ...] = X,
             **keys: Any) -> tuple[np.ndarray, np.ndarray]:
    """The reference result of a network, and its input."""
    graph = imported(layers, blobs, shape, **keys)
    x = RANDOM.standard_normal(shape).astype(np.float16)
    (result,) = evaluate(graph, {"x": x}).values()
    return result, x.astype(np.float32)


def convolved(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("key", ["blob_weights", "blob_weights_f16"])
@pytest.mark.parametrize("filled", [False, True])
def test_convolution(key: str, filled: bool) -> None:
    weight = RANDOM.standard_normal((4, 3, 3, 2)).astype(np.float16)
    bias = np.arange(4, dtype=np.float32)
    blobs = {1: np.pad(bias, (0, 12)) if filled else bias, 2: np.zeros(3, np.float32),
             3: weight.astype(np.float32 if key == "blob_weights" else np.float16)}
    layer = {"type": "convolution", "C": 4, "K": 3, "Nx": 2, "Ny": 3, "n_groups": 1, "n_parallel": 1, "pad_t": 2,
             "pad_b": 0, "pad_l": 0, "pad_r": 1, "pad_mode": 0, "has_biases": 1, "blob_biases": 1, key: 3,
             "fused_relu": 1, "fused_tanh": 0, "debug_info": "conv", "hint_fallback_from_ane": 1}
    found, x = computed([layer], blobs)
    wanted = convolved(np.pad(x, ((0, 0), (0, 0), (2, 0), (0, 1))), weight) + bias.reshape(1, 4, 1, 1)
    np.testing.assert_allclose(found, np.maximum(wanted, 0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("mode", "extents"), [(0, (1, 2)), (1, (2, 3)), (2, (1, 2))])
def test_padding_modes(mode: int, extents: tuple[int, int]) -> None:
    layer = {"type": "convolution", "C": 6, "K": 3, "Nx": 3, "Ny": 3, "n_groups": 3, "stride_x": 2, "stride_y": 2,
             "pad_mode": mode, "blob_weights": 0}
    graph = imported([layer], {0: np.ones((6, 1, 3, 3), np.float32)})
    assert graph.outputs[0].shape == (1, 6, *extents)


def test_inner_products() -> None:
    weight = RANDOM.standard_normal((5, 72)).astype(np.float32)
    layer = {"type": "inner_product", "nB": 72, "nC": 5, "blob_weights": 0, "has_relu": 1, "has_biases": 0}
    found, x = computed([layer], {0: weight})
    wanted = np.maximum(x.reshape(1, 72) @ weight.astype(np.float16).astype(np.float32).T, 0)
    np.testing.assert_allclose(found.reshape(1, 5), wanted, rtol=1e-3, atol=1e-3)
    assert found.shape == (1, 5, 1, 1)
    last = RANDOM.standard_normal((5, 6)).astype(np.float32)
    found, x = computed([{**layer, "nB": 6, "has_relu": 0, "has_tanh": 1}], {0: last}, (3, 4, 6))
    np.testing.assert_allclose(found, np.tanh(x @ last.astype(np.float16).astype(np.float32).T), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("own", [0, 1])
def test_batch_norm_interleaves_its_numbers(own: int) -> None:
    table = RANDOM.uniform(0.5, 2, (3, 4)).astype(np.float16).astype(np.float32)
    layer = {"type": "batchnorm", "C": 3, "training": own, "training_instancenorm": own, "training_eps": 1e-3,
             "training_momentum": 0.9, "blob_batchnorm_params": 0}
    found, x = computed([layer], {0: table})
    gamma, beta, mean, variance = (column.reshape(1, 3, 1, 1) for column in table.T)
    if own:
        mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    np.testing.assert_allclose(found, gamma * (x - mean) / np.sqrt(variance + 1e-3) + beta, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("layer", "function"), [
    ({"mode": 0, "beta": 0}, lambda x: np.maximum(x, 0)), ({"mode": 1}, np.tanh),
    ({"mode": 2, "alpha": 0.25}, lambda x: np.where(x < 0, x / 4, x)),
    ({"mode": 3}, lambda x: 1 / (1 + np.exp(-x))), ({"mode": 6, "alpha": 2, "beta": 1}, lambda x: 2 * x + 1),
    ({"mode": 8, "alpha": 1}, lambda x: np.where(x < 0, np.expm1(x), x)),
    ({"mode": 10}, lambda x: np.log1p(np.exp(x))), ({"mode": 25}, lambda x: x / (1 + np.exp(-x))),
])
def test_activations(layer: dict[str, Any], function: Callable[[np.ndarray], np.ndarray]) -> None:
    found, x = computed([{"type": "activation", **layer}])
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("code", "function"), [
    (0, np.add), (1, np.multiply), (33, np.subtract), (22, np.minimum), (23, np.maximum)])
def test_elementwise(code: int, function: Callable[..., np.ndarray]) -> None:
    half = {"type": "elementwise", "operation": 3, "alpha": 0.5, "beta": 0, "top": "h"}
    found, x = computed([half, {"type": "elementwise", "operation": code, "alpha": 1, "beta": 0, "bottom": "x,h",
                                "fused_relu": 1}])
    np.testing.assert_allclose(found, np.maximum(function(x, x / 2), 0), rtol=1e-5)


def test_elementwise_with_numbers() -> None:
    found, x = computed([{"type": "elementwise", "operation": 2, "alpha": 3}])
    np.testing.assert_allclose(found, x + 3, rtol=1e-6)
    found, x = computed([{"type": "elementwise", "operation": 119, "alpha": -0.5, "beta": 1}])
    np.testing.assert_allclose(found, np.clip(x, -0.5, 1))
    found, x = computed([{"type": "elementwise", "operation": 0, "bottom": "x,x,x"}])
    np.testing.assert_allclose(found, 3 * x, rtol=1e-6)


@pytest.mark.parametrize(("style", "extent"), [(0, 2), (2, 3)])
def test_pooling(style: int, extent: int) -> None:
    layer = {"type": "pool", "avg_or_max": 1, "size_x": 2, "size_y": 2, "stride_x": 2, "stride_y": 2, "pad_mode": 0,
             "top_shape_style": style, "average_count_exclude_padding": 1}
    found, x = computed([layer], shape=(1, 2, 4, 5))
    assert found.shape == (1, 2, 2, extent)
    np.testing.assert_array_equal(found[..., :2], x[..., :4].reshape(1, 2, 2, 2, 2, 2).max((3, 5)))
    found, x = computed([{"type": "pool", "avg_or_max": 0, "is_global": 1, "size_x": 9, "size_y": 9}])
    np.testing.assert_allclose(found, x.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6)


def test_movement() -> None:
    found, x = computed([{"type": "transpose", "axis_w": 2, "axis_h": 0, "axis_k": 1, "axis_n": 3, "axis_seq": 4}])
    np.testing.assert_array_equal(found, x.transpose(0, 2, 3, 1))
    found, x = computed([{"type": "reshape", "dst_nd_rank": 2, "dst_h": -1, "dst_w": 8, "dst_k": 1, "dst_n": 1,
                          "mode": 0, "dynamic_shape": False, "version": 1}])
    np.testing.assert_array_equal(found, x.reshape(9, 8))
    found, x = computed([{"type": "concat", "bottom": "x,x"}])
    np.testing.assert_array_equal(found, np.concatenate([x, x], 1))
    found, x = computed([{"type": "split_nd", "nd_axis": -1, "begin_0": 0, "top": "a,b"},
                         {"type": "elementwise", "operation": 33, "bottom": "b,a"}])
    np.testing.assert_array_equal(found, x[..., 3:] - x[..., :3])
    found, x = computed([{"type": "expand_dims", "axes_0": 0, "size_of_axes": 1, "nd_axis": 0}], shape=(3, 4))
    np.testing.assert_array_equal(found, x[None])
    found, x = computed([{"type": "upsample", "mode": 0, "scaling_factor_x": 2, "scaling_factor_y": 3,
                          "align_corners": 0}])
    np.testing.assert_array_equal(found, x.repeat(2, 3).repeat(3, 2))
    found, x = computed([{"type": "softmax"}])
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-4)
    found, x = computed([{"type": "load_constant", "constant_blob": 0, "n": 1, "k": 3, "h": 1, "w": 1, "bottom": "",
                          "top": "c"}, {"type": "elementwise", "operation": 1, "bottom": "x,c"}],
                        {0: np.arange(3, dtype=np.float32)})
    np.testing.assert_allclose(found, x * np.arange(3).reshape(3, 1, 1))


def test_layers_may_write_over_what_they_read() -> None:
    relu = {"type": "activation", "mode": 0}
    found, x = computed([{**relu, "top": "a"}, {"type": "elementwise", "operation": 2, "alpha": 1, "bottom": "a",
                                               "top": "a"}, {**relu, "bottom": "a", "top": "a"}])
    np.testing.assert_allclose(found, np.maximum(x, 0) + 1, rtol=1e-6)


def test_images_are_scaled() -> None:
    transform = {"scale": 0.5, "bias_r": 1, "bias_g": 2, "bias_b": 3, "bias_a": 0, "is_network_bgr": 0,
                 "center_mean": False}
    for bgr in (0, 1):
        found, x = computed([{"type": "activation", "mode": 6, "alpha": 1, "beta": 0}],
                            transform_params={"x": {**transform, "is_network_bgr": bgr}})
        bias = np.array([3, 2, 1] if bgr else [1, 2, 3]).reshape(3, 1, 1)
        np.testing.assert_allclose(found, x / 2 + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("layer", "error", "text"), [
    ({"type": "rnn_arch", "hidden_size": 3}, UnsupportedError, "type: .*'rnn_arch'"),
    ({"type": "activation", "mode": 99}, UnsupportedError, "mode: .*99"),
    ({"type": "activation", "mode": 2}, FormatError, "alpha"),
    ({"type": "elementwise", "operation": 77}, UnsupportedError, "operation"),
    ({"type": "elementwise", "operation": 0, "bottom": "x,q"}, UnsupportedError, "input 'q'"),
    ({"type": "pool", "avg_or_max": 2}, UnsupportedError, "avg_or_max"),
    ({"type": "softmax", "sharpness": 2}, UnsupportedError, "layer 'layer0' .softmax., sharpness"),
    ({"type": "inner_product", "nB": 72, "nC": 2, "weights": {"W_U8": 1}}, UnsupportedError, "W_U8"),
    ({"type": "inner_product", "nB": 72, "nC": 2, "blob_weights": 5}, FormatError, "one of 1 weight blobs"),
    ({"type": "inner_product", "nB": 72, "nC": 2, "blob_weights": 0}, FormatError, "expected 576 bytes"),
    ({"type": "convolution", "C": 2**30, "K": 3, "Nx": 2**30, "Ny": 1, "blob_weights": 0}, FormatError, "too large"),
    ({"type": "convolution", "C": 2, "K": 4, "Nx": 1, "Ny": 1, "blob_weights": 0}, GraphError, "the 3 channels read"),
    ({"type": "transpose", "axis_n": 0, "axis_w": 0}, UnsupportedError, "exchange"),
    ({"type": "split_nd", "nd_axis": 1, "begin_1": 2, "top": "a,b"}, UnsupportedError, "begin_1"),
    ({"type": "reshape", "dst_k": 5, "dst_h": 1, "dst_w": 1}, GraphError, "reshape"),
])
def test_what_is_refused_says_why(layer: dict[str, Any], error: type[AneError], text: str) -> None:
    with pytest.raises(error, match=text):
        imported([layer], {0: np.ones(4, np.float32)})


def test_shapes_of_the_file_are_held_against_the_layers() -> None:
    stated = {"x": X, "t0": (1, 3, 4, 5)}
    with pytest.raises(GraphError, match=r"states \[1, 3, 4, 5\] for 't0'"):
        build_graph(network([{"type": "softmax"}]), stated, Blobs(b""))
    with pytest.raises(UnsupportedError, match="--shape x=1x3x224x224"):
        build_graph(network([{"type": "softmax"}]), {}, Blobs(b""))
    assert build_graph(network([{"type": "softmax"}]), {}, Blobs(b""), {"x": X}).outputs[0].shape == X


def packed(data: bytes) -> bytes:
    """A compressed file whose LZFSE stream holds stored blocks, in two chunks."""
    chunks = b""
    for part in (data[:100], data[100:]):
        stream = b"bvx-" + len(part).to_bytes(4, "little") + part + b"bvx$"
        chunks += len(part).to_bytes(8, "big") + len(stream).to_bytes(8, "big") + stream
    return b"pbze" + (0x400000).to_bytes(8, "big") + chunks


@pytest.mark.parametrize("pack", [lambda data: data, packed])
def test_folders_and_compressed_files(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    layer = {"type": "convolution", "C": 2, "K": 3, "Nx": 1, "Ny": 1, "blob_weights": 1}
    folder = tmp_path / "net.mlmodelc"
    folder.mkdir()
    (folder / "model.espresso.net").write_bytes(pack(json.dumps(network([layer])).encode()))
    (folder / "model.espresso.shape").write_bytes(pack(json.dumps({"layer_shapes": {"x": shape_entry(X)}}).encode()))
    (folder / "model.espresso.weights").write_bytes(blob_file({1: np.ones(6, np.float32)}))
    for path in (folder, folder / "model.espresso.net"):
        graph = load_graph(path)
        assert graph.outputs[0].shape == (1, 2, 4, 6)
        assert list(evaluate(graph, {"x": np.ones(X, np.float16)})) == ["t0"]
    with pytest.raises(GraphError, match="compiled for"):
        load_graph(folder, {"x": (1, 3, 9, 9)})


def test_ranks_of_shapes() -> None:
    document = {"layer_shapes": {"a": shape_entry((2, 3)), "b": shape_entry((4,)),
                                 "c": {"n": 1, "k": 2, "h": 3, "w": 4}, "d": {**shape_entry(X), "seq": 7, "_rank": 5}}}
    assert read_shapes(document) == {"a": (2, 3), "b": (4,), "c": (1, 2, 3, 4), "d": (7, *X)}


def test_mutants_raise_nothing_but_typed_errors() -> None:
    layers = [{"type": "convolution", "C": 4, "K": 3, "Nx": 1, "Ny": 2, "pad_mode": 1, "blob_weights": 1, "top": "a",
               "has_biases": 1, "blob_biases": 3},
              {"type": "pool", "avg_or_max": 0, "size_x": 2, "size_y": 2, "top_shape_style": 2, "bottom": "a",
               "top": "b"},
              {"type": "elementwise", "operation": 1, "bottom": "a,a", "top": "c"},
              {"type": "transpose", "axis_w": 1, "axis_h": 0, "axis_k": 2, "axis_n": 3, "axis_seq": 4, "bottom": "c",
               "top": "d"}, {"type": "reshape", "dst_k": 8, "dst_h": -1, "dst_w": 1, "bottom": "d"}]
    text = json.dumps(network(layers)).encode()
    weights = blob_file({1: np.ones((4, 3, 2, 1), np.float32), 3: np.ones(16, np.float32)})
    draw = random.Random(9)
    odd = [b"-1", b"0", b"1e9", b"99999999999", b"null", b"[]", b"{}", b'"x"', b"true", b"NaN", b"2.5"]
    numbers = [place for place, byte in enumerate(text) if chr(byte).isdigit()]
    passed = 0
    for _ in range(1200):
        data, blobs = bytearray(text), bytearray(weights)
        for _ in range(draw.randrange(0, 3)):
            place = draw.choice(numbers)
            data[place:place + 1] = draw.choice(odd)
        if draw.random() < 0.3:
            data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.3:
            blobs[draw.randrange(72)] = draw.randrange(256)
        with contextlib.suppress(AneError):
            document = read_json(packed(bytes(data)) if draw.random() < 0.2 else bytes(data), "the network")
            build_graph(document, {"x": X}, Blobs(bytes(blobs)))
            passed += 1
    assert passed > 100


def test_names_of_weights_that_no_system_takes_are_no_files(tmp_path: Path) -> None:
    layer = {"type": "activation", "mode": 0}
    (tmp_path / "m.espresso.shape").write_text(json.dumps({"layer_shapes": {"x": shape_entry((1, 3, 4, 6))}}))
    for name in ("x" * 5000, "a\0b", "..", "", "/", "\ud800"):
        (tmp_path / "m.espresso.net").write_text(json.dumps({**network([layer]), "storage": name}))
        with contextlib.suppress(AneError):
            load_graph(tmp_path / "m.espresso.net")
