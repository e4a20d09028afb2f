"""What a check says of one model: causes, names, inputs, text, JSON and the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.browser import browser, complaints, opened, requests
from support.planted import Site, mlp, weighted

import openane as ane
from openane.checking import Cause, check_page, document, lines
from openane.chips import compiled_generations
from openane.cli import main
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph
from openane.ops.build import GraphBuilder

CONTRAST = (Path(__file__).parents[2] / "support" / "contrast.js").read_text()
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def one(op: str, shape: tuple[int, ...] = (4, 32), **operands: object) -> Graph:
    b = GraphBuilder()
    x = b.input("x", "fp16", shape)
    return b.finish({"y": b.single(op, x=x, name="asked", **operands)})


def first(graph: Graph, sample: np.ndarray | None = None) -> Cause | None:
    found = ane.check(graph, None if sample is None else {"x": sample}, precision="as-is")
    return None if found.cause is None else found.cause.cause


@pytest.mark.parametrize("target", compiled_generations())
def test_every_generation_says_where_its_tensors_are(target: str) -> None:
    """Those that read an operand broadcast from memory leave a copy out."""
    b = GraphBuilder()
    x, y = b.input("x", "fp16", (4, 32)), b.input("y", "fp16", (4, 1))
    largest = b.single("reduce_max", x=b.single("abs", x=x), axes=[-1], keep_dims=True)
    graph = b.finish({"z": b.single("add", x=b.single("mul", x=x, y=largest), y=y)})
    assert ane.check(graph, target=target).right


def test_an_input_that_fp16_does_not_hold() -> None:
    assert first(one("relu"), np.full((4, 32), 1e5)) is Cause.INPUT


def test_a_constant_that_fp16_does_not_hold() -> None:
    assert first(one("mul", y=np.float32(1e6)), np.full((4, 32), 1e-4)) in (Cause.CONSTANT, None)
    weight = np.full((8, 32), np.inf, np.float16)
    assert first(one("linear", weight=weight)) is Cause.CONSTANT


def test_digits_of_a_bias_count_beside_the_result() -> None:
    weight, bias = np.full((8, 32), 0.25, np.float16), np.full(8, 6e-8, np.float16)
    assert first(one("linear", weight=weight, bias=bias), np.ones((4, 32))) is None
    assert first(one("linear", weight=np.zeros((8, 32), np.float16), bias=bias), np.ones((4, 32))) is Cause.SMALL


def test_a_sum_that_passes_the_end_on_the_way() -> None:
    """The results are 0: only what is added so far is too large."""
    weight = np.concatenate([np.full((8, 16), 100), np.full((8, 16), -100)], axis=1).astype(np.float16)
    found = ane.check(one("linear", weight=weight), {"x": np.full((4, 32), 30.0)}, precision="as-is")
    assert found.cause is not None
    assert found.cause.cause is Cause.SUM
    assert "on the way" in found.cause.sentence


def test_a_sum_whose_infinities_the_same_task_hides() -> None:
    """tanh of what is infinite is finite, and not of the sign that the sum has."""
    b = GraphBuilder()
    weight = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float16) * np.float16(1e4)
    made = b.single("linear", "made", x=b.input("x", "fp16", (4, 32)), weight=weight)
    found = ane.check(b.finish({"y": b.single("tanh", x=made)}), precision="as-is")
    assert found.cause is not None
    assert found.cause.operation.startswith("linear 'made'")
    assert found.cause.cause is Cause.SUM


def test_inputs_that_become_0_in_fp16() -> None:
    x = np.full((4, 32), 1.0, np.float32)
    x[0, 0] = 1e-9
    assert first(one("log", epsilon=np.float16(0)), x) in (Cause.ROUNDED, None)
    assert first(one("inverse", epsilon=np.float16(0)), x) is Cause.ROUNDED


def test_a_mean_of_squares_less_the_square_of_the_mean() -> None:
    b = GraphBuilder()
    x = b.input("x", "fp16", (4, 64))
    mean = b.single("reduce_mean", x=x, axes=np.int32([-1]), keep_dims=True, name="mean")
    squares = b.single("reduce_mean", x=b.single("mul", x=x, y=x, name="squared"), axes=np.int32([-1]),
                       keep_dims=True, name="mean_of_squares")
    other = b.single("abs", x=b.single("mul", x=mean, y=mean, name="square_of_mean"), name="kept")
    y = b.single("sub", x=squares, y=other, name="variance")
    sample = 60 + np.random.default_rng(0).standard_normal((4, 64))
    found = ane.check(b.finish({"y": y}), {"x": sample}, precision="as-is")
    assert found.cause is not None
    assert found.cause.operation.startswith("sub 'variance'")
    assert found.cause.cause is Cause.CANCELLATION
    assert "square" in found.cause.sentence


def test_a_steep_function_is_no_cancellation() -> None:
    """An exponential of numbers near -9 that err by 0.2 %: their products were near 0.002."""
    b, rng = GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", "fp16", (16, 1))
    small = b.single("linear", x=x, weight=rng.uniform(0.0018, 0.0022, (64, 1)).astype(np.float16), name="small")
    graph = b.finish({"y": b.single("exp", x=b.single("mul", x=small, y=np.float16(-4500), name="large"),
                                    name="asked"), "small": small})
    found = ane.check(graph, {"x": rng.uniform(0.9, 1.1, (16, 1)).astype(np.float16)}, precision="as-is")
    assert not found.right
    assert found.cause is not None
    assert found.cause.cause is Cause.STEEP
    assert "exp is steep for numbers near" in found.cause.sentence


def test_places_that_rounding_moves_are_named_and_not_what_made_them() -> None:
    """A wide image of noise, sampled at places near its end."""
    b, rng = GraphBuilder(), np.random.default_rng(0)
    x, at = b.input("x", "fp16", (1, 1, 2, 2000)), b.input("at", "fp16", (1, 2, 4, 1))
    places = b.single("add", x=at, y=b.single("relu", x=at), name="placed")
    graph = b.finish({"y": b.single(
        "resample", x=x, coordinates=b.single("transpose", x=places, perm=[0, 2, 3, 1]), name="read",
        sampling_mode="bilinear", padding_mode="border", padding_value=0.0, coordinates_mode="unnormalized",
        align_corners=True)})
    sample = {"x": rng.standard_normal((1, 1, 2, 2000)), "at": rng.uniform(400, 900, (1, 2, 4, 1))}
    found = ane.check(graph, sample, precision="as-is")
    assert not found.right
    assert found.cause is not None
    assert found.cause.cause is Cause.PLACES
    assert found.cause.operation.startswith("resample 'read'")


def test_small_numbers_taken_out_of_larger_ones_are_no_cancellation() -> None:
    """A row of a sigmoid near 0.001, whose table errs as much as beside the row near 1."""
    b = GraphBuilder()
    x = b.input("x", "fp16", (2, 64))
    made = b.single("tanh", x=b.single("sigmoid", x=x, name="made"), name="kept")
    y = b.single("slice_by_index", x=made, begin=np.int32([1, 0]), end=np.int32([2, 64]), name="asked")
    graph = b.finish({"y": b.single("mul", x=y, y=np.float16(64))})
    sample = np.stack([np.linspace(1, 3, 64), np.linspace(-7.5, -6.5, 64)]).astype(np.float16)
    found = ane.check(graph, {"x": sample}, precision="as-is")
    assert found.cause is not None
    assert found.cause.cause is Cause.PART
    assert "takes numbers near" in found.cause.sentence


@pytest.mark.parametrize(("shift", "right"), [(-17.0, True), (-13.0, True)])
def test_scores_that_fp16_hardly_holds_are_as_right_as_they_can_be(shift: float, right: bool) -> None:
    b = GraphBuilder(metadata={"functions": "close"})
    x = b.input("x", "fp16", (4, 64))
    sample = np.random.default_rng(1).uniform(-1, 1, (4, 64)).astype(np.float16) + np.float16(shift)
    found = ane.check(b.finish({"y": b.single("sigmoid", x=x, name="asked")}), {"x": sample})
    assert found.right is right
    assert (found.outputs[0].error > 0.01) is (shift < -14)
    assert ("as fp16 holds numbers that are so small" in next(iter(document(found)["verdict"].splitlines()))) is \
        (shift < -14)


def test_what_precision_safe_mends_is_right() -> None:
    graph = weighted(14).graph
    assert not ane.check(graph, precision="as-is").right
    assert ane.check(graph, precision="safe").right


def test_the_operation_that_made_numbers_large_is_named_beside_the_one_that_overflows() -> None:
    b = GraphBuilder()
    x = b.input("x", "fp16", (4, 32))
    weight = (np.random.default_rng(0).standard_normal((32, 32)) * 100).astype(np.float16)
    large = b.single("relu", x=b.single("linear", x=x, weight=weight, name="wide"), name="positive")
    y = b.single("mul", x=large, y=large, name="squared")
    found = ane.check(b.finish({"y": y}), precision="as-is")
    assert found.cause is not None
    assert (found.cause.operation, found.cause.cause) == ("mul 'squared'", Cause.STORED)
    assert found.cause.grown == "linear 'wide'"
    assert "linear 'wide' before it makes numbers" in found.cause.sentence


def test_samples_are_those_that_are_given_or_drawn() -> None:
    graph = mlp(Site(0))
    x = np.ones((4, 32), np.float16)
    assert ane.check(graph).inputs == "drawn"
    assert ane.check(graph, {"x": x}).inputs == "the sample given"
    assert ane.check(graph, [{"x": x}, {"x": 2 * x}]).inputs == "the first of 2 samples given"
    with pytest.raises(GraphError, match="lacks 'x'"):
        ane.check(graph, {"y": x})
    with pytest.raises(GraphError, match="must have shape"):
        ane.check(graph, {"x": x[:2]})


def test_every_operation_has_a_row_in_the_models_names() -> None:
    graph = ane.load_graph(DIGITS)
    found = ane.check(graph)
    assert found.right
    labels = {node.label for node in graph.nodes}
    assert {tensor.operation for tensor in found.tensors} <= labels
    ranges = {tensor.tensor: (tensor.low, tensor.high) for tensor in found.tensors}
    low, high = ranges["probabilities"]
    assert low is not None
    assert high is not None
    assert 0 <= low <= high <= 1


def test_operations_of_the_host_have_rows() -> None:
    b = GraphBuilder()
    x = b.input("x", "fp16", (4, 64))
    order = b.single("argsort", x=x, axis=np.int32(-1), ascending=True, name="order")
    rank = b.single("cast", x=order, dtype="fp16", name="real")
    graph = b.finish({"y": b.single("mul", x=rank, y=np.float16(0.5), name="halved")})
    found = ane.check(graph, allow_host=True)
    assert found.right
    assert "host" in {tensor.where for tensor in found.tensors}


def test_text_says_what_and_why_and_what_helps() -> None:
    text = "\n".join(lines(ane.check(weighted(13).graph, precision="as-is")))
    assert "Wrong: 1 of 1 output differs from fp32" in text
    assert "1. linear 'fc0': sum beyond 2^15  (the first cause)" in text
    assert "why   its sums reach" in text
    assert "help  compile with --precision safe" in text
    assert "--all shows every one" in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "check.html"
    assert main(["check", str(DIGITS), "--json", "--page", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["right"]
    assert found["inputs"] == "drawn"
    assert "application/json" in page.read_text()
    bundle, sample = tmp_path / "wrong.ane", tmp_path / "x.npy"
    ane.compile(weighted(13).graph, precision="as-is").save(bundle)
    np.save(sample, np.ones((4, 32), np.float16))
    assert main(["check", str(bundle), "--sample", f"x={sample}"]) == 1
    text = capsys.readouterr().out
    assert "run on the sample given" in text
    assert "first cause" in text


def test_what_cannot_be_checked_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "mlp.hwx"
    ane.compile(mlp(Site(0))).save(program)
    assert main(["check", str(program)]) == 1
    assert "does not hold the model it was made from" in capsys.readouterr().err
    assert main(["check", str(DIGITS), "--shape", "image=1x{1,2}x28x28"]) == 1
    capsys.readouterr()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert main(["check", str(tmp_path)]) == 1
    assert "ane check" in capsys.readouterr().err
    model = ane.compile(mlp(Site(0)))
    with pytest.raises(UnsupportedError, match="one function is checked"):
        ane.check(model.with_functions((model,)))


@pytest.mark.needs("selenium", "chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_draws(tmp_path: Path, dark: bool) -> None:
    path = tmp_path / "check.html"
    checked = ane.check(weighted(13).graph, precision="as-is")
    path.write_text(check_page(checked), encoding="utf-8")
    with browser() as driver:
        opened(driver, path, dark=dark)
        assert complaints(driver) == []
        assert requests(driver) == []
        text = driver.execute_script("return document.body.innerText")
        assert document(checked)["verdict"] in text
        assert "linear 'fc0': sum beyond 2^15" in text
        assert driver.execute_script(CONTRAST) == []
