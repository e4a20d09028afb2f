"""net.plist files become graphs: ports, units, weights; what is not understood is refused by name."""

from __future__ import annotations

import contextlib
import json
import plistlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.importers import load_graph
from openane.importers.netplist import load_netplist
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(3)
X = (2, 3, 4, 5)


def half(number: float) -> int:
    return int(np.float16(number).view(np.uint16))


def document(units: dict[str, dict[str, Any]], shape=X, inputs=("x",), output: str | None = None, **network: Any):
    """A network of `units` on inputs of `shape`; the last unit is the output y."""
    keys = ("BatchSize", "InputChannels", "InputHeight", "InputWidth") if len(shape) == 4 else \
        ("BatchSize", "InputChannels", "InputDepth", "InputHeight", "InputWidth")
    net: dict[str, Any] = {
        "Inputs": list(inputs), "Outputs": ["y@output"], "Units": list(units), "Weights": ["w"], **network,
        "y@output": {"Bottom": output or list(units)[-1]}, **units}
    for name in inputs:
        net.setdefault(name, {**dict(zip(keys, shape, strict=True)), "InputType": "Float16"})
    return {"Networks": ["net"], "Version": "1.0.9", "net": net}


def unit(kind: str, bottom: Any = "x", params: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {"Type": kind, "Bottom": bottom, "OutputType": "Float16", **({} if params is None else {"Params": params}),
            **keys}


def result(units: dict[str, dict[str, Any]] | dict[str, Any], weights: bytes = b"", **keys: Any):
    """The reference result of a document, and the inputs it was computed from."""
    graph = load_netplist(document(units, **keys), {"w": weights})
    inputs = {value.name: RANDOM.standard_normal(value.shape).astype(np.float16) for value in graph.inputs}
    return evaluate(graph, inputs)["y"], [inputs[value.name].astype(np.float32) for value in graph.inputs]


NEURONS = {
    "ReLU": lambda x: np.maximum(x, 0), "Tanh": np.tanh, "Exp2": np.exp2, "Sign": np.sign, "Sqr": np.square,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Ceil": np.ceil, "Floor": np.floor,
    "Swish": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("kind", NEURONS)
def test_neurons(kind: str) -> None:
    found, (x,) = result({"u": unit("Neuron", params={"Type": kind})})
    np.testing.assert_allclose(found, NEURONS[kind](x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("params", "function"), [
    ({"Type": "LeakyReLU", "ReluSlope": half(0.25), "ReluOffset": 0}, lambda x: np.where(x < 0, 0.25 * x, x)),
    ({"Type": "ClampedReLU", "ReluMin": half(-0.5), "ReluMax": half(1)}, lambda x: np.clip(x, -0.5, 1)),
    ({"Type": "ClampedReLU", "ReluMax": half(6)}, lambda x: np.clip(x, 0, 6)),
    ({"Type": "ELU", "EluAlpha": half(1)}, lambda x: np.where(x < 0, np.expm1(x), x)),
])
def test_neurons_with_parameters(params: dict[str, Any], function) -> None:
    found, (x,) = result({"u": unit("Neuron", params=params)})
    np.testing.assert_allclose(found, function(x), rtol=1e-3, atol=1e-5)


def test_gain_follows_offset() -> None:
    """A hard sigmoid 0.2 x + 0.5 is written as bias 2.5, scale 0.2."""
    found, (x,) = result({"u": unit("GOC", params={"BiasScalar": half(2.5), "ScaleScalar": half(0.2)})})
    np.testing.assert_allclose(found, 0.2 * x + 0.5, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(("kind", "function"), [
    ("Add", np.add), ("Mult", np.multiply), ("Sub", np.subtract), ("Min", np.minimum), ("Max", np.maximum),
    ("GreaterThan", np.greater), ("LessThan", np.less), ("Equal", np.equal), ("NotEqual", np.not_equal)])
def test_element_wise(kind: str, function) -> None:
    found, (x, y) = result({"u": unit("ElementWise", ["x", "z"], {"Type": kind})}, inputs=("x", "z"))
    np.testing.assert_allclose(found, function(x, y).astype(np.float32), rtol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("folded", [True, False])
def test_convolution_with_a_bias_is_one_operation_when_nobody_else_reads_it(folded: bool) -> None:
    weight = RANDOM.standard_normal((4, 3, 2, 2)).astype(np.float32)
    bias = np.arange(4, dtype=np.float16)
    params = {"KernelWidth": 2, "KernelHeight": 2, "KernelType": "Float32", "KernelOffset": 64, "Type": "Conv",
              "Step": [1, 1], "PadTop": 1, "PadLeft": 0, "PadBot": 0, "PadRight": 2}
    group = {"BiasCount": 4, "BiasIndex": 0, "BiasOffset": 0, "BiasType": "Float16"}
    units = {"c": unit("Conv", params=params, OutputChannels=4), "u": unit("GOC", "c", {"BiasScaleGroupData": group})}
    if not folded:
        units["v"] = unit("ElementWise", ["c", "u"], {"Type": "Sub"})
    data = bias.tobytes().ljust(64, b"\0") + weight.tobytes()
    graph = load_netplist(document(units), {"w": data})
    assert [node.op for node in graph.nodes] == (["conv"] if folded else ["conv", "add", "sub"])
    x = RANDOM.standard_normal(X).astype(np.float16)
    padded = np.pad(x.astype(np.float32), ((0, 0), (0, 0), (1, 0), (0, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (2, 3))
    product = np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.float16).astype(np.float32))
    wanted = product + bias.reshape(1, 4, 1, 1) if folded else -np.broadcast_to(bias.reshape(1, 4, 1, 1), product.shape)
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-3, atol=1e-3)


def test_movement() -> None:
    found, (x,) = result({"u": unit("InputView", params={"Dimension": "Width", "Offset": 1, "Size": 3})})
    np.testing.assert_array_equal(found, x[..., 1:4])
    found, (x,) = result({"u": unit("Reshape", params={"ReshapedBatch": 2, "ReshapedChannel": 60, "ReshapedHeight": 1,
                                                       "ReshapedWidth": 1, "ReshapedDepth": 1})})
    np.testing.assert_array_equal(found, x.reshape(2, 60, 1, 1))
    pairs = [{"TransposeSourceDimension": a, "TransposeDestinationDimension": b} for a, b in
             (("Width", "Channel"), ("Channel", "Width"))]
    found, (x,) = result({"u": unit("Transpose", params={"TransposeDimensions": pairs})})
    np.testing.assert_array_equal(found, x.transpose(0, 3, 2, 1))
    found, (x,) = result({"u": unit("Broadcast", params={"BroadcastInfo": [{"Dimension": "Height", "Size": 3}]})},
                         shape=(1, 2, 1, 4))
    np.testing.assert_array_equal(found, np.repeat(x, 3, 2))
    found, (x, y) = result({"u": unit("Concat", ["z", "x"], {"Dimension": "Height"})}, inputs=("x", "z"))
    np.testing.assert_array_equal(found, np.concatenate([y, x], 2))


def test_matrices_are_channels_by_width() -> None:
    keys = ("BatchSize", "InputChannels", "InputHeight", "InputWidth")
    shapes = {"a": (2, 3, 4, 5), "b": (2, 5, 4, 6)}
    ports = {name: dict(zip(keys, shape, strict=True)) for name, shape in shapes.items()}
    found, (a, b) = result({"u": unit("MatrixMultiplication", ["a", "b"])}, inputs=("a", "b"), **ports)
    np.testing.assert_allclose(found, np.einsum("nihk,nkhj->nihj", a, b), rtol=1e-5, atol=1e-5)


def test_reductions_pooling_softmax() -> None:
    found, (x,) = result({"u": unit("Reduction", params={"Dimension": ["Width", "Height"], "Type": "Avg"})})
    np.testing.assert_allclose(found, x.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6)
    pool = {"Type": "Max", "KernelWidth": 2, "KernelHeight": 2, "Step": [2, 2, 1], "PaddingMode": "Negative"}
    found, (x,) = result({"u": unit("Pooling", params=pool)}, shape=(1, 2, 4, 4))
    np.testing.assert_array_equal(found, x.reshape(1, 2, 2, 2, 2, 2).max((3, 5)))
    found, (x,) = result({"u": unit("Softmax", params={"Dimension": "Channel"})})
    np.testing.assert_allclose(found.sum(1), np.ones((2, 4, 5)), rtol=1e-5)


def test_depth_makes_rank_five() -> None:
    found, (x,) = result({"u": unit("Reduction", params={"Dimension": "Depth", "Type": "Sum"})}, shape=(1, 2, 3, 4, 5))
    np.testing.assert_allclose(found, x.sum(2, keepdims=True), rtol=1e-5, atol=1e-5)


def test_bytes_go_through_casts() -> None:
    port = {"InputChannels": 3, "InputHeight": 1, "InputWidth": 4, "InputType": "UInt8"}
    units = {"u": unit("GOC", params={"ScaleScalar": half(2)}, OutputType="UInt8")}
    graph = load_netplist(document(units, x=port))
    assert [value.dtype for value in (*graph.inputs, *graph.outputs)] == ["uint8", "uint8"]
    x = np.arange(100, 112, dtype=np.uint8).reshape(1, 3, 1, 4) + 20
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], np.minimum(x.astype(int) * 2, 255))


def test_procedures_name_ports_once_per_reader() -> None:
    def entry(reader: str) -> dict[str, Any]:
        return {"BatchSize": 1, "InputChannels": 2, "InputDepth": 1, "InputHeight": 3, "InputWidth": 4, "Name": reader,
                "InputName": "x", "InputType": "Float16", "InputInterleave": 1, "OperationName": "op0"}
    units = {"a": {**unit("Neuron", ["x"], {"Type": "SigmoidHighPrecision"}), "InputType": ["Float16"]},
             "b": unit("ElementWise", ["x", "a"], {"Type": "Mult"}, InputType=["Float16", "Float16"])}
    output = {"Name": "b", "OperationName": "op0", "OutputName": "y", "OutputType": "Float16", "OutputInterleave": 1}
    plist = {"Networks": ["n"], "Version": "1.0.10",
             "ProcedureList": [{"Name": "p", "InputList": [entry("a"), entry("b")], "OutputList": [output],
                                "OperationList": [{"NetworkName": "n", "OperationName": "op0"}]}],
             "n": {"Units": ["a", "b"], "Weights": ["weights.0"], **units,
                   "y": {"Bottom": "b", "OutputName": "y", "OutputType": "Float16"}}}
    graph = load_netplist(plistlib.dumps(plist))
    x = RANDOM.standard_normal((1, 2, 3, 4)).astype(np.float16)
    assert [value.name for value in (*graph.inputs, *graph.outputs)] == ["x", "y"]
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], x / (1 + np.exp(-x.astype(np.float32))), rtol=1e-4,
                               atol=1e-5)


def test_constants_are_operands() -> None:
    table = {"ConstantName": "c", "ConstantType": "Float16", "ConstantIndex": 0, "ConstantByteOffset": 2,
             "ConstantChannels": 3, "ConstantHeight": 1, "ConstantWidth": 1, "ConstantBatchSize": 1}
    data = np.array([9, 1, 2, 3], np.float16).tobytes()
    found, (x,) = result({"u": unit("ElementWise", ["x", "c"], {"Type": "Add"})}, data, Constants=["c"], c=table)
    np.testing.assert_allclose(found, x + np.array([1, 2, 3]).reshape(3, 1, 1), rtol=1e-6)


@pytest.mark.parametrize("dump", [
    lambda plist: plistlib.dumps(plist), lambda plist: plistlib.dumps(plist, fmt=plistlib.FMT_BINARY),
    lambda plist: json.dumps(plist).encode()])
def test_every_form_of_the_file_is_told_by_content(tmp_path: Path, dump) -> None:
    units = {"c": unit("Conv", params={"KernelWidth": 1, "KernelHeight": 1, "Type": "Conv"}, OutputChannels=2)}
    (tmp_path / "w").write_bytes(np.ones(6, np.float16).tobytes())
    for name in ("net.plist", "net"):
        (tmp_path / name).write_bytes(dump(document(units)))
        graph = load_graph(tmp_path / name)
        assert graph.outputs[0].shape == (2, 2, 4, 5)
    with pytest.raises(GraphError, match="no function 'other'"):
        load_graph(tmp_path / "net.plist", function="other")


@pytest.mark.parametrize(("units", "error", "text"), [
    ({"u": unit("Deconv")}, UnsupportedError, "Deconv.*"),
    ({"u": unit("Neuron", params={"Type": "Sigmod"})}, UnsupportedError, "Sigmoid"),
    ({"u": unit("Neuron", params={"Type": "ReLU", "Gain": 3})}, UnsupportedError, "unit 'u' .Neuron., Params, Gain"),
    ({"u": unit("Neuron", "q", {"Type": "ReLU"})}, GraphError, "'q' has not been made"),
    ({"u": unit("ScaledElementWise", ["x", "x"], {"Type": "Add", "Scale": half(2)})}, UnsupportedError, "15360"),
    ({"u": unit("GOC", params={"BiasScalar": 99999})}, FormatError, "BiasScalar"),
    ({"u": unit("GOC", params={"BiasScalar": half(np.inf)})}, FormatError, "finite fp16"),
    ({"u": unit("InputView", params={"Dimension": "Width", "Offset": 4, "Size": 3})}, GraphError, "within 5 elements"),
    ({"u": unit("Concat", ["x", "x"], {"Dimension": "Sideways"})}, UnsupportedError, "Channel, Height, Width"),
    ({"u": unit("Conv", params={"KernelWidth": 3, "KernelHeight": 3}, OutputChannels=4)}, FormatError, "too short"),
    ({"u": unit("Conv", params={"KernelWidth": 2**30, "KernelHeight": 2**30}, OutputChannels=2**30)}, FormatError,
     "too large"),
    ({"u": unit("Conv", params={"KernelIndex": 7}, OutputChannels=4)}, UnsupportedError, "below 1"),
    ({"u": unit("Conv", params={"KernelMode": "Palettized"}, OutputChannels=4)}, UnsupportedError, "Dense"),
    ({"u": unit("Neuron", params={"Type": "ReLU"}, OutputType="Float32")}, UnsupportedError, "Float16, UInt8"),
    ({"u": unit("Neuron", params={"Type": "ReLU"}, OutputChannels=5)}, GraphError, "OutputChannels is 5"),
    ({"u": unit("Broadcast", params={"BroadcastInfo": [{"Dimension": "Width", "Size": 2**31 - 1}]})}, GraphError,
     "must be 5"),
])
def test_what_is_refused_says_why(units: dict[str, Any], error: type[AneError], text: str) -> None:
    with pytest.raises(error, match=text):
        load_netplist(document(units), {"w": b"\0" * 8})


def test_weight_files_stay_beside_the_plist(tmp_path: Path) -> None:
    units = {"c": unit("Conv", params={"KernelWidth": 1, "KernelHeight": 1}, OutputChannels=1)}
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    path = folder / "net.plist"
    path.write_bytes(plistlib.dumps(document(units, Weights=["../w.bin"])))
    with pytest.raises(FormatError, match=r"'../w.bin' is missing.*'w.bin' beside"):
        load_netplist(path)
    (folder / "w.bin").write_bytes(b"\0" * 64)
    assert load_netplist(path).nodes
    assert load_netplist(path, tmp_path).nodes


def test_every_file_at_hand_is_read(corpus: Path) -> None:
    """Two files state weights that did not come with them; those are given."""
    folder = corpus / "apple" / "netplist"
    given = {"gemm": [bytes(2 * 512 * 512)], "espresso_gemm": [bytes(384 + 4 * 64 * 64), bytes(128)]}
    names = sorted(path.stem for path in folder.glob("*.plist"))
    assert len(names) >= 23
    for name in names:
        stated = plistlib.loads((folder / f"{name}.plist").read_bytes())["net"].get("Weights", [])
        files = dict(zip(stated, given[name], strict=True)) if name in given else None
        graph = load_netplist(folder / f"{name}.plist", files)
        inputs = {value.name: np.ones(value.shape, np.uint8 if value.dtype == "uint8" else np.float16)
                  for value in graph.inputs}
        assert all(np.isfinite(array).all() for array in evaluate(graph, inputs).values())


def _mutated(value: Any, draw: random.Random) -> Any:
    """`value` with something in it changed."""
    odd = [None, True, -1, 0, 3, 2**31, 2**70, 1.5, float("nan"), "", "x", "Conv", [], {}, ["x"], {"Type": "Conv"}]
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        copy = dict(value)
        if draw.random() < 0.1:
            del copy[key]
        elif draw.random() < 0.1:
            copy[draw.choice(["Odd", "Type", "Bottom", "Scale"])] = draw.choice(odd)
        else:
            copy[key] = _mutated(value[key], draw)
        return copy
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        return [*value[:place], _mutated(value[place], draw), *value[place + 1:]]
    return draw.choice(odd)


def seeds() -> list[dict[str, Any]]:
    group = {"BiasCount": 4, "BiasOffset": 2, "BiasType": "Float32", "ScaleCount": 4, "ScaleOffset": 0}
    conv = unit("Conv", params={"KernelWidth": 1, "KernelHeight": 2, "Step": [1, 2], "PadTop": 1}, OutputChannels=4)
    return [
        document({"c": conv, "g": unit("GOC", "c", {"BiasScaleGroupData": group}),
                  "n": unit("Neuron", "g", {"Type": "ELU", "EluAlpha": 5})}),
        document({"v": unit("InputView", params={"Dimension": "Channel", "Offset": 1, "Size": 2}),
                  "b": unit("Concat", ["v", "x"], {"Dimension": "Channel"}), "r": unit("Reduction", "b", {
                      "Dimension": ["Width", "Channel"], "Type": "Max"}),
                  "t": unit("Broadcast", "r", {"BroadcastInfo": [{"Dimension": "Width", "Size": 2}]})}),
        document({"p": unit("Pooling", params={"Type": "Avg", "KernelWidth": 2, "KernelHeight": 2, "Step": [1, 1]}),
                  "s": unit("Softmax", "p", {"Dimension": "Height"}), "q": unit("Reshape", "s", {
                      "ReshapedBatch": 2, "ReshapedChannel": 36})}, shape=(2, 3, 4, 5)),
    ]


def test_mutants_raise_nothing_but_typed_errors() -> None:
    draw = random.Random(5)
    passed = 0
    for turn in range(1500):
        plist = seeds()[turn % 3]
        for _ in range(draw.randrange(1, 4)):
            plist = _mutated(plist, draw)
        if not isinstance(plist, dict):
            continue
        try:
            load_netplist(plist, {"w": bytes(range(64))})
            passed += 1
        except AneError:
            pass
    assert passed > 30
    for form in (plistlib.FMT_XML, plistlib.FMT_BINARY):
        data = plistlib.dumps(seeds()[0], fmt=form)
        for _ in range(300):
            mutant = bytearray(data)
            for _ in range(draw.randrange(1, 6)):
                mutant[draw.randrange(len(mutant))] = draw.randrange(256)
            end = draw.randrange(1, len(mutant) + 1) if draw.random() < 0.2 else len(mutant)
            with contextlib.suppress(AneError):
                load_netplist(bytes(mutant[:end]), {"w": bytes(64)})
