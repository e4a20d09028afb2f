"""A few bytes of an ONNX file do not become gigabytes while its constants are computed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.errors import GraphError, UnsupportedError
from openane.importers import load_onnx
from openane.importers.onnx import fold


def _doubled(times: int, made: list[int]):
    """x plus the sum of 64 ones that are joined with themselves so many times."""
    h, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [h.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0, name=f"join{i}") for i in range(times)]
    nodes += [h.make_node("ReduceSum", [f"c{times}"], ["s"], keepdims=0), h.make_node("Add", ["x", "s"], ["y"])]
    ports = [h.make_tensor_value_info(name, floats, made) for name in "xy"]
    ones = h.make_tensor("c0", floats, [64], np.ones(64))
    return h.make_model(h.make_graph(nodes, "g", ports[:1], ports[1:], [ones]),
                        opset_imports=[h.make_opsetid("", 18)])


def test_what_doubles_is_refused_by_name_before_it_is_made(monkeypatch):
    largest = 0
    join = np.concatenate

    def watched(arrays, axis=0):
        nonlocal largest
        largest = max(largest, sum(array.nbytes for array in arrays))
        assert largest <= 1 << 20
        return join(arrays, axis)

    monkeypatch.setattr("openane.graph.budget.LEAST", 1 << 20)
    monkeypatch.setattr(fold.np, "concatenate", watched)
    with pytest.raises(UnsupportedError, match=r"Concat 'join\d+': constants computed from others.*limit 1048576 byte"):
        load_onnx(_doubled(40, [1, 4]).SerializeToString())


def test_what_the_file_holds_raises_the_limit(monkeypatch):
    monkeypatch.setattr("openane.graph.budget.LEAST", 0)
    assert load_onnx(_doubled(3, [1, 4]).SerializeToString()).outputs[0].shape == (1, 4)
    with pytest.raises(UnsupportedError, match="limit 8192 bytes"):
        load_onnx(_doubled(5, [1, 4]).SerializeToString())


def _one(op: str, shape: list[int], version: int, weights: dict[str, np.ndarray], **attributes: object) -> bytes:
    h, floats = onnx.helper, onnx.TensorProto.FLOAT
    given = [onnx.numpy_helper.from_array(array, name)
             for name, array in weights.items()]
    graph = h.make_graph([h.make_node(op, ["x", *weights], ["y"], name="one", **attributes)], "g",
                         [h.make_tensor_value_info("x", floats, shape)],
                         [h.make_tensor_value_info("y", floats, None)], given)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", version)]).SerializeToString()


@pytest.mark.parametrize(("op", "shape", "version", "weights", "attributes"), [
    ("Hardmax", [1, 4096], 13, {}, {}), ("Hardmax", [1, 2, 4096], 11, {}, {"axis": 1}),
    ("RNN", [1, 4096, 1], 14, {"w": np.ones((1, 2, 1), np.float32), "r": np.ones((1, 2, 2), np.float32)},
     {"hidden_size": 2}),
    ("QuantizeLinear", [1, 4096], 21, {"s": np.ones((1, 2048), np.float32)}, {"axis": 1, "block_size": 2})])
def test_what_an_extent_asks_for_is_bounded_before_it_is_made(op, shape, version, weights, attributes, monkeypatch):
    """Arrays that an operator makes of an extent that a port states, which costs a file nothing."""
    monkeypatch.setattr(fold, "MAXIMUM_ELEMENTS", 2047)
    with pytest.raises((GraphError, UnsupportedError), match=r"'one'.*is outside 0..20"):
        load_onnx(_one(op, shape, version, weights, **attributes))


def test_zeros_of_any_shape_are_refused_before_they_are_made(monkeypatch):
    h = onnx.helper
    columns = h.make_node("ConstantOfShape", ["n"], ["c"], name="columns")
    graph = h.make_graph([columns, h.make_node("Add", ["x", "c"], ["y"])], "g",
                         [h.make_tensor_value_info("x", 1, [1, 4])], [h.make_tensor_value_info("y", 1, None)],
                         [onnx.numpy_helper.from_array(np.array([4, 1 << 24]), "n")])
    monkeypatch.setattr(np, "full", lambda *_, **__: pytest.fail("they were made"))
    with pytest.raises(UnsupportedError, match="ConstantOfShape 'columns': constants computed from others"):
        load_onnx(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)]).SerializeToString(), limit=1 << 20)


@pytest.mark.parametrize(("op", "weights"), [
    ("Tile", {"c": np.ones(4, np.float32), "n": np.array([1 << 20])}),
    ("MatMul", {"c": np.ones((4096, 1), np.float32), "n": np.ones((1, 4096), np.float32)})])
def test_what_operators_without_a_fold_make_of_constants_is_bounded(op, weights, monkeypatch):
    h = onnx.helper
    monkeypatch.setattr("openane.importers.onnx.known.evaluate_node", lambda *_: pytest.fail("it was made"))
    nodes = [h.make_node(op, list(weights), ["made"], name="large"), h.make_node("Add", ["x", "made"], ["y"])]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, [1])], [h.make_tensor_value_info("y", 1, None)],
                         [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()])
    with pytest.raises(UnsupportedError, match=f"{op} 'large': constants computed from others"):
        load_onnx(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)]).SerializeToString(), limit=1 << 20)


def test_bodies_of_operators_are_made_of_known_types_alone():
    """Of others the onnx package makes them by a pointer that is none, which ends the process."""
    h = onnx.helper
    body = h.make_graph([h.make_node("Identity", ["e"], ["f"])], "body", [h.make_tensor_value_info("e", 1, ["N"])],
                        [h.make_tensor_value_info("f", 1, ["N"])])
    node = h.make_node("SequenceMap", ["s", "t"], ["y"], name="each", body=body)
    for port in (h.make_tensor_value_info("t", 1, [4]), h.make_tensor_sequence_value_info("s", 1, [4])):
        graph = h.make_graph([node], "g", [port], [h.make_tensor_sequence_value_info("y", 1, [4])])
        with pytest.raises(UnsupportedError, match="SequenceMap 'each': its operands are tensors of known types"):
            load_onnx(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]).SerializeToString())
