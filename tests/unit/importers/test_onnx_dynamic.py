"""Operators of dynamic quantisation and of onnxruntime's own domain give what onnxruntime computes; what is not rounded
here is within the rounding there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.errors import AneError, UnsupportedError
from openane.importers.onnx import load_onnx
from openane.importers.onnx.dynamic import relative_numbers
from openane.ops.evaluate import evaluate

helper = onnx.helper
MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(3)


def _whole(*shape: int) -> np.ndarray:
    """Weights of 7 bits: with larger ones onnxruntime's own sums of two products saturate at 16 bits."""
    return RANDOM.integers(-60, 60, shape).astype(np.int8)


def _node(op: str, names: list[str], outputs: list[str] | None = None, domain: str = MICROSOFT, **attributes: object):
    return helper.make_node(op, names, outputs or ["y"], domain=domain, **attributes)


@pytest.fixture
def microsoft(model):
    """A model that may use onnxruntime's domain."""
    def made(*arguments: object, **keywords: object):
        proto = model(*arguments, **keywords)
        proto.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
        return proto
    return made


def _quantised_product(extra: tuple[onnx.NodeProto, ...] = (), scaled: str = "measured") -> list[onnx.NodeProto]:
    """y = x times whole weights, as onnxruntime's quantiser writes it."""
    return [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "measured", "zero"]),
            helper.make_node("MatMulInteger", ["q", "w", "zero", "wz"], ["sums"]),
            helper.make_node("Cast", ["sums"], ["real"], to=1),
            helper.make_node("Mul", [scaled, "ws"], ["scale"]),
            helper.make_node("Mul", ["real", "scale"], ["y"]), *extra]


def _weights() -> dict[str, np.ndarray]:
    return {"w": _whole(24, 7), "wz": np.array(3, np.int8), "ws": np.array(0.02, np.float32)}


def test_a_quantised_product_is_that_of_the_model_before(model) -> None:
    constants = _weights()
    graph = load_onnx(model(_quantised_product(), {"x": (4, 24)}, constants))
    assert not {"round", "reduce_max"}.intersection(node.op for node in graph.nodes)
    x = RANDOM.standard_normal((4, 24)).astype(np.float16).astype(np.float32)
    expected = x @ ((constants["w"].astype(np.float32) - 3) * 0.02)
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], expected, rtol=2e-3, atol=2e-3)


def test_the_same_is_within_onnxruntimes_rounding(model, compare) -> None:
    compare(model(_quantised_product(), {"x": (4, 24)}, _weights()), tolerance=0.15)


def test_a_bias_in_the_units_of_the_scale(model, compare) -> None:
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "measured", "zero"]),
             helper.make_node("ConvInteger", ["q", "w", "zero"], ["sums"], kernel_shape=[3, 3]),
             helper.make_node("Mul", ["measured", "ws"], ["scale"]),
             helper.make_node("Div", ["b", "scale"], ["units"]), helper.make_node("Floor", ["units"], ["whole"]),
             helper.make_node("Cast", ["whole"], ["numbers"], to=6),
             helper.make_node("Add", ["sums", "numbers"], ["moved"]),
             helper.make_node("Cast", ["moved"], ["real"], to=1),
             helper.make_node("Mul", ["real", "scale"], ["y"])]
    constants = {"w": _whole(5, 3, 3, 3), "ws": np.array(0.01, np.float32),
                 "b": RANDOM.standard_normal((1, 5, 1, 1)).astype(np.float32)}
    graph = load_onnx(model(nodes, {"x": (1, 3, 6, 6)}, constants))
    assert "floor" not in [node.op for node in graph.nodes]
    compare(model(nodes, {"x": (1, 3, 6, 6)}, constants), tolerance=0.1)


@pytest.mark.parametrize("extra", [
    helper.make_node("DequantizeLinear", ["q", "measured", "zero"], ["other"]),
    helper.make_node("Relu", ["real"], ["other"]), helper.make_node("Identity", ["zero"], ["other"])])
def test_a_scale_that_is_used_otherwise_is_not_left_out(extra, model) -> None:
    outputs = ("y", "other")
    proto = model([*_quantised_product(), extra], {"x": (4, 24)}, _weights(), outputs=outputs)
    assert not relative_numbers(proto.graph).quantised


def test_quantisation_with_a_computed_scale(model, compare) -> None:
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    compare(model(nodes, {"x": (4, 24)}), tolerance=0.05)


@pytest.mark.parametrize("per_gate", [False, True])
def test_a_quantised_lstm(per_gate, microsoft) -> None:
    hidden, features, steps = 6, 5, 3
    w, r = _whole(2, features, 4 * hidden), _whole(2, hidden, 4 * hidden)
    scale = (RANDOM.uniform(0.005, 0.01, (2, 4 * hidden) if per_gate else (2,))).astype(np.float32)
    zero = np.zeros(scale.shape, np.int8)
    constants = {"w": w, "r": r, "ws": scale, "wz": zero}
    node = _node("DynamicQuantizeLSTM", ["x", "w", "r", "", "", "", "", "", "ws", "wz", "ws", "wz"], ["y"],
                 hidden_size=hidden, direction="bidirectional")
    graph = load_onnx(microsoft([node], {"x": (steps, 1, features)}, constants))
    wide = scale.reshape(2, 1, -1)
    plain = {name: (whole * wide).transpose(0, 2, 1).astype(np.float32) for name, whole in (("w", w), ("r", r))}
    same = microsoft([_node("LSTM", ["x", "w", "r"], domain="", hidden_size=hidden, direction="bidirectional")],
                     {"x": (steps, 1, features)}, plain)
    x = RANDOM.standard_normal((steps, 1, features)).astype(np.float32)
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], evaluate(load_onnx(same), {"x": x})["y"], atol=1e-3)


def test_a_quantised_matrix(microsoft, compare) -> None:
    constants = _weights() | {"b": RANDOM.standard_normal(7).astype(np.float32)}
    node = _node("DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "b"])
    compare(microsoft([node], {"x": (4, 24)}, constants), tolerance=0.15)


@pytest.mark.parametrize(("op", "biased"), [("Gelu", False), ("QuickGelu", False), ("FastGelu", False),
                                            ("FastGelu", True), ("BiasGelu", True)])
def test_gelus(op, biased, weights, microsoft, compare) -> None:
    constants = {"b": weights(5)} if biased else {}
    compare(microsoft([_node(op, ["x", *constants])], {"x": (2, 3, 5)}, constants))


def test_fused_products(weights, microsoft, compare) -> None:
    node = _node("FusedMatMul", ["x", "z"], alpha=0.25, transA=1, transB=1)
    compare(microsoft([node], {"x": (2, 4, 3), "z": (2, 5, 4)}), tolerance=5e-3)
    sides = {"w": weights(4, 3, 3, 3), "b": weights(4)}
    for activation in ({}, {"activation": "Relu"}):
        node = _node("FusedConv", ["x", "w", "b"], kernel_shape=[3, 3], **activation)
        compare(microsoft([node], {"x": (1, 3, 6, 6)}, sides), tolerance=0.01)
    with pytest.raises(UnsupportedError, match="one of Relu"):
        load_onnx(microsoft([_node("FusedConv", ["x", "w"], activation="HardSigmoid")], {"x": (1, 3, 6, 6)}, sides))


def test_layers_that_are_skipped(weights, positive, microsoft, compare) -> None:
    shapes = {"x": (1, 3, 8), "z": (1, 3, 8)}
    constants = {"g": positive(8), "b": weights(8), "c": weights(8)}
    compare(microsoft([_node("SkipLayerNormalization", ["x", "z", "g", "b", "c"])], shapes, constants), tolerance=0.01)
    node = _node("SkipLayerNormalization", ["x", "z", "g"], ["n", "", "", "y"])
    compare(microsoft([node], shapes, constants), tolerance=0.01)
    node = _node("SkipSimplifiedLayerNormalization", ["x", "z", "g"], ["y"], epsilon=1e-5)
    compare(microsoft([node], shapes, constants), tolerance=0.01)
    node = _node("SimplifiedLayerNormalization", ["x", "g"], ["y"], domain="", axis=-1, epsilon=1e-5)
    compare(microsoft([node], {"x": (2, 3, 8)}, constants), tolerance=0.01)


@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time_transforms(onesided, weights, model, compare) -> None:
    constants = {"hop": np.array(4), "window": np.hanning(16).astype(np.float32)}
    node = helper.make_node("STFT", ["x", "hop", "window"], ["y"], onesided=onesided)
    graph = compare(model([node], {"x": (2, 40, 1)}, constants), tolerance=0.01)
    assert graph.outputs[0].shape == (2, 7, 9 if onesided else 16, 2)


def test_nothing_is_nan(weights, model, compare) -> None:
    nodes = [helper.make_node("IsNaN", ["x"], ["n"]), helper.make_node("Where", ["n", "zero", "x"], ["y"])]
    compare(model(nodes, {"x": (2, 3)}, {"zero": np.zeros((), np.float32)}))


@pytest.mark.parametrize(("bits", "zeros"), [(4, None), (8, None), (4, "packed"), (8, "packed"), (4, "numbers")])
@pytest.mark.parametrize("length", [64, 80])
def test_products_of_weights_by_block(microsoft, bits: int, zeros: str | None, length: int) -> None:
    """Rows whose last block is not full, and zero points in either form."""
    import onnxruntime

    rows, block = 12, 32
    blocks = -(-length // block)
    constants = {"w": RANDOM.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8),
                 "scale": RANDOM.uniform(0.01, 0.02, rows * blocks).astype(np.float32) / 2 ** (bits - 4)}
    if zeros == "packed":
        constants["zero"] = RANDOM.integers(0, 256, rows * -(-blocks * bits // 8)).astype(np.uint8)
    elif zeros:
        constants["zero"] = RANDOM.uniform(0, 2 ** bits - 1, (rows, blocks)).astype(np.float32)
    names = ["x", "w", "scale", *(["zero"] if zeros else [])]
    proto = microsoft([_node("MatMulNBits", names, K=length, N=rows, bits=bits, block_size=block)],
                      {"x": (3, length)}, constants)
    x = RANDOM.standard_normal((3, length)).astype(np.float32)
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    found = evaluate(load_onnx(proto), {"x": x})["y"]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


def test_integers_of_16_bits_must_be_dequantised_again(model) -> None:
    """Here a Cast reads them as they are."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("Reshape", ["q", "shape"], ["r"]), helper.make_node("DequantizeLinear", ["r", "s", "z"],
                                                                                  ["y"])]
    constants = {"s": np.array(0.001, np.float32), "z": np.array(0, np.uint16), "shape": np.array([6], np.int64)}
    x = np.array([[-1, 0.5, 3], [100, 65, 66]], np.float32)
    found = evaluate(load_onnx(model(nodes, {"x": (2, 3)}, constants)), {"x": x})["y"]
    np.testing.assert_allclose(found, np.clip(x, 0, 65.535).ravel(), rtol=1e-3)
    nodes[2] = helper.make_node("Cast", ["r"], ["y"], to=1)
    with pytest.raises(UnsupportedError, match="must be dequantised again"):
        load_onnx(model(nodes, {"x": (2, 3)}, constants))


def test_a_quantisation_that_makes_nothing_is_refused_with_a_message(model) -> None:
    proto = model([helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=5)], {"x": (2, 3)},
                  {"s": np.array(0.001, np.float32)})
    del proto.graph.node[0].output[:]
    with pytest.raises(AneError):
        load_onnx(proto)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("kind", "bits", "axis"), [
    ("bytes", 4, 1), ("bytes", 8, 1), ("uint4", 4, 1), ("int4", 4, 1), ("int4", 4, 0)])
def test_rows_of_a_table_by_block(microsoft, kind: str, bits: int, axis: int, zeros: bool) -> None:
    """Blocks lie along the rows or across them; bytes hold one number or two."""
    import onnxruntime

    shape, blocks = [32, 48], [32, 3] if axis else [2, 48]
    low, high = (-8, 8) if kind == "int4" else (0, 2 ** bits)
    parts = {"t": RANDOM.integers(low, high, shape), **({"z": RANDOM.integers(low, high, blocks)} if zeros else {})}
    node = _node("GatherBlockQuantized", ["t", "i", "s", *(["z"] if zeros else [])], gather_axis=0, quantize_axis=axis,
                 block_size=16, **({"bits": bits} if kind == "bytes" else {}))
    proto = microsoft([helper.make_node("ArgMax", ["x"], ["i"], axis=-1, keepdims=0), node], {"x": (2, 3, 32)},
                      {"s": RANDOM.uniform(0.1, 1, blocks).astype(np.float32)})
    for name, whole in parts.items():
        code = {"bytes": onnx.TensorProto.UINT8, "uint4": onnx.TensorProto.UINT4, "int4": onnx.TensorProto.INT4}[kind]
        if kind == "bytes" and bits == 4:
            padded = np.pad(whole, ((0, 0), (0, whole.shape[1] % 2)))
            whole = padded[:, ::2] | padded[:, 1::2] << 4
        proto.graph.initializer.append(helper.make_tensor(name, code, whole.shape, whole.ravel().tolist()))
    x = RANDOM.standard_normal((2, 3, 32)).astype(np.float32)
    proto.ir_version = 10
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(evaluate(load_onnx(proto), {"x": x})["y"], wanted, rtol=2e-3, atol=2e-3)


def test_steps_of_floating_point_are_refused_by_their_name(model) -> None:
    proto = model([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                   helper.make_node("DequantizeLinear", ["q", "s"], ["y"])], {"x": (2, 3)},
                  {"s": np.array(0.1, np.float32)})
    proto.graph.initializer.append(helper.make_tensor("z", onnx.TensorProto.FLOAT8E4M3FN, (), [0.0]))
    with pytest.raises(UnsupportedError, match="found floating point of 8 bits"):
        load_onnx(proto)
