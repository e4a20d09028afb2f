"""In fifty networks one operation is made to overflow or lose its digits: a check names it, and says why."""

from __future__ import annotations

import numpy as np
import pytest
from support.planted import FAULTS, STRUCTURES, Site, inserted, weighted

import openane as ane
from openane.checking import Cause, NumericFault
from openane.checking.causes import ranked

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


def scaled(s: Site, x: ane.graph.Value, factor: float, name: str) -> ane.graph.Value:
    """Numbers times a constant."""
    return s.b.single("mul", x=x, y=np.float16(factor), name=name)


def test_what_is_merged_into_a_sum_and_makes_it_infinite_is_named() -> None:
    s = Site(5)
    x = s.b.single("linear", x=s.b.input("x", "fp16", (6, 32)), weight=s.draw(16, 32), name="sum")
    y = s.b.single("softmax", x=scaled(s, scaled(s, x, 33.3, "larger"), 700.0, "huge"), axis=-1, name="softmax")
    found = ane.check(s.done(y), precision="as-is")
    assert named(found) == "huge"
    assert found.cause is not None
    assert "(it was merged into linear 'sum', whose sums they are)" in found.cause.sentence


def test_small_numbers_that_no_output_shows_are_named_where_nothing_cancels() -> None:
    s = Site(6)
    image = s.b.input("x", "fp16", (1, 8, 6, 6))
    x = s.conv(image, 8, "before")
    bent = s.b.single("leaky_relu", x=scaled(s, x, 2.0 ** -24, "shrunk"), alpha=0.5, name="bent")
    y = s.one("add", scaled(s, bent, 2.0 ** 15, "back"), "output", y=x)
    found = ane.check(s.done(y), precision="as-is")
    assert found.right
    assert named(found) == "shrunk"
    same = s.one("sub", x, "nothing", y=x)
    found = ane.check(s.done(s.one("add", s.one("leaky_relu", same, "bent_nothing", alpha=0.5), "sum_of", y=x)),
                      precision="as-is")
    assert found.cause is None


@pytest.mark.parametrize("precision", ["as-is", "safe"])
def test_scores_too_small_to_matter_to_a_softmax_are_not_named(precision: str) -> None:
    s = Site(7)
    x = s.b.input("x", "fp16", (1, 16, 32))
    weights = {name: s.rng.standard_normal((32, 32)) * size for name, size in
               (("query", 2.0 ** -13), ("key", 2.0 ** -13), ("value", 0.2))}
    query, key, value = (s.b.single("linear", x=x, weight=weight.astype(np.float16), name=name)
                         for name, weight in weights.items())
    scores = s.b.single("matmul", x=query, y=key, transpose_y=True, name="scores")
    shares = s.b.single("softmax", x=scores, axis=-1, name="shares")
    found = ane.check(s.done(s.b.single("matmul", x=shares, y=value, name="mixed")), precision=precision)
    assert found.right
    assert found.cause is None, found.cause
    found = ane.check(s.done(scores), precision=precision)
    assert found.cause is None or named(found) == "scores"
    assert found.right is (found.cause is None)


def fault(name: str, cause: Cause, severity: float, place: int, inherited: float = 0.0) -> NumericFault:
    """One of the faults of a model, whose results are numbered."""
    return NumericFault(name, name, cause, "", "", severity, place, inherited=inherited)


def test_of_several_faults_the_gravest_comes_first_and_before_it_what_leads_to_it() -> None:
    aside, before, gravest = (fault("aside", Cause.PRODUCTS, 0.06, 1), fault("before", Cause.SMALL, 0.05, 2),
                              fault("gravest", Cause.TABLE, 0.12, 3))
    later = fault("later", Cause.TABLE, 1.0, 4)
    assert ranked([aside, before, later], lambda first, second: first is before) == [before, later, aside]
    for led, wanted in ((True, [before, gravest, aside]), (False, [gravest, aside, before])):
        assert ranked([aside, before, gravest], lambda first, second, led=led: led and first is before) == wanted


def test_a_part_of_small_numbers_comes_behind_what_made_their_error() -> None:
    slight, origin, part = (fault("slight", Cause.SMALL, 0.02, 1), fault("origin", Cause.SMALL, 0.2, 2),
                            fault("part", Cause.PART, 1.0, 3))
    assert ranked([slight, origin, part], lambda first, second: first.place < second.place) == [origin, slight, part]
    assert ranked([slight, part], lambda first, second: first.place < second.place) == [part, slight]


def test_an_error_that_no_fault_is_known_of_hides_none() -> None:
    slight, grave = fault("slight", Cause.ADDED, 0.02, 1, 0.6), fault("grave", Cause.SMALL, 0.2, 2, 0.23)
    origin, later = fault("origin", Cause.SMALL, 0.2, 3), fault("later", Cause.TABLE, 0.3, 4, 0.4)
    assert ranked([slight, grave], lambda first, second: first.place < second.place) == [grave, slight]
    assert ranked([origin, later], lambda first, second: first.place < second.place) == [origin, later]
    assert ranked([origin, later], lambda first, second: False) == [later, origin]
