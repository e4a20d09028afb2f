"""Immediate values of MIL text: scalars, strings and nested lists, checked against their declared type.

Floats are C hexadecimal floats as Apple's tools print them, or decimal. A hexadecimal integer where a float is wanted
is its bit pattern, which is also how NaNs keep their payload.
"""

from __future__ import annotations

import numpy as np

from openane.errors import UnsupportedError
from openane.graph.mil.lexer import Cursor, Places
from openane.graph.types import NUMPY_TYPES, TensorType, limits
from openane.record_classes import dataclass

_WORDS = ("true", "false", "inf", "nan")


@dataclass(slots=True)
class Literal:
    """An immediate value: element texts in row-major order and the lengths of the nested lists they stood in."""

    type: TensorType
    elements: list[str]
    nesting: tuple[int, ...]
    position: int

    def text(self, places: Places) -> str:
        """The value of a string literal. FormatError for anything else."""
        if self.type.dtype != "string" or self.nesting or len(self.elements) != 1:
            places.fail("not a string", expected='string("...")', found=self.type, position=self.position)
        return self.elements[0]

    def array(self, places: Places) -> np.ndarray:
        """The value as a read-only array of exactly the declared type. FormatError when count, nesting or an element
        does not fit; UnsupportedError for element types no array holds."""
        dtype = NUMPY_TYPES.get(self.type.dtype)
        if dtype is None:
            raise UnsupportedError(f"constant {self.type} ({places.place(self.position)})",
                                   "there is no array of this element type", found=self.type.dtype,
                                   remedy="store it as fp16, int8 or uint8")
        shape = self.type.shape
        bare = not self.nesting and self.type.elements == 1  # `tensor<int32, [1]>(-1)` is written too
        visible = shape[:shape.index(0) + 1] if 0 in shape else shape  # an empty list shows nothing within
        if self.nesting != visible and not bare:
            places.fail(f"literal does not have the shape of {self.type}", expected=list(shape),
                        found=list(self.nesting), position=self.position)
        array = self._convert(dtype, places).reshape(shape)
        array.flags.writeable = False
        return array

    def _convert(self, dtype: np.dtype[np.generic], places: Places) -> np.ndarray:
        try:
            if dtype.kind in "fb":
                return (_floats if dtype.kind == "f" else _booleans)(self.elements, dtype)
            return _integers(self.elements, dtype, *limits(self.type.dtype))
        except (ValueError, OverflowError) as error:
            places.fail(f"an element is no {self.type.dtype}: {error}", position=self.position)


def parse_literal(cursor: Cursor, declared: TensorType, position: int) -> Literal:
    """Reads the inside of `TYPE(...)`: a scalar or nested lists. FormatError for ragged lists and for more elements
    than `declared` has."""
    flat: list[str] = []
    nesting = _collect(cursor, flat, declared.elements)
    return Literal(declared, flat, nesting, position)


def _collect(cursor: Cursor, flat: list[str], limit: int) -> tuple[int, ...]:
    if len(flat) > limit:
        cursor.fail("literal has more elements than its type", expected=limit, found="more")
    if not cursor.at("["):
        flat.append(_scalar(cursor))
        return ()
    run = cursor.run()
    if run is not None:
        flat += run
        return (len(run),)
    with cursor.nested():
        cursor.advance()
        inner: tuple[int, ...] | None = None
        count = 0
        for _ in cursor.separated("]"):
            shape = _collect(cursor, flat, limit)
            if inner is not None and shape != inner:
                cursor.fail("lists of different shapes side by side", expected=list(inner), found=list(shape))
            inner, count = shape, count + 1
    return (count, *(inner or ()))


def _scalar(cursor: Cursor) -> str:
    typed = cursor.token.kind == "name" and cursor.next.text == "("  # an element with its own type: fp16(0x1p-1)
    if typed:
        cursor.advance()
        cursor.advance()
    if cursor.token.kind != "number" and cursor.token.text not in _WORDS:
        cursor.fail("not an element", expected="a number, true or false", found=repr(cursor.token.text[:40]))
    text = cursor.advance().text
    if typed:
        cursor.expect(")")
    return text


def _floats(texts: list[str], dtype: np.dtype[np.generic]) -> np.ndarray:
    patterns = [index for index, text in enumerate(texts) if "x" in text.lower() and "p" not in text.lower()]
    chosen = set(patterns)
    values = np.array([0.0 if index in chosen else _float(text) for index, text in enumerate(texts)], np.float64)
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    overflow = np.isinf(result) & ~np.isinf(values)
    if overflow.any():
        raise ValueError(f"{texts[int(np.argmax(overflow))].strip()} is beyond its largest finite value")
    if patterns:
        bits = f"u{dtype.itemsize}"
        result.view(bits)[patterns] = _integers([texts[index] for index in patterns], np.dtype(bits),
                                                0, int(np.iinfo(bits).max))
    return result


def _float(text: str) -> float:
    value = float.fromhex(text) if "x" in text.lower() else float(text)
    if value in (np.inf, -np.inf) and "inf" not in text.lower():
        raise ValueError(f"{text.strip()} is beyond its largest finite value")
    return value


def _integers(texts: list[str], dtype: np.dtype[np.generic], low: int, high: int) -> np.ndarray:
    values = [int(text, 16) if "x" in text.lower() else int(text) for text in texts]
    if values and not (low <= min(values) and max(values) <= high):
        raise ValueError(f"{min(values)}..{max(values)} is outside {low}..{high}")
    return np.array(values, dtype)


def _booleans(texts: list[str], dtype: np.dtype[np.generic]) -> np.ndarray:
    wrong = [text for text in texts if text not in ("true", "false")]
    if wrong:
        raise ValueError(f"{wrong[0].strip()} is neither true nor false")
    return np.array([text == "true" for text in texts], dtype)
