"""Powers of two beside an operation of two tensors are multiplied by in its own task, on every generation: one operand
as it is read, the result as it is written."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from openane.chips import compiled_generations
from openane.compiler import compile
from openane.devices import run
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

SHAPE = (1, 4, 8, 8)
INPUTS = {name: np.random.default_rng(number).standard_normal(SHAPE).astype(np.float16)
          for number, name in enumerate("xy")}


def scaled(builder: GraphBuilder, x: Value, scale: float) -> Value:
    if scale == 1:
        return x
    return builder.single("mul", x=x, y=scale) if scale > 1 else \
        builder.single("linear_activation", x=x, alpha=scale, beta=0.0)


def beside(op: str, first: float, second: float, behind: float, relus: bool = False) -> Graph:
    """The operation with factors on both operands and the result, and perhaps a ReLU before and behind it."""
    builder = GraphBuilder("beside")
    x, y = (builder.input(name, "fp16", SHAPE) for name in "xy")
    made = builder.single(op, x=scaled(builder, builder.single("relu", x=x) if relus else x, first),
                          y=scaled(builder, y, second))
    made = scaled(builder, made, behind)
    return builder.finish({"z": builder.single("relu", x=made) if relus else made})


@pytest.mark.parametrize("target", compiled_generations())
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_one_task_multiplies_an_operand_and_the_result(op: str, target: str) -> None:
    for (first, second), behind, relus in itertools.product(((4.0, 1.0), (1.0, 0.125), (1.0, 1.0)), (1.0, 0.5, 8.0),
                                                            (False, True)):
        graph = beside(op, first, second, behind, relus)
        model = compile(graph, target=target, precision="as-is", allow_host=False)
        assert len(model.program.tasks) == 1
        wanted = evaluate(graph, INPUTS)["z"].astype(np.float16)
        np.testing.assert_array_equal(run(model, INPUTS)["z"], wanted)


def test_of_two_operands_one_is_multiplied_by_a_task_of_its_own() -> None:
    graph = beside("add", 4.0, 0.5, 2.0)
    model = compile(graph, precision="as-is", allow_host=False)
    assert len(model.program.tasks) == 2
    np.testing.assert_allclose(run(model, INPUTS)["z"], evaluate(graph, INPUTS)["z"], rtol=1e-3)


def test_what_is_read_twice_and_what_is_no_power_of_two_is_left() -> None:
    builder = GraphBuilder("left")
    x, y = (builder.input(name, "fp16", SHAPE) for name in "xy")
    shared = builder.single("mul", x=x, y=4.0)
    third = builder.single("mul", x=x, y=3.0)
    sums = [builder.single("add", x=one, y=y) for one in (shared, shared, third)]
    graph = builder.finish({f"z{number}": value for number, value in enumerate(sums)})
    model = compile(graph, precision="as-is", allow_host=False)
    assert len(model.program.tasks) == 5
    found, wanted = run(model, INPUTS), evaluate(graph, INPUTS)
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=2e-3, atol=2e-3)
