"""Pools over more dimensions than onnxruntime's or MIL's: where windows hold a single number it is a pool over the
others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from openane.errors import GraphError
from openane.graph import Graph
from openane.importers import load_onnx
from openane.ops.evaluate import evaluate

SHAPE = (2, 3, 4, 7, 6, 5)
FEWER: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}
"""Over dimensions 3 and 5."""
WHOLE: dict[str, Any] = {"kernel_shape": [1, 3, 1, 2], "strides": [1, 2, 1, 1], "pads": [0, 1, 0, 0, 0, 0, 0, 1]}


def model(op: str, shape: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    node = onnx.helper.make_node(op, ["x"], ["y"], **attributes)
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
             for name, dims in (("x", shape), ("y", [None] * len(shape)))]
    made = onnx.helper.make_graph([node], "pool", ports[:1], ports[1:])
    return onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=10)


def loaded(op: str, shape: tuple[int, ...], **attributes: Any) -> Graph:
    return load_onnx(model(op, shape, **attributes))


@pytest.mark.parametrize(("op", "settings"), [
    ("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {}),
    ("MaxPool", {"ceil_mode": 1})])
def test_windows_of_a_single_number_are_left_out(op: str, settings: dict[str, int]) -> None:
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float16)
    # dimensions 2 and 4 are looked at with the channels: their windows are single numbers
    beside = x.transpose(0, 1, 2, 4, 3, 5).reshape(2, 72, 7, 5).astype(np.float32)
    session = onnxruntime.InferenceSession(model(op, beside.shape, **FEWER, **settings).SerializeToString())
    pooled, = session.run(None, {"x": beside})
    wanted = pooled.reshape(2, 3, 4, 6, *pooled.shape[2:]).transpose(0, 1, 2, 4, 3, 5)
    found = evaluate(loaded(op, SHAPE, **WHOLE, **settings), {"x": x})["y"]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_windows_over_all_dimensions_of_an_image() -> None:
    """As JAX's windows are exported: batch and channels are among them, and stand as single numbers before."""
    x = np.random.default_rng(4).standard_normal((1, 1, 1, 8, 8, 3)).astype(np.float16)
    graph = loaded("MaxPool", x.shape, kernel_shape=[1, 2, 2, 1], strides=[1, 2, 2, 1])
    wanted = x.reshape(1, 1, 1, 4, 2, 4, 2, 3).max((4, 6))
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], wanted)


def test_windows_of_several_numbers_over_four_dimensions_are_refused() -> None:
    with pytest.raises(GraphError, match="rank 3 to 5"):
        loaded("MaxPool", (1, 2, 3, 4, 3, 4), kernel_shape=[2, 2, 2, 2])
