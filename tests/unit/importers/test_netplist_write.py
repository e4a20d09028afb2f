"""Graphs written as net.plist come back as they were, or as the units they became."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.graph.mil import print_mil
from openane.importers import load_graph
from openane.importers.netplist import load_netplist, to_netplist, write_netplist
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(4)


def again(graph: Graph) -> Graph:
    """The graph, written and read."""
    document, data = to_netplist(graph)
    return load_netplist(document, {"net.weights": data})


def same(graph: Graph, tolerance: float = 2e-3) -> Graph:
    """Reads back a graph that computes the same; the graph."""
    back = again(graph)
    inputs = {value.name: RANDOM.uniform(-2, 2, value.shape).astype(np.float16) for value in graph.inputs}
    found, wanted = evaluate(back, inputs), evaluate(graph, inputs)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array.astype(np.float32), rtol=tolerance, atol=tolerance)
    return back


def single(op: str, extents=(2, 3, 4, 6), /, **operands) -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", extents)
    return builder.finish({"y": builder.single(op, "y", x=x, **operands)})


WEIGHT = RANDOM.standard_normal((6, 3, 3, 2)).astype(np.float16)
IDENTICAL = {
    "conv": single("conv", weight=WEIGHT), "bias": single("conv", weight=WEIGHT, bias=np.arange(6, dtype=np.float16)),
    "strided": single("conv", weight=WEIGHT, strides=(2, 2), pad_type="custom", pad=(1, 0, 2, 1)),
    "grouped": single("conv", weight=WEIGHT[:, :1], groups=3, dilations=(1, 2)),
    "three": single("conv", (1, 2, 3, 4, 5), weight=RANDOM.standard_normal((4, 2, 2, 1, 3)).astype(np.float16)),
    "relu": single("relu"), "leaky": single("leaky_relu", alpha=0.25), "clip": single("clip", alpha=-1.0, beta=0.5),
    "elu": single("elu", alpha=1.0), "relu6": single("relu6"), "gelu": single("gelu"), "abs": single("abs"),
    "silu": single("silu"), "scalar": single("add", y=np.float16(2.5)), "scale": single("mul", y=np.float16(0.5)),
    "channels": single("mul", y=np.arange(1, 4, dtype=np.float16).reshape(1, 3, 1, 1)),
    "softmax": single("softmax", axis=1), "mean": single("reduce_mean", axes=(2, 3), keep_dims=True),
    "pool": single("max_pool", kernel_sizes=(2, 3), strides=(2, 2), pad_type="valid"),
    "average": single("avg_pool", kernel_sizes=(2, 2), pad_type="custom", pad=(1, 0, 1, 1),
                      exclude_padding_from_average=True),
    "transpose": single("transpose", perm=(0, 3, 1, 2)), "reshape": single("reshape", shape=(1, 6, 2, 12)),
    "slice": single("slice_by_size", begin=(0, 1, 0, 0), size=(2, 2, 4, 6)),
    "tile": single("tile", (2, 1, 4, 1), reps=(1, 3, 1, 2)),
}


@pytest.mark.parametrize("name", IDENTICAL)
def test_operations_of_one_unit_come_back_identically(name: str) -> None:
    graph = IDENTICAL[name]
    back = same(graph)
    assert print_mil(back) == print_mil(graph)
    assert to_netplist(back) == to_netplist(graph)


@pytest.mark.parametrize(("op", "operands"), [
    ("conv", {"weight": WEIGHT, "pad_type": "same", "strides": (2, 2)}),
    ("max_pool", {"kernel_sizes": (3, 3), "strides": (2, 2), "pad_type": "valid", "ceil_mode": True}),
    ("sub", {"y": np.float16(1.5)}), ("exp", {}), ("linear_activation", {"alpha": 2.0, "beta": 0.5}),
    ("batch_norm", {"mean": np.zeros(3, np.float16), "variance": np.arange(1, 4, dtype=np.float16)}),
    ("real_div", {"y": np.float16(4.0)}), ("inverse", {"epsilon": 3.0}), ("real_div", {"y": np.full(6, 2, np.float16)}),
    ("maximum", {"y": np.float16(0.25)}), ("slice_by_index", {"begin": (0, 0, 1, -3), "end": (2, 3, 3, 6)}),
    ("add", {"y": RANDOM.standard_normal((4, 6)).astype(np.float16)}),
])
def test_other_operations_come_back_as_what_they_became(op: str, operands: dict[str, object]) -> None:
    same(single(op, **operands), 5e-3)


def test_several_operands_and_outputs() -> None:
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (1, 4, 3, 5)), builder.input("y", "fp16", (1, 4, 5, 2))
    product = builder.single("matmul", "product", x=x, y=y)
    first, second = builder.add("split", "part", x=product, num_splits=2, axis=1)
    wide = builder.single("add", "wide", x=first, y=builder.single("reduce_max", x=second, axes=(3,), keep_dims=True))
    larger = builder.single("cast", "larger", x=builder.single("greater", x=first, y=second), dtype="fp16")
    same(builder.finish({"wide": wide, "larger": larger, "second": second, "copy": x}), 5e-3)


def test_ports_of_bytes() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "uint8", (1, 3, 4, 5))
    half = builder.single("cast", "x.fp16", x=x, dtype="fp16")
    scaled = builder.single("mul", "y.fp16", x=half, y=np.float16(0.5))
    graph = builder.finish({"y": builder.single("cast", "y", x=scaled, dtype="int8")})
    assert [value.dtype for value in again(graph).outputs] == ["int8"]
    data = {"x": np.arange(60, dtype=np.uint8).reshape(1, 3, 4, 5)}
    np.testing.assert_array_equal(evaluate(again(graph), data)["y"], evaluate(graph, data)["y"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_chains_of_units(data: st.DataObject) -> None:
    builder = GraphBuilder()
    value = builder.input("x", "fp16", data.draw(st.tuples(*[st.integers(1, 4)] * 4)))
    made = [value]
    for _ in range(data.draw(st.integers(1, 6))):
        op = data.draw(st.sampled_from(["relu", "sigmoid", "add", "mul", "transpose", "concat", "bias", "conv"]))
        x = data.draw(st.sampled_from(made))
        channels = x.shape[1]
        if op in ("relu", "sigmoid"):
            value = builder.single(op, x=x)
        elif op in ("add", "mul"):
            value = builder.single(op, x=x, y=data.draw(st.sampled_from([v for v in made if v.shape == x.shape])))
        elif op == "transpose":
            value = builder.single(op, x=x, perm=data.draw(st.permutations(range(4))))
        elif op == "concat":
            value = builder.single(op, values=(x, x), axis=data.draw(st.integers(0, 3)))
        elif op == "bias":
            value = builder.single("add", x=x, y=np.arange(channels, dtype=np.float16).reshape(1, channels, 1, 1))
        else:
            weight = RANDOM.standard_normal((2, channels, 1, 1)).astype(np.float16) / np.float16(4)
            value = builder.single(op, x=x, weight=weight)
        made.append(value)
    same(builder.finish({"y": value}), 2e-2)


def test_files_are_written_whole(tmp_path: Path) -> None:
    path = write_netplist(IDENTICAL["bias"], tmp_path / "model.plist")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.plist", "model.weights"]
    assert print_mil(load_graph(path)) == print_mil(IDENTICAL["bias"])
    write_netplist(IDENTICAL["relu"], tmp_path / "plain.plist")
    assert not (tmp_path / "plain.weights").exists()


def test_every_file_at_hand_comes_back(corpus: Path) -> None:
    for path in sorted((corpus / "apple" / "netplist").glob("*.plist")):
        if path.stem not in ("gemm", "espresso_gemm"):  # their weights did not come with them
            graph = load_netplist(path)
            assert print_mil(again(graph)) == print_mil(graph)


@pytest.mark.parametrize(("graph", "text"), [
    (single("softplus"), "softplus.*nearest|operations with a unit"), (single("relu", (3, 4)), "rank 4 throughout"),
    (single("tile", (1, 2, 3, 4), reps=(1, 2, 1, 1)), "concat for the rest"),
    (single("slice_by_index", begin=(0, 0, 0, 0), end=(2, 3, 4, 6), stride=(1, 1, 2, 1)), "stride 1"),
    (single("gelu", mode="TANH_APPROXIMATION"), "EXACT"),
    (single("greater", y=np.float16(1)), 'cast to "fp16" first'),
])
def test_what_no_unit_expresses_is_refused(graph: Graph, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        to_netplist(graph)
