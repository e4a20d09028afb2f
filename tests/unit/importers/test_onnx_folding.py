"""Numbers that ONNX files compute of their own constants are known when they are read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.graph import Graph, RoundedConstant
from openane.importers.onnx import load_onnx

helper = onnx.helper


@pytest.mark.parametrize(("opset", "bounds", "attributes"), [
    (13, (0, 1), {}), (13, (0, None), {}), (13, (None, 1), {}), (13, (None, None), {}),
    (6, (), {"min": 0.0, "max": 1.0}), (6, (), {"max": 1.0}), (6, (), {})])
def test_known_numbers_are_clipped(opset: int, bounds: tuple[int | None, ...], attributes: dict[str, float]) -> None:
    """As the paddings of convolutions are, that timm computes of an image's shape."""
    numbers = np.array([-3, 0, 1, 7], np.float32 if opset < 11 else np.int64)
    names = ["numbers", *("" if bound is None else f"bound{place}" for place, bound in enumerate(bounds))]
    known = {"numbers": numbers} | {f"bound{place}": np.asarray(bound, np.int64)
                                    for place, bound in enumerate(bounds) if bound is not None}
    nodes = [helper.make_node("Clip", names, ["clipped"], **attributes),
             helper.make_node("Cast", ["clipped"], ["real"], to=1), helper.make_node("Add", ["x", "real"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, (4,))], [helper.make_tensor_value_info("y", 1, (4,))],
        [onnx.numpy_helper.from_array(array, name) for name, array in known.items()])
    found = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
    low, high = (*bounds, None, None)[:2] if opset > 10 else (attributes.get("min"), attributes.get("max"))
    wanted = numbers if low is None and high is None else np.clip(numbers, low, high)
    assert [node.op for node in found.nodes] == ["add"]
    np.testing.assert_array_equal(found.nodes[0]["y"].array(), wanted)


def _imported(nodes: list[onnx.NodeProto], known: dict[str, np.ndarray], shape: tuple[int, ...]) -> Graph:
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, shape)],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [onnx.numpy_helper.from_array(array, name) for name, array in known.items()])
    return load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def test_weights_computed_by_any_operator_are_constants_in_all_their_digits() -> None:
    """Weight standardisation as PyTorch's older exporter writes it, by a batch norm of the weights."""
    weight = np.random.default_rng(3).normal(20, 1e-2, (4, 2, 3, 3)).astype(np.float32)
    known = {"w": weight, "flat": np.array([1, 4, 18]), "shape": np.array(weight.shape),
             "gain": np.linspace(1, 2, 4, dtype=np.float32), "zero": np.zeros(4, np.float32)}
    nodes = [helper.make_node("Reshape", ["w", "flat"], ["rows"]),
             helper.make_node("BatchNormalization", ["rows", "gain", "zero", "zero", "gain"],
                              ["unit", "mean", "variance"], epsilon=1e-6, training_mode=1),
             helper.make_node("Reshape", ["unit", "shape"], ["standard"]),
             helper.make_node("Conv", ["x", "standard"], ["y"])]
    node, = _imported(nodes, known, (1, 2, 8, 8)).nodes
    wide = weight.astype(np.float64).reshape(4, 18)
    wide -= wide.mean(1, keepdims=True)
    wanted = wide / np.sqrt(np.square(wide).mean(1, keepdims=True) + 1e-6) * known["gain"][:, None]
    made = node["weight"]
    assert node.op == "conv"
    assert isinstance(made, RoundedConstant)
    np.testing.assert_allclose(made.digits(), wanted.reshape(weight.shape), atol=2e-3)
    np.testing.assert_array_equal(made.array(), made.digits().astype(np.float16))


def test_numbers_beyond_fp16_on_the_way_to_a_constant_are_kept() -> None:
    known = {"big": np.array([[3e8, 1.0]], np.float32), "small": np.array([[1e-8, 0], [0, 1e-8]], np.float32)}
    nodes = [helper.make_node("MatMul", ["big", "small"], ["product"]),
             helper.make_node("Add", ["x", "product"], ["y"])]
    node, = _imported(nodes, known, (1, 2)).nodes
    np.testing.assert_array_equal(node["y"].array(), np.array([[3, 1e-8]], np.float16))


def test_shapes_computed_by_any_operator_are_known() -> None:
    """Integers, of which none is too large for the engine."""
    known = {"extents": np.array([[300, 7]]), "twice": np.array([1, 2]), "row": np.array([-1])}
    nodes = [helper.make_node("Tile", ["extents", "twice"], ["tiled"]),
             helper.make_node("Reshape", ["tiled", "row"], ["shape"]),
             helper.make_node("Reshape", ["x", "shape"], ["y"])]
    node, = _imported(nodes, known, (300 * 7, 300 * 7)).nodes
    assert node.op == "reshape"
    assert node.outputs[0].shape == (300, 7, 300, 7)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_order_of_known_whole_numbers_is_known(largest: int) -> None:
    """As lengths of sequences are sorted, by a TopK of integers beyond 2048; equal ones keep their order."""
    numbers = np.array([4000, 4001, 4000, 3, 4001])
    nodes = [helper.make_node("TopK", ["n", "k"], ["sorted", "places"], largest=largest),
             helper.make_node("Add", ["sorted", "places"], ["both"]),
             helper.make_node("Cast", ["both"], ["real"], to=1), helper.make_node("Add", ["x", "real"], ["y"])]
    node, = _imported(nodes, {"n": numbers, "k": np.array([4])}, (4,)).nodes
    wanted = [4001 + 1, 4001 + 4, 4000 + 0, 4000 + 2] if largest else [3 + 3, 4000 + 0, 4000 + 2, 4001 + 1]
    made = node["y"]
    assert isinstance(made, RoundedConstant)
    np.testing.assert_array_equal(made.digits(), wanted)


def test_an_axis_in_a_list_of_one_is_an_axis() -> None:
    """As PyTorch's older exporter writes the places of a triangle."""
    nodes = [helper.make_node("CumSum", ["ones", "axis"], ["places"]), helper.make_node("Mul", ["x", "places"], ["y"])]
    graph = _imported(nodes, {"ones": np.ones((2, 3), np.float32), "axis": np.array([1])}, (2, 3))
    np.testing.assert_array_equal(graph.nodes[0]["y"].array(), [[1, 2, 3]] * 2)
