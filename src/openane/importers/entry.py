"""One dictionary of a model file (a net.plist unit, an espresso layer) read by key: kinds and bounds are checked, and
what a reader does not know is refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeGuard, TypeVar

import numpy as np

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.importers.step import to_half
from openane.record_classes import dataclass

LARGEST = 2**31 - 1
"""Largest integer a model file may state."""
_SHOWN = 80

Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class DictionaryEntry:
    """`values` is the dictionary, `label` names it in messages. Missing keys take the default given, None meaning
    that there is none. FormatError for a value of the wrong kind or out of bounds."""

    label: str
    values: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def only(self, *known: str) -> None:
        """UnsupportedError when the dictionary has a key that is not one of `known`."""
        for key in self.values:
            if key not in known:
                near = get_close_matches(str(key), known, n=3, cutoff=0.6)
                raise self.refuse(key, self.values[key], f"without it, or {' or '.join(near)}" if near else
                                  f"keys read here: {', '.join(known)}", "this key is not understood")

    def refuse(self, key: object, found: object, remedy: str, rule: str = "this value is not supported"
               ) -> UnsupportedError:
        """The error for a legal value that is not supported: `remedy` is the nearest that would work."""
        return UnsupportedError(f"{self.label}, {key}", rule, found=shown(found), remedy=remedy)

    def malformed(self, key: object, expected: str) -> FormatError:
        """The error for a value that is not what the format asks for."""
        found = shown(self.values[key]) if key in self.values else "nothing"  # type: ignore[index]
        return FormatError(f"{self.label}: {key}", expected=expected, found=found)

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = LARGEST) -> int:
        """An integer within low..high."""
        value = self.values.get(key, default)
        if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.malformed(key, f"an integer from {low} to {high}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or math.isnan(value):
            raise self.malformed(key, "a finite number")
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean, or 0 or 1."""
        value = self.values.get(key, default)
        if not isinstance(value, bool | int) or value not in (0, 1):
            raise self.malformed(key, "true or false")
        return bool(value)

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.malformed(key, "a string")
        return value

    def choice(self, key: str, choices: Mapping[Any, Choice], default: object = None) -> Choice:
        """What `choices` gives for the value. UnsupportedError for one it does not list."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.malformed(key, "a string or a code")
        if value not in choices:
            near = get_close_matches(value, [str(name) for name in choices], n=3) if len(choices) > 8 and \
                isinstance(value, str) else []
            raise self.refuse(key, value, f"one of {', '.join(map(str, near or choices))}")
        return choices[value]

    def texts(self, key: str, default: str | None = None) -> tuple[str, ...]:
        """A string, or a list of them."""
        value = self.values.get(key, default)
        items = (value,) if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item for item in items):
            raise self.malformed(key, "a string or a list of strings")
        return tuple(items)

    def integers(self, key: str, low: int = 0, high: int = LARGEST) -> tuple[int, ...]:
        """An integer, or a list of them."""
        value = self.values.get(key)
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(DictionaryEntry(self.label, {key: item}).integer(key, None, low, high) for item in items)

    def half(self, key: str, default: int | None = None) -> float:
        """A number stated as the 16 bits of its fp16 form, in decimal (a negative one stands for bits 0x8000 up)."""
        bits = self.integer(key, default, -0x8000, 0xFFFF)
        number = float(np.array(bits % 0x10000, np.uint16).view(np.float16))
        if not math.isfinite(number):
            raise self.malformed(key, "the bits of a finite fp16 number")
        return number

    def section(self, key: str, optional: bool = False) -> DictionaryEntry:
        """The dictionary under `key`."""
        value = self.values.get(key, {} if optional else None)
        if not is_table(value):
            raise self.malformed(key, "a dictionary")
        return DictionaryEntry(f"{self.label}, {key}", value)

    def sections(self, key: str) -> Iterator[DictionaryEntry]:
        """The dictionaries of the list under `key`."""
        values = self.values.get(key)
        if not isinstance(values, list | tuple) or not all(map(is_table, values)):
            raise self.malformed(key, "a list of dictionaries")
        yield from (DictionaryEntry(f"{self.label}, {key}[{index}]", value) for index, value in enumerate(values))


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dictionary whose keys are strings: binary property lists can have others."""
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def shown(value: object) -> str:
    """A value in a message: its beginning when it is long. Containers of a file may share parts without end, so only
    short flat lists are spelled out."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | tuple) and len(value) <= 8 and all(isinstance(item, int | float) for item in value):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN - 3]}..."


def halves(array: np.ndarray, label: str) -> np.ndarray:
    """Weights in fp16, the engine's element type. GraphError when one is not finite there."""
    result = to_half(array, f"{label}: one of the weights")
    if not np.isfinite(result).all():
        raise GraphError(f"{label}: weights must be finite")
    return result


def distinct(names: Iterable[str], what: str) -> tuple[str, ...]:
    """The names. GraphError when one comes twice."""
    names = tuple(names)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"{what} must be named once each; found {shown(name)} again")
        seen.add(name)
    return names
