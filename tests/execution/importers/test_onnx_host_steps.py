"""ONNX models whose positions are computed: the host looks up and puts in place, exactly, between engine programs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import openane as ane
from openane.importers.onnx import load_onnx

helper = onnx.helper
RANDOM = np.random.default_rng(6)


def _real(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float16).astype(np.float32)


def _hosted(nodes: list[onnx.NodeProto], data: dict[str, np.ndarray], constants: dict[str, np.ndarray] | None = None,
            ) -> list[str]:
    """Runs a model beside onnxruntime: the operations of its host steps."""
    inputs = [helper.make_tensor_value_info(name, 7 if array.dtype.kind == "i" else 1, array.shape)
              for name, array in data.items()]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph([*nodes, helper.make_node("Relu", ["z"], ["y"])], "test", inputs,
                              [helper.make_tensor_value_info("y", 1, None)], tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    model = ane.compile(load_onnx(proto))
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, data)[0]
    np.testing.assert_array_equal(ane.run(model, data)["y"], wanted)
    return [step.node.op for step in model.steps if hasattr(step, "node")]


@pytest.mark.parametrize(("op", "attributes", "indices", "updates", "hosted"), [
    ("Gather", {"axis": 1}, np.array([[3, -1], [0, 0]]), None, "gather"),
    ("GatherElements", {"axis": 1}, np.array([[1, 2, -1], [-1, 0, 3]]), None, "gather_along_axis"),
    ("GatherND", {}, np.array([[1, 2], [-1, 0]]), None, "gather_nd"),
    ("ScatterND", {}, np.array([[1], [-1]]), (2, 4), "scatter_nd"),
    ("ScatterElements", {"axis": 1}, np.array([[1, 2], [-1, 0], [3, 2]]), (3, 2), "scatter_along_axis"),
])
def test_computed_positions(op, attributes, indices, updates, hosted) -> None:
    data = {"x": _real(3, 4), "i": indices} | ({} if updates is None else {"u": _real(*updates)})
    assert _hosted([helper.make_node(op, list(data), ["z"], **attributes)], data) == [hosted]


def test_positions_in_a_long_table_stay_exact() -> None:
    """5001 and 20003 are no numbers of fp16."""
    nodes = [helper.make_node("Less", ["i", "end"], ["known"]),
             helper.make_node("Where", ["known", "i", "zero"], ["j"]),
             helper.make_node("Add", ["j", "one"], ["k"]), helper.make_node("Gather", ["table", "k"], ["z"])]
    constants = {"end": np.array(29000), "zero": np.array(0), "one": np.array(1), "table": _real(30000, 3)}
    hosted = _hosted(nodes, {"i": np.array([[5000, 20002, 29500, 7]])}, constants)
    assert {"add", "gather"} <= set(hosted)
