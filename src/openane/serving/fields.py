"""Objects of a request body as pydantic models, and what is wrong with one as a `Refusal` that names the field.

`null` stands for an absent field, as it does in OpenAI's API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from openane.serving.refusals import Refusal

SHOWN = 60
CODES = {"int_type": ("invalid_type", "an integer"), "float_type": ("invalid_type", "a number"),
         "string_type": ("invalid_type", "a string"), "bool_type": ("invalid_type", "a boolean"),
         "list_type": ("invalid_type", "an array"), "model_type": ("invalid_type", "an object"),
         "literal_error": ("invalid_value", "expected {expected}"), "extra_forbidden": ("unknown_parameter", ""),
         "missing": ("missing_required_parameter", ""), "too_short": ("empty_array", ""),
         "too_long": ("array_above_max_length", "{max_length}")}
"""Pydantic's code of an error to OpenAI's, and the reason."""


class Body(BaseModel):
    """An object whose fields are all known, and of the type they are declared with: nothing is converted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given  # which is refused as no object
        return {name: value for name, value in given.items() if value is not None or name not in cls.model_fields}


Kind = TypeVar("Kind", bound=Body)


def checked(kind: type[Kind], document: Mapping[str, Any]) -> Kind:
    """The document as a `kind`. Refusal for the first field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        code, reason = CODES.get(first["type"], (first["type"], "{reason}"))
        name = _name(first["loc"], document)
        raise refusal(name, code, reason.format(**first.get("ctx", {})), first["input"]) from None


def refusal(name: str, code: str, reason: str, value: object) -> Refusal:
    """The refusal of a field's value for one of OpenAI's codes."""
    messages = {
        "invalid_type": f"Invalid type for {name!r}: expected {reason}, but got {_kind(value)} instead.",
        "invalid_value": f"Invalid value for {name!r}: {reason}, but got {shown(value)}.",
        "unsupported_value": f"Unsupported value for {name!r}: {reason}.",
        "unknown_parameter": f"Unknown parameter: {shown(name)}.",
        "missing_required_parameter": f"Missing required parameter: you must provide {name!r}.",
        "empty_array": f"Invalid {name!r}: an empty array, but at least one element is needed.",
        "array_above_max_length": f"Invalid {name!r}: an array of at most {reason} elements is taken."}
    return Refusal(messages[code], parameter=name, code=code)


def wrong(code: str, reason: str) -> PydanticCustomError:
    """What a validator raises; see `refusal`."""
    return PydanticCustomError(code, "{reason}", {"reason": reason})


def within(noun: str, low: float, high: float) -> BeforeValidator:
    """Numbers from `low` to `high`; `noun` is what they are called."""
    def check(value: Any) -> Any:
        if isinstance(value, int | float) and not low <= value <= high:
            raise wrong("invalid_value", f"expected {noun} from {low} to {high}")
        return value
    return BeforeValidator(check)


def neutral(reason: str, *values: Any) -> AfterValidator:
    """Only `values`, which ask for nothing; all others are unsupported for `reason`."""
    def check(value: Any) -> Any:
        if not any(value == each and isinstance(value, bool) is isinstance(each, bool) for each in values):
            raise wrong("unsupported_value", reason)
    return AfterValidator(check)


def array_of(element: Callable[[str], object], noun: str) -> BeforeValidator:
    """An array, or a string, of which `element` makes the only one."""
    def array(value: Any) -> Any:
        if not isinstance(value, str | list):
            raise wrong("invalid_type", f"a string or an array of {noun}")
        return tuple(value) if isinstance(value, list) else (element(value),)
    return BeforeValidator(array)


def shown(value: object) -> str:
    """A value in a message: short and printable."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _name(steps: Sequence[int | str], document: Mapping[str, Any]) -> str:
    """A field's name, such as messages[0].role. A string that stands for an array of one has no parts."""
    known = steps[:1] if isinstance(document.get(str(steps[0])), str) else steps
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in known).removeprefix(".")


def _kind(value: object) -> str:
    """JSON's name for the type of a value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a boolean"
    names = {int: "an integer", float: "a number", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)
