"""Constants of few numbers that are made all at once are those that are made one at a time."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.errors import GraphError
from openane.graph import RoundedConstant
from openane.importers.onnx import constants, load_onnx
from openane.importers.onnx.nodes import nodes_of
from openane.importers.onnx.together import halves_together, norms_together, seen_in

make = onnx.helper.make_node


def _network(model, epsilons=(1e-5, 1e-3, None), variances=(1.0, 1e-7, 3.0), offset=0.25):
    """Norms behind each other, additions of channels, which are unsqueezed, and of rows."""
    nodes, table, name = [], {}, "x"
    rng = np.random.default_rng(3)
    for index, (epsilon, variance) in enumerate(zip(epsilons, variances, strict=True)):
        channels = {f"{part}{index}": rng.random(4, np.float32) for part in ("scale", "b", "mean")}
        table |= channels | {f"var{index}": np.full(4, variance, np.float32), f"row{index}": rng.random(5, np.float32),
                             f"c{index}": np.full(4, offset, np.float32), f"axes{index}": np.array([1, 2])}
        stated = {} if epsilon is None else {"epsilon": epsilon}
        nodes += [make("BatchNormalization", [name, *channels, f"var{index}"], [f"n{index}"], f"norm{index}", **stated),
                  make("Unsqueeze", [f"c{index}", f"axes{index}"], [f"u{index}"]),
                  make("Add", [f"n{index}", f"u{index}"], [f"a{index}"]),
                  make("Add", [f"a{index}", f"row{index}"], [f"y{index}"])]
        name = f"y{index}"
    return model(nodes, {"x": (1, 4, 3, 5)}, table, outputs=(name,))


def _told(proto) -> list[object]:
    graph = load_onnx(proto)
    return [(node.op, value.name, value.type, value.data if isinstance(value.data, str) else value.array().tobytes(),
             value.digits().tobytes() if isinstance(value, RoundedConstant) else None)
            for node in graph.nodes for value in node.values() if value.constant]


@pytest.mark.parametrize("network", [{}, {"offset": 7e4}, {"variances": (1.0, 1e-20, 3.0), "epsilons": (0.0,) * 3}])
def test_constants_are_those_that_are_made_one_at_a_time(model, monkeypatch, network) -> None:
    proto, found = _network(model, **network), []
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(constants, "norms_together", lambda *_: {})
            monkeypatch.setattr(constants, "halves_together", lambda *_: {})
        try:
            found.append(_told(proto))
        except GraphError as error:
            found.append([str(error)])
    assert found[0] == found[1]
    assert bool(network) == (len(found[0]) == 1)


def test_a_variance_that_is_not_positive_is_refused_by_its_own_node(model) -> None:
    with pytest.raises(GraphError, match=r"'norm1': var \+ epsilon must be positive"):
        load_onnx(_network(model, variances=(1.0, -1.0, 1.0)))


def test_norms_of_one_model_are_all_prepared(model) -> None:
    proto = _network(model)
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    nodes = nodes_of(proto.graph)
    assert len(norms_together(nodes, known)) == 3
    known["var1"] = known["var1"].astype(np.float64)
    assert len(norms_together(nodes, known)) == 2


def test_parts_of_an_array_are_not_taken_for_one_another() -> None:
    whole = np.arange(12, dtype=np.float32)
    parts = [whole[:6], whole[6:], whole.reshape(3, 4).T, whole[::-1], whole.view(np.int32)]
    assert [seen_in(part) for part in parts] == [None] * len(parts)
    assert seen_in(whole.reshape(3, 4)) is seen_in(whole) is whole
    assert list(halves_together([*parts, whole.reshape(2, 6)])) == [id(whole)]
    assert halves_together([np.array([1, 7e4], np.float32)]) == {}
