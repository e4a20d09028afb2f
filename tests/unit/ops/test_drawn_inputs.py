"""Inputs that are drawn are those of their seed, whoever drew others before, and as large as normal
numbers are, however few there are."""

from __future__ import annotations

import numpy as np
import pytest

from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.drawn_inputs import FAR, FEW, drawn, table_lengths


def graph(name: str, *shape: int) -> Graph:
    builder = GraphBuilder()
    x, mask = builder.input(name, "fp16", shape), builder.input("mask", "fp16", shape)
    return builder.finish({"y": builder.single("mul", x=x, y=mask)})


@pytest.mark.parametrize("extent", [4096, FEW])
def test_they_depend_on_types_and_the_seed(extent: int) -> None:
    made = [drawn(graph(name, 1, extent), seed) for name, seed in (("x", 0), ("image", 0), ("x", 1), ("x", 0))]
    wanted = np.random.default_rng(0).standard_normal((1, extent), np.float32).astype(np.float16)
    assert [list(each) for each in made] == [["x", "mask"], ["image", "mask"], ["x", "mask"], ["x", "mask"]]
    for each, name in ((made[0], "x"), (made[1], "image"), (made[3], "x")):
        assert each[name].tobytes() == wanted.tobytes()
    assert made[2]["x"].tobytes() != wanted.tobytes()
    assert all((each["mask"] == 1).all() for each in made)


def test_nobody_writes_into_them() -> None:
    with pytest.raises(ValueError, match="read-only"):
        drawn(graph("x", 4))["x"][0] = 1


def times(count: int) -> Graph:
    """Cosines of an input times frequencies, as denoisers are told how far they are."""
    builder = GraphBuilder("times", {})
    time = builder.input("time", "fp32", (count, 1))
    spread = builder.single("mul", "spread", x=time, y=np.geomspace(1e-2, 1, 32).astype(np.float32)[None])
    return builder.finish((builder.single("cos", "result", x=spread),))


@pytest.mark.parametrize("count", [1, 2, 7, 30, 100])
def test_the_largest_of_few_numbers_is_not_near_zero(count: int) -> None:
    for seed in range(50):
        assert np.abs(drawn(times(count), seed)["time"]).max() > FAR - 0.01


def test_many_numbers_stay_as_they_are_drawn() -> None:
    numbers = drawn(times(4000))["time"]
    assert np.array_equal(numbers, np.random.default_rng(0).standard_normal(numbers.shape, np.float32))


def test_an_input_of_no_dimension() -> None:
    assert abs(drawn(graph("x"))["x"]) > FAR - 0.01


def test_positions_that_may_count_from_the_end_are_below_the_length() -> None:
    """As exporters write them: the position where it is 0 or more, else the position plus the length."""
    builder = GraphBuilder("rows", {})
    place = builder.input("place", "int32", (64,))
    early = builder.single("greater_equal", "early", x=place, y=np.int32(0))
    late = builder.single("add", "late", x=place, y=np.int32(9))
    counted = builder.single("select", "counted", cond=early, a=place, b=late)
    table = builder.single("cast", "table", x=np.ones((9, 4), np.float32), dtype="fp16")
    rows = builder.single("gather", "rows", x=table, indices=counted, axis=0)
    made = builder.finish((rows,))
    assert table_lengths(made) == {"place": 9}
    assert set(np.unique(drawn(made)["place"])) == set(range(9))
