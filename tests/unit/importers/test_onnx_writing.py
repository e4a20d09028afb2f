"""Graphs written as ONNX models: onnxruntime computes the same, and our reader reads the same back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from support import onnx_table
from support.onnx_cases import CASES, drawn, graph_of, half, takes_inputs
from support.random_graphs import draw_inputs
from support.random_operands import TABLE

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, TensorType, Value
from openane.graph.budget import STATED
from openane.graph.mil import parse_mil
from openane.importers import load_graph, write_onnx
from openane.importers.onnx.writing import OPSET, to_onnx
from openane.ops import all_ops
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

onnxruntime.set_default_logger_severity(4)
Inputs = Mapping[str, np.ndarray]
WIDE, HALF, READ = 3e-5, 5e-3, 3e-3
"""Differences, of 1 and the number: with fp32 throughout, with fp16 where onnxruntime rounds, of the graph read back,
whose constants are rounded."""


def run_onnx(path: Path, given: Inputs) -> dict[str, np.ndarray]:
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wide = {port.name for port in session.get_inputs() if port.type == "tensor(float)"}
    feed = {name: np.asarray(array.astype(np.float32) if name in wide else array) for name, array in given.items()}
    return dict(zip((port.name for port in session.get_outputs()), session.run(None, feed), strict=True))


def compare(found: Inputs, expected: Inputs, bound: float) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name].astype(np.float64), array.astype(np.float64), bound, bound, err_msg=name)


def check(graph: Graph, given: Inputs, folder: Path, back: bool = True) -> None:
    """Writes the graph in fp32 and in fp16, has both run and, with `back`, reads both."""
    expected = evaluate(graph, given)
    path = folder / "model.onnx"
    for wide in (True, False):
        write_onnx(graph, path, wide=wide)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        compare(run_onnx(path, given), expected, WIDE if wide else HALF)
        if back:
            compare(evaluate(load_graph(path), given), expected, READ)


NOT_WRITTEN = ("bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "digamma", "erfcx", "erfinv", "lgamma", "ndtri",
               "trigamma")
"""Functions that no ONNX operators express."""
DRAWN = sorted(name for name in TABLE if takes_inputs(all_ops()[name]) and name not in NOT_WRITTEN)


@pytest.mark.parametrize("op", NOT_WRITTEN)
def test_what_onnx_has_not_is_refused(op, tmp_path):
    graph = next(filter(None, (drawn(op, seed) for seed in range(20))))
    with pytest.raises(UnsupportedError, match="no ONNX operators express"):
        write_onnx(graph, tmp_path / "model.onnx")


@pytest.mark.parametrize("op", DRAWN)
def test_an_operation(op, tmp_path):
    graph = next(filter(None, (drawn(op, seed) for seed in range(20))))
    check(graph, draw_inputs(graph, 0), tmp_path)


@pytest.mark.needs("minutes")
@pytest.mark.parametrize("op", DRAWN)
def test_an_operation_in_many_shapes(op, tmp_path):
    for seed in range(1, 25):
        if (graph := drawn(op, seed)) is not None:
            check(graph, draw_inputs(graph, seed), tmp_path)


NOT_READ = ("computed lengths",)
"""Cases whose operands our reader asks to be constants."""


@pytest.mark.filterwarnings("ignore:.*rows behind those that are kept:RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_case(name, tmp_path):
    graph, rng = graph_of(name), np.random.default_rng(1)
    given = {value.name: rng.integers(0, 4, value.shape, np.int32) if value.dtype == "int32"
             else rng.random(value.shape) < 0.6 if value.dtype == "bool"
             else (rng.integers(-12, 13, value.shape) / 8).astype(np.float16) for value in graph.inputs}
    check(graph, given, tmp_path, name not in NOT_READ)


def test_operations_on_constants_alone_become_constants_but_for_weights_of_8_bits():
    builder = GraphBuilder()
    stored = builder.single("constexpr_affine_dequantize", quantized_data=np.ones((4, 3), np.int8),
                            zero_point=np.array(0, np.int8), scale=np.array(0.5, np.float16), axis=0)
    filled = builder.single("fill", shape=[3], value=np.float16(2))
    x = builder.input("x", "fp16", (2, 3))
    graph = builder.finish([builder.single("add", x=builder.single("linear", x=x, weight=stored), y=np.float16(1)),
                            builder.single("mul", x=x, y=filled)])
    model, _, _ = to_onnx(graph)
    assert sorted(node.op for node in model.nodes) == ["Add", "DequantizeLinear", "Gemm", "Mul"]
    assert sorted(array.dtype.name for array in model.tensors.values()) == ["float16"] * 3 + ["int8"] * 2


def test_equal_constants_are_stored_once(tmp_path):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 2, 4, 4))
    for _ in range(3):
        x = builder.single("conv", x=x, weight=np.eye(2, dtype=np.float16).reshape(2, 2, 1, 1))
    path = write_onnx(builder.finish([x]), tmp_path / "x.onnx")
    assert len(onnx.load(path).graph.initializer) == 1


def test_many_constants_lie_beside_the_model(tmp_path):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 40))
    first, second = half(40, 40), half(30, 40)
    y = builder.single("linear", x=builder.single("linear", x=x, weight=first), weight=second, bias=half(30))
    graph, given = builder.finish([y]), {"x": half(1, 40)}
    path = write_onnx(graph, tmp_path / "big.onnx", wide=True, largest=4000)
    beside = tmp_path / "big.onnx.data"
    assert beside.stat().st_size == 8192 + 4 * second.size
    assert path.stat().st_size < 2000
    compare(run_onnx(path, given), evaluate(graph, given), WIDE)
    compare(evaluate(load_graph(path), given), evaluate(graph, given), READ)


def test_states_are_inputs_and_outputs(tmp_path):
    graph = parse_mil("""program(1.0)
{
    func main<ios18>(tensor<fp16, [1, 4]> x, state<tensor<fp16, [1, 4]>> total) {
        tensor<fp16, [1, 4]> before = read_state(input = total)[name = string("before")];
        tensor<fp16, [1, 4]> after = add(x = x, y = before)[name = string("after")];
        write_state(data = after, input = total)[name = string("write")];
        tensor<fp16, [1, 4]> y = relu(x = after)[name = string("y")];
    } -> (y);
}
""")
    path = write_onnx(graph, tmp_path / "s.onnx")
    made = run_onnx(path, {"x": np.full((1, 4), -1, np.float16), "total": np.full((1, 4), 3, np.float16)})
    assert made["y"].tolist() == made["total_next"].tolist() == [[2, 2, 2, 2]]


def test_ports_have_the_types_their_model_declared(tmp_path):
    builder = GraphBuilder("main", {"dtype:x": "fp32", "dtype:i": "int64", "dtype:y": "fp32"})
    x, i = builder.input("x", "fp16", (4,)), builder.input("i", "int32", (2,))
    y = builder.single("gather", "y", x=x, indices=i, axis=0)
    model = onnx.load(write_onnx(builder.finish([y]), tmp_path / "t.onnx"))
    types = {port.name: port.type.tensor_type.elem_type for port in (*model.graph.input, *model.graph.output)}
    kinds = onnx.TensorProto
    assert types == {"x": kinds.FLOAT, "i": kinds.INT64, model.graph.output[0].name: kinds.FLOAT}
    assert model.opset_import[0].version == OPSET


def test_the_page_lists_what_every_operation_becomes():
    page = onnx_table.PAGE.read_text()
    assert onnx_table.written(page) == page, "make docs writes the page anew"


def test_what_is_refused_says_what_would_pass(tmp_path):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4))
    y = builder.single("lut_activation", x=x, knots=np.zeros(33, np.float16), clips=np.zeros(2, np.float16),
                       values=np.zeros(2, np.float16), exponent=0)
    with pytest.raises(UnsupportedError, match="no ONNX operators express this operation"):
        write_onnx(builder.finish([y]), tmp_path / "x.onnx")


@pytest.mark.parametrize(("op", "operands"), [
    ("fill", {"shape": [1 << 30], "value": np.float16(2)}),
    ("sliding_windows", {"axis": 0, "size": 1 << 14}),
    ("upsample_bilinear", {"scale_factor_height": 1.5, "scale_factor_width": 1.0}),
])
def test_what_a_few_bytes_ask_for_is_bounded(op, operands, tmp_path):
    builder = GraphBuilder("main", {STATED: str(1 << 20)})
    x = builder.input("x", "fp16", (1 << 14, 3, 3) if op != "upsample_bilinear" else (1, 1 << 14, 2))
    made = builder.single(op, **operands, **({} if op == "fill" else {"x": x}))
    with pytest.raises(UnsupportedError, match="constants computed from others are bounded"):
        write_onnx(builder.finish([made]), tmp_path / "x.onnx")


def test_ports_of_one_name_are_refused(tmp_path):
    x = Value("x", TensorType("fp16", (2,)))
    with pytest.raises(GraphError, match="distinct names"):
        write_onnx(Graph((x,), (), (x,)), tmp_path / "x.onnx")
