"""In fifty networks one operation is made to overflow or lose its digits: a check names it, and says why."""

from __future__ import annotations

import numpy as np
import pytest
from support.planted import FAULTS, STRUCTURES, Site, inserted, weighted

import openane as ane
from openane.checking import Cause

LOUD = {Cause.SUM, Cause.STORED}
QUIET = {Cause.PRODUCTS, Cause.SMALL, Cause.OFFSET, Cause.CANCELLATION}


def named(checked: ane.checking.Checked) -> str:
    """The name in the label of the first cause."""
    assert checked.cause is not None, "nothing is named"
    return checked.cause.operation.split("'")[1]


@pytest.mark.parametrize("seed", range(3 * len(STRUCTURES)))
def test_a_weight_of_another_size_is_named(seed: int) -> None:
    planted = weighted(seed)
    found = ane.check(planted.graph, precision="as-is")
    assert named(found) == planted.operation
    assert found.cause is not None
    assert found.cause.cause in (LOUD if seed // len(STRUCTURES) % 2 else QUIET)


@pytest.mark.parametrize("number", range(2 * len(FAULTS)))
def test_an_operation_that_is_given_what_it_cannot_hold_is_named(number: int) -> None:
    planted = inserted(number)
    found = ane.check(planted.graph, precision="as-is")
    assert not found.right
    assert named(found) == planted.operation


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda each: each.__name__)
def test_nothing_is_named_where_nothing_is_planted(structure: object) -> None:
    found = ane.check(structure(Site(1)), precision="as-is")  # type: ignore[operator]
    assert found.right, found.outputs
    assert found.cause is None, found.cause


def test_an_operation_that_loses_digits_is_named_before_one_that_loses_more_for_its_sake() -> None:
    s = Site(3)
    x = s.one("relu", s.linear(s.b.input("x", "fp16", (6, 32)), 32, "before"), "positive")
    tiny = s.b.single("linear", x=x, weight=(s.rng.standard_normal((32, 32)) * 2.0 ** -15).astype(np.float16),
                      name="shrinking")
    y = s.b.single("linear", x=tiny, weight=s.draw(16, 32), bias=np.ones(16, np.float16), name="behind")
    found = ane.check(s.done(y), precision="as-is")
    assert named(found) == "shrinking"
    assert found.faults[1].operation.split("'")[1] == "behind"
    assert found.faults[0].severity < found.faults[1].severity
