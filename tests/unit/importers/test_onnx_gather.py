"""Lookups in ONNX files whose positions make no sense are refused when everything about them is known."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

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
