"""Advice about models that were made to need it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.cli.profile import subject_of
from openane.ops.build import GraphBuilder
from openane.report import Profile, profile
from openane.report.explain import Advice, explain
from openane.report.places import places, verdict


def made(build: GraphBuilder, value: object) -> Profile:
    return profile(subject_of(ane.compile(build.finish({"out": value}))), "m1")


def said(found: Profile, text: str) -> Advice:
    matching = [each for each in explain(found) if text in each.what or text in each.remedy]
    assert matching, [each.what for each in explain(found)]
    return matching[0]


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def test_weights_that_are_used_once() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 2048))
    advice = said(made(build, build.single("linear", x=x, weight=weights(2048, 2048))), "waits for its weights")
    assert advice.gain
    assert "linear" in advice.subject


def test_a_part_of_a_pass() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 64, 60, 60))
    y = build.single("conv", x=x, weight=weights(272, 64, 3, 3) / 32)
    y = build.single("conv", x=y, weight=weights(272, 272, 3, 3) / 64)
    assert "272 output channels take 2 passes" in said(made(build, build.single("conv", x=y, weight=weights(
        8, 272, 3, 3) / 64)), "passes of 256").what


def test_tensors_that_leave_the_chip() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 64, 256, 256))
    advice = said(made(build, build.single("relu", x=build.single("add", x=x, y=x))), "do not stay in L2")
    assert advice.gain
    assert advice.gain > 0


def test_short_rows() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 64, 256, 2))
    assert "short of 64 bytes" in said(made(build, build.single("add", x=x, y=x)), "times the bytes").what


def test_gains_are_never_larger_than_the_whole() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 32, 64, 64))
    y = build.single("conv", x=x, weight=weights(300, 32, 1, 1), pad_type="same")
    found = made(build, build.single("softmax", x=build.single("transpose", x=y, perm=[0, 2, 3, 1]), axis=-1))
    for each in explain(found):
        assert each.gain is None or 0 <= each.gain <= found.engine_seconds


def test_hazards_are_repeated() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 4, 8, 32))
    found = made(build, build.single("relu", x=x))
    assert [each.subject for each in explain(found, [("conv 'c'", "overflows")]) if each.what == "overflows"] == \
        ["conv 'c'"]


def test_places_are_only_called_when_clear() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 4, 8, 32))
    found = made(build, build.single("relu", x=x))
    where = places(found)
    assert where[0].name == "cpu"
    assert "the cpu is the better place" in verdict(where)
    assert "measure" in verdict((where[0], where[0]))
    assert "no figures" in verdict(where[:1])


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    digits = "examples/digits/digits.onnx"
    assert main(["explain", digits, "--json", "--no-cache"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]
    assert main(["explain", digits, "--chip", "m4 max", "--no-cache"]) == 0
    text = capsys.readouterr().out
    assert "(extrapolated)" in text
    assert "what would help" in text
