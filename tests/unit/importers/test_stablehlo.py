"""StableHLO text: operations against numpy, what is refused and where it says that is, files of either kind."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.stablehlo import DENSE, computed, drawn, module

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.importers import load_graph
from openane.importers.stablehlo import OPERATORS, bytecode, load_stablehlo

REDUCER = """({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.OP %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32>
})"""
ARGMAX = """%i = stablehlo.iota dim = 1 : tensor<3x5xi32>
%m = stablehlo.constant dense<0xFF800000> : tensor<f32>
%z = stablehlo.constant dense<0> : tensor<i32>
%p:2 = stablehlo.reduce(%x init: %m), (%i init: %z) across dimensions = [1] : (tensor<3x5xf32>, tensor<3x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
 reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
  %2 = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %5 = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %6 = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %7 = stablehlo.and %5, %6 : tensor<i1>
  %8 = stablehlo.or %2, %7 : tensor<i1>
  %9 = stablehlo.select %2, %a, %c : tensor<i1>, tensor<f32>
  %10 = stablehlo.select %8, %b, %d : tensor<i1>, tensor<i32>
  stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
}
%r = stablehlo.reshape %p#1 : (tensor<3xi32>) -> tensor<3xi32>"""  # noqa: E501


def _pooled(op: str, start: str) -> str:
    return f"""%z = stablehlo.constant dense<{start}> : tensor<f32>
%r = "stablehlo.reduce_window"(%x, %z) <{{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 2, 2, 1>,
window_strides = array<i64: 1, 2, 2, 1>}}> {REDUCER.replace('OP', op)} : (tensor<1x4x6x2xf32>, tensor<f32>) -> tensor<1x2x3x2xf32>"""  # noqa: E501


def _blocks(x: np.ndarray) -> np.ndarray:
    return x.reshape(1, 2, 2, 3, 2, 2)


X, Y = drawn(3, 5), drawn(5, 4)
IMAGE = drawn(1, 4, 6, 2)
CASES = {
    "slice": ("%r = stablehlo.slice %x [0:3:2, 1:4] : (tensor<3x5xf32>) -> tensor<2x3xf32>", "2x3xf32", X[::2, 1:4]),
    "transpose": ("%r = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x5xf32>) -> tensor<5x3xf32>", "5x3xf32", X.T),
    "reverse": ("%r = stablehlo.reverse %x, dims = [1] : tensor<3x5xf32>", "3x5xf32", X[:, ::-1]),
    "generic": ('%r = "stablehlo.add"(%x, %x) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>', "3x5xf32",
                X + X),
    "negate": ("%r = stablehlo.negate %x : tensor<3x5xf32>", "3x5xf32", -X),
    "expm1": ("%r = stablehlo.exponential_minus_one %x : tensor<3x5xf32>", "3x5xf32", np.expm1(X)),
    "sum": ("""%z = stablehlo.constant dense<0.0> : tensor<f32>
            %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<3x5xf32>, tensor<f32>) -> tensor<3xf32>""",  # noqa: E501
            "3xf32", X.sum(1)),
    "whole maximum": ("""%z = stablehlo.constant dense<0xFF800000> : tensor<f32>
            %r = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x5xf32>, tensor<f32>) -> tensor<f32>""",  # noqa: E501
                      "f32", X.max()),
    "argmax": (ARGMAX, "3xi32", X.argmax(1)),
    "pad": ("""%z = stablehlo.constant dense<1.5> : tensor<f32>
            %r = stablehlo.pad %x, %z, low = [1, -1], high = [0, 2], interior = [0, 0] : (tensor<3x5xf32>, tensor<f32>) -> tensor<4x6xf32>""",  # noqa: E501
            "4x6xf32", np.pad(X[:, 1:], ((1, 0), (0, 2)), constant_values=1.5)),
    "concatenate": ("%r = stablehlo.concatenate %x, %x, dim = 0 : (tensor<3x5xf32>, tensor<3x5xf32>) -> "
                    "tensor<6x5xf32>", "6x5xf32", np.concatenate([X, X])),
    "take": ("""%i = stablehlo.constant dense<[[4], [0], [9]]> : tensor<3x1xi32>
            %r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 3, 1>}> : (tensor<3x5xf32>, tensor<3x1xi32>) -> tensor<3x3xf32>""",  # noqa: E501
             "3x3xf32", X[:, [4, 0, 4]]),
    "part at a known place": ("""%i = stablehlo.constant dense<7> : tensor<i32>
            %r = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] : (tensor<3x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>""",  # noqa: E501
                              "1x2xf32", X[2:, 3:]),
    "clamp": ("""%l = stablehlo.constant dense<-0.5> : tensor<3x5xf32>
            %h = stablehlo.constant dense<0.75> : tensor<3x5xf32>
            %r = stablehlo.clamp %l, %x, %h : tensor<3x5xf32>""", "3x5xf32", np.clip(X, -0.5, 0.75)),
    "choice": ("""%z = stablehlo.constant dense<0.0> : tensor<3x5xf32>
            %c = stablehlo.compare GT, %x, %z, FLOAT : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xi1>
            %r = stablehlo.select %c, %x, %z : tensor<3x5xi1>, tensor<3x5xf32>""", "3x5xf32", np.maximum(X, 0)),
    "folded": ("""%c = stablehlo.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
            %d = stablehlo.multiply %c, %c : tensor<3x1xf32>
            %e = stablehlo.broadcast_in_dim %d, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x5xf32>
            %r = stablehlo.subtract %x, %e : tensor<3x5xf32>""", "3x5xf32", X - np.array([[1], [4], [9]])),
    "half of bf16": ("""%c = stablehlo.constant dense<"0x003F"> : tensor<bf16>
            %d = stablehlo.convert %c : (tensor<bf16>) -> tensor<f32>
            %e = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
            %r = stablehlo.multiply %x, %e : tensor<3x5xf32>""", "3x5xf32", X / 2),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_compute_what_numpy_does(name):
    body, result, wanted = CASES[name]
    _, found = computed(module(body, result, x="3x5xf32"), X)
    np.testing.assert_allclose(found, wanted, atol=4e-3, rtol=2e-3)


@pytest.mark.parametrize(("op", "start", "wanted"), [
    ("maximum", "0xFF800000", lambda x: _blocks(x).max((2, 4))), ("add", "0.0", lambda x: _blocks(x).sum((2, 4))),
    ("minimum", "0x7F800000", lambda x: _blocks(x).min((2, 4)))])
def test_windows_are_told_by_what_their_region_computes(op, start, wanted):
    _, found = computed(module(_pooled(op, start), "1x2x3x2xf32", x="1x4x6x2xf32"), IMAGE)
    np.testing.assert_allclose(found, wanted(IMAGE), atol=4e-3)


@pytest.mark.parametrize(("sizes", "text", "equation"), [
    (((3, 5), (5, 4)), "contracting_dims = [1] x [0]", "ij,jk->ik"),
    (((5, 3), (4, 5)), "contracting_dims = [0] x [1]", "ji,kj->ik"),
    (((2, 3, 4, 5), (2, 6, 4, 5)), "batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]", "bqhd,bkhd->bhqk"),
    (((2, 5, 3, 4), (2, 3, 6, 5)), "batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3]", "bkhd,bhqk->bhdq"),
    (((2, 5), (2, 5)), "batching_dims = [0] x [0], contracting_dims = [1] x [1]", "bi,bi->b"),
    (((5,), (5, 2)), "contracting_dims = [0] x [0]", "i,ij->j"),
])
@pytest.mark.parametrize("known", ["neither", "first", "second"])
def test_products_take_axes_in_any_order(sizes, text, equation, known):
    x, y = (drawn(*size) for size in sizes)
    wanted = np.einsum(equation, x, y)
    kinds = ["x".join([*map(str, each), "f32"]) for each in (x.shape, y.shape, wanted.shape)]
    given = {"x": kinds[0], "y": kinds[1]}
    body = (f"%r = stablehlo.dot_general %x, %y, {text} : (tensor<{kinds[0]}>, tensor<{kinds[1]}>) -> "
            f"tensor<{kinds[2]}>")
    arrays = {"x": x, "y": y}
    if known != "neither":
        name = "x" if known == "first" else "y"
        body = (f'%{name} = stablehlo.constant dense<"0x{arrays.pop(name).tobytes().hex().upper()}"> : '
                f"tensor<{given.pop(name)}>\n{body}")
    _, found = computed(module(body, kinds[2], **given), *arrays.values())
    np.testing.assert_allclose(found, wanted, atol=1e-2, rtol=2e-3)


def _convolution(settings: str, shape: str) -> str:
    return (f"%r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = "
            f"{{{settings}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x4x6x2xf32>, "
            f"tensor<2x2x2x3xf32>) -> tensor<{shape}>")


def test_convolutions_with_channels_last_move_channels_once():
    """Between two convolutions nothing is moved."""
    kernel = drawn(2, 2, 2, 3)
    text = "%w = stablehlo.constant dense<\"0x" + kernel.tobytes().hex() + "\"> : tensor<2x2x2x3xf32>\n"
    graph, found = computed(module(text + _convolution("pad = [[0, 1], [1, 0]]", "1x4x6x3xf32"), "1x4x6x3xf32",
                                   x="1x4x6x2xf32"), IMAGE)
    padded = np.pad(IMAGE, ((0, 0), (0, 1), (1, 0), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (1, 2))
    np.testing.assert_allclose(found, np.einsum("bhwcij,ijco->bhwo", windows, kernel), atol=1e-2)
    assert [node.op for node in graph.nodes] == ["transpose", "conv", "transpose", "identity"]


def test_input_dilation_is_a_transposed_convolution():
    kernel = drawn(2, 2, 2, 3)
    text = "%w = stablehlo.constant dense<\"0x" + kernel.tobytes().hex() + "\"> : tensor<2x2x2x3xf32>\n"
    graph, found = computed(module(text + _convolution("lhs_dilate = [2, 2], pad = [[1, 1], [1, 1]]", "1x8x12x3xf32"),
                                   "1x8x12x3xf32", x="1x4x6x2xf32"), IMAGE)
    spread = np.zeros((1, 7, 11, 2), np.float32)
    spread[:, ::2, ::2] = IMAGE
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(spread, ((0, 0), (1, 1), (1, 1), (0, 0))), (2, 2), (1, 2))
    np.testing.assert_allclose(found, np.einsum("bhwcij,ijco->bhwo", windows, kernel), atol=1e-2)
    assert "conv_transpose" in {node.op for node in graph.nodes}


def test_calls_places_and_names_are_followed():
    graph, found = computed(DENSE, X[:2, :4])
    assert [value.name for value in (*graph.inputs, *graph.outputs)] == ["x", "result"]
    assert [node.op for node in graph.nodes] == ["linear", "add", "relu", "identity"]
    assert graph.nodes[0].source == "StableHLO dot_general %0 (line 6, model.py:12)"
    assert graph.metadata["dtype:x"] == "fp32"
    weight = np.array([[1, -2, 0.5], [0.25, 1.5, -1], [2, 0, 1], [-0.5, 1, 3]])
    np.testing.assert_allclose(found, np.maximum(X[:2, :4] @ weight + [1, 0.5, -1], 0), atol=1e-2)


def test_sums_divided_by_their_count_are_means():
    body = """%z = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.constant dense<5.0> : tensor<f32>
    %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<3x5xf32>, tensor<f32>) -> tensor<3xf32>
    %k = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %m = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %r = stablehlo.divide %k, %m : tensor<3x1xf32>"""  # noqa: E501
    graph, found = computed(module(body, "3x1xf32", x="3x5xf32"), X)
    np.testing.assert_allclose(found, X.mean(1, keepdims=True), atol=2e-3)
    assert "reduce_mean" in {node.op for node in graph.nodes}


def test_axes_of_equal_extents_are_transposed_all_the_same():
    x = drawn(4, 4, 1)
    body = "%r = stablehlo.transpose %x, dims = [1, 2, 0] : (tensor<4x4x1xf32>) -> tensor<4x1x4xf32>"
    np.testing.assert_array_equal(computed(module(body, "4x1x4xf32", x="4x4x1xf32"), x)[1], x.transpose(1, 2, 0))


REFUSED = {
    "an operation, by name and line": ("%r = stablehlo.cholesky %x : tensor<3x5xf32>", UnsupportedError,
                                       r"StableHLO cholesky %r \(line 2.*not supported"),
    "an open dimension": ("%r = stablehlo.negate %x : tensor<?x5xf32>", UnsupportedError, "fixed size"),
    "complex numbers": ("%r = stablehlo.negate %x : tensor<3x5xcomplex<f32>>", UnsupportedError, "real and imaginary"),
    "sizes of a library": ("%r = stablehlo.constant dense<0> : tensor<2xindex>", UnsupportedError, "library for the"),
    "another library": ('%r = stablehlo.custom_call @lapack(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>',
                        UnsupportedError, "@lapack"),
    "what is not there": ("%r = stablehlo.negate %y : tensor<3x5xf32>", GraphError, "%y is not known"),
    "another shape": ("%r = stablehlo.negate %x : tensor<3x6xf32>", GraphError, r"states \[3, 6\]"),
    "no such function": ("%r = call @f(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>", GraphError, "no function @f"),
    "an index too many": ("%r = stablehlo.transpose %x, dims = [0, 2] : (tensor<3x5xf32>) -> tensor<3x5xf32>",
                          GraphError, "each of 2 axes once"),
    "a number too long": (f"%r = stablehlo.transpose %x, dims = [{'1' * 5000}] : (tensor<3x5xf32>) -> tensor<3x5xf32>",
                          FormatError, "too long"),
    "a huge extent": ("%r = stablehlo.iota dim = 0 : tensor<99999999999x99999999999xf32>", UnsupportedError,
                      "too many elements"),
    "nesting": (f"%r = stablehlo.transpose %x, dims = {'[' * 500} : tensor<3x5xf32>", FormatError, "nested too deeply"),
    "regions in regions": ('%r = "stablehlo.reduce"(%x) ({ ' * 100, FormatError, "nested too deeply"),
    "a bracket left open": ("%r = stablehlo.negate %x : tensor<3x5xf32> loc(((", FormatError, "not closed"),
    "a string left open": ('%c = stablehlo.constant dense<"0x00 : tensor<3x5xf32>', FormatError, "unterminated string"),
    "too few numbers": ("%r = stablehlo.constant dense<[[1.0, 2.0]]> : tensor<3x5xf32>", FormatError,
                        "not written in the shape"),
    "other brackets": ("%r = stablehlo.constant dense<[[1.0, 2.0], [3.0]]> : tensor<3xf32>", FormatError,
                       "not written in the shape"),
    "too few bytes": ('%r = stablehlo.constant dense<"0x00000000000000"> : tensor<2xf32>', FormatError, "in bytes"),
    "words for numbers": ("%r = stablehlo.constant dense<many> : tensor<2xf32>", FormatError, "no number"),
    "numbers beyond their type": ("%r = stablehlo.constant dense<[300, 1]> : tensor<2xi8>", FormatError,
                                  "outside its type"),
    "a constant somewhere else": ("%r = stablehlo.constant dense_resource<a> : tensor<2xf32>", UnsupportedError,
                                  "written out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name):
    body, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        load_stablehlo(module(body, "3x5xf32", x="3x5xf32"))


def test_one_number_stands_for_any_number_of_elements_without_taking_their_room():
    huge = "100000000000x1000000xf32"
    body = f"%c = stablehlo.constant dense<0.0> : tensor<{huge}>\n%r = stablehlo.negate %x : tensor<3x5xf32>"
    load_stablehlo(module(body, "3x5xf32", x="3x5xf32"))
    with pytest.raises(UnsupportedError, match="too many elements"):
        load_stablehlo(module(f"%r = stablehlo.constant dense<0.0> : tensor<{huge}>", huge, x="3x5xf32"))


def test_functions_that_call_each_other_are_bounded(monkeypatch):
    monkeypatch.setattr("openane.importers.stablehlo.load.MOST_STATEMENTS", 1000)
    kind = "(tensor<f32>) -> tensor<f32>"
    twice = "\n".join(f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{\n%0 = call @f{i + 1}(%a) : {kind}\n"
                      f"%1 = call @f{i + 1}(%0) : {kind}\nreturn %1 : tensor<f32> }}" for i in range(40))
    with pytest.raises(UnsupportedError, match="bounded number of operations"):
        load_stablehlo(module(f"%r = call @f0(%x) : {kind}", "f32", x="f32") + twice +
                       "func.func private @f40(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
    with pytest.raises(UnsupportedError, match="too deeply"):
        load_stablehlo(module(f"%r = call @main(%x) : {kind}", "f32", x="f32"))


def test_what_grows_is_refused_before_it_is_made():
    body = "%c0 = stablehlo.iota dim = 0 : tensor<1024xf32>\n"
    for i in range(14):
        sizes = 1024 << i, 1024 << (i + 1)
        body += (f"%c{i + 1} = stablehlo.concatenate %c{i}, %c{i}, dim = 0 : (tensor<{sizes[0]}xf32>, "
                 f"tensor<{sizes[0]}xf32>) -> tensor<{sizes[1]}xf32>\n")
    body += "%r = stablehlo.negate %x : tensor<f32>"
    text = module(body, "f32", x="f32")
    with pytest.raises(UnsupportedError, match="constants computed from others"):
        load_stablehlo(text, limit=1 << 16)


@pytest.mark.parametrize(("name", "text"), [
    ("a.mlir", DENSE), ("a.stablehlo", DENSE), ("a.txt", DENSE),
    ("b.txt", module("%r = stablehlo.negate %x : tensor<f32>", "f32", x="f32"))])
def test_files_are_known_by_name_or_content(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert load_graph(tmp_path / name).inputs[0].name == "x"
    with pytest.raises(GraphError, match="no function 'other'"):
        load_graph(tmp_path / name, function="other")


def test_bytecode_asks_for_its_reader_and_outlives_it(tmp_path, monkeypatch):
    (tmp_path / "a.mlirbc").write_bytes(bytecode.MAGIC + b"broken")
    monkeypatch.setattr(bytecode, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"\[jax\]"):
        load_graph(tmp_path / "a.mlirbc")
    monkeypatch.setattr(bytecode, "find_spec", lambda name: sys)
    monkeypatch.setattr(bytecode, "_READ", "import os\nos.abort()")
    with pytest.raises(FormatError, match="the reader broke off"):
        load_graph(tmp_path / "a.mlirbc")


def test_the_table_of_operations_has_no_unknown_name():
    assert {"dot_general", "convolution", "reduce", "reduce_window", "gather", "chlo.erf"} <= OPERATORS.keys()


def test_positions_are_not_made_to_be_compared(monkeypatch):
    """A port of any extent costs a file nothing."""
    long, kept = 1 << 30, np.arange
    monkeypatch.setattr(np, "arange", lambda *given, **named: kept(*given, **named) if max(given) < long else
                        pytest.fail("positions were made"))
    body = f"""%i = stablehlo.iota dim = 0 : tensor<4xi32>
        %s:2 = "stablehlo.sort"(%x, %i) <{{dimension = 0 : i64}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
          %m = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %m : tensor<i1>
        }}) : (tensor<{long}xf32>, tensor<4xi32>) -> (tensor<{long}xf32>, tensor<4xi32>)
        %r = stablehlo.negate %s#0 : tensor<{long}xf32>"""
    with pytest.raises(UnsupportedError, match="alone or with its positions"):
        load_stablehlo(module(body, f"{long}xf32", x=f"{long}xf32"))
