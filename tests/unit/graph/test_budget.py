"""What a model may make of itself is bounded before it is made, whatever file it comes from."""

from __future__ import annotations

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.compiler.lower import builder
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph
from openane.graph.budget import STATED, Budget
from openane.ops.build import GraphBuilder
from openane.passes import fold_constants as folding

FILLED = """program(1.0)
{
    func main<ios16>(tensor<fp16, [1, 64]> x) {
        tensor<int32, [2]> shape = const()[name = string("shape"), val = tensor<int32, [2]>([64, 64])];
        tensor<fp16, []> one = const()[name = string("one"), val = tensor<fp16, []>(0x1p+0)];
        tensor<fp16, [64, 64]> filled = fill(shape = shape, value = one)[name = string("filled")];
        tensor<fp16, [64, 64]> rooted = sqrt(x = filled)[name = string("rooted")];
        tensor<fp16, [64, 64]> y = add(x = x, y = rooted)[name = string("y")];
    } -> (y);
}
"""


def _product(extent: int) -> Graph:
    """x plus a product of two constants, which is folded."""
    made = GraphBuilder()
    x, ones = made.input("x", "fp16", (1, extent)), np.ones((extent, extent), np.float16)
    product = made.single("matmul", "product", x=ones, y=ones, transpose_x=False, transpose_y=False)
    return made.finish([made.single("add", "y", x=x, y=product)])


def test_a_constant_beyond_the_limit_is_refused_by_name_before_it_is_made(tmp_path, monkeypatch):
    file = tmp_path / "model.mil"
    file.write_text(FILLED)
    monkeypatch.setattr(folding, "evaluate_node", lambda node, arrays: pytest.fail("it was made"))
    with pytest.raises(UnsupportedError, match=r"fill 'filled'.*: constants.*limit 1024 bytes, found 8192 bytes"):
        ane.compile(ane.load_graph(file, limit=1024))


def test_every_pass_counts_what_all_its_constants_take(tmp_path):
    file = tmp_path / "model.mil"
    file.write_text(FILLED)
    with pytest.raises(UnsupportedError, match=r"sqrt 'rooted'.*: constants computed.*limit 10000 bytes"):
        ane.compile(ane.load_graph(file, limit=10000))
    assert ane.compile(ane.load_graph(file, limit=20000)).outputs[0].shape == (64, 64)


def test_the_work_is_bounded_too(monkeypatch):
    monkeypatch.setattr("openane.graph.budget.LEAST", 0)
    monkeypatch.setattr("openane.graph.budget.TIMES", 1)
    monkeypatch.setattr(folding, "evaluate_node", lambda node, arrays: pytest.fail("it was computed"))
    with pytest.raises(UnsupportedError, match=r"'product': constants.*found 2097152 multiplications"):
        folding.fold_constants(_product(128))


def test_the_command_states_a_limit(tmp_path, capsys):
    file = tmp_path / "model.mil"
    file.write_text(FILLED)
    assert main(["compile", str(file), "-o", str(tmp_path / "m.hwx"), "--limit", "1K"]) == 1
    assert "limit 1024 bytes" in capsys.readouterr().err
    assert main(["compile", str(file), "-o", str(tmp_path / "m.hwx"), "--limit", "1M"]) == 0


def test_a_graph_that_states_nonsense_is_refused():
    graph = _product(4)
    with pytest.raises(GraphError, match="must be a number of bytes, not 'much'"):
        Budget.of(Graph(graph.inputs, graph.nodes, graph.outputs, "main", {STATED: "much"}))


def test_an_operation_of_too_many_tasks_is_refused_with_the_rule(monkeypatch):
    made = GraphBuilder()
    x = made.input("x", "fp16", (1, 1, 264, 264))
    graph = made.finish([made.single("avg_pool", "y", x=x, kernel_sizes=[256, 256], pad_type="valid")])
    monkeypatch.setattr(builder, "MOST_OPERATIONS", 100)
    with pytest.raises(UnsupportedError, match=r"avg_pool 'y': one operation may take so many.*limit 100,"):
        ane.compile(graph)


def test_a_tensor_beyond_addresses_is_refused_before_it_is_encoded():
    made = GraphBuilder()
    x = made.input("x", "fp16", (1, 16))
    wide = made.single("pad", "wide", x=x, pad=[0, 0, 0, 1 << 28], mode="constant", constant_val=0.0)
    graph = made.finish([made.single("reduce_max", "y", x=wide, axes=[1], keep_dims=True)])
    with pytest.raises(UnsupportedError, match=r"'wide': a tensor must be within reach of addresses"):
        ane.compile(graph)


def test_large_tensors_are_not_evaluated_unasked(monkeypatch):
    made = GraphBuilder()
    x = made.input("x", "fp16", (1, 64))
    graph = made.finish([made.single("tile", "y", x=x, reps=[64, 1])])
    monkeypatch.setattr("openane.compiler.precision.MOST_DRAWN", 1024)
    monkeypatch.setattr("openane.passes.rescale.rescale", lambda graph, samples: pytest.fail("it was evaluated"))
    assert any("4096 elements are more than 1024" in concern.what for concern in ane.compile(graph).concerns)


def test_memory_that_is_not_there_is_said(monkeypatch, capsys):
    def none(arguments: list[str]) -> int:
        raise MemoryError

    monkeypatch.setattr("openane.cli._dispatch", none)
    assert main(["ops"]) == 1
    assert capsys.readouterr().err == "ane: error: there is not enough memory for this\n"
