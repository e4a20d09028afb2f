"""Configuration files (TOML), their tables as dataclasses: a mistake is named with its place, and what would pass.

A field's type says what a value may be: int, float, str, bool, a tuple of str or int, or another dataclass. Its
metadata narrow that: `low`, `high`, `choices`.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from openane.errors import FormatError

T = TypeVar("T")
Table = Mapping[str, Any]
WORDS: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}


def read_file(path: Path) -> dict[str, Any]:
    """The tables of a configuration file. FormatError when it is no TOML, with the place of the mistake."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text in UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path} is no TOML: {error}") from None


def within(default: Any = MISSING, *, low: float | None = None, high: float | None = None,
           choices: tuple[str, ...] = ()) -> Any:
    """A dataclass field whose values are limited (limits included); without a default it must be stated."""
    metadata = {"low": low, "high": high, "choices": choices}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def read(kind: type[T], table: object, place: str) -> T:
    """A table as a `kind`. FormatError names the key that is unknown, missing, of another type or out of range."""
    entries = as_table(table, place)
    hints = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for key in entries:
        if key not in known:
            raise FormatError(f"{place} has no key {key!r}; {_suggestion(key, known)}")
    missing = [name for name, each in known.items()
               if name not in entries and each.default is MISSING and each.default_factory is MISSING]
    if missing:
        raise FormatError(f"{place} must state {', '.join(missing)} ({missing[0]} is {_said(hints[missing[0]])})")
    return kind(**{key: value(hints[key], each, f"{place}.{key}" if place else key, known[key])
                   for key, each in entries.items()})


def read_choice(kinds: Mapping[str, type[T]], table: object, place: str) -> T:
    """A table whose `kind` says which dataclass it is. FormatError as `read`."""
    entries = dict(as_table(table, place))
    name = entries.pop("kind", None)
    if not isinstance(name, str) or name not in kinds:
        found = "none is stated" if name is None else f"{name!r} is not one"
        raise FormatError(f"{place}.kind must be one of {', '.join(kinds)}; {found}")
    return read(kinds[name], entries, place)


def as_table(table: object, place: str) -> Table:
    """The table itself. FormatError when it is anything else."""
    if not isinstance(table, Mapping):
        raise FormatError(f"{place} must be a table ([{place}]), not {_named(table)}")
    return table


def value(hint: Any, given: object, place: str, about: Field[Any] | None = None) -> Any:
    """One value checked. FormatError says what it must be."""
    if get_origin(hint) is tuple:
        if not isinstance(given, list):
            raise FormatError(f"{place} must be {_said(hint)}, not {_named(given)}")
        return tuple(value(get_args(hint)[0], each, f"{place}[{i}]") for i, each in enumerate(given))
    number = hint is float and isinstance(given, int) and not isinstance(given, bool)
    if not number and type(given) is not hint:
        raise FormatError(f"{place} must be {_said(hint)}, not {_named(given)}")
    if hint is str and "\0" in str(given):
        raise FormatError(f"{place} must not hold the character NUL")
    if hint is float:
        given = _real(given, place)
    if about is not None:
        _limited(given, place, about.metadata)
    return given


def _real(given: object, place: str) -> float:
    try:
        number = float(given)  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormatError(f"{place} must be a finite number, not {str(given)[:20]}")
    return number


def _limited(given: Any, place: str, limits: Mapping[str, Any]) -> None:
    low, high, choices = limits.get("low"), limits.get("high"), limits.get("choices")
    if choices and given not in choices:
        raise FormatError(f"{place} must be one of {', '.join(choices)}, not {given!r}")
    if (low is not None and given < low) or (high is not None and given > high):
        bounds = [f"{word} {bound:g}" for word, bound in (("at least", low), ("at most", high)) if bound is not None]
        raise FormatError(f"{place} must be {' and '.join(bounds)}, not {str(given)[:40]}")


def _suggestion(key: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"


def _said(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"a list, each element {WORDS.get(get_args(hint)[0], 'a value')}"
    return WORDS.get(hint, "a table")


def _named(given: object) -> str:
    if isinstance(given, Mapping):
        return "a table"
    return f"{type(given).__name__} {given!r}"
