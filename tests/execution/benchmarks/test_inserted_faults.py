"""What the benchmark of `ane check` puts into published networks to lose digits leaves their numbers as large as they
were: nothing behind it is larger, and hides it."""

from __future__ import annotations

import numpy as np
import pytest
from support.benchmark_modules import benchmark_modules

import openane as ane
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.ranges import measured

KINDS = ("small", "squares", "products", "offset")
"""Those whose results are x, or its squares, but for some digits, by name."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2.0 ** -7, 1.0, 2.0 ** 6])
def test_an_inserted_fault_is_named_though_a_bias_stands_behind_it(kind: str, size: float) -> None:
    rng, builder = np.random.default_rng(4), GraphBuilder("biased")
    weights = [(rng.standard_normal((64, 64)) / 8 * factor).astype(np.float16) for factor in (size, 1 / size)]
    x = builder.single("linear", x=builder.input("x", "fp16", (4, 64)), weight=weights[0], name="before")
    x = builder.single("relu", x=builder.single("add", x=x, y=np.full(64, size, np.float16), name="bias"), name="bent")
    graph = builder.finish({"y": builder.single("linear", x=x, weight=weights[1], name="behind")})
    sample = {"x": rng.standard_normal((4, 64)).astype(np.float16)}
    with benchmark_modules("inserted_faults") as (faults,):
        names = [each.__name__ for each in faults.KINDS]
        planted, node = faults.inserted(graph, measured(graph, [sample]), ("linear",), names.index(kind) + 10)
    found = ane.check(planted, sample, precision="as-is")
    assert found.cause is not None
    assert f"'{node.name}'" in found.cause.operation
    assert evaluate(planted, sample)["y"].std() > evaluate(graph, sample)["y"].std() / 8
