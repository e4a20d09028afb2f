"""Functions of quantised tensors that are quantised: one table, chosen for the numbers there are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from support.quantisation import quantised

import openane as ane
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.step_tables import Wanted, step_tables
from openane.passes.order import simplify

Build = Callable[[GraphBuilder, Value], Value]
ZERO, STEP = 121, 7.7 / 255


def hard_swish(builder: GraphBuilder, x: Value) -> Value:
    return builder.single("mul", x=x, y=builder.single("sigmoid_hard", x=x, alpha=1 / 6, beta=0.5))


def erf_of_a_quotient(builder: GraphBuilder, x: Value) -> Value:
    return builder.single("erf", x=builder.single("real_div", x=x, y=np.float16(2.0)))


def of(name: str, **settings: float) -> Build:
    return lambda builder, x: builder.single(name, x=x, **settings)


FUNCTIONS: dict[str, tuple[Build, Callable[[float], float]]] = {
    "sigmoid": (of("sigmoid"), lambda x: 1 / (1 + math.exp(-x))),
    "tanh": (of("tanh"), math.tanh),
    "elu": (of("elu", alpha=0.7), lambda x: x if x > 0 else 0.7 * math.expm1(x)),
    "leaky": (of("leaky_relu", alpha=0.1), lambda x: max(x, 0.1 * x)),
    "hard swish": (hard_swish, lambda x: x * min(max(x / 6 + 0.5, 0), 1)),
    "erf": (erf_of_a_quotient, lambda x: math.erf(x / 2)),
    "gelu": (of("gelu"), lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
}


def between(build: Build, step: float, zero: float) -> Graph:
    """A function between two quantisations of all 256 numbers."""
    builder = GraphBuilder("function")
    x = quantised(builder, builder.input("x", "fp16", (1, 256)), STEP, ZERO, 0, 255)
    return builder.finish({"y": quantised(builder, build(builder, x), step, zero, 0, 255)})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_number_gets_its_step(name: str) -> None:
    """By one table, or by two where one makes another step of some."""
    build, function = FUNCTIONS[name]
    x = (np.arange(256) - ZERO) * np.float32(STEP)
    exact = np.array([function(float(number)) for number in x])
    low, high = min(exact.min(), 0), max(exact.max(), 0)
    step = np.float32((high - low) / 255)
    zero = float(np.rint(-low / step))
    graph = between(build, float(step), zero)
    first, *tables, last = [node.op for node in simplify(graph).nodes]
    assert {first, last} == {"nearest_steps"}
    assert tables in (["lut_activation"], ["lut_activation"] * 2)
    found = ane.run(ane.compile(graph), {"x": x[None].astype(np.float16)}, "simulator?arithmetic=exact")["y"][0]
    wanted = np.clip(np.rint(exact / step) + zero, 0, 255) - zero
    off = np.abs(found.astype(np.float64) / step - wanted)
    assert off.max() < 0.2, "the step and the result in fp16"


def test_a_function_whose_parts_are_read_elsewhere_stays() -> None:
    builder = GraphBuilder("function")
    x = quantised(builder, builder.input("x", "fp16", (1, 256)), STEP, ZERO, 0, 255)
    gate = builder.single("sigmoid", x=x)
    y = quantised(builder, builder.single("mul", x=gate, y=gate), 1 / 255, 0, 0, 255)
    graph = builder.finish({"y": y, "gate": gate})
    assert "lut_activation" not in [node.op for node in simplify(graph).nodes]


def test_a_function_of_two_quantised_tensors_stays() -> None:
    builder = GraphBuilder("function")
    a, b = (quantised(builder, builder.input(name, "fp16", (1, 256)), STEP, ZERO, 0, 255) for name in "ab")
    y = builder.single("mul", x=builder.single("sigmoid", x=a), y=b)
    graph = builder.finish({"y": quantised(builder, y, STEP, ZERO, 0, 255)})
    assert "lut_activation" not in [node.op for node in simplify(graph).nodes]


def test_a_function_too_steep_for_a_table_stays() -> None:
    graph = between(lambda builder, x: builder.single("sin", x=builder.single("mul", x=x, y=np.float16(30.0))),
                    2 / 255, 128)
    assert "lut_activation" not in [node.op for node in simplify(graph).nodes]


def test_sums_in_the_middle_between_two_steps_are_where_fp32_has_them() -> None:
    """Of numbers from -1 to 1 and 1 in steps of the same size, every sum is half a step beside a whole one."""
    step = np.float32(2 / 255)
    builder = GraphBuilder("sum")
    x = quantised(builder, builder.input("x", "fp16", (1, 256)), float(step), 128, 0, 255)
    graph = builder.finish({"y": quantised(builder, builder.single("add", x=x, y=np.float16(1.0)), float(step), 0, 0,
                                           255)})
    numbers = (np.arange(256) - 128) * step
    found = ane.run(ane.compile(graph), {"x": numbers[None].astype(np.float16)}, "simulator?arithmetic=exact")["y"][0]
    wanted = np.clip(np.rint((numbers + np.float32(1.0)) / step), 0, 255)
    assert np.abs(found.astype(np.float64) / step - wanted).max() < 0.2


@pytest.mark.parametrize("odd", [False, True])
def test_the_fewest_numbers_are_wrong(odd: bool) -> None:
    """Of tanh over so much that 32 intervals of all numbers are too wide, those of sizes alone are not."""
    x = np.arange(-127, 128, dtype=np.float64)
    exact = np.tanh(x / 30) * 127 + (0 if odd else 2e-3 * np.square(x))
    made = step_tables(Wanted(x, exact, np.rint(exact), np.full_like(x, -256), np.full_like(x, 255)))
    assert made is not None
    results = np.sum([lut(x) for lut in made.tables], axis=0)
    off = np.abs(np.rint(results) - np.rint(exact))
    assert off.max() == made.error == (0 if odd else 1)
    assert made.share < 0.02
    assert len(made.tables) == (1 if odd else 2)


@pytest.mark.parametrize("scale", [0.05, 0.08])
def test_two_tables_have_the_steps_that_one_has_not(scale: float) -> None:
    x = np.arange(-128, 128, dtype=np.float64)
    exact = 255 / (1 + np.exp(-x * scale)) - 128
    wanted = Wanted(x, exact, np.clip(np.rint(exact), -128, 127), np.full_like(x, -128), np.full_like(x, 127))
    made = step_tables(wanted)
    assert made is not None
    assert len(made.tables) == 2
    assert not wanted.wrong(np.sum([lut(x) for lut in made.tables], axis=0)).any()
