"""What looks like a normalisation and is none keeps its own numbers; what a norm shares with other readers stays right;
variances, deviations and lengths that are read by themselves hold large and small numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import openane as ane
from openane.compiler import compile
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.passes.order import simplify

SHAPE = (2, 8, 32)
NORMS = {"layer_norm", "rms_norm", "instance_norm"}


class Written(GraphBuilder):
    """Operations by short names, on x of SHAPE."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.input("x", "fp16", SHAPE)

    def of(self, op: str, x: object, y: object = None, **more: object) -> Value:
        """A node of one or two operands."""
        return self.single(op, x=x, **({} if y is None else {"y": y}), **more)

    def mean(self, x: Value, axis: int = 2) -> Value:
        """Over one axis, which stays."""
        return self.single("reduce_mean", x=x, axes=[axis], keep_dims=True)

    def square(self, x: Value) -> Value:
        """x * x."""
        return self.of("mul", x, x)

    def root(self, x: Value, epsilon: float = 1e-3) -> Value:
        """rsqrt(x + epsilon)."""
        return self.of("rsqrt", self.of("add", x, epsilon), epsilon=0.0)


def other_axis(w: Written) -> Value:
    centred = w.of("sub", w.x, w.mean(w.x, 1))
    spread = w.mean(w.square(w.of("sub", w.x, w.mean(w.x, 2))), 2)
    return w.of("mul", centred, w.root(spread))


def large_epsilon_outside(w: Written) -> Value:
    centred = w.of("sub", w.x, w.mean(w.x))
    return w.of("real_div", centred, w.of("add", w.of("sqrt", w.mean(w.square(centred))), 0.5))


def mean_of_another(w: Written) -> Value:
    mean = w.mean(w.of("relu", w.x))
    return w.of("mul", w.of("sub", w.x, mean), w.root(w.mean(w.square(w.of("sub", w.x, w.mean(w.x))))))


def square_not_centred(w: Written) -> Value:
    return w.of("mul", w.of("sub", w.x, w.mean(w.x)), w.root(w.mean(w.square(w.x))))


def not_centred(w: Written) -> Value:
    return w.of("mul", w.x, w.root(w.mean(w.square(w.of("sub", w.x, w.mean(w.x))))))


def wrong_count(w: Written) -> Value:
    total = w.single("reduce_sum", x=w.square(w.x), axes=[2], keep_dims=True)
    variance = w.of("sub", w.of("mul", total, 1 / 30), w.square(w.mean(w.x)))
    return w.of("mul", w.of("sub", w.x, w.mean(w.x)), w.root(w.of("relu", variance)))


def weighted(w: Written) -> Value:
    weights = np.linspace(0.5, 1.5, 32).astype(np.float16)
    spread = w.mean(w.of("mul", w.square(w.x), weights))
    return w.of("mul", w.x, w.root(spread))


def gain_of_one_side(w: Written) -> Value:
    root = w.root(w.mean(w.square(w.of("sub", w.x, w.mean(w.x)))))
    gain = w.of("mul", root, np.linspace(0.5, 1.5, 32).astype(np.float16))
    return w.of("sub", w.of("mul", w.x, gain), w.of("mul", w.mean(w.x), root))


def negative_epsilon(w: Written) -> Value:
    return w.of("mul", w.x, w.of("rsqrt", w.of("relu", w.of("add", w.mean(w.square(w.x)), -0.25)), epsilon=0.1))


def bounded_deviation(w: Written) -> Value:
    centred = w.of("sub", w.x, w.mean(w.x))
    return w.of("real_div", centred, w.of("maximum", w.of("sqrt", w.mean(w.square(centred))), 1.25))


def cube_root(w: Written) -> Value:
    return w.of("mul", w.x, w.of("pow", w.of("add", w.mean(w.square(w.x)), 1e-3), -1 / 3))


def two_spreads(w: Written) -> Value:
    first, second = (w.of("rsqrt", w.mean(w.square(w.x)), epsilon=epsilon) for epsilon in (0.5, 2.0))
    return w.of("mul", w.x, w.of("mul", first, second))


LOOKALIKES = (other_axis, large_epsilon_outside, mean_of_another, square_not_centred, not_centred, wrong_count,
              weighted, gain_of_one_side, negative_epsilon, bounded_deviation, cube_root, two_spreads)


def reduced(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A reduction with the operands MIL has."""
    return lambda x, axes, keep_dims: function(x, axis=tuple(map(int, axes)), keepdims=bool(keep_dims))


def in_float64(graph: Graph, x: np.ndarray) -> dict[str, np.ndarray]:
    """The graph's outputs, each operation as numpy has it."""
    known: dict[int, np.ndarray] = {id(graph.inputs[0]): x.astype(np.float64)}
    functions: dict[str, Callable[..., np.ndarray]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "real_div": np.divide, "maximum": np.maximum,
        "pow": np.power, "sqrt": np.sqrt, "relu": lambda x: np.maximum(x, 0), "square": np.square, "exp": np.exp,
        "log": lambda x, epsilon: np.log(x + epsilon), "rsqrt": lambda x, epsilon: 1 / np.sqrt(x + epsilon),
        "reduce_mean": reduced(np.mean), "reduce_sum": reduced(np.sum),
        "reduce_sum_square": reduced(lambda x, **over: np.square(x).sum(**over)),
        "identity": lambda x: x}
    for node in graph.nodes:
        operands = {name: known[id(value)] if id(value) in known else np.asarray(value.data)
                    for name, value in node.operands.items() if isinstance(value, Value)}
        operands = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in operands.items()}
        first, *rest = ([operands.pop("x"), operands.pop("y")] if "y" in operands else [operands.pop("x")])
        known[id(node.output)] = functions[node.op](first, *rest, **operands)
    return {value.name: known[id(value)] for value in graph.outputs}


@pytest.mark.parametrize("write", LOOKALIKES, ids=lambda write: write.__name__)
def test_what_only_looks_like_a_norm_keeps_its_numbers(write: Callable[[Written], Value]) -> None:
    builder = Written()
    graph = builder.finish({"y": write(builder)})
    left = {node.op for node in simplify(graph).nodes}
    assert not NORMS & left
    x = np.random.default_rng(5).normal(0.5, 1, SHAPE).astype(np.float16)
    found = ane.run(compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    np.testing.assert_allclose(found, in_float64(graph, x)["y"], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("fast", [False, True], ids=["centred", "fast"])
@pytest.mark.parametrize("shared", ["mean", "centred", "variance", "root"])
def test_what_a_norm_shares_with_an_output_stays_right(shared: str, fast: bool) -> None:
    w = Written()
    mean = w.mean(w.x)
    centred = w.of("sub", w.x, mean)
    variance = w.of("sub", w.mean(w.square(w.x)), w.square(mean)) if fast else w.mean(w.square(centred))
    root = w.root(variance)
    values = {"mean": mean, "centred": centred, "variance": variance, "root": root}
    graph = w.finish({"y": w.of("mul", centred, root), "shared": values[shared]})
    assert "layer_norm" in {node.op for node in simplify(graph).nodes}
    x = np.random.default_rng(6).normal(100, 2, SHAPE).astype(np.float16)
    found, wanted = ane.run(compile(graph), {"x": x}, "simulator?arithmetic=exact"), in_float64(graph, x)
    np.testing.assert_allclose(found["shared"], wanted["shared"], rtol=1e-2, atol=0.04)
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-2, atol=0.03)


def deviation(w: Written) -> Value:
    return w.of("sqrt", w.mean(w.square(w.of("sub", w.x, w.mean(w.x)))))


def deviation_of_less(w: Written) -> Value:
    total = w.single("reduce_sum", x=w.square(w.of("sub", w.x, w.mean(w.x))), axes=[2], keep_dims=True)
    return w.of("pow", w.of("real_div", total, 31.0), 0.5)


def deviation_with_epsilon(w: Written) -> Value:
    return w.of("sqrt", w.of("add", w.mean(w.square(w.of("sub", w.x, w.mean(w.x)))), 1e-5))


def length(w: Written) -> Value:
    return w.of("sqrt", w.single("reduce_sum", x=w.square(w.x), axes=[2], keep_dims=False))


def length_of_sum_square(w: Written) -> Value:
    return w.of("sqrt", w.single("reduce_sum_square", x=w.x, axes=[1, 2], keep_dims=True))


def reciprocal_length(w: Written) -> Value:
    return w.of("real_div", 1.0, w.of("sqrt", w.mean(w.square(w.x))))


def standardised_with_a_large_bound(w: Written) -> Value:
    centred = w.of("sub", w.x, w.mean(w.x))
    return w.of("real_div", centred, w.of("maximum", w.of("sqrt", w.mean(w.square(centred))), 0.1767))


def standardised_with_epsilon_outside(w: Written) -> Value:
    centred = w.of("sub", w.x, w.mean(w.x))
    return w.of("real_div", centred, w.of("add", w.of("sqrt", w.mean(w.square(centred))), 1e-5))


ROOTS = (deviation, deviation_of_less, deviation_with_epsilon, length, length_of_sum_square, reciprocal_length,
         standardised_with_a_large_bound, standardised_with_epsilon_outside)


@pytest.mark.parametrize("write", ROOTS, ids=lambda write: write.__name__)
@pytest.mark.parametrize(("low", "high"), [(300.0, 3000.0), (0.5, 2.0), (2e-4, 2e-3)], ids=["large", "usual", "small"])
def test_roots_of_squares_hold_large_and_small_numbers(write: Callable[[Written], Value], low: float,
                                                       high: float) -> None:
    builder = Written()
    graph = builder.finish({"y": write(builder)})
    rng = np.random.default_rng(8)
    x = (rng.choice([-1, 1], SHAPE) * rng.uniform(low, high, SHAPE)).astype(np.float16)
    model, wanted = compile(graph), in_float64(graph, x)["y"]
    for mode in ("fast", "exact"):
        found = ane.run(model, {"x": x}, f"simulator?arithmetic={mode}")["y"].astype(np.float64)
        assert np.abs(found - wanted).max() <= 5e-3 * np.abs(wanted).max()


def variance(w: Written) -> Value:
    return w.of("sub", w.mean(w.square(w.x)), w.square(w.mean(w.x)))


def mean_square(w: Written) -> Value:
    return w.mean(w.square(w.x))


@pytest.mark.parametrize(("write", "offset"), [(variance, 1000.0), (variance, -300.0), (mean_square, 0.0)])
def test_variances_and_mean_squares_of_large_numbers(write: Callable[[Written], Value], offset: float) -> None:
    """Single squares are beyond fp16, their mean, or that of what is left of them, is not."""
    builder = Written()
    graph = builder.finish({"y": write(builder)})
    x = np.random.default_rng(9).normal(offset, 4, SHAPE)
    x[:, :, 3] += 200 if write is mean_square else 0
    x = np.where(np.arange(32) == 5, 900 if write is mean_square else x, x).astype(np.float16)
    found = ane.run(compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    np.testing.assert_allclose(found, in_float64(graph, x)["y"], rtol=1e-2)


@pytest.mark.parametrize("power", [-26, 26])
@pytest.mark.parametrize("centred", [False, True])
def test_norms_whose_gain_or_epsilon_fp16_does_not_hold(power: int, centred: bool) -> None:
    """The mean square times 2^(-2 power), and an epsilon beside that: what is left of it is an epsilon of 1e14 or
    a gain of 2^-26. What follows makes numbers of fp16 of it again."""
    w = Written()
    large = w.x
    for step in (power // 2, power - power // 2):
        large = w.of("mul", large, 2.0 ** step)
    large = w.of("relu", large)
    less = w.of("sub", large, w.mean(large)) if centred else large
    spread = w.mean(w.square(less))
    for _ in range(4):
        spread = w.of("mul", spread, 2.0 ** (-power // 2))
    y = w.of("mul", less, w.root(spread, 0.1))
    for step in (-power // 2, -power - -power // 2):
        y = w.of("mul", y, 2.0 ** step)
    graph = w.finish({"y": y})
    x = np.random.default_rng(9).standard_normal(SHAPE).astype(np.float16)
    model, wanted = compile(graph, samples={"x": x}), in_float64(graph, x)["y"]
    found = ane.run(model, {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    np.testing.assert_allclose(found, wanted, atol=4e-3, rtol=0)


def root_of_products(w: Written, x: Value, y: Value) -> Value:
    """As PyTorch's exporter by TorchScript writes it."""
    squares = [w.single("reduce_sum", x=w.square(value), axes=[2], keep_dims=False) for value in (x, y)]
    return w.of("maximum", w.of("sqrt", w.of("mul", *squares)), 1e-6)


def product_of_roots(w: Written, x: Value, y: Value) -> Value:
    lengths = [w.single("reduce_l2_norm", x=value, axes=[-1], keep_dims=False) for value in (y, x)]
    return w.of("mul", *lengths)


@pytest.mark.parametrize("lengths", [root_of_products, product_of_roots])
@pytest.mark.parametrize(("low", "high"), [(300.0, 3000.0), (0.5, 2.0), (1e-3, 1e-2)], ids=["large", "usual", "small"])
def test_cosines_of_large_and_small_vectors(lengths: Callable[..., Value], low: float, high: float) -> None:
    w = Written()
    other = w.input("other", "fp16", SHAPE)
    product = w.single("reduce_sum", x=w.of("mul", w.x, other), axes=[2], keep_dims=False)
    graph = w.finish({"y": w.of("real_div", product, lengths(w, w.x, other))})
    assert [node.op for node in simplify(graph).nodes].count("rms_norm") == 2
    rng = np.random.default_rng(12)
    x, y = (rng.normal(1, 1, SHAPE) * rng.uniform(low, high, SHAPE) for _ in range(2))
    given = {"x": x.astype(np.float16), "other": y.astype(np.float16)}
    x, y = (array.astype(np.float64) for array in given.values())
    wanted = (x * y).sum(2) / np.sqrt((x * x).sum(2) * (y * y).sum(2))
    found = ane.run(compile(graph), given, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert np.abs(found - wanted).max() <= 2e-3


def test_a_product_by_other_lengths_is_no_cosine() -> None:
    w = Written()
    other = w.input("other", "fp16", SHAPE)
    product = w.single("reduce_sum", x=w.of("mul", w.x, other), axes=[2], keep_dims=False)
    graph = w.finish({"y": w.of("real_div", product, root_of_products(w, w.x, w.x))})
    assert not NORMS & {node.op for node in simplify(graph).nodes}


def test_groups_of_channels_of_volumes() -> None:
    """Six dimensions, of which the engine has five: each operation sees them folded in its own way."""
    builder = GraphBuilder()
    x = builder.single("reshape", x=builder.input("x", "fp16", (2, 3, 4, 4, 8)), shape=[2, 3, 4, 4, 4, 2])
    over = {"axes": [1, 2, 3, 5], "keep_dims": True}
    x = builder.single("sub", x=x, y=builder.single("reduce_mean", x=x, **over))
    squares = builder.single("reduce_mean", x=builder.single("mul", x=x, y=x), **over)
    y = builder.single("real_div", x=x, y=builder.single("sqrt", x=builder.single("add", x=squares, y=1e-3)))
    graph = builder.finish({"y": builder.single("reshape", x=y, shape=[2, 3, 4, 4, 8])})
    assert [node.op for node in simplify(graph).nodes] == ["reshape", "layer_norm", "reshape"]
    given = np.random.default_rng(13).normal(100, 300, (2, 3, 4, 4, 8)).astype(np.float16)
    wide = given.astype(np.float64).reshape(2, 3, 4, 4, 4, 2)
    wide = wide - wide.mean((1, 2, 3, 5), keepdims=True)
    wanted = (wide / np.sqrt(np.square(wide).mean((1, 2, 3, 5), keepdims=True) + 1e-3)).reshape(given.shape)
    found = ane.run(compile(graph), {"x": given}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert np.abs(found - wanted).max() <= 2e-3 * np.abs(wanted).max()
