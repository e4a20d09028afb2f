"""Norms of rows of whole steps are the steps of their results that fp64 finds, but as good as in the middle of two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.quantisation import quantised, stated, steps

import openane as ane
from openane.compiler.precision import with_functions
from openane.graph import Graph, Value
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.rounding import WHOLE
from openane.passes.order import simplify

STEP, RESULT, ZERO = 0.0371, 0.0253, 121
CLEAR = 2.0 ** -9
"""By how much of a step a result may be from the middle between two and be the other one."""
Norm = Callable[[GraphBuilder, Value], Value]


def normal(x: np.ndarray, axes: tuple[int, ...], epsilon: float, centred: bool = True) -> np.ndarray:
    less = x - x.mean(axes, keepdims=True) if centred else x
    return np.asarray(less / np.sqrt(np.square(less).mean(axes, keepdims=True) + epsilon))


def right(found: np.ndarray, exact: np.ndarray) -> None:
    """Steps that were found are the nearest, where one is clearly nearest."""
    clear = np.abs(exact % 1 - 0.5) > CLEAR
    assert clear.mean() > 0.98
    assert np.array_equal(found[clear], np.rint(exact)[clear])
    assert np.abs(found - exact).max() < 0.5 + CLEAR


@pytest.mark.parametrize("spread", ["number", "rows", "elements"])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("rows", "extent"), [(1, 2000), (7, 33), (40, 64)])
def test_rows_of_whole_numbers(rows: int, extent: int, centred: bool, spread: str) -> None:
    """Rows of all deviations and means, and among them such as hold one number alone."""
    rng = np.random.default_rng(extent)
    shape = {"number": (1, 1, 1), "rows": (rows, 1, 1), "elements": (1, 1, extent)}[spread]
    gain, offset = rng.uniform(-45, 45, shape).astype(np.float32), (rng.standard_normal(shape) * 20).astype(np.float32)
    builder = GraphBuilder("rows")
    x = builder.input("x", "fp16", (rows, 1, extent))
    graph = builder.finish({"y": builder.single("whole_norm", x=x, gain=stated(gain), offset=stated(offset),
                                                epsilon=0.02, centred=centred)})
    sizes, means = rng.uniform(3, 50, (rows, 1, 1)), rng.uniform(-90, 90, (rows, 1, 1))
    numbers = np.clip(np.rint(rng.standard_normal((rows, 1, extent)) * sizes + means), -255, 255)
    if rows > 1:
        numbers[0] = numbers[0, 0, 0]
    found = ane.run(ane.compile(graph), {"x": numbers.astype(np.float16)}, "simulator?arithmetic=exact")["y"]
    right(found.astype(np.float64) - WHOLE, normal(numbers, (2,), 0.02, centred) * gain + offset)


def between(norm: Norm, shape: tuple[int, ...]) -> Graph:
    """A norm of a quantised input, quantised."""
    builder = GraphBuilder("between", {FUNCTIONS: CLOSE})
    x = quantised(builder, builder.input("x", "fp16", shape), STEP, ZERO, 0, 255)
    return builder.finish({"y": quantised(builder, norm(builder, x), RESULT, 128, 0, 255)})


def compared(graph: Graph, exact: Callable[[np.ndarray], np.ndarray]) -> None:
    [given] = graph.inputs
    x = np.random.default_rng(5).standard_normal(given.shape).astype(np.float16)
    found = ane.run(ane.compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    wanted = exact(steps(x, STEP, ZERO, 0, 255)) / np.float32(RESULT)
    right(np.rint(found / np.float32(RESULT)), np.clip(wanted, -128, 127))


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("axes", [(-1,), (1, 2)])
def test_norms_of_rows(op: str, axes: tuple[int, ...]) -> None:
    shape = (6, 5, 24)
    rng = np.random.default_rng(3)
    gamma = rng.uniform(0.5, 1.5, shape[-len(axes):]).astype(np.float32)
    beta = {"beta": stated(rng.standard_normal(gamma.shape))} if op == "layer_norm" else {}
    graph = between(lambda builder, x: builder.single(op, x=x, axes=list(axes), epsilon=1e-3, gamma=stated(gamma),
                                                      **beta), shape)
    assert "whole_norm" in [node.op for node in simplify(graph).nodes]
    compared(graph, lambda x: normal(x, axes, 1e-3 / STEP ** 2, op == "layer_norm") * gamma
             + (beta["beta"].stated if beta else 0))


@pytest.mark.parametrize("shape", [(1, 6, 8, 8), (2, 5, 31), (3, 4, 5, 7)])
def test_instance_norms(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    gamma, beta = rng.uniform(0.5, 1.5, shape[1]).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32)
    graph = between(lambda builder, x: builder.single("instance_norm", x=x, gamma=stated(gamma), beta=stated(beta),
                                                      epsilon=1e-5), shape)
    assert "whole_norm" in [node.op for node in simplify(graph).nodes]
    across = (-1, *(1,) * (len(shape) - 2))
    compared(graph, lambda x: normal(x, tuple(range(2, x.ndim)), 1e-5 / STEP ** 2) * gamma.reshape(across)
             + beta.reshape(across))


@pytest.mark.parametrize("centred", [True, False])
def test_variances_and_mean_squares(centred: bool) -> None:
    def square(builder: GraphBuilder, x: Value) -> Value:
        less = builder.single("sub", x=x, y=builder.single("reduce_mean", x=x, axes=[-1], keep_dims=True)) \
            if centred else x
        return builder.single("reduce_mean", x=builder.single("square", x=less), axes=[-1], keep_dims=True)

    graph = between(square, (400, 48))
    assert "whole_spread" in [node.op for node in simplify(graph).nodes]
    compared(graph, lambda x: np.square((x - x.mean(1, keepdims=True) * centred) * STEP).mean(1, keepdims=True))


@pytest.mark.parametrize("centred", [True, False])
def test_quotients_by_the_root_of_steps(centred: bool) -> None:
    """One to a row; where it is 0, the largest and the least step."""
    builder, spread = GraphBuilder("quotient", {FUNCTIONS: CLOSE}), np.float32(0.0153)
    x = quantised(builder, builder.input("x", "fp16", (256, 40)), STEP, ZERO, 0, 255)
    v = quantised(builder, builder.input("v", "fp16", (256, 1)), float(spread), 0, 0, 255)
    less = builder.single("sub", x=x, y=builder.single("reduce_mean", x=x, axes=[-1], keep_dims=True)) if centred else x
    made = builder.single("real_div", x=less, y=builder.single("sqrt", x=v))
    graph = builder.finish({"y": quantised(builder, made, RESULT, 128, 0, 255)})
    assert "whole_norm" in [node.op for node in simplify(graph).nodes]
    whole = np.arange(256)[:, None]
    given = {"x": np.random.default_rng(5).standard_normal((256, 40)).astype(np.float16),
             "v": (whole * spread).astype(np.float16)}
    found = ane.run(ane.compile(graph), given, "simulator?arithmetic=exact")["y"].astype(np.float64)
    numbers = steps(given["x"], STEP, ZERO, 0, 255) * np.float64(np.float32(STEP))
    numbers = numbers - numbers.mean(1, keepdims=True) * centred
    right(np.rint(found / np.float32(RESULT))[1:],
          np.clip(numbers[1:] / np.sqrt(whole[1:] * np.float64(spread)) / np.float32(RESULT), -128, 127))
    zero = np.rint(found[0] / np.float32(RESULT))
    assert np.array_equal(zero[numbers[0] != 0], np.where(numbers[0] > 0, 127, -128)[numbers[0] != 0])


def test_a_norm_that_something_else_reads_stays() -> None:
    builder = GraphBuilder("twice", {FUNCTIONS: CLOSE})
    x = quantised(builder, builder.input("x", "fp16", (4, 32)), STEP, ZERO, 0, 255)
    made = builder.single("layer_norm", x=x, axes=[-1])
    twice = builder.finish({"y": quantised(builder, made, RESULT, 128, 0, 255), "z": made})
    assert "layer_norm" in (found := [node.op for node in simplify(twice).nodes])
    assert "whole_norm" not in found


def test_where_functions_need_not_be_close_norms_are_not_exact() -> None:
    """They take a fraction of the tasks, and `fast` asks for that."""
    graph = between(lambda builder, x: builder.single("layer_norm", x=x, axes=[-1], epsilon=1e-5), (6, 24))
    close, fast = (with_functions(graph, precision) for precision in ("safe", "fast"))
    assert "whole_norm" in [node.op for node in simplify(close).nodes]
    assert "whole_norm" not in [node.op for node in simplify(fast).nodes]
    close_tasks, fast_tasks = (sum(len(program.tasks) for program in ane.compile(each).programs)
                               for each in (close, fast))
    assert fast_tasks < close_tasks / 2
