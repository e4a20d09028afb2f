"""`record_classes.dataclass` beside the library's: the same classes, made by both, behave the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.errors import AneError
from openane.record_classes import dataclass as quick

Decorator = Callable[..., Any]
FORMS = ["frozen", "slots", "eq", "kw_only"]


@cache
def classes(dataclass: Decorator, words: tuple[str, ...]) -> tuple[Any, ...]:
    """Classes with defaults, factories, fields that are not compared, set or printed, a base, and methods of their
    own; the decorator is given those words as true."""
    form = {name: name in words for name in FORMS}

    @dataclass(**form)
    class Plain:
        first: int
        second: object = 2

    @dataclass(**form)
    class Odd:
        one: object
        many: list[int] = dataclasses.field(default_factory=list, hash=False)
        quiet: int = dataclasses.field(default=3, repr=False, compare=False)
        later: int = dataclasses.field(default=5, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "later", self.quiet + 1)

    @dataclass(**form)
    class Derived(Plain):
        third: str = "three"

    @dataclass(**form)
    class Own(Plain):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.first == self.first

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @dataclass(**form)
    class Single:
        only: object

    @dataclass(**form)
    class Empty:
        """Nothing."""

    return Plain, Odd, Derived, Own, Single, Empty


def outcome(function: Callable[[], object]) -> object:
    """What a function gives, or what it raises."""
    try:
        return function()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


NUMBERS = st.lists(st.integers(0, 2), max_size=4)


@given(words=st.sets(st.sampled_from(FORMS)), first=NUMBERS, second=NUMBERS, which=st.integers(0, 5))
def test_records_are_as_the_library_makes_them(words: set[str], first: list[int], second: list[int],
                                               which: int) -> None:
    wanted, found = (behaviour(classes(dataclass, tuple(sorted(words)))[which], first, second)
                     for dataclass in (dataclasses.dataclass, quick))
    assert found == wanted


def behaviour(kind: Any, first: list[int], second: list[int]) -> list[object]:
    """All that can be seen of a class and of two records of it."""
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    seen: list[object] = [names, kind.__match_args__, kind.__dataclass_params__.frozen,
                          outcome(lambda: kind(*first)) == outcome(lambda: kind(*first))]
    made = []
    for numbers in (first, second):
        given = dict(zip(names, ([number] if name == "many" else number for name, number
                                 in zip(names, numbers, strict=False)), strict=False))
        record = outcome(lambda given=given: kind(**given))  # type: ignore[misc]
        if isinstance(record, tuple):
            return [*seen, record]
        made.append(record)
    one, two = made
    seen += [outcome(lambda: one == two), one == one, one != two, one == 3]
    seen += [outcome(lambda: type(hash(one))), kind.__hash__ is None]
    if kind.__eq__ is not object.__eq__:
        seen += [outcome(lambda: hash(one)), repr(one)]
    seen += [dataclasses.astuple(one), dataclasses.astuple(copy.copy(one)), dataclasses.astuple(copy.deepcopy(two)),
             hasattr(one, "__dict__")]
    seen.append(outcome(lambda: setattr(one, names[0], 9) if names else None))
    if hasattr(one, "__dict__"):  # the library's message of one with slots is about `super`
        seen.append(outcome(lambda: setattr(one, "other", 9)))
    seen += [dataclasses.astuple(one), outcome(lambda: delattr(two, names[0]) if names else None)]
    return [*seen, outcome(lambda: dataclasses.astuple(dataclasses.replace(one, **{names[0]: 4}) if names else one)),
            outcome(lambda: kind(nothing=1)), outcome(lambda: kind(*range(9)))]


@quick(frozen=True, slots=True)
class Kept:
    """One that pickle finds."""

    first: int
    second: tuple[int, ...] = ()


def test_records_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(3, (4,)))) == Kept(3, (4,))


def test_the_library_derives_from_a_record() -> None:
    @dataclasses.dataclass(frozen=True)
    class More(Kept):
        third: int = 5

    assert dataclasses.astuple(More(1)) == (1, (), 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        More(1).third = 2  # type: ignore[misc]


def test_a_class_derived_plainly_has_more_attributes() -> None:
    class More(Kept):
        pass

    made = More(1)
    made.other = 3  # type: ignore[attr-defined]
    assert made.other == 3  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.first = 2  # type: ignore[misc]


def test_errors_of_the_first_record_are_those_of_others() -> None:
    @quick(frozen=True)
    class Refusing:
        number: int

        def __post_init__(self) -> None:
            raise AneError("refused")

    for _ in range(2):
        with pytest.raises(AneError, match="refused"):
            Refusing(1)


@pytest.mark.parametrize("words", [(), ("frozen", "slots"), ("kw_only",)])
def test_signatures_are_the_librarys(words: tuple[str, ...]) -> None:
    for wanted, found in zip(classes(dataclasses.dataclass, words), classes(quick, words), strict=True):
        pairs = zip(inspect.signature(wanted).parameters.values(), inspect.signature(found).parameters.values(),
                    strict=True)
        for one, other in pairs:
            assert (one.name, one.kind, one.annotation) == (other.name, other.kind, other.annotation)
            assert repr(one.default) == repr(other.default) or (repr(one.default), other.default) == ("<factory>", ...)
    assert "first" in str(inspect.signature(Kept))


def test_a_class_derived_plainly_has_the_signature_of_its_own_init() -> None:
    class Other(Kept):
        def __init__(self, third: int) -> None:
            super().__init__(third)

    assert list(inspect.signature(Other).parameters) == ["third"]
    assert not hasattr(Kept(1), "__signature__")


def test_fields_without_a_default_come_first() -> None:
    @quick(frozen=True)
    class Wrong:
        first: int = 1
        second: int = dataclasses.field()

    with pytest.raises(TypeError, match="non-default argument 'second' follows default argument"):
        Wrong(1, 2)


def test_classes_alike_keep_their_own_names() -> None:
    @quick(frozen=True, slots=True)
    class Other:
        one: int
        two: tuple[int, ...] = (5,)

    assert (Other(one=1).two, Kept(first=1).second) == ((5,), ())
    assert inspect.signature(Other.__init__) != inspect.signature(Kept.__init__)
    with pytest.raises(TypeError, match="'second'"):
        Other(1, second=2)  # type: ignore[call-arg]
