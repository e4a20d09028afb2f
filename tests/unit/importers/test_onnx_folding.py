"""Numbers that ONNX files compute of their own constants are known when they are read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

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
