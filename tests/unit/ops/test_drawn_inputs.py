"""Inputs that are drawn are those of their seed, whoever drew others before."""

from __future__ import annotations

import numpy as np
import pytest

from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.drawn_inputs import FEW, drawn


def graph(name: str, *shape: int) -> Graph:
    builder = GraphBuilder()
    x, mask = builder.input(name, "fp16", shape), builder.input("mask", "fp16", shape)
    return builder.finish({"y": builder.single("mul", x=x, y=mask)})


@pytest.mark.parametrize("extent", [64, FEW])
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
