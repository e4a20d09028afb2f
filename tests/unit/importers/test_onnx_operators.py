"""ONNX operators imported and evaluated give what onnxruntime computes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import pytest

from openane.errors import AneError, GraphError
from openane.importers.onnx import OPERATORS

helper = onnx.helper


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "Softplus", "Softsign", "Floor",
                                "Ceil", "Sign", "HardSwish", "Identity", "Elu", "HardSigmoid", "LeakyRelu",
                                "GlobalAveragePool", "GlobalMaxPool", "Flatten", "Transpose", "Dropout"])
def test_functions(op, one):
    graph = one(op)
    assert graph.outputs[0].name == "y"
    if graph.nodes[-1].op != "identity":
        assert graph.nodes[-1].source == f"ONNX {op} 'the node'"


@pytest.mark.parametrize("op", ["Log", "Sqrt", "Reciprocal"])
def test_functions_of_positive_numbers(op, positive, one):
    one(op, data=positive(2, 3, 4, 5))


def test_round_goes_to_even(one):
    one("Round", (8,), data=np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, 3.51], np.float32))


@pytest.mark.parametrize(("op", "attributes"), [
    ("LeakyRelu", {"alpha": 0.25}), ("Elu", {"alpha": 0.5}), ("HardSigmoid", {"alpha": 0.5, "beta": 0.25}),
    ("Flatten", {"axis": 0}), ("Flatten", {"axis": -1}), ("Flatten", {"axis": 4}),
    ("Transpose", {"perm": [0, 2, 3, 1]}), ("Softmax", {}), ("Softmax", {"axis": 1}), ("Softmax", {"axis": -2}),
    ("ReduceMean", {"axes": [2, 3]}), ("ReduceMean", {}), ("ReduceMax", {"axes": [-1], "keepdims": 0}),
    ("ReduceMin", {"axes": [1]}),
])
def test_attributes(op, attributes, one):
    one(op, **attributes)


def test_gelu(one):
    for approximate in ("none", "tanh"):
        one("Gelu", opset=20, approximate=approximate)


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 1, 4, 3), (3, 5), (2, 7, 1, 1), (2, 1, 5, 1)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_before_opset_13_runs_over_all_later_dimensions(shape, axis, one):
    one("Softmax", shape, opset=11, axis=axis)
    one("Softmax", shape, opset=13, axis=axis)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 1, 1), (), (1, 1, 4, 1)])
def test_two_operands(op, shape, weights, positive, model, compare):
    nodes = [helper.make_node(op, ["x", "c"], ["h"]), helper.make_node(op, ["h", "z"], ["y"])]
    data = {"x": weights(2, 3, 4, 5), "z": positive(*shape)}
    compare(model(nodes, {"x": (2, 3, 4, 5), "z": shape}, {"c": positive(*shape)}), data)


def test_many_operands(weights, model, compare):
    for op in ("Max", "Min", "Sum"):
        node = helper.make_node(op, ["x", "c", "z"], ["y"])
        compare(model([node], {"x": (2, 3), "z": (2, 1)}, {"c": weights(3)}))
        compare(model([helper.make_node(op, ["x"], ["y"])], {"x": (2, 3)}))


@pytest.mark.parametrize(("exponent", "op"), [(2.0, "square"), (0.5, "sqrt"), (1.0, "identity"), (3.0, "pow")])
def test_powers(exponent, op, positive, ints, one):
    graph = one("Pow", (2, 3), [np.float32(exponent)], data=positive(2, 3))
    assert graph.nodes[-1].op == op
    one("Pow", (2, 3), [ints(2)], data=positive(2, 3))
    one("Pow", (2, 3), [np.array([1, 2, 3], np.float32)], data=positive(2, 3))


def test_parametric_relu(weights, one):
    assert one("PRelu", constants=[np.full((1,), 0.25, np.float32)]).nodes[-1].op == "leaky_relu"
    one("PRelu", constants=[weights(3, 1, 1)])


@pytest.mark.parametrize(("low", "high", "op"), [
    (0, 6, "relu6"), (0, None, "relu"), (None, 1, "minimum"), (-1, None, "maximum"), (-0.5, 0.5, "clip"),
    (None, None, "identity"), (0, np.finfo(np.float32).max, "relu"), (1, -1, "minimum"),
])
def test_clip(low, high, op, one):
    bounds = [None if bound is None else np.float32(bound) for bound in (low, high)]
    assert one("Clip", constants=bounds).nodes[-1].op == op
    named = {name: float(bound) for name, bound in zip(("min", "max"), bounds, strict=True) if bound is not None}
    if low is None or high is None or low <= high:
        assert one("Clip", opset=6, **named).nodes[-1].op == op


@pytest.mark.parametrize("attributes", [
    {}, {"pads": [1, 2, 0, 1]}, {"strides": [2, 1], "auto_pad": "SAME_UPPER"}, {"auto_pad": "VALID"},
    {"strides": [2, 3], "auto_pad": "SAME_LOWER"}, {"dilations": [2, 1], "pads": [1, 1, 1, 1]},
    {"group": 2}, {"group": 2, "kernel_shape": [3, 3]},
])
def test_convolution(attributes, weights, one):
    group = attributes.get("group", 1)
    kernel = weights(6, 4 // group, 3, 3, scale=0.2)
    one("Conv", (2, 4, 9, 8), [kernel], **attributes)
    one("Conv", (2, 4, 9, 8), [kernel, weights(6)], **attributes)


def test_convolution_of_one_and_three_axes(weights, one):
    one("Conv", (2, 4, 9), [weights(5, 4, 3)], pads=[1, 0])
    one("Conv", (1, 2, 5, 6, 4), [weights(3, 2, 3, 3, 2)], pads=[1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize("attributes", [
    {}, {"strides": [2, 2]}, {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"ceil_mode": 1, "strides": [2, 2]}, {"pads": [1, 1, 1, 1]},
])
def test_pooling(attributes, one):
    one("MaxPool", (2, 3, 9, 8), kernel_shape=[3, 3], **attributes)
    one("AveragePool", (2, 3, 9, 8), kernel_shape=[3, 3], **attributes)
    one("AveragePool", (2, 3, 9, 8), kernel_shape=[3, 3], count_include_pad=1, **attributes)


@pytest.mark.parametrize("bias", [None, (5,), (1, 5), (1,), (2, 1), (2, 5), ()])
@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.5, "beta": 2.0}, {"transB": 1}, {"transA": 1, "alpha": 0.5}])
def test_gemm(bias, attributes, weights, model, compare, one):
    shape = (4, 2) if attributes.get("transA") else (2, 4)
    matrix = weights(5, 4) if attributes.get("transB") else weights(4, 5)
    one("Gemm", shape, [matrix, *([] if bias is None else [weights(*bias)])], **attributes)
    node = helper.make_node("Gemm", ["x", "b", "c"], ["y"], **attributes)
    compare(model([node], {"x": shape, "b": matrix.shape, "c": (5,)}))


@pytest.mark.parametrize(("x", "y"), [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 5, 2, 3), (5, 3, 4)), ((3,), (3, 4)),
                                      ((2, 3), (3,))])
def test_matmul(x, y, weights, model, compare, one):
    one("MatMul", x, [weights(*y)])
    compare(model([helper.make_node("MatMul", ["x", "z"], ["y"])], {"x": x, "z": y}))


def test_normalisations(weights, positive, one):
    scale, offset, mean, variance = weights(3), weights(3), weights(3), positive(3) * np.float32(1e-7)
    for shape in ((2, 3, 4, 5), (2, 3), (2, 3, 4)):
        data = weights(*shape) * np.float32(1e-2)
        one("BatchNormalization", shape, [scale, offset, mean * np.float32(1e-2), positive(3)], data=data)
    one("BatchNormalization", (2, 3, 4), [scale, offset, np.zeros(3, np.float32), variance],
        data=np.float32(1e-3) * weights(2, 3, 4), epsilon=1e-9)
    one("LayerNormalization", (2, 3, 8), [weights(8), weights(8)])
    one("LayerNormalization", (2, 3, 8), [weights(3, 8)], axis=1)
    one("LayerNormalization", (2, 3, 8), [weights(8)], epsilon=1e-12)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_axes_as_attribute_and_input(opset, ints, model, compare):
    nodes, constants = [], {}
    x = "x"
    for op, since, axes in (("Unsqueeze", 13, [1, -1]), ("ReduceSum", 13, [2]), ("ReduceMean", 18, [3]),
                            ("ReduceMax", 18, [0]), ("ReduceMin", 18, [1]), ("Squeeze", 13, [0])):
        out = f"t{len(nodes)}"
        if opset >= since:
            constants[f"axes_{out}"] = ints(*axes)
            nodes.append(helper.make_node(op, [x, f"axes_{out}"], [out]))
        else:
            nodes.append(helper.make_node(op, [x], [out], axes=axes))
        x = out
    compare(model(nodes, {"x": (3, 4, 5)}, constants, opset, (x,)))


def test_padding(ints, one):
    one("Pad", (2, 3), [ints(1, 0, 2, 3)])
    one("Pad", (2, 3), [ints(1, 0, 2, 3), np.float32(0)])
    one("Pad", (2, 3, 4), [ints(1, 2), None, ints(-2)], opset=18)
    one("Pad", (2, 3), opset=2, pads=[0, 1, 2, 0])
    assert one("Pad", (2, 3), [ints(0, 0, 0, 0)]).nodes[0].op == "identity"


@pytest.mark.parametrize(("image", "window", "attributes"), [
    ((6, 8), (2, 4), {"strides": [2, 4]}), ((6, 9), (2, 4), {"strides": [2, 4]}), ((9,), (3,), {"strides": [3]}),
    ((5, 6), (3, 2), {"pads": [1, 0, 2, 1], "strides": [1, 2]}), ((6, 6), (2, 2), {"dilations": [2, 3]}),
    ((3, 4, 5), (1, 2, 3), {})])
def test_columns_laid_back_where_their_windows_were(image, window, attributes, ints, one):
    count, pads = len(image), attributes.get("pads", [0] * 6)
    places = [(image[axis] + pads[axis] + pads[axis + count] - (window[axis] - 1)
               * attributes.get("dilations", [1] * 3)[axis] - 1) // attributes.get("strides", [1] * 3)[axis] + 1
              for axis in range(count)]
    columns = (2, 3 * int(np.prod(window)), int(np.prod(places)))
    graph = one("Col2Im", columns, [ints(*image), ints(*window)], opset=18, **attributes)
    assert any(node.op == "conv_transpose" for node in graph.nodes) != (attributes.get("strides") == list(window)
                                                                        and image != (6, 9))


def test_columns_of_other_windows_are_refused(ints, one):
    for image, window in ((ints(5, 5), ints(2, 2, 2)), (ints(5, 5), ints(2, 3)), (ints(5, 0), ints(2, 2))):
        with pytest.raises(GraphError, match="Col2Im"):
            one("Col2Im", (1, 8, 16), [image, window])


@pytest.mark.parametrize(("sets", "groups", "attributes", "rest"), [
    (1, 1, {"pads": [1, 1, 1, 1]}, 0), (2, 2, {"pads": [2, 1, 2, 1], "dilations": [2, 1], "strides": [1, 2]}, 2),
    (1, 2, {}, 1)])
def test_deformable_convolution(sets, groups, attributes, rest, weights, one):
    pads, dilations, strides = (attributes.get(name, default) for name, default in (
        ("pads", [0] * 4), ("dilations", [1, 1]), ("strides", [1, 1])))
    rows, columns = ((extent + 2 * pads[axis] - 2 * dilations[axis] - 1) // strides[axis] + 1
                     for axis, extent in enumerate((7, 9)))
    given = [weights(2, 18 * sets, rows, columns), weights(6), weights(2, 9 * sets, rows, columns)]
    one("DeformConv", (2, 4, 7, 9), [weights(6, 4 // groups, 3, 3), *given[:1 + rest]], opset=19, offset_group=sets,
        group=groups, **attributes)


@pytest.mark.parametrize("extents", [(19, 25), (17, 30), (49, 7), (10, 7), (3, 100)])
def test_extents_of_resized_images_are_those_of_runtimes(extents, one):
    """The quotient of two extents, rounded to fp32, times the old one may be just below the new one."""
    old, new = extents
    scales = np.array([1, 1, new / old, 1], np.float32)
    graph = one("Resize", (1, 2, old, 3), [None, scales], mode="linear", coordinate_transformation_mode="asymmetric")
    assert graph.outputs[0].shape[2] == new


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("producer", ["pytorch", "another"])
def test_corners_of_models_from_pytorch_are_aligned_by_whole_extents(mode, producer, model, compare):
    """Half of 9 elements are 4 in PyTorch and onnxruntime, where ONNX's own reference aligns corners by 4.5."""
    node = onnx.helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode,
                                 coordinate_transformation_mode="align_corners")
    proto = model([node], {"x": (1, 2, 9, 7)}, {"scales": np.array([1, 1, 0.5, 0.5], np.float32)})
    proto.producer_name = producer
    with pytest.raises(AssertionError) if producer == "another" else nullcontext():
        compare(proto)


def test_places_at_the_crossings_of_rows_and_columns_are_gathered_one_axis_after_the_other(one):
    """As adaptive pools are exported that do not divide their extent."""
    rows, columns = np.array([[0, 1, 2], [2, 3, 4]]), np.array([[1, 2], [3, -1], [0, 4], [2, 2]])
    crossings = np.stack(np.broadcast_arrays(rows[:, :, None, None], columns), -1)
    assert crossings.shape == (2, 3, 4, 2, 2)
    graph = one("GatherND", (5, 6, 1, 3), [crossings])
    assert [node.op for node in graph.nodes] == ["gather", "gather", "reshape"]
    assert graph.outputs[0].shape == (2, 3, 4, 2, 1, 3)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_any_places_are_gathered_into_six_dimensions(depth, one):
    places = np.random.default_rng(3).integers(-4, 4, (2, 2, 2, 2, depth))
    assert one("GatherND", (4, 5, 6), [places]).outputs[0].shape == (2, 2, 2, 2, *(4, 5, 6)[depth:])


def test_every_operator_is_tested():
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_onnx_*.py")]
    missing = [op for op in OPERATORS if not any(f'"{op.rpartition(":")[2]}"' in text for text in texts)]
    assert not missing


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("attributes", [
    {"pads": [1, 0, 0, 2]}, {"pads": [0, 1, 2, 1], "strides": [2, 3]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"strides": [2, 2]}, {"kernel_shape": [1, 1], "strides": [2, 3]}, {"kernel_shape": [2, 1], "strides": [3, 2]},
])
def test_pooling_with_ceil_mode(op, attributes, one):
    one(op, (1, 2, 7, 9), opset=22, **{"kernel_shape": [3, 3], "ceil_mode": 1, **attributes})
    one(op, (1, 2, 8, 8), opset=22, **{"kernel_shape": [3, 3], "ceil_mode": 1, **attributes})


@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 2]}, {"kernel_shape": [2, 1], "strides": [3, 2]},
                                        {"pads": [1, 1, 1, 1], "strides": [2, 2]}])
def test_average_with_ceil_mode_that_counts_padding(attributes, one):
    one("AveragePool", (1, 2, 7, 8), opset=22,
        **{"kernel_shape": [3, 3], "ceil_mode": 1, "count_include_pad": 1, **attributes})


@pytest.mark.parametrize("p", [0, 1025, 1 << 62])
@pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool"])
def test_powers_beyond_what_fp16_holds_are_refused(op, p, one):
    attributes = {"kernel_shape": [2, 2]} if op == "LpPool" else {}
    with pytest.raises(AneError, match="1 to 1024"):
        one(op, p=p, **attributes)
