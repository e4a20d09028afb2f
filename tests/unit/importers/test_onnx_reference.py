"""ONNX operators imported and evaluated give what ONNX's own reference computes (onnxruntime where it has no answer),
constants and computed operands alike."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest

from openane.importers.onnx import load_onnx
from openane.ops.evaluate import evaluate

helper = onnx.helper
RANDOM = np.random.default_rng(3)
SIDES = {"forward": 1, "reverse": 1, "bidirectional": 2}


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers fp16 holds, in fp32."""
    return RANDOM.uniform(low, high, shape).astype(np.float16).astype(np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def check(op, inputs, *, fixed=(), opset=24, outputs=1, tolerance=3e-3, runtime=False,
          **attributes):
    """`inputs` are arrays or None; those at places `fixed` become constants. Compares all outputs."""
    names = [f"i{place}" if array is not None else "" for place, array in enumerate(inputs)]
    results = [f"o{place}" for place in range(outputs)]
    node = helper.make_node(op, names, results, name="n", **attributes)
    code = helper.np_dtype_to_tensor_dtype
    ports = [helper.make_tensor_value_info(name, code(array.dtype), array.shape)
             for name, array in zip(names, inputs, strict=True) if array is not None]
    bare = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(name) for name in results])
    model = helper.make_model(bare, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    expected = _by_runtime(model, feeds) if runtime else onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    for port, array in zip(model.graph.output, expected, strict=True):
        port.type.tensor_type.elem_type = code(array.dtype)
    values = {names[place]: feeds[names[place]] for place in fixed}
    graph = load_onnx(model, values=values)
    found = evaluate(graph, {value.name: feeds[value.name] for value in graph.inputs})
    for name, array in zip(results, expected, strict=True):
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name].astype(np.float64), array.astype(np.float64), tolerance, tolerance)
    return graph


def _by_runtime(model, feeds):
    typed = onnx.shape_inference.infer_shapes(model)
    typed.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(typed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize(("op", "low", "high"), [
    ("Acos", -1, 1), ("Acosh", 1.1, 9), ("Asin", -1, 1), ("Asinh", -9, 9), ("Atan", -9, 9), ("Atanh", -0.9, 0.9),
    ("Cos", -9, 9), ("Cosh", -3, 3), ("Sinh", -3, 3), ("Tan", -1.2, 1.2), ("Celu", -3, 3), ("Selu", -3, 3),
    ("Mish", -3, 3), ("Swish", -3, 3), ("ThresholdedRelu", -3, 3), ("Shrink", -3, 3)])
def test_functions(op, low, high):
    check(op, [real(2, 3, 4, low=low, high=high)])


@pytest.mark.parametrize(("op", "attributes"), [
    ("Celu", {"alpha": 2.0}), ("Selu", {"alpha": 2.0, "gamma": 3.0}), ("Swish", {"alpha": 0.5}),
    ("ThresholdedRelu", {"alpha": 0.5}), ("Shrink", {"lambd": 1.5, "bias": 0.5}), ("Hardmax", {"axis": 1}),
    ("LogSoftmax", {"axis": -2}), ("LpNormalization", {"axis": 0, "p": 1}), ("LpNormalization", {"p": 2}),
    ("ArgMax", {"axis": 2, "keepdims": 0}), ("ArgMin", {"axis": -1}), ("ArgMax", {"axis": 1, "select_last_index": 1}),
    ("MeanVarianceNormalization", {}), ("LRN", {"size": 3}), ("GlobalLpPool", {"p": 1}), ("GlobalLpPool", {}),
    ("LpPool", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}), ("LpPool", {"kernel_shape": [2, 2], "p": 3}),
    ("LpPool", {"kernel_shape": [2, 2], "dilations": [2, 2], "p": 1}), ("LpPool", {"kernel_shape": [2, 2], "p": 5}),
    ("GlobalLpPool", {"p": 4}), ("SpaceToDepth", {"blocksize": 2}),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}), ("DepthToSpace", {"blocksize": 2})])
def test_attributes(op, attributes):
    runtime = op in ("GlobalLpPool", "LpNormalization")
    check(op, [real(2, 4, 4, 6)], opset=17 if runtime else 22 if op == "LpPool" else 24, runtime=runtime, **attributes)


@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Mean"])
def test_pairs(op):
    x = real(2, 3, 4)
    check(op, [x, np.where(RANDOM.random(x.shape) < 0.5, x, 1).astype(np.float32)])


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Not"])
def test_logic(op):
    pair = [RANDOM.random((3, 4)) < 0.5 for _ in range(2)]
    check(op, pair[:1] if op == "Not" else pair)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Less", "Pow"])
def test_integers(op):
    x, y = RANDOM.integers(-40, 40, (2, 3, 4)), RANDOM.integers(1, 4, (3, 4))
    check(op, [x, y], fixed=(1,))
    if op != "Pow":
        check(op, [x.astype(np.int32), y.astype(np.int32)])


def test_remainders_of_real_numbers_have_the_sign_of_the_dividend():
    check("Mod", [real(2, 3), real(2, 3, low=0.5, high=2)], fmod=1)


def test_infinities_are_found():
    x = np.array([1, np.inf, -np.inf, 65504], np.float32)
    for attributes in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        check("IsInf", [x], **attributes)


def test_casts_alike():
    check("CastLike", [real(3, 4), np.zeros(1, np.int64)])
    check("CastLike", [RANDOM.integers(-9, 9, (3,)), np.zeros(1, np.float32)])


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
                                "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum"])
@pytest.mark.parametrize(("axes", "keepdims"), [(None, 1), ((1,), 0), ((-1, 0), 1)])
def test_reductions(op, axes, keepdims):
    x = real(2, 3, 4, low=0.5, high=1.5)
    check(op, [x, None if axes is None else ints(*axes)], fixed=() if axes is None else (1,), keepdims=keepdims)
    if op not in ("ReduceSum",):
        check(op, [x], opset=13, keepdims=keepdims, **({} if axes is None else {"axes": axes}))


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_running_sums_and_products(attributes):
    check("CumSum", [real(3, 4), np.array(1)], fixed=(1,), **attributes)
    check("CumProd", [real(3, 4), np.array(0)], fixed=(1,), opset=26, **attributes)


@pytest.mark.parametrize("attributes", [{}, {"largest": 0, "axis": 0}])
def test_top(attributes):
    check("TopK", [RANDOM.permutation(24).reshape(4, 6).astype(np.float32), ints(3)], fixed=(1,), outputs=2,
          **attributes)


def test_gathering():
    x = real(3, 4, 5)
    check("GatherElements", [x, RANDOM.integers(-4, 4, (3, 2, 5))], fixed=(1,), axis=1)
    check("GatherND", [x, np.array([[0, 1], [-1, 2]])], fixed=(1,))
    check("GatherND", [x, np.array([[1], [0], [3]])], fixed=(1,), batch_dims=1)
    check("Compress", [x, np.array([False, True, True])], fixed=(1,), axis=0)
    check("ReverseSequence", [x, ints(1, 3, 2, 3)], fixed=(1,), time_axis=0, batch_axis=1)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattering(reduction):
    check("ScatterND", [real(4, 5), np.array([[1], [3]]), real(2, 5)], fixed=(1,), reduction=reduction)
    check("ScatterElements", [real(4, 5), np.array([[1, 3, 0], [-1, 0, 2]]), real(2, 3)], fixed=(1,), axis=0,
          reduction=reduction)


def test_scattering_of_old_and_caches():
    check("Scatter", [real(4, 5), np.array([[1, 3, 0, 2, 1]]), real(1, 5)], fixed=(1,), opset=10, runtime=True)
    check("TensorScatter", [real(2, 4, 3), real(2, 1, 3), ints(1, 3)], fixed=(2,))
    check("TensorScatter", [real(1, 4, 3), real(1, 2, 3), ints(3)], fixed=(2,), mode="circular")


def test_one_hot_of_computed_indices():
    values = np.array([0.5, 3], np.float32)
    for axis in (-1, 0):
        check("OneHot", [RANDOM.integers(-4, 6, (2, 3)), np.array(4), values], fixed=(1,), axis=axis)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("offset", [None, -1, 2])
def test_triangles(upper, offset):
    check("Trilu", [real(2, 4, 5), None if offset is None else np.array(offset)], fixed=() if offset is None else (1,),
          upper=upper)


def test_parts_and_repeats():
    check("Split", [real(2, 7), ints(2, 5)], fixed=(1,), outputs=2, axis=1)
    check("Split", [real(2, 7)], outputs=3, axis=-1, num_outputs=3)
    check("Split", [real(2, 6)], outputs=2, axis=1, opset=11, split=[2, 4])
    check("Tile", [real(2, 3), ints(2, 3)], fixed=(1,))


@pytest.mark.parametrize(("mode", "pads"), [("constant", (1, 0, 2, 3)), ("reflect", (1, 1, 2, 0)),
                                            ("edge", (1, 0, 2, 3)), ("wrap", (1, 2, 0, 3)),
                                            ("constant", (-1, 2, 1, 0))])
def test_padding(mode, pads):
    x = real(4, 5)
    check("Pad", [x, ints(*pads)], fixed=(1,), opset=18, runtime=min(pads) < 0, mode=mode)
    if mode == "constant":
        check("Pad", [x, ints(*pads), np.array(1.5, np.float32)], fixed=(1,), opset=18,
              runtime=min(pads) < 0)


@pytest.mark.parametrize("fixed", [(), (1, 2, 3, 4)])
def test_normalisations(fixed):
    x, gain, offset = real(2, 4, 3, 3), real(4), real(4)
    few = tuple(place for place in fixed if place < 3)
    check("InstanceNormalization", [x, gain, offset], fixed=few)
    check("GroupNormalization", [x, gain, offset], fixed=few, num_groups=2)
    check("GroupNormalization", [x, gain[:2], offset[:2]], fixed=few, num_groups=2, opset=18)
    check("RMSNormalization", [x, real(3)], fixed=few[:1])
    check("LayerNormalization", [x, real(3, 3), real(3, 3)], fixed=few, outputs=3, axis=2)
    check("BatchNormalization", [x, gain, offset, real(4), np.abs(real(4)) + 1], fixed=fixed)


@pytest.mark.parametrize("fixed", [(), (1, 2)])
@pytest.mark.parametrize("attributes", [
    {}, {"strides": [2, 3]}, {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 1]},
    {"dilations": [2, 1], "pads": [2, 1, 2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"group": 2}])
def test_transposed_convolutions(fixed, attributes):
    groups = attributes.get("group", 1)
    check("ConvTranspose", [real(1, 4, 3, 4), real(4, 6 // groups, 3, 2), real(6)], fixed=fixed, opset=22,
          tolerance=2e-2, runtime=groups > 1, **attributes)


@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 2], "pads": [1, 0, 0, 1]}, {"dilations": [2, 1]},
                                        {"auto_pad": "SAME_LOWER"}, {"group": 2}])
def test_convolutions_with_computed_weights(attributes):
    groups = attributes.get("group", 1)
    check("Conv", [real(2, 4, 6, 7), real(6, 4 // groups, 3, 2), real(6)], opset=22, tolerance=2e-2, **attributes)


@pytest.mark.parametrize("direction", sorted(SIDES))
@pytest.mark.parametrize(("op", "gates", "outputs"), [("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)])
def test_recurrent_layers(op, gates, outputs, direction):
    sides, hidden = SIDES[direction], 3
    weights = [real(sides, gates * hidden, each, low=-0.5, high=0.5) for each in (4, hidden)]
    states = [real(sides, 2, hidden) for _ in range(outputs - 1)]
    inputs = [real(5, 2, 4), *weights, real(sides, 2 * gates * hidden), None, *states]
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    if direction == "forward":  # ONNX's reference runs no other
        check(op, inputs, outputs=outputs, opset=21, hidden_size=hidden, **attributes)
    fixed = (1, 2, 3)
    graph = _recurrent(op, inputs, fixed, direction, hidden)
    assert {value.name for value in graph.inputs} == {"i0", *(f"i{5 + place}" for place in range(len(states)))}


def _recurrent(op, inputs, fixed, direction, hidden):
    """A bidirectional layer's halves are those of the directions alone, the reverse one that of a turned sequence."""
    names = [f"i{place}" if array is not None else "" for place, array in enumerate(inputs)]
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    node = helper.make_node(op, names, ["y"], hidden_size=hidden, direction=direction)
    ports = [helper.make_tensor_value_info(name, 1, array.shape) for name, array in feeds.items()]
    bare = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(bare, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    graph = load_onnx(model, values={names[place]: inputs[place] for place in fixed})
    found = evaluate(graph, {value.name: feeds[value.name] for value in graph.inputs})["y"]
    np.testing.assert_allclose(found, session.run(None, feeds)[0], 3e-3, 3e-3)
    return graph


def test_quantised_numbers():
    x, zero = RANDOM.integers(0, 255, (2, 3), np.uint8), np.array(128, np.uint8)
    scale = np.array(0.25, np.float32)
    check("DequantizeLinear", [x, scale, zero])
    check("DequantizeLinear", [x, np.array([0.25, 0.5, 2], np.float32), np.array([1, 2, 3], np.uint8)], axis=1)
    check("QuantizeLinear", [real(2, 3, low=-20, high=20), scale, zero], fixed=(1, 2))
    y = RANDOM.integers(-8, 8, (3, 2), np.int8)
    check("MatMulInteger", [(x % 9).astype(np.int8), y, np.array(2, np.int8)])
    image, kernel = RANDOM.integers(0, 9, (1, 2, 4, 4), np.uint8), RANDOM.integers(0, 4, (2, 2, 2, 2), np.uint8)
    check("ConvInteger", [image, kernel, np.array(2, np.uint8)])
    half = np.array(0.5, np.float32)
    check("QLinearMatMul", [x % 9, half, np.array(3, np.uint8), np.abs(y).astype(np.uint8), half,
                            np.array(1, np.uint8), half, zero], fixed=(1, 2, 4, 5, 6, 7))
    check("QLinearConv", [image, half, np.array(2, np.uint8), kernel, half, np.array(1, np.uint8), half, zero],
          fixed=(1, 2, 4, 5, 6, 7))


RESIZES = [
    {"mode": "linear"}, {"mode": "cubic"}, {"mode": "nearest"}, {"mode": "cubic", "exclude_outside": 1},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "cubic", "coordinate_transformation_mode": "asymmetric", "cubic_coeff_a": -0.5},
    {"mode": "nearest", "nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"},
    {"mode": "nearest", "nearest_mode": "floor"}, {"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
]


@pytest.mark.parametrize("attributes", RESIZES)
@pytest.mark.parametrize("scales", [(2, 2), (0.6, 1.7), (0.5, 3)])
def test_resizing(attributes, scales):
    x = real(1, 2, 5, 4)
    check("Resize", [x, None, np.array([1, 1, *scales], np.float32)], fixed=(2,), tolerance=6e-3, **attributes)
    if len(scales) == 2 and scales[0] >= 1:
        check("Resize", [x, None, None, ints(1, 2, 7, 9)], fixed=(3,), tolerance=6e-3, **attributes)


def test_resizing_of_regions_and_of_old():
    region = np.array([0, 0, 0.4, 0.6, 1, 1, 0.6, 1.2], np.float32)
    check("Resize", [real(1, 1, 4, 4), region, None, ints(1, 1, 3, 3)], fixed=(1, 3), mode="linear",
          coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.0, tolerance=6e-3)
    check("Upsample", [real(1, 1, 2, 3), np.array([1, 1, 2, 3], np.float32)], fixed=(1,), opset=9)


@pytest.mark.parametrize(("parts", "attributes"), [(1, {}), (2, {}), (2, {"inverse": 1}), (1, {"onesided": 1})])
def test_fourier_transforms(parts, attributes):
    x = real(2, 6, 3, parts)
    check("DFT", [x, None, np.array(1)], fixed=(2,), opset=20, **attributes)
    check("DFT", [x, np.array(5), np.array(1)], fixed=(1, 2), opset=20, **attributes)
    check("DFT", [x], opset=17, axis=2, **attributes)


def _body(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", [helper.make_tensor_value_info(name, *kind) for name, kind in inputs],
                             [helper.make_empty_tensor_value_info(name) for name in outputs])


def test_scan_and_loop_are_unrolled():
    add = [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["t"], ["u"])]
    body = _body(add, [("s", (1, [2])), ("x", (1, [2]))], ["t", "u"])
    check("Scan", [np.zeros(2, np.float32), real(3, 2)], outputs=2, num_scan_inputs=1, body=body)
    body = _body([*add, helper.make_node("Identity", ["c"], ["d"])],
                 [("i", (7, [])), ("c", (9, [])), ("s", (1, [2]))], ["d", "t", "u"])
    body.node[0].input[1] = "s"
    check("Loop", [np.array(3), np.array(True), real(2)], fixed=(0, 1), outputs=2, body=body)


@pytest.mark.parametrize(("shape", "indices", "axis"), [((1, 64), (1, 16), 1), ((3, 4, 5), (2, 6, 3), 1),
                                                        ((2, 3), (5, 2), -2), ((7,), (3,), 0)])
def test_elements_that_are_known_are_gathered_as_others(shape, indices, axis):
    """Dimensions that are not looked up in may be shorter in the indices."""
    data, extent = real(*shape), shape[axis]
    places = RANDOM.integers(-extent, extent, indices)
    for fixed in ((0, 1), (1,)):
        check("GatherElements", (data, places), fixed=fixed, runtime=True, axis=axis)
