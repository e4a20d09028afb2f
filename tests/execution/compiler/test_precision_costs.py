"""What precision="safe" costs: tensors that are held times powers of two take no task where the operation that reads
them can take the power back itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from openane.compiler import compile
from openane.devices import run
from openane.graph import Graph, Value
from openane.importers import load_graph
from openane.importers.onnx.writing import write_onnx
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.smooth import GELU_MODES

SHARES = [("silu", {}), *(("gelu", {"mode": mode}) for mode in GELU_MODES)]
EXPONENTS = (-60, -20, -14, -3, 5, 14, 17, 28, 40)
Inputs = dict[str, np.ndarray]


def half(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float64).astype(np.float16)


def error_and_tasks(graph: Graph, inputs: Inputs, precision: str) -> tuple[float, int]:
    model = compile(graph, precision=precision, samples=inputs, allow_host=False)
    (found,), (wanted,) = run(model, inputs, "simulator?arithmetic=exact").values(), evaluate(graph, inputs).values()
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(found - wanted.astype(np.float64)) / np.linalg.norm(wanted)), \
            sum(len(program.tasks) for program in model.programs)


def attention(size: float, masked: bool, biased: bool) -> Graph:
    """Two rows of heads: projections of weights of a size, scores, a mask of positions, and what they mix."""
    rng, builder = np.random.default_rng(4), GraphBuilder("attention", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", (1, 24, 32))

    def projected(name: str, size: float) -> Value:
        weight = half(rng.standard_normal((32, 32)) * size)
        bias = half(rng.standard_normal(32) * size) if biased else None
        made = builder.single("linear", name, x=x, weight=weight, bias=bias)
        heads = builder.single("reshape", x=made, shape=[1, 24, 2, 16])
        return builder.single("transpose", x=heads, perm=[0, 2, 1, 3])

    query, key, value = projected("query", size), projected("key", size), projected("value", 0.2)
    scores = builder.single("matmul", x=query, y=key, transpose_y=True)
    if masked:
        scores = builder.single("minimum", x=scores, y=half(np.where(np.tri(24) > 0, 65504, -65504)))
    mixed = builder.single("matmul", x=builder.single("softmax", x=scores, axis=-1), y=value)
    return builder.finish({"y": mixed})


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("size", [2.0 ** -9, 2.0 ** -6, 8.0, 64.0])
def test_scores_of_any_size_cost_no_task(size: float, masked: bool, biased: bool) -> None:
    """Scores are made smaller where they leave the range; small ones stay, since only their differences count."""
    graph, inputs = attention(size, masked, biased), {"x": half(np.random.default_rng(8).standard_normal((1, 24, 32)))}
    found, count = error_and_tasks(graph, inputs, "safe")
    before, plain = error_and_tasks(graph, inputs, "as-is")
    assert count <= plain
    assert found < max(2e-3, 1.2 * before if np.isfinite(before) else 0) or size > 1  # where it is decided by rounding
    assert np.isfinite(found)


@pytest.mark.parametrize(("shape", "axis"), [((1, 20, 3, 5), 1), ((2, 6, 40), -1), ((30,), 0)])
@pytest.mark.parametrize("scale", [2.0 ** -10, 0.25, 64.0])
def test_a_softmax_multiplies_differences(shape: tuple[int, ...], axis: int, scale: float, tmp_path: Path) -> None:
    builder = GraphBuilder("scaled")
    x = builder.input("x", "fp16", shape)
    graph = builder.finish({"y": builder.single("softmax", x=x, axis=axis, scale=scale)})
    given = {"x": half(np.random.default_rng(1).standard_normal(shape) / scale * 3)}
    plain = GraphBuilder("plain")
    x = plain.input("x", "fp32", shape)
    wanted, = evaluate(plain.finish({"y": plain.single("softmax", x=x, axis=axis)}),
                       {"x": given["x"].astype(np.float32) * np.float32(scale)}).values()
    np.testing.assert_allclose(evaluate(graph, given)["y"], wanted, atol=1e-6)
    np.testing.assert_allclose(run(compile(graph, precision="as-is"), given, "simulator")["y"], wanted, atol=2e-3)
    write_onnx(graph, tmp_path / "x.onnx", wide=True)
    np.testing.assert_allclose(evaluate(load_graph(tmp_path / "x.onnx"), given)["y"], wanted, atol=1e-3)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize(("function", "settings"), SHARES)
def test_functions_of_what_is_held_times_a_power_of_two(function: str, settings: dict[str, str],
                                                        exponent: int) -> None:
    """As exact as they are of x itself, in three tasks."""
    builder = GraphBuilder("held", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", (1, 4, 16, 16))
    graph = builder.finish({"y": builder.single(function, x=x, exponent=exponent, **settings)})
    given = {"x": half(np.random.default_rng(abs(exponent)).standard_normal((1, 4, 16, 16)) * 8)}
    model = compile(graph, precision="as-is")
    found, wanted = run(model, given, "simulator?arithmetic=exact")["y"].astype(np.float64), evaluate(graph, given)["y"]
    assert np.abs(found - wanted).max() <= 0.0013 * np.abs(given["x"]).max()
    assert len(model.program.tasks) == 3


@pytest.mark.parametrize(("function", "settings"), SHARES)
def test_functions_between_layers_of_small_numbers_cost_no_task(function: str, settings: dict[str, str]) -> None:
    rng, builder = np.random.default_rng(3), GraphBuilder("layers", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", (1, 8, 12, 12))
    y = x
    for number in range(3):
        weight, bias = half(rng.standard_normal((8, 8, 3, 3)) / 256), half(rng.standard_normal(8) / 128 / 32 ** number)
        y = builder.single("conv", x=y, weight=weight, bias=bias, pad=[1] * 4, pad_type="custom", strides=[1, 1])
        y = builder.single(function, x=y, **settings)
    y = builder.single("reduce_mean", x=y, axes=[2, 3], keep_dims=False)
    graph = builder.finish({"y": builder.single("linear", x=y, weight=half(rng.standard_normal((5, 8)) * 2.0 ** 12))})
    inputs = {"x": half(rng.standard_normal((1, 8, 12, 12)))}
    found, count = error_and_tasks(graph, inputs, "safe")
    before, plain = error_and_tasks(graph, inputs, "as-is")
    assert found < 4e-3 < before
    assert count <= plain


def test_a_sum_takes_a_power_back_behind_a_reshape() -> None:
    """The sum multiplies what it reads; no task does it before the reshape, which would be stored once more."""
    rng, builder = np.random.default_rng(6), GraphBuilder("residual")
    x, rest = builder.input("x", "fp16", (1, 256, 64)), builder.input("rest", "fp16", (1, 40, 16, 16))
    y = builder.single("linear", x=x, weight=half(rng.standard_normal((40, 64)) * 2.0 ** -8),
                       bias=half(rng.standard_normal(40) * 2.0 ** -8))
    y = builder.single("transpose", x=builder.single("linear_activation", x=y, alpha=16.0, beta=0.0), perm=[0, 2, 1])
    y = builder.single("reshape", x=y, shape=[1, 40, 16, 16])

    def made(alpha: float) -> int:
        inner = y if alpha == 1 else builder.single("linear_activation", x=y, alpha=alpha, beta=0.0)
        graph = builder.finish([builder.single("add", x=rest, y=inner)])
        return sum(len(program.tasks) for program in compile(graph, precision="as-is").programs)

    assert made(0.0625) == made(1)


def recurrence() -> Graph:
    """States as mamba has them: h = h * decay + u, each read by a product of small results."""
    rng, builder = np.random.default_rng(2), GraphBuilder("recurrence")
    x, mixed = builder.input("x", "fp16", (1, 16, 32)), builder.input("mixed", "fp16", (1, 8, 1))
    inner = builder.single("linear", x=x, weight=half(rng.standard_normal((8, 32)) * 2.0 ** -8))
    decay = builder.single("exp", x=builder.single("linear", x=x, weight=half(rng.standard_normal((8, 32)) * 0.02)))
    small = builder.single("mul", x=mixed, y=2.0 ** -9)
    h, made = builder.single("linear", x=x, weight=half(rng.standard_normal((8, 32)) * 2.0 ** -8)), []
    for _ in range(4):
        h = builder.single("add", x=builder.single("mul", x=h, y=decay), y=inner)
        made.append(builder.single("matmul", x=h, y=small))
    joined = builder.single("concat", values=tuple(made), axis=2)
    back = half(rng.standard_normal((3, 4)) * 2.0 ** 14)
    return builder.finish({"y": builder.single("linear", x=joined, weight=back)})


def faint_branch() -> Graph:
    """What is added is so little that nobody sees its digits."""
    rng, builder = np.random.default_rng(3), GraphBuilder("faint")
    x = builder.input("x", "fp16", (1, 8, 12, 12))
    y = x
    for _ in range(2):
        weight = half(rng.standard_normal((8, 8, 3, 3)) * 2.0 ** -7)
        z = builder.single("conv", x=y, weight=weight, pad=[1] * 4, pad_type="custom", strides=[1, 1])
        z = builder.single("mul", x=builder.single("sub", x=z, y=y), y=half(np.full((1, 8, 1, 1), 2.0 ** -22)))
        y = builder.single("add", x=y, y=z)
    small = half(rng.standard_normal((8, 8, 1, 1)) * 2.0 ** -9)
    y = builder.single("conv", x=y, weight=small, pad_type="valid")
    back = half(rng.standard_normal((4, 8, 1, 1)) * 2.0 ** 6)
    return builder.finish({"y": builder.single("conv", x=y, weight=back, pad_type="valid")})


def faint_output() -> Graph:
    """A result that is an output, and so small that fp16 has few digits of it."""
    rng, builder = np.random.default_rng(5), GraphBuilder("faint_output")
    y = builder.input("x", "fp16", (1, 8, 12, 12))
    for _ in range(3):
        weight = half(rng.standard_normal((8, 8, 3, 3)) * 2.0 ** -8.5)
        y = builder.single("conv", x=y, weight=weight, pad=[1] * 4, pad_type="custom", strides=[1, 1])
        y = builder.single("relu", x=y)
    return builder.finish({"y": y})


@pytest.mark.parametrize(("made", "bound"), [(recurrence, 2e-3), (faint_branch, 2e-3), (faint_output, 0.05)])
def test_neighbours_agree(made: Callable[[], Graph], bound: float) -> None:
    """Exponents are chosen so that no tensor is multiplied between what makes it and what reads it."""
    graph = made()
    rng = np.random.default_rng(9)
    inputs = {value.name: half(rng.standard_normal(value.shape)) for value in graph.inputs}
    found, count = error_and_tasks(graph, inputs, "safe")
    before, plain = error_and_tasks(graph, inputs, "as-is")
    assert found < bound < before
    assert count <= plain


def branches(apart: int, back: int) -> tuple[Graph, Inputs]:
    """Two convolutions, one of results 2^-apart as large as the other's, clamped, joined, and read by one whose weights
    for the smaller ones are 2^back times as large."""
    rng, builder = np.random.default_rng(4), GraphBuilder("branches")
    x = builder.input("x", "fp16", (1, 16, 8, 8))
    parts = []
    for step in (0, -apart):
        weight, bias = (half(rng.standard_normal(shape) * 2.0 ** step) for shape in ((16, 16, 1, 1), (16,)))
        parts.append(builder.single("relu", x=builder.single("conv", x=x, weight=weight, bias=bias)))
    joined = builder.single("max_pool", x=builder.single("concat", values=tuple(parts), axis=1), pad_type="valid",
                            kernel_sizes=[2, 2], strides=[2, 2])
    weight = rng.standard_normal((8, 32, 1, 1)) / 16
    weight[:, 16:] *= 2.0 ** back
    return builder.finish({"y": builder.single("conv", x=joined, weight=half(weight))}), \
        {"x": half(rng.standard_normal((1, 16, 8, 8)))}


@pytest.mark.parametrize(("back", "more"), [(0, 0), (11, 1)], ids=["unseen", "seen"])
def test_digits_of_a_branch_that_nothing_sees_cost_no_task(back: int, more: int) -> None:
    """Beside a branch 2^11 times as large its digits are nothing, unless weights make up for that; then one task takes
    the power back and clamps."""
    graph, inputs = branches(11, back)
    found, count = error_and_tasks(graph, inputs, "safe")
    before, plain = error_and_tasks(graph, inputs, "as-is")
    assert found < 1e-3
    assert count == plain + more
    assert not more or before > 2 * found


def test_a_clamp_behind_a_multiple_is_in_its_task() -> None:
    builder = GraphBuilder("clamped")
    x = builder.input("x", "fp16", (1, 16, 8, 8))
    multiple = builder.single("linear_activation", x=x, alpha=2.0 ** -5, beta=0.0)
    graph = builder.finish({"y": builder.single("relu", x=multiple)})
    inputs = {"x": half(np.random.default_rng(7).standard_normal((1, 16, 8, 8)))}
    assert error_and_tasks(graph, inputs, "as-is") == (0.0, 1)


@pytest.mark.parametrize("size", [2.0 ** -6, 2.0 ** -3])
def test_what_squeeze_and_excitation_multiplies_is_raised_without_a_task(size: float) -> None:
    """The sums of a layer with a bias, its mean, which decides the gate, and the product share an exponent."""
    rng, builder = np.random.default_rng(11), GraphBuilder("gated", {FUNCTIONS: CLOSE})

    def layer(x: Value, channels: int, size: float) -> Value:
        weight = half(rng.standard_normal((channels, x.shape[1], 1, 1)) * size)
        return builder.single("conv", x=x, weight=weight, bias=half(rng.standard_normal(channels) * size / 8))

    small = layer(builder.input("x", "fp16", (1, 16, 12, 12)), 32, size / 16)
    mean = builder.single("reduce_mean", x=small, axes=[2, 3], keep_dims=True)
    squeezed = builder.single("relu", x=layer(mean, 4, 8))
    gate = builder.single("sigmoid", x=layer(squeezed, 32, 1))
    graph = builder.finish({"y": layer(builder.single("mul", x=small, y=gate), 8, 8 / size)})
    inputs = {"x": half(rng.standard_normal((1, 16, 12, 12)))}
    error, tasks = error_and_tasks(graph, inputs, "safe")
    assert tasks == error_and_tasks(graph, inputs, "as-is")[1]
    assert error <= 1.5e-3
