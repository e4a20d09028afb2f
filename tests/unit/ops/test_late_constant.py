"""Constants that are rounded when somebody asks for them are what they would be had they been rounded at once."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from openane import compile
from openane.compiler.cache import model_key
from openane.graph import Graph, RoundedConstant, Value
from openane.graph.budget import Budget
from openane.graph.graph import without_stated
from openane.ops.build import GraphBuilder
from openane.ops.half_bits import LEAST, to_half
from openane.ops.late_constant import LateConstant, beginning, peak_to_round

SHAPE = (64, 16, 3, 3)


def digits(largest: float = 1.0) -> np.ndarray:
    numbers = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    return numbers * np.float32(largest / np.abs(numbers).max())


def made() -> LateConstant:
    return LateConstant.of("weight", digits())


def convolution(weight: Value) -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 16, 8, 8))
    return builder.finish({"y": builder.single("conv", x=x, weight=weight)})


def test_its_numbers_are_rounded_once_somebody_asks() -> None:
    constant = made()
    assert constant.constant
    assert not constant.asked
    assert constant.array().tobytes() == to_half(digits()).tobytes()
    assert constant.asked
    assert constant.array() is constant.data


def test_it_is_a_constant_with_digits_wherever_it_goes() -> None:
    for other in (replace(made(), name="other"), copy.copy(made()), pickle.loads(pickle.dumps(made()))):
        assert isinstance(other, RoundedConstant)
        assert other.array().tobytes() == to_half(digits()).tobytes()
        assert other.digits().tobytes() == digits().tobytes()


def test_a_graph_is_built_and_checked_without_asking() -> None:
    constant = made()
    graph = convolution(constant)
    graph.verify()
    assert Budget.of(graph).given >= 2 * constant.type.elements
    assert not constant.asked


def test_without_its_digits_it_is_not_rounded_either() -> None:
    constant = made()
    plain = without_stated(convolution(constant)).nodes[0]["weight"]
    assert not isinstance(plain, RoundedConstant)
    assert plain.constant
    assert not constant.asked
    assert plain.array() is constant.array()  # whoever looks for its memory finds it
    assert without_stated(convolution(constant)).nodes[0]["weight"].array() is constant.array()


def test_the_first_numbers_are_known_without_the_others() -> None:
    constant = made()
    assert beginning(constant, 5).tobytes() == to_half(digits()).reshape(-1)[:5].tobytes()
    assert not constant.asked
    constant.array()
    assert beginning(constant, 5).tobytes() == to_half(digits()).reshape(-1)[:5].tobytes()


def test_other_attributes_are_none_it_has() -> None:
    with pytest.raises(AttributeError, match="color"):
        getattr(made(), "color")  # noqa: B009


@pytest.mark.parametrize(("numbers", "later"), [
    (digits(), True), (digits(65519.0), True), (digits(65520.0), False), (-digits(65520.0), False),
    (digits() * np.float32(np.nan), False), (digits().astype(np.float64), False),
    (np.ones(LEAST - 1, np.float32), False),
])
def test_what_fp16_does_not_hold_is_rounded_at_once(numbers: np.ndarray, later: bool) -> None:
    assert (peak_to_round(numbers) is not None) is later


def normalised(weight: Value) -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 16, 8, 8))
    product = builder.single("conv", x=x, weight=weight)
    gain = np.random.default_rng(4).uniform(0.5, 2, 64).astype(np.float16)
    return builder.finish({"y": builder.single("batch_norm", x=product, mean=np.zeros(64, np.float16),
                                               variance=np.ones(64, np.float16), gamma=gain,
                                               beta=np.ones(64, np.float16), epsilon=0.0)})


def test_what_a_gain_is_folded_into_is_never_rounded_by_itself() -> None:
    late, early = made(), made()
    early.array()
    first, second = compile(normalised(late)), compile(normalised(early))
    assert not late.asked
    assert bytes(first.program.constants) == bytes(second.program.constants)
    assert first.patchable is not None
    assert second.patchable is not None
    assert first.patchable.routes == second.patchable.routes
    assert first.graph.nodes[0]["weight"].array().tobytes() == early.array().tobytes()
    assert model_key(normalised(late), "h13", False) == model_key(normalised(early), "h13", False)


@pytest.mark.parametrize("least", [-3.0, 3.0])
def test_the_largest_number_is_known_and_where_it_is(least: float) -> None:
    numbers = digits()
    numbers[5, 2, 1, 0] = least
    constant = LateConstant.of("weight", numbers, peak_to_round(numbers))
    largest, place = constant.peak()
    assert (largest, np.unravel_index(place, SHAPE)) == (3.0, (5, 2, 1, 0))
    assert LateConstant.of("weight", numbers).peak() == constant.peak()
    assert not constant.asked
