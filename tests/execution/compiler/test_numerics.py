"""Numbers that leave fp16 are named when the model is compiled: the operation, what was found, what helps."""

import json
from pathlib import Path

import numpy as np
import pytest

from openane.cli import main
from openane.compiler import compile
from openane.compiler.inspect.fp16_concerns import concerns, drawn_samples
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder
from openane.ops.halves import halves_finite


def linear(scale: float, reduction: int = 64, dtype: type = np.float32) -> GraphBuilder:
    builder = GraphBuilder()
    x = builder.input("x", "fp32" if dtype is np.float32 else "fp16", (4, reduction))
    weight = np.full((8, reduction), scale, dtype)
    builder.y = builder.single("linear", x=x, weight=weight, name="dense")  # type: ignore[attr-defined]
    return builder


def graph_of(builder: GraphBuilder):
    return builder.finish({"y": builder.y})  # type: ignore[attr-defined]


def test_weights_beyond_fp16():
    (found,) = compile(graph_of(linear(1e5))).concerns
    assert found.operation.startswith("linear 'dense'")
    assert "512 of 512 values of weight become infinite in fp16" in str(found)
    assert "scale them down" in str(found)


def test_infinite_weights_of_products():
    (found,) = concerns(graph_of(linear(-np.inf, dtype=np.float16)))
    assert "512 of 512 values of weight are infinite" in found.what


def test_bits_tell_which_halves_are_finite():
    for number in np.arange(1 << 16).astype(np.uint16).view(np.float16):
        assert halves_finite(number[None]) == np.isfinite(number)
    assert halves_finite(np.zeros(0, np.float16))
    assert not halves_finite(np.zeros(3, np.float32))


def test_weights_that_vanish():
    (found,) = compile(graph_of(linear(1e-9)), precision="as-is").concerns
    assert "become zero in fp16" in found.what


@pytest.mark.parametrize(("scale", "said"), [(1.0, None), (300.0, "come near"), (600.0, "become infinite")])
def test_sums_near_the_end_of_the_accumulator(scale, said):
    graph = graph_of(linear(scale, dtype=np.float16))
    found = concerns(graph, {"x": np.ones((4, 64), np.float16)})
    assert [said in concern.what for concern in found] == ([True] if said else [])


def test_domains_of_tables():
    builder = GraphBuilder()
    graph = builder.finish({"y": builder.single("exp", x=builder.input("x", "fp16", (5,)))})
    beyond, domain = concerns(graph, {"x": np.array([0, 1, 2, 3, 12], np.float16)})
    assert "become infinite in fp16" in beyond.what
    assert "domain" in domain.what
    assert domain.found == 12


def test_results_beyond_fp16():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (3,))
    graph = builder.finish({"y": builder.single("mul", x=x, y=x)})
    assert "become infinite in fp16" in concerns(graph, {"x": np.array([1, 2, 300], np.float16)})[0].what


@pytest.mark.parametrize("op", ["add", "select"])
def test_infinities_of_a_mask_are_meant(op):
    builder = GraphBuilder()
    x, infinite = builder.input("x", "fp16", (2, 2)), np.triu(np.full((2, 2), -np.inf, np.float16), 1)
    masked = builder.single("add", x=x, y=infinite) if op == "add" else \
        builder.single("select", cond=infinite == 0, a=x, b=np.float16(-np.inf))
    graph = builder.finish({"y": builder.single("softmax", x=masked, axis=-1)})
    assert concerns(graph, {"x": np.ones((2, 2), np.float16)}) == ()


def test_a_sound_model_raises_no_concern():
    graph = graph_of(linear(0.05))
    assert concerns(graph, drawn_samples(graph)) == ()
    assert compile(graph).concerns == ()


def test_the_command_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text, weights = print_mil(graph_of(linear(600.0, dtype=np.float16)))
    (tmp_path / "weights").mkdir()
    (tmp_path / "m.mil").write_text(text)
    (tmp_path / "weights" / "weight.bin").write_bytes(weights or b"")
    np.save(tmp_path / "x.npy", np.ones((4, 64), np.float16))
    arguments = ["compile", str(tmp_path / "m.mil"), "-o", str(tmp_path / "m.hwx"), "--sample",
                 f"x={tmp_path / 'x.npy'}", "--precision", "as-is"]
    assert main(arguments) == 0
    assert "warning: linear" in capsys.readouterr().err
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["concerns"][0]["limit"] == 32768


@pytest.mark.parametrize("scale", [1e5, -1e6, 3e-6, 1e-7])
@pytest.mark.parametrize("op", ["mul", "real_div"])
@pytest.mark.parametrize("shape", [(50,), (1, 4, 3, 20)])
def test_scales_fp16_does_not_hold_are_taken_apart(hold, op, scale, shape):
    builder = GraphBuilder()
    x = builder.input("x", "fp32", shape)
    number = np.float32(scale if op == "mul" else 1 / scale)
    near = 2000 / abs(scale)
    model = hold(builder.finish({"y": builder.single(op, x=x, y=number)}), low=min(near, 4e4) / 2,
                 high=min(near, 4e4), absolute=0, relative=2e-3)
    assert model.concerns == ()
