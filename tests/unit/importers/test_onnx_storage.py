"""Weights left in the file until they are used: the same graph from a file, its bytes and the protobuf of it, whatever
the encoding; data that cannot be reached or lies about its size is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import pytest

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph import RoundedConstant
from openane.importers import load_graph
from openane.importers.onnx import load_onnx, storage
from openane.importers.onnx.storage import LEAST, OWN, slimmed

helper, TensorProto = onnx.helper, onnx.TensorProto
SIDE = 64
TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
SMALLER = (TensorProto.INT8, TensorProto.INT4, TensorProto.FLOAT8E4M3FN)


def _tensor(kind: int, array: np.ndarray, name: str = "w", raw: bool = True):
    held = array.astype(helper.tensor_dtype_to_np_dtype(kind))
    return helper.make_tensor(name, kind, array.shape, held.tobytes() if raw and kind != TensorProto.INT4
                              else held.astype(np.float64).ravel(), raw and kind != TensorProto.INT4)


def _constants(source, **options) -> list[np.ndarray]:
    graph = load_onnx(source, **options)
    return [value.array() for node in graph.nodes for value in node.values()
            if isinstance(value.data, np.ndarray) and value.data.size >= SIDE]


def _same_from_everywhere(proto, path) -> bytes:
    """Imports the protobuf, its bytes and a file of it, and gives the slimmed bytes."""
    data = proto.SerializeToString()
    path.write_bytes(data)
    expected = _constants(proto)
    assert expected
    for source in (data, path, str(path)):
        found = _constants(source)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    return slimmed(memoryview(data))


def _product(tensor, *others, opset=21):
    """A model that multiplies x with the tensor, in its own type or cast."""
    nodes = [helper.make_node("Cast", [tensor.name], ["real"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["x", "real"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in
             (("x", (2, SIDE)), ("y", None))]
    return helper.make_model(helper.make_graph(nodes, "g", *ports, [tensor, *others]),
                             opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("kind", [*TYPES, *SMALLER])
@pytest.mark.parametrize("raw", [True, False])
def test_every_encoding_gives_the_same_weights(kind, raw, tmp_path):
    numbers = np.random.default_rng(kind).integers(-7, 8, (SIDE, 4 * SIDE)).astype(np.float32)
    proto = _product(_tensor(kind, numbers, raw=raw))
    slim = _same_from_everywhere(proto, tmp_path / "m.onnx")
    left = (raw and kind != TensorProto.INT4) or kind in (TensorProto.FLOAT, TensorProto.DOUBLE)
    assert (len(slim) < LEAST) == left
    onnx.load_model_from_string(slim)


def test_constants_of_nodes_and_of_nested_graphs_stay_in_the_file_too(weights, model, tmp_path):
    inner, attribute = weights(SIDE, SIDE), weights(SIDE, SIDE)
    body = helper.make_graph([helper.make_node("MatMul", ["x", "inner"], ["r"])], "b", [],
                             [helper.make_empty_tensor_value_info("r")], [onnx.numpy_helper.from_array(inner, "inner")])
    outer = helper.make_graph([helper.make_node("MatMul", ["x", "outer"], ["r"])], "b", [],
                              [helper.make_empty_tensor_value_info("r")])
    nodes = [helper.make_node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(attribute)),
             helper.make_node("If", ["yes"], ["a"], then_branch=body, else_branch=outer),
             helper.make_node("If", ["no"], ["b"], then_branch=body, else_branch=outer),
             helper.make_node("Sum", ["a", "b", "k"], ["y"])]
    proto = model(nodes, {"x": (SIDE, SIDE)}, {"outer": weights(SIDE, SIDE), "yes": np.array(True),
                                               "no": np.array(False)})
    assert len(_same_from_everywhere(proto, tmp_path / "m.onnx")) < LEAST


def test_weights_used_twice_are_read_once_and_given_up(weights, model, tmp_path):
    layers, side = 8, 256
    nodes = [helper.make_node("MatMul", ["x", "shared"], ["h0"])]
    nodes += [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(layers)]
    nodes += [helper.make_node("Add", [f"h{layers}", "shared"], ["s"]), helper.make_node("Add", ["s", "shared"], ["y"])]
    tensors = {f"w{i}": weights(side, side) for i in range(layers)} | {"shared": weights(side, side)}
    (tmp_path / "m.onnx").write_bytes(model(nodes, {"x": (side, side)}, tensors).SerializeToString())
    load_graph(tmp_path / "m.onnx")
    tracemalloc.start()
    graph = load_graph(tmp_path / "m.onnx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first, second = graph.nodes[-2:]
    assert first["y"] is second["y"]
    assert peak < 2 * sum(array.size * 2 for array in tensors.values())


def test_weights_nothing_uses_are_checked_and_names_stay_taken(weights, model):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    proto = model([node], {"x": (2, SIDE)}, {"w": weights(SIDE, SIDE), "idle": weights(SIDE, SIDE)})
    assert len(_constants(proto.SerializeToString())) == 1
    proto.graph.initializer[1].dims[0] += 1
    with pytest.raises(FormatError, match="'idle': malformed tensor"):
        load_onnx(proto.SerializeToString())
    proto.graph.initializer[1].dims[0] -= 1
    for name in ("w", "idle"):
        again = type(proto)()
        again.CopyFrom(proto)
        again.graph.node.append(helper.make_node("Relu", ["x"], [name]))
        with pytest.raises(GraphError, match=f"the name '{name}' is taken"):
            load_onnx(again.SerializeToString())
    proto.graph.initializer[1].name = "w"
    with pytest.raises(GraphError, match="the name 'w' is taken"):
        load_onnx(proto.SerializeToString())


@pytest.mark.parametrize("place", [{"offset": "0", "length": "99999999"}, {"offset": "-1", "length": "16384"},
                                   {"offset": "x", "length": "16384"}, {}])
def test_data_that_lies_nowhere_is_refused(place, weights, model):
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, SIDE)}, {"w": weights(SIDE, SIDE)})
    [tensor] = proto.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": OWN, **place}.items():
        tensor.external_data.add(key=key, value=value)
    with pytest.raises(FormatError, match="'w'"):
        load_onnx(proto.SerializeToString())


def test_bytes_our_reader_does_not_follow_are_judged_by_the_package(weights, model):
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, SIDE)}, {"w": weights(SIDE, SIDE)})
    group = bytes([0xFB, 0x3F, 0xFC, 0x3F])  # an unknown field as a group: begun and ended
    data = proto.SerializeToString() + group
    with pytest.raises(FormatError, match="no protobuf field"):
        slimmed(memoryview(data))
    assert len(_constants(data)) == 1
    with pytest.raises(FormatError, match="not an ONNX model"):
        load_onnx(data[:-1000])


def test_models_larger_than_memory_are_refused_unread(weights, model, tmp_path, monkeypatch):
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, SIDE)}, {"w": weights(SIDE, SIDE)})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    for room in ("files", "onnx.storage"):
        monkeypatch.setattr(f"openane.importers.{room}.memory", lambda: SIDE * SIDE)
    monkeypatch.setattr(storage.Storage, "array", None)
    with pytest.raises(UnsupportedError, match="read into memory"):
        load_graph(tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match=r"held in memory(.|\n)*8192 bytes"):
        load_onnx(proto.SerializeToString())


def test_a_graph_keeps_nothing_of_a_file_that_is_written_over(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "MAPPED", LEAST)
    matrix = np.random.default_rng(3).standard_normal((SIDE, 2 * SIDE)).astype(np.float32)
    shape = onnx.numpy_helper.from_array(np.array([2 * SIDE, SIDE, 1, 1]), "shape")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]),
             helper.make_node("Transpose", ["w"], ["turned"]),
             helper.make_node("Reshape", ["turned", "shape"], ["kernel"]),  # whose digits are kept
             helper.make_node("Conv", ["image", "kernel"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each] for each in
             ((("x", (2, SIDE)), ("image", (1, SIDE, 3, 3))), (("product", None), ("y", None)))]
    proto = helper.make_model(helper.make_graph(nodes, "g", *ports, [_tensor(TensorProto.FLOAT, matrix), shape]),
                              opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    graph = load_onnx(path)
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    product, kernel = (node["weight"] for node in graph.nodes)
    assert np.array_equal(product.array(), matrix.T.astype(np.float16))
    assert isinstance(kernel, RoundedConstant)
    assert np.array_equal(kernel.digits().reshape(2 * SIDE, SIDE), matrix.T)
    path.write_bytes(b"")
    assert np.array_equal(kernel.digits().reshape(2 * SIDE, SIDE), matrix.T)
