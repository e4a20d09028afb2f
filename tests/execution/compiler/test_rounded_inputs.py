"""Inputs of fp32 that a model rounds to steps of quantisation: the host takes the steps where it may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.compiler.partition.rounded_inputs import ROUNDED
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

STEP = 0.0371


def rounded(builder: GraphBuilder, x: Value, step: float = STEP) -> Value:
    """x in whole steps of -128 to 127."""
    units = builder.single("mul", x=x, y=np.float16(1 / np.float32(step)))
    return builder.single("clip", x=builder.single("round", x=units), alpha=-128.0, beta=127.0)


def declared(graph: Graph, *names: str) -> Graph:
    """The graph with inputs that were fp32 in the model's file."""
    return replace(graph, metadata={**graph.metadata, **{f"dtype:{name}": "fp32" for name in names}})


def moved(builder: GraphBuilder, x: Value) -> Value:
    """x padded, its dimensions exchanged and grouped in another way."""
    x = builder.single("pad", x=x, pad=[0, 0, 0, 0, 1, 1, 1, 1], mode="constant", constant_val=np.float16(0))
    x = builder.single("transpose", x=x, perm=[0, 2, 3, 1])
    return builder.single("reshape", x=x, shape=[1, 8, 32, 1])


def beside_ties(shape: Sequence[int]) -> np.ndarray:
    """Numbers that fp32 holds nearer to a tie than fp16 does: with ten more bits their step is clear."""
    units = np.float32(np.float16(1 / np.float32(STEP)))
    ties = np.random.default_rng(1).integers(-100, 100, shape) + 0.5
    return ((ties + np.resize([1e-3, -1e-3], shape)) / units).astype(np.float32)


@pytest.mark.parametrize("way", ["straight", "moved"])
def test_the_host_takes_the_steps_of_all_digits(way: str) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 6, 6))
    steps = rounded(builder, moved(builder, x) if way == "moved" else x)
    graph = declared(builder.finish({"y": builder.single("abs", x=steps)}), "x")
    given = beside_ties(x.shape)
    units = given.astype(np.float64) * np.float16(1 / np.float32(STEP))
    wanted = np.abs(np.clip(np.rint(units), -128, 127))
    if way == "moved":
        wanted = np.pad(wanted, ((0, 0), (0, 0), (1, 1), (1, 1))).transpose(0, 2, 3, 1).reshape(1, 8, 32, 1)
    model = ane.compile(graph)
    assert {entry.reason for entry in model.host_operations} == {ROUNDED}
    np.testing.assert_array_equal(ane.run(model, {"x": given})["y"], wanted)
    alone = ane.compile(graph, allow_host=False)
    assert not alone.host_operations
    assert np.mean(ane.run(alone, {"x": given})["y"] != wanted) > 0.1, "fp16 moves them to the step beside"


def test_the_steps_are_those_of_a_saved_model(tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 6, 6))
    graph = declared(builder.finish({"y": builder.single("abs", x=rounded(builder, x))}), "x")
    given = beside_ties(x.shape)
    model = ane.compile(graph)
    model.save(tmp_path / "m.ane")
    np.testing.assert_array_equal(ane.run(ane.Model.load(tmp_path / "m.ane"), {"x": given})["y"],
                                  ane.run(model, {"x": given})["y"])


def test_others_read_the_input_as_they_did() -> None:
    """In fp16, beside the steps the host takes."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 6, 6))
    graph = declared(builder.finish({"y": builder.single("add", x=rounded(builder, x), y=x)}), "x")
    given = beside_ties(x.shape)
    units = given.astype(np.float64) * np.float16(1 / np.float32(STEP))
    wanted = (np.clip(np.rint(units), -128, 127) + given.astype(np.float16)).astype(np.float16)
    np.testing.assert_array_equal(ane.run(ane.compile(graph), {"x": given})["y"], wanted)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_what_fp16_holds_and_what_is_all_there_is_stay_on_the_engine(dtype: str) -> None:
    """An input of fp16 has no other digits, and a model that only rounds would be none for the engine."""
    builder = GraphBuilder()
    steps = rounded(builder, builder.input("x", "fp16", (1, 4, 6, 6)))
    graph = builder.finish({"y": builder.single("abs", x=steps) if dtype == "fp16" else steps})
    assert not ane.compile(declared(graph, "x") if dtype == "fp32" else graph).host_operations


def test_steps_of_something_computed_stay_on_the_engine() -> None:
    builder = GraphBuilder()
    x = builder.single("sin", x=builder.input("x", "fp16", (1, 4, 6, 6)))
    graph = builder.finish({"y": builder.single("abs", x=rounded(builder, x))})
    assert not ane.compile(declared(graph, "x")).host_operations


@pytest.mark.parametrize("dtype", ["bf16", "int2"])
def test_declared_types_that_no_array_has_are_compiled(dtype: str) -> None:
    builder = GraphBuilder()
    graph = builder.finish({"y": builder.single("relu", x=builder.input("x", "fp16", (4,)))})
    assert not ane.compile(replace(graph, metadata={"dtype:x": dtype})).host_operations
