"""Checks of single values of a request body, each of which raises a `Refusal` that names the field.

`null` stands for an absent field, as it does in OpenAI's API.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from openane.serving.refusals import Refusal

MOST_STOPS = 4
LONGEST_STOP = 1024
"""Characters: what is compared after every token."""
SHOWN = 60

Body = Mapping[str, Any]


def shown(value: object) -> str:
    """A value in a message: short and printable."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def wrong_type(name: str, wanted: str, value: object) -> Refusal:
    """A value of a kind the field does not take."""
    return Refusal(f"Invalid type for {name!r}: expected {wanted}, but got {kind(value)} instead.",
                   parameter=name, code="invalid_type")


def wrong_value(name: str, rule: str, value: object) -> Refusal:
    """A value outside what the field takes."""
    return Refusal(f"Invalid value for {name!r}: {rule}, but got {shown(value)}.", parameter=name, code="invalid_value")


def kind(value: object) -> str:
    """JSON's name for the kind of a value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a boolean"
    names = {int: "an integer", float: "a number", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def number(body: Body, name: str, low: float, high: float, default: float) -> float:
    """A number within [low, high]."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(name, "a number", value)
    if not (low <= value <= high and math.isfinite(value)):
        raise wrong_value(name, f"expected a number from {low:g} to {high:g}", value)
    return float(value)


def integer(body: Body, name: str, low: int, high: int) -> int | None:
    """An integer within [low, high], or None."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "an integer", value)
    if not low <= value <= high:
        raise wrong_value(name, f"expected an integer from {low} to {high}", value)
    return value


def boolean(body: Body, name: str) -> bool:
    """A boolean; false where absent."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong_type(name, "a boolean", value)
    return value


def text(value: object, name: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)
    return value


def stop_strings(body: Body) -> tuple[str, ...]:
    """The strings that end an answer: null, one, or up to four; each 1 to 1024 characters long."""
    value = body.get("stop")
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise wrong_type("stop", "a string or an array of strings", value)
    stops = [value] if isinstance(value, str) else value
    if len(stops) > MOST_STOPS:
        raise Refusal(f"Invalid 'stop': at most {MOST_STOPS} strings are taken, but got {len(stops)}.",
                      parameter="stop", code="array_above_max_length")
    for index, stop in enumerate(stops):
        name = "stop" if isinstance(value, str) else f"stop[{index}]"
        if not 1 <= len(text(stop, name)) <= LONGEST_STOP:
            raise Refusal(f"Invalid {name!r}: expected 1 to {LONGEST_STOP} characters, but got {len(stop)}.",
                          parameter=name, code="invalid_value")
    return tuple(stops)
