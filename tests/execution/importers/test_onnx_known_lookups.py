"""Lookups in ONNX files at positions that are known."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.compiler import compile
from openane.devices import run
from openane.errors import GraphError
from openane.importers.onnx import load_onnx

helper = onnx.helper


@pytest.mark.parametrize(("indices", "match"), [([[0], [0], [0]], "reach beyond data"), ([[7]], "out of bounds"),
                                                ([0], "reach beyond data")])
def test_elements_beyond_the_data_are_refused(indices: list[object], match: str) -> None:
    node = helper.make_node("GatherElements", ["data", "indices"], ["y"], axis=1, name="lookup")
    known = [onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "data"),
             onnx.numpy_helper.from_array(np.array(indices, np.int64), "indices")]
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", 1, None)], known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(GraphError, match=match):
        load_onnx(model)


def test_an_unfolding_as_it_is_exported_runs_on_the_engine() -> None:
    """Two lookups by windows make six dimensions, which are moved and joined."""
    rows, columns = (np.arange(3)[:, None] + np.arange(6)[None], np.arange(2)[:, None] + np.arange(5)[None])
    nodes = [helper.make_node("Gather", ["x", "rows"], ["a"], axis=2),
             helper.make_node("Gather", ["a", "columns"], ["b"], axis=4),
             helper.make_node("Transpose", ["b"], ["c"], perm=[0, 1, 2, 4, 3, 5]),
             helper.make_node("Reshape", ["c", "shape"], ["y"])]
    known = [onnx.numpy_helper.from_array(np.asarray(array, np.int64), name)
             for name, array in (("rows", rows), ("columns", columns), ("shape", [1, 24, 30]))]
    ports = [helper.make_tensor_value_info("x", 1, (1, 4, 8, 6)), helper.make_tensor_value_info("y", 1, (1, 24, 30))]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], known),
                              opset_imports=[helper.make_opsetid("", 18)])
    numbers = np.random.default_rng(0).standard_normal((1, 4, 8, 6)).astype(np.float16)
    wanted = numbers[:, :, rows[:, :, None, None], columns].transpose(0, 1, 2, 4, 3, 5).reshape(1, 24, 30)
    found = run(compile(load_onnx(model), allow_host=False), {"x": numbers}, "simulator")["y"]
    np.testing.assert_array_equal(found, wanted)


def test_one_of_six_dimensions_is_chosen_as_a_slice() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"]), helper.make_node("Sub", ["a", "half"], ["b"]),
             helper.make_node("Gather", ["b", "place"], ["y"], axis=3)]
    known = [onnx.numpy_helper.from_array(np.asarray([1, 4, 2, 3, 5, 2], np.int64), "shape"),
             onnx.numpy_helper.from_array(np.asarray(-2, np.int64), "place"),
             onnx.numpy_helper.from_array(np.asarray(0.5, np.float32), "half")]
    ports = [helper.make_tensor_value_info("x", 1, (1, 4, 60)), helper.make_tensor_value_info("y", 1, (1, 4, 2, 5, 2))]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], known),
                              opset_imports=[helper.make_opsetid("", 18)])
    numbers = np.random.default_rng(0).integers(-9, 9, (1, 4, 60)).astype(np.float16)
    found = run(compile(load_onnx(model), allow_host=False), {"x": numbers}, "simulator")["y"]
    np.testing.assert_array_equal(found, numbers.reshape(1, 4, 2, 3, 5, 2)[:, :, :, 1] - 0.5)
