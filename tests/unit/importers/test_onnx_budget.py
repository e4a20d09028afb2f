"""A few bytes of an ONNX file do not become gigabytes while its constants are computed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.errors import UnsupportedError
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
