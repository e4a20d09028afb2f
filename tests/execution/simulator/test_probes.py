"""Probe values measured on engines by others, held by programs of our own in exact arithmetic.

Where a probe names a generation it is M1 (h13). Probes nothing explains are in tests/open_fingerprints.txt, and not
here: sums of a row with 4096 and more beside ones, and the worst errors of gelu, atan, sin and cos.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from recipes.operations import engine
from support.h13 import coefficients_at, layout_of

import openane as ane
from openane.chips import get_chip
from openane.cli import main
from openane.engine import Access, CoefficientStream, Convolution, Operation, sources
from openane.ops.build import GraphBuilder
from openane.program import Buffer, Role
from openane.simulator import load_operations
from openane.simulator.arithmetic import direct_conv3x3, matrix_product, winograd_conv3x3
from openane.simulator.arithmetic.candidates import short_row_sums, width_crop
from openane.simulator.rules import RULES, Standing, generations_of, rules_of
from openane.timing import operations_of

INF = np.inf
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def unary(operation: str, values: list[float] | np.ndarray, **settings: Any) -> list[float]:
    """One fp16 operation of a model, compiled and run."""
    x = np.asarray(values, np.float16).reshape(1, -1)
    return engine(lambda b, x: b.single(operation, x=x, **settings), x=x).ravel().tolist()


def binary(operation: str, first: list[float], second: list[float]) -> np.ndarray:
    x, y = (np.float16(values).reshape(1, -1) for values in (first, second))
    return engine(lambda b, x, y: b.single(operation, x=x, y=y), x=x, y=y).ravel()


def linear(x: list[float] | np.ndarray, weight: list[float] | np.ndarray | float = 1.0) -> float:
    """A sum of products as a model's linear layer."""
    row = np.asarray(x, np.float16).reshape(1, -1)
    weights = np.broadcast_to(np.asarray(weight, np.float16), row.shape).copy()
    return float(engine(lambda b, x: b.single("linear", x=x, weight=weights), x=row)[0, 0])


@pytest.mark.parametrize(("values", "expected"), [
    ([1.0] * 16384, 16384), ([1.0] * 8208, 8208), ([1.0] * 2048, 2048), ([1.0] * 2049, 2050),
    ([4094.0] * 8, 32752), ([4096.0] * 8, INF), ([-4096.0] * 8, -INF), ([2048.0] * 16, INF),
    ([0.0] * 64, 0),
])
def test_sums_of_a_linear_layer(values: list[float], expected: float) -> None:
    assert linear(values) == expected


def test_a_partial_sum_beyond_the_range_stays_infinite() -> None:
    assert linear([4096.0] * 8 + [-4096.0] * 4) == INF
    assert linear([-4096.0] * 8 + [4096.0] * 8) == -INF
    assert linear([4096.0] * 4 + [-4096.0] * 4 + [4096.0] * 4) == 16384


def test_products_of_subnormals() -> None:
    tiny = 2.0**-24
    assert linear([tiny] * 16) == 0                 # M1: a sum of subnormals that fp16 could hold is +0
    assert linear([2.0**-17] * 2) == 2.0**-15       # half of 2^-16 counts whole: ties away
    assert linear([2.0**-17 - tiny] * 2) == 0


@pytest.mark.parametrize("operation", ["relu", "abs", "identity"])
def test_subnormals_pass_elementwise_operations(operation: str) -> None:
    subnormals = EVERY[:0x400]
    assert unary(operation, subnormals) == subnormals.tolist()
    np.testing.assert_array_equal(binary("add", subnormals.tolist(), [0.0] * 0x400), subnormals)


def test_one_input_channel_uses_the_whole_range() -> None:
    x = np.float16([[60000, 65504, -60000]]).reshape(1, 1, 1, 3)
    weight = np.ones((1, 1, 1, 1), np.float16)
    made = engine(lambda b, x: b.single("conv", x=x, weight=weight, pad_type="valid", strides=np.int32([1, 1]),
                                        pad=np.int32([0] * 4), dilations=np.int32([1, 1]), groups=np.int32(1)), x=x)
    assert made.ravel().tolist() == [60000, 65504, -60000]


def test_planar_reductions_use_the_whole_range() -> None:
    x = np.float16([[65000, 504], [65504, 32], [30000, 30000]])
    made = engine(lambda b, x: b.single("reduce_sum", x=x, axes=np.int32([-1]), keep_dims=False), x=x)
    assert made.tolist() == [65504, INF, 60000]


def test_elementwise_overflow_is_that_of_fp16() -> None:
    assert binary("mul", [255.875, 256.0, 300.0], [256.0] * 3).tolist() == [65504, INF, INF]
    assert unary("square", [255.9, 256.0]) == [65472, INF]
    assert unary("exp", [11.0859375, 11.09375])[1] == INF
    assert np.isfinite(unary("exp", [11.0859375])[0])


@pytest.mark.parametrize(("operation", "expected", "settings"), [
    ("relu", INF, {}), ("sigmoid", 1, {}), ("tanh", 1, {}), ("erf", 1, {}), ("exp", INF, {}),
])
def test_functions_of_nan(operation: str, expected: float, settings: dict[str, Any]) -> None:
    assert unary(operation, [np.nan], **settings) == [expected]


@pytest.mark.parametrize(("operation", "values", "expected", "settings"), [
    ("sqrt", [-1.0], [0], {}), ("rsqrt", [-1.0, -0.0, 0.0], [0, INF, INF], {"epsilon": np.float16(0)}),
    ("log", [-1.0], [0], {"epsilon": np.float16(0)}), ("inverse", [-0.0], [INF], {"epsilon": np.float16(0)}),
    ("softsign", [INF], [0], {}), ("softmax", [1.0, np.nan, 2.0], [0, 1, 0], {"axis": -1}),
])
def test_undefined_and_signless(operation: str, values: list[float], expected: list[float],
                                settings: dict[str, Any]) -> None:
    found = unary(operation, values, **settings)
    assert found == expected
    assert not np.signbit(found).any()


def test_undefined_results_of_two_operands() -> None:
    assert binary("sub", [INF], [INF]).tolist() == [0]
    assert binary("mul", [0.0, INF], [INF, 0.0]).tolist() == [0, 0]
    assert binary("maximum", [np.nan, 1.0], [1.0, np.nan]).tolist() == [INF, INF]
    assert not np.signbit(binary("add", [-0.0], [0.0])).any()


def test_softplus_of_infinity_as_its_composition() -> None:
    """Measured: +0. The logarithm's table holds 0 at infinity. With 1 in place of 2 it would be read as softplus, which
    is one table here."""
    def build(b: Any, x: Any) -> Any:
        return b.single("log", x=b.single("add", x=b.single("exp", x=x), y=np.float16(2)), epsilon=np.float16(0))

    assert engine(build, x=np.float16([[INF]])).tolist() == [[0]]


@pytest.mark.parametrize(("operation", "worst"), [("sigmoid", 0.0034), ("tanh", 0.0017)])
def test_worst_errors_of_tables(operation: str, worst: float) -> None:
    x = EVERY[np.isfinite(EVERY)]
    wide = np.clip(x.astype(np.float64), -700, 700)
    wanted = {"sigmoid": 1 / (1 + np.exp(-wide)), "tanh": np.tanh(wide)}[operation]
    assert float(np.abs(np.array(unary(operation, x)) - wanted).max()) == pytest.approx(worst, abs=1e-4)


def test_results_do_not_depend_on_batch_or_position() -> None:
    rng = np.random.default_rng(3)
    x, weights = rng.standard_normal((8, 96)).astype(np.float16), rng.standard_normal((24, 96)).astype(np.float16)
    whole = engine(lambda b, x: b.single("linear", x=x, weight=weights), x=x)
    for row in range(8):
        alone = engine(lambda b, x: b.single("linear", x=x, weight=weights), x=x[row:row + 1])
        np.testing.assert_array_equal(whole[row:row + 1], alone)
    np.testing.assert_array_equal(whole, matrix_product(x, weights))


def test_a_runtime_operand_follows_the_same_rule() -> None:
    rng = np.random.default_rng(4)
    x, y = ((rng.standard_normal(shape) * 0.01).astype(np.float16) for shape in ((20, 70), (30, 70)))
    made = engine(lambda b, x, y: b.single("matmul", x=x, y=y, transpose_y=True), x=x, y=y)
    np.testing.assert_array_equal(made, matrix_product(x, y))


def test_a_slice_of_the_width_meets_no_gain() -> None:
    """Measured: 4095 and more becomes infinite in a crop. Here a task reads from inside the rows, or moves them."""
    x = np.float16([[4095, 4094, 5000, 60000, -60000, 65504, 1, 2]])
    begin, size = np.int32([0, 3]), np.int32([1, 3])
    made = engine(lambda b, x: b.single("slice_by_size", x=x, begin=begin, size=size), x=x)
    assert made.tolist() == [[60000, -60000, 65504]]
    builder = GraphBuilder()
    part = builder.single("slice_by_size", x=builder.input("x", "fp16", (1, 256)), begin=np.int32([0, 64]),
                          size=np.int32([1, 128]))
    program = ane.compile(builder.finish({"y": builder.single("relu", x=part)})).programs[0]
    first = sources(operations_of(program)[0])[0]
    assert (first.offset, first.shape[4]) == (64 * 2, 128)


class TestCandidates:
    """Rules that explain probes of short row sums, and the crop nothing was seen to use."""

    @pytest.mark.parametrize("triple", [(1, -1, 0), (1, 0, -1), (0, 1, -1)])
    @pytest.mark.parametrize(("b", "left"), [(1024, 16), (3000, 16), (4090, 16), (4096, 4), (8000, 4), (16000, 4),
                                             (30000, 4)])
    def test_triples(self, b: int, left: int, triple: tuple[int, ...]) -> None:
        row = np.tile([b * sign or 1 for sign in triple], 16).astype(np.float16)
        assert short_row_sums(row) == left

    def test_others(self) -> None:
        assert short_row_sums(np.float16([4096] + [1] * 1024)) == 5116
        assert short_row_sums(np.ones(8208, np.float16)) == 8208
        assert short_row_sums(np.ones(16384, np.float16)) == 16384
        assert short_row_sums(np.ones((2, 2049), np.float16)).tolist() == [2050, 2050]

    def test_the_width_crop(self) -> None:
        finite = EVERY[np.isfinite(EVERY)]
        found = width_crop(finite)
        inside = np.abs(finite) <= 4094
        np.testing.assert_array_equal(found[inside & (np.abs(finite) >= 2**-14)],
                                      finite[inside & (np.abs(finite) >= 2**-14)])
        assert np.isinf(found[np.abs(finite) >= 4095]).all()


class TestGenerations:
    """Where generations differ."""

    SHAPE = (1, 6, 1, 7, 9)

    def run(self, operation: Operation, generation: str, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        source, result = (layout_of(access.shape) for access in (operation.source, operation.result))
        buffers = [Buffer("x", 4, Role.INPUT, source.size), Buffer("y", 5, Role.OUTPUT, result.size)]
        loaded = load_operations([operation], buffers, weights.tobytes(), arithmetic="exact", chip=get_chip(generation))
        np.ndarray(source.shape, np.float16, loaded.buffers["x"].data, 0, source.strides)[...] = x
        loaded.run()
        return np.ndarray(result.shape, np.float16, loaded.buffers["y"].data, 0, result.strides).copy()

    def convolution(self, height: int, width: int, padding: int) -> Convolution:
        c = self.SHAPE[1]
        grown = height + 2 * padding - 2, width + 2 * padding - 2
        source, result = layout_of((1, c, 1, height, width)), layout_of((1, 1, 1, *grown))
        return Convolution(source=Access(slot=4, shape=source.shape, strides=source.strides),
                           result=Access(slot=5, shape=result.shape, strides=result.strides), kernel=(1, 3, 3),
                           padding=(0, padding, padding),
                           coefficients=coefficients_at(1, (CoefficientStream(0, 0, 2 * 9 * c + 20),), lanes=1))

    @pytest.mark.parametrize("width", [8, 9, 3])
    @pytest.mark.parametrize("padding", [0, 1])
    def test_winograd(self, width: int, padding: int) -> None:
        rng = np.random.default_rng(width)
        x = rng.standard_normal((self.SHAPE[1], 7, width)).astype(np.float16)
        weights = rng.standard_normal((1, self.SHAPE[1], 3, 3)).astype(np.float16)
        stored = np.zeros(9 * self.SHAPE[1] + 10, np.float16)
        stored[:weights.size] = weights.reshape(-1)
        operation, cut = self.convolution(7, width, padding), 1 - padding
        found = {name: self.run(operation, name, x[None, :, None], stored)[0, :, 0]
                 for name in ("h13", "h16", "h17", "h18")}
        direct = direct_conv3x3(x, weights)[:, cut:7 - cut, cut:width - cut]
        np.testing.assert_array_equal(found["h13"], direct)
        np.testing.assert_array_equal(found["h16"], direct)
        shifted = np.pad(x, ((0, 0), (0, 0), (cut, 0)))  # so that pairs of columns begin with the first output
        paired = winograd_conv3x3(shifted, weights)[:, cut:7 - cut, 2 * cut:width]
        np.testing.assert_array_equal(found["h17"], paired)
        np.testing.assert_array_equal(found["h18"], paired)
        assert (paired != direct).any()

    def test_rules_are_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["chips", "m5", "--arithmetic", "--json"]) == 0
        rules = {rule["name"]: rule for rule in json.loads(capsys.readouterr().out)}
        assert set(rules) == {rule.name for rule in rules_of("h17")}
        assert rules["winograd"]["applied"]
        assert not rules["tiles-of-four"]["applied"]
        assert main(["chips", "--arithmetic"]) == 0
        text = capsys.readouterr().out
        for rule in RULES:
            assert f"{rule.name}  [{rule.standing}" in text

    def test_every_rule_says_how_it_is_known(self) -> None:
        assert len({rule.name for rule in RULES}) == len(RULES)
        assert all(rule.statement and rule.evidence and generations_of(rule) for rule in RULES)
        assert {rule.standing for rule in RULES} <= set(Standing)
        assert "winograd" in {rule.name for rule in rules_of("h17")} - {rule.name for rule in rules_of("h16")}
        assert {rule.name for rule in rules_of("h13")} - {rule.name for rule in rules_of("h15")} == {"width-crop-gain"}
