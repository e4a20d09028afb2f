"""The ONNX backend: nodes and models run on the engine, constants of a run, and what is refused before it runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.unary import BOUNDS

from openane import onnx_backend as backend
from openane.errors import AneError, GraphError, UnsupportedError

helper = onnx.helper


def _model(nodes, inputs, outputs, opset=20):
    """A model of ports {name: (element type, shape)}."""
    ports = [[helper.make_tensor_value_info(name, *kind) for name, kind in side.items()] for side in (inputs, outputs)]
    return helper.make_model(helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", opset)])


def test_nodes_run_alone():
    x = np.array([[-1, 2], [3, -4]], np.float32)
    (y,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    assert y.dtype == np.float32
    assert np.array_equal(y, np.maximum(x, 0))
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1)
    outputs = backend.run_node(node, {"x": x}, outputs_info=[(np.int64, (2, 1))])
    assert outputs[0].dtype == np.int64
    assert outputs[0].tolist() == [[1], [0]]


def test_models_take_and_give_names_and_their_own_types():
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Greater", ["a", "b"], ["above"])]
    model = _model(nodes, {"a": (11, [3]), "b": (11, [3])}, {"sum": (11, [3]), "above": (9, [3])})
    feeds = {"b": np.array([1.0, 2, 3]), "a": np.array([3.0, 2, 1])}
    outputs = backend.AneBackend.prepare(model).run(feeds)
    assert outputs[0].dtype == np.float64
    assert outputs[0].tolist() == [4, 4, 4]
    assert outputs[1].tolist() == [True, False, False]
    with pytest.raises(GraphError, match="input 'b' is missing; the model takes a, b"):
        backend.run_model(model, [feeds["a"]])


def test_what_decides_shapes_is_a_constant_of_the_run():
    model = _model([helper.make_node("Reshape", ["x", "s"], ["y"])], {"x": (1, ["n", 4]), "s": (7, [2])},
                   {"y": (1, None)})
    prepared = backend.prepare(model)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    for shape in ((2, 8), (8, 2), (2, 8)):
        assert prepared.run([x, np.array(shape)])[0].shape == shape
        assert [value.name for value in prepared.last.graph.inputs] == ["x"]
    assert prepared.run([x[:2], np.array([1, 8])])[0].shape == (1, 8)
    assert not prepared.last.model.host_operations
    assert not prepared.last.constant


@pytest.mark.parametrize(("op", "x", "message"), [
    ("Relu", np.array([np.nan]), "the engine has no NaN"),
    ("Relu", np.array([1e6]), "real numbers are held as fp16"),
    ("Relu", np.array([4097.0]), "would move a number too far"),
    ("Exp", np.array([12.0]), "results become infinite on the engine"),
    ("Tan", np.array([3.0]), "leaves the domain"),
    ("Sqrt", np.array([-1.0]), "output 'y'.*the engine has no NaN"),
    ("Neg", np.array([4097]), "integers are held as fp16"),
    ("Det", np.eye(2), "not supported"),
])
def test_what_fp16_does_not_hold_is_refused(op, x, message):
    x = x.astype(np.float32 if x.dtype.kind == "f" else np.int64)
    with pytest.raises(UnsupportedError, match=message):
        backend.run_node(helper.make_node(op, ["x"], ["y"]), [x])


def test_integers_that_grow_too_large_are_refused():
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    assert backend.run_node(node, [np.array([44, 45])])[0].tolist() == [1936, 2025]
    with pytest.raises(UnsupportedError, match="integers are held as fp16"):
        backend.run_node(node, [np.array([99])])


def test_numbers_near_a_tie_are_not_rounded_by_guess():
    nodes = [helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Round", ["s"], ["y"])]
    model = _model(nodes, {"x": (1, [1])}, {"y": (1, [1])})
    assert backend.run_model(model, [np.array([2.5], np.float32)])[0] == 6
    with pytest.raises(UnsupportedError, match="so near to a tie"):
        backend.run_model(model, [np.array([14.2], np.float32) ** 2 / 14.2 - 0.0106])


def test_devices_and_things_that_are_no_tensors_are_refused():
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    model = _model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, [2])}, {"y": (1, [2])})
    with pytest.raises(UnsupportedError, match="device 'CUDA'"):
        backend.prepare(model, "CUDA")
    with pytest.raises(UnsupportedError, match="inputs must be tensors"):
        backend.run_model(model, [[np.zeros(2, np.float32)]])
    with pytest.raises(AneError):
        backend.run_model(model, [np.zeros(3, np.float32)])
    assert backend.is_compatible(model)


def test_tolerances_state_what_they_are_made_of():
    model = _model([helper.make_node("Elu", ["x"], ["y"], alpha=2.0)], {"x": (1, [2])}, {"y": (1, [2])})
    prepared = backend.prepare(model)
    prepared.run([np.zeros(2, np.float32)])
    stated = prepared.last.tolerance
    assert stated.absolute == backend.ABSOLUTE + 2 * BOUNDS["elu"].absolute
    assert stated.relative == backend.RELATIVE + BOUNDS["elu"].relative
    one = np.ones(2, np.float32)
    assert stated.allows(one + np.float32(0.015), one)
    assert not stated.allows(one + np.float32(0.03), one)
    assert not stated.allows(one.astype(np.float64), one)
    assert not stated.allows(np.array([1, 2]), np.array([1, 3]))
