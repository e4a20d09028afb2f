"""What the tests of the ONNX importer share: small models, and onnxruntime beside them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from openane.importers.onnx import load_onnx
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(7)


def _weights(*shape: int, scale: float = 1.0) -> np.ndarray:
    """fp32 weights that fp16 holds exactly, so that only the import is compared."""
    return np.asarray(RANDOM.standard_normal(shape) * scale, np.float16).astype(np.float32)


def _positive(*shape: int) -> np.ndarray:
    return np.asarray(np.abs(_weights(*shape)) + np.float32(0.5))


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def _model(nodes, inputs, constants=None, opset=17, outputs=("y",)):
    """A model of fp32 inputs {name: shape}."""
    helper = onnx.helper
    constants = constants or {}
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _compare(proto, data: dict[str, np.ndarray] | None = None, tolerance: float = 2e-3, shapes=None):
    """Imports `proto`, evaluates it and onnxruntime on the same data; returns the graph."""
    graph = load_onnx(proto, shapes)
    data = data or {value.name: _weights(*value.shape) for value in graph.inputs}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, data)
    results = evaluate(graph, data)
    for port, array in zip(session.get_outputs(), expected, strict=True):
        assert results[port.name].shape == array.shape
        np.testing.assert_allclose(results[port.name], array, rtol=tolerance, atol=tolerance)
    for value in graph.inputs:
        assert graph.metadata[f"dtype:{value.name}"] == "fp32"
    return graph


def _one(op: str, x=(2, 3, 4, 5), constants=(), opset=17, data=None, **attributes):
    """A model of one node: x and constants in order."""
    table = {f"c{index}": array for index, array in enumerate(constants) if array is not None}
    names = ["x", *(f"c{index}" if array is not None else "" for index, array in enumerate(constants))]
    node = onnx.helper.make_node(op, names, ["y"], name="the node", **attributes)
    return _compare(_model([node], {"x": x}, table, opset), None if data is None else {"x": data})


@pytest.fixture
def weights():
    """Random fp32 arrays by shape, exact in fp16."""
    return _weights


@pytest.fixture
def positive():
    """The same, at least 0.5."""
    return _positive


@pytest.fixture
def ints():
    """int64 vectors."""
    return _ints


@pytest.fixture
def model():
    """Builds a ModelProto."""
    return _model


@pytest.fixture
def compare():
    """Imports, evaluates, compares with onnxruntime."""
    return _compare


@pytest.fixture
def one():
    """Compares a model of one node."""
    return _one
