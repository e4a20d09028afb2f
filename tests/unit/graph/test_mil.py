"""MIL text: printed graphs parse to themselves, both dialects read, broken text raises typed errors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.coreml import same
from support.mil_graphs import every_operation, graphs

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.formats.blob import read_blob
from openane.graph import Graph, TensorType, Value
from openane.graph.mil import parse_mil, parse_mil_functions, print_mil
from openane.importers import load_mil

DIALECTS = ("ios15", "ios16", "ios17", "ios18", "ios26")
OLD = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-version", "3505.4.1"}, {"a\\"b", "c"}})]
{
    func main<ios16>(tensor<fp16, [1, 4, 2, 2]> x) [FlexibleShapeInformation = tuple<tensor<int32, []>>((1, {2}))] {
        tensor<int32, []> axis = const()[name = tensor<string, []>("axis"), val = tensor<int32, []>(1)];
        tensor<fp16, []> half = const()[name = tensor<string, []>("half"), val = tensor<fp16, []>(0x1p-1)];
        tensor<fp16, [2, 2]> m = const()[name = tensor<string, []>("m"),
            val = tensor<fp16, [2, 2]>([[0x1p+0, -0x1.8p+1], [0.125, 1e-5]])];  // a comment
        tensor<fp16, [4]> w = const()[val = tensor<fp16, [4]>(BLOBFILE(path = tensor<string, []>("@model_path/w.bin"),
            offset = tensor<uint64, []>(64)))];
        tensor<fp16, [1, 2, 2, 2]> a, tensor<fp16, [1, 2, 2, 2]> b = split(axis = axis,
            num_splits = tensor<int32, []>(2), x = x)[name = tensor<string, []>("cut")];
        tensor<fp16, [1, 4, 2, 2]> c = concat(axis = axis, interleave = tensor<bool, []>(false), values = (b, a));
        tensor<fp16, [1, 4, 2, 2]> y = mul(x = c, y = half)[name = tensor<string, []>("y")];
    } -> (y, w);
}
"""


def program(body: str, inputs: str = "tensor<fp16, [2]> x", outputs: str = "x") -> str:
    """A program of one function."""
    return f"program(1.3) {{ func main<ios18>({inputs}) {{ {body} }} -> ({outputs}); }}"


def reread(graph: Graph, dialect: str) -> Graph:
    """The graph printed and parsed."""
    text, file = print_mil(graph, dialect)
    return parse_mil(text, lambda path, offset: read_blob(file, offset), graph.name)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(graphs(), st.sampled_from(DIALECTS))
def test_printed_graphs_parse_to_themselves(graph, dialect):
    same(graph, reread(graph, dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_operation_prints_and_parses(dialect):
    graph = every_operation()
    assert len(graph.nodes) > 140
    same(graph, reread(graph, dialect))


def test_the_older_dialect_reads():
    weights = np.arange(4, dtype=np.float16)
    graph = parse_mil(OLD, lambda path, offset: weights.tobytes())
    split, concat, mul = graph.nodes
    assert (split.name, concat.name, mul.name) == ("cut", "c", "y")
    assert [value.name for value in split.outputs] == ["a", "b"]
    assert concat.operands["values"] == (split.outputs[1], split.outputs[0])
    assert split["axis"].type == TensorType("int32", ())
    assert split["num_splits"].data == 2
    assert mul["y"].data == np.float16(0.5)
    assert np.array_equal(graph.outputs[1].array(), weights)
    assert graph.metadata == {"coremlc-version": "3505.4.1", 'a"b': "c", "opset": "ios16",
                              "attribute:FlexibleShapeInformation": "tuple<tensor<int32, []>>((1, {2}))"}
    assert mul.source == "MIL line 14"
    same(graph, reread(graph, "ios17"))
    same(graph, reread(graph, "ios18"))


def test_results_in_parentheses_states_and_functions():
    body = """(fp16 a, fp16 b) = split(x = x); tensor<fp16, [2]> r = read_state(input = s)[name = string("r")];
              write_state(data = x, input = s)[name = string("w")];"""
    text = program(body, "tensor<fp16, [2]> x, state<tensor<fp16, [2]>> s", "a, r")
    two = text[:-1] + text[len("program(1.3) {"):].replace("main", "decode")
    graphs = parse_mil_functions(two)
    assert [graph.name for graph in graphs] == ["main", "decode"]
    assert graphs[0].metadata["state:s"]
    assert graphs[0].nodes[2].outputs == ()
    assert "state<tensor<fp16, [2]>> s" in print_mil(graphs[0])[0]
    same(graphs[1], reread(graphs[1], "ios18"))
    assert parse_mil(two, function="decode").name == "decode"
    with pytest.raises(GraphError, match="main, decode"):
        parse_mil(two, function="prefill")


@pytest.mark.parametrize(("literal", "expected"), [
    ("fp16(0x1.5p-17)", np.float16(2**-17 * 1.3125)), ("fp16(-0x0p+0)", np.float16(-0.0)),
    ("fp16(0x3c00)", np.float16(1)), ("fp16(0x7e01)", np.array(0x7e01, np.uint16).view(np.float16)),
    ("fp32(-inf)", np.float32(-np.inf)), ("fp32(1e-5)", np.float32(1e-5)), ("bool(true)", np.bool_(True)),
    ("tensor<int32, [1]>(-1)", np.array([-1], np.int32)), ("tensor<int32, [0]>([])", np.zeros(0, np.int32)),
    ("tensor<fp16, [2]>([fp16(0x1p-1), 2])", np.array([0.5, 2], np.float16)),
    ("tensor<uint64, [2]>([0, 18446744073709551615])", np.array([0, 2**64 - 1], np.uint64)),
    ("tensor<bool, [1, 2]>([[true, false]])", np.array([[True, False]])),
])
def test_literals(literal, expected):
    declared = literal.split("(")[0]
    graph = parse_mil(program(f"{declared} v = const()[val = {literal}];", outputs="v"))
    assert graph.outputs[0].array().tobytes() == np.asarray(expected).tobytes()
    assert graph.outputs[0].shape == np.shape(expected)


@pytest.mark.parametrize(("body", "error", "message"), [
    ("fp16 v = const()[val = fp16(70000)];", FormatError, "line 1, column 83.*70000 is beyond"),
    ("int8 v = const()[val = int8(128)];", FormatError, "outside -128..127"),
    ("int32 v = const()[val = int32(1.5)];", FormatError, "no int32"),
    ("int32 v = const()[val = fp16(1)];", FormatError, "value and declaration differ"),
    ("bool v = const()[val = bool(1)];", FormatError, "neither true nor false"),
    ("tensor<int32, [2]> v = const()[val = tensor<int32, [2]>([1, 2, 3])];", FormatError, r"\[2\], found \[3\]"),
    ("tensor<int32, [2, 2]> v = const()[val = tensor<int32, [2, 2]>([[1, 2], [3]])];", FormatError, "side by side"),
    ("tensor<fp16, [1000000000]> v = const()[val = tensor<fp16, [1000000000]>([1])];", FormatError, "shape"),
    ("tensor<fp16, [99999999999]> v = const()[val = fp16(1)];", FormatError, "extent"),
    ("tensor<fp16, [2]> v = relu(x = nobody);", GraphError, "'nobody'"),
    ("tensor<fp16, [2]> x = relu(x = x);", GraphError, "already taken"),
    ("tensor<fp16, [2]> v = relu(x = x, x = x);", FormatError, "given twice"),
    ("tensor<fp16, [2]> v = relu(x = true);", GraphError, "'true'"),
    ("tensor<fp16, [2]> v = relu(x = 1);", FormatError, "bool\\(true\\)"),
    ("tensor<fp17, [2]> v = relu(x = x);", FormatError, "a type"),
    ('string v = const()[val = string("a];', FormatError, "unterminated"),
    ("tensor<fp16, [?]> v = relu(x = x);", UnsupportedError, "static"),
    ("tensor<fp16, *?> v = relu(x = x);", FormatError, "expected"),
    ("list<fp16> v = relu(x = x);", UnsupportedError, "list"),
    ("int4 v = const()[val = int4(8)];", FormatError, "outside -8..7"),
    ("bf16 v = const()[val = bf16(1)];", UnsupportedError, "bf16"),
    ("tensor<fp16, [2]> v = cond(x = x) block(a) {} -> (x);", UnsupportedError, "control flow"),
    ("fp16 v = const()[val = fp16(BLOBFILE(path = string(\"w\"), offset = uint64(64)))];", FormatError, "no file"),
    (f"fp16 v = const()[val = fp16({'1' * 5000})];", FormatError, "too long"),
])
def test_errors_teach(body, error, message):
    with pytest.raises(error, match=message):
        parse_mil(program(body))


FLEXIBLE = """program(1.3) { func main<ios18>(tensor<fp16, [?, 4, 6]> x)
    [FlexibleShapeInformation = tuple<tuple<string, dict<string, tensor<int32, [?]>>>>((("DefaultShapes",
        {{"x", [2, 4, 6]}}), ("RangeDims", {{"x", [[1, 8], [4, 4], [6, 6]]}})))] {
    tensor<int32, [3]> s = shape(x = x)[name = string("s")];
    tensor<int32, [1]> n = slice_by_index(x = s, begin = tensor<int32, [1]>([0]), end = tensor<int32, [1]>([1]))[
        name = string("n")];
    tensor<int32, [2]> t = concat(values = (n, tensor<int32, [1]>([-1])), axis = int32(0), interleave = bool(false))[
        name = string("t")];
    tensor<fp16, [?, ?]> y = reshape(x = x, shape = t)[name = string("y")]; } -> (y); }"""


def test_open_dimensions_take_the_shapes_given():
    for shapes, expected in (({}, (2, 24)), ({"x": (5, 4, 6)}, (5, 24))):
        graph = load_mil(FLEXIBLE, shapes=shapes)
        assert [node.op for node in graph.nodes] == ["reshape"], "what shapes decide is known"
        assert graph.outputs[0].shape == expected
        same(graph, reread(graph, "ios18"))
    with pytest.raises(GraphError, match=r"x' \[\?, 4, 6\]: the given shape \[5, 4, 7\]"):
        load_mil(FLEXIBLE, shapes={"x": (5, 4, 7)})
    with pytest.raises(UnsupportedError, match=r"--shape x=1x4x6"):
        load_mil(FLEXIBLE.replace("DefaultShapes", "Others"))


def test_elements_of_fewer_than_eight_bits_are_packed():
    for dtype, values in (("int4", [-8, 7, -1, 0, 3, 1, 2, 5, 4, -3, 6]), ("uint3", [7, 0, 5, 2, 1, 3, 6, 4, 7, 7, 1]),
                          ("uint1", [1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1])):
        array = np.array(values, np.int8 if dtype == "int4" else np.uint8)
        value = Value("w", TensorType(dtype, (11,)), array)
        graph = Graph((), (), (value,))
        text, file = print_mil(graph)
        assert len(read_blob(file, 64)[1]) == -(-11 * (4 if dtype == "int4" else int(dtype[-1])) // 8)
        assert np.array_equal(parse_mil(text, lambda path, offset, file=file: read_blob(file, offset))
                              .outputs[0].array(), array)


def test_blobs_are_checked_before_use():
    body = """tensor<fp16, [1000000, 1000]> v = const()[val = tensor<fp16, [1000000, 1000]>(
              BLOBFILE(path = string("w"), offset = uint64(64)))];"""
    with pytest.raises(FormatError, match="2000000000 bytes, found 4"):
        parse_mil(program(body), lambda path, offset: bytes(4))
    with pytest.raises(FormatError, match="expected fp16, found int8"):
        parse_mil(program(body), lambda path, offset: ("int8", bytes(4)))


@pytest.mark.parametrize("opening", ["[", "(", "(((", "tensor<", "{", "f(", "[[["])
def test_depth_is_limited(opening):
    for prefix in ("v = const()[val = tensor<fp16, [1]>(", "v = relu(x = ", ""):
        with pytest.raises(AneError):
            parse_mil(program(f"fp16 {prefix}{opening * 100000}"))
    with pytest.raises(AneError):
        parse_mil(f"program(1.3) [a = {opening * 100000}")


PIECES = ["", "(", ")", "[", "]", "{", "}", "<", ">", ",", ";", "=", '"', "-", "0x", "1e999", "-1",
          "99999999999999999999", "tensor", "const", "state", "BLOBFILE", "fp16", "int4", "nan", "x", "y", "->",
          "\\", "\0", "ü"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(OLD)), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1,
                max_size=4))
def test_mutated_text_raises_typed_errors(changes):
    text = OLD
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length:]
    try:
        graph = parse_mil(text, lambda path, offset: bytes(8))
    except AneError:
        return
    same(graph, reread(graph, "ios18"))


def test_records_of_apples_compiler_parse_and_print(corpus, tmp_path):
    folder = corpus / "apple" / "oracles"
    spec = importlib.util.spec_from_file_location("materialise", folder / "materialise.py")
    assert spec is not None
    assert spec.loader is not None
    materialise = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(materialise)
    cases = sorted(folder.glob("*.json"))
    assert len(cases) >= 44
    for case in cases:
        materialise.main(str(case), str(tmp_path / case.stem))
        graph = parse_mil((tmp_path / case.stem / "model.mil").read_text(), reader(tmp_path / case.stem))
        tensors = json.loads(case.read_text())["tensors"]
        assert len(graph.inputs) + len(graph.outputs) == len(tensors), case.stem
        for dialect in ("ios16", "ios18"):
            same(graph, reread(graph, dialect))


def reader(folder: Path):
    """Blobs of the weight files in `folder`."""
    return lambda path, offset: read_blob((folder / Path(path).name).read_bytes(), offset)
