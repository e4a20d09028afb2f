"""Types, constants and attributes of StableHLO text."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from openane.errors import UnsupportedError
from openane.importers.stablehlo.lexer import StableCursor

ELEMENTS: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64), "f32": np.dtype(np.float32), "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.float32), "i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "ui8": np.dtype(np.uint8), "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32), "ui64": np.dtype(np.uint64),
}
"""Element types that are read, and what computes with constants of them; numbers of bf16 are exact in fp32."""

_TENSOR = re.compile(r"tensor<((?:(?:[0-9]{1,12}|\?)x)*)([a-z]+[0-9]+)(?:,.*)?>", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]{1,16}|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|true|false)\Z")
_HEX = re.compile(r'"0x((?:[0-9a-fA-F]{2})*)"\Z')
_LONGEST = 64
"""Most digits of a number that is no constant's."""


class StableType(NamedTuple):
    """The type of a tensor: its element type as the text names it, and its shape."""

    element: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """What computes with constants of the type."""
        return ELEMENTS[self.element]


class Dense(NamedTuple):
    """A constant: an array as large as what is written, of extents 1 throughout where one number stands for all."""

    array: np.ndarray
    type: StableType


_REMEDIES = {
    "complex<": "keep real and imaginary parts apart: a Fourier transform is two products, with a matrix of cosines "
                "and one of sines",
    "xindex>": "matrices are factorised (svd, qr, cholesky, eigh, lu, inv, solve) by a library for the host: do it "
               "there, before or behind the model, as iterations that converge need more than fp16",
}
"""What to do about types, by a part of them."""


def read_type(cursor: StableCursor) -> StableType:
    """Takes the type of a tensor. FormatError when something else is there, UnsupportedError for element types nobody
    computes with and for shapes that are not fixed."""
    position = cursor.token.position
    text = cursor.kind("type")
    match = _TENSOR.match(text)
    if match is None or match.group(2) not in ELEMENTS:
        raise UnsupportedError(cursor.source(position), "this type of tensor is not supported", found=text[:80],
                               remedy=next((remedy for word, remedy in _REMEDIES.items() if word in text),
                                           f"elements of {', '.join(ELEMENTS)}"))
    extents = match.group(1).split("x")[:-1]
    if "?" in extents:
        raise UnsupportedError(cursor.source(position), "every dimension has a fixed size when the model is compiled",
                               found=text[:80], remedy="export the function for arguments of fixed shapes")
    return StableType(match.group(2), tuple(map(int, extents)))


def read_types(cursor: StableCursor) -> tuple[StableType, ...]:
    """Takes a type, a list of them, or such a list in brackets."""
    if cursor.accept("("):
        return tuple(read_type(cursor) for _ in cursor.separated(")"))
    found = [read_type(cursor)]
    while cursor.accept(","):
        found.append(read_type(cursor))
    return tuple(found)


def read_dense(cursor: StableCursor) -> Dense:
    """Takes `dense<...> : tensor<...>`. FormatError where numbers and type do not fit."""
    position = cursor.token.position
    text = cursor.kind("dense")[len("dense<"):-1].strip()
    cursor.expect(":")
    kind = read_type(cursor)
    count = prod(kind.shape)
    array = _bytes(text, kind, cursor, position) if text.startswith('"') else _numbers(text, kind, cursor, position)
    if array.size == 1:
        return Dense(array.reshape((1,) * len(kind.shape)), kind)
    if array.size != count:
        cursor.fail("a constant has another number of elements than its type", expected=count, found=array.size,
                    position=position)
    return Dense(array.reshape(kind.shape), kind)


def _bytes(text: str, kind: StableType, cursor: StableCursor, position: int) -> np.ndarray:
    """Elements written as the bytes they have in memory."""
    match = _HEX.match(text)
    size = 2 if kind.element == "bf16" else kind.dtype.itemsize
    raw = bytes.fromhex(match.group(1)) if match else b""
    if match is None or len(raw) % size:
        cursor.fail("a constant is not written in bytes", expected=f'"0x", then {size} bytes an element',
                    found=text[:40], position=position)
    if kind.element == "i1":
        return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little", count=None if len(raw) == 1 else
                             min(prod(kind.shape), 8 * len(raw))).astype(np.bool_)[:prod(kind.shape)]
    if kind.element == "bf16":
        return _bfloat(np.frombuffer(raw, "<u2"))
    return np.frombuffer(raw, kind.dtype.newbyteorder("<")).astype(kind.dtype)


def _bfloat(bits: np.ndarray) -> np.ndarray:
    """Numbers of bf16 by their bits: the upper half of a number of fp32."""
    return (bits.astype(np.uint32) * np.uint32(65536)).view(np.float32)


def _numbers(text: str, kind: StableType, cursor: StableCursor, position: int) -> np.ndarray:
    """Elements written as numbers, in the brackets their shape asks for."""
    items = re.sub(r"[\[\]\s]", "", text).split(",") if text else []
    for item in items:
        if len(item) > _LONGEST or not _NUMBER.match(item):
            cursor.fail("a constant holds what is no number", found=item[:40], position=position)
    nested = text.startswith("[")
    if (nested and (len(items) != prod(kind.shape) or
                   re.sub(r"[^\[\],]", "", text) != _brackets(kind.shape))) or (not nested and len(items) > 1):
        cursor.fail("a constant is not written in the shape of its type", expected=list(kind.shape),
                    found=text[:40], position=position)
    try:
        return np.array([_number(item, kind) for item in items], kind.dtype)
    except (OverflowError, ValueError):
        cursor.fail("a constant holds a number outside its type", expected=kind.element, found=text[:40],
                    position=position)


def _brackets(shape: tuple[int, ...]) -> str:
    """The brackets and commas a constant of a shape is written with."""
    text = ""
    for extent in reversed(shape):
        text = f"[{','.join([text] * extent)}]"
    return text


def _number(item: str, kind: StableType) -> Any:
    if item in ("true", "false"):
        return item == "true"
    if "0x" not in item:
        return (float if kind.dtype.kind == "f" else int)(item)
    bits = int(item, 16)
    if kind.dtype.kind != "f":
        return bits
    if kind.element == "bf16":
        return _bfloat(np.array([bits], np.uint16))[0]
    return np.array([bits], f"u{kind.dtype.itemsize}").view(kind.dtype)[0]


def read_value(cursor: StableCursor) -> Any:
    """Takes the value of an attribute: numbers, texts, names, lists (of lists, where one begins behind another),
    tables, arrays. FormatError for what is none."""
    with cursor.nested():
        return _value(cursor)


def _value(cursor: StableCursor) -> Any:
    kind = cursor.token.kind
    if kind == "string":
        return cursor.advance().text[1:-1]
    if (kind == "alias" and cursor.next.text == "<") or cursor.at("array"):
        cursor.advance()
    readers: dict[str, Callable[[StableCursor], Any]] = {
        "[": _lists, "{": read_table, "<": _angled, "dense": read_dense, "number": _plain}
    reader = readers.get(cursor.token.text if cursor.token.kind == "mark" else cursor.token.kind)
    if reader is not None:
        return reader(cursor)
    if kind not in ("name", "symbol", "alias", "type"):
        cursor.fail("no value begins here", found=repr(cursor.token.text[:40]))
    text = cursor.advance().text
    return {"true": True, "false": False}.get(text, text)


def read_table(cursor: StableCursor, closing: str = "}") -> dict[str, Any]:
    """Takes `{name = value, ...}`, or what is left of it; a name alone is true."""
    if closing == "}":
        cursor.expect("{")
    found: dict[str, Any] = {}
    for _ in cursor.separated(closing):
        name = cursor.advance().text.strip('"') if cursor.token.kind == "string" else cursor.name("a name")
        found[name] = read_value(cursor) if cursor.accept("=") else True
    return found


def _plain(cursor: StableCursor) -> Any:
    """A number, of whatever type is stated behind it."""
    text = cursor.kind("number")
    if len(text) > _LONGEST:
        cursor.fail("number too long", expected=f"at most {_LONGEST} characters", found=len(text))
    if cursor.at(":") and cursor.next.kind == "name":
        cursor.advance()
        cursor.advance()
    return int(text, 0 if "x" in text else 10) if re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|[0-9]+)", text) else float(text)


def _lists(cursor: StableCursor) -> list[Any]:
    """A list, or those of `[...]x[...]->[...]` in one. Items may be ranges, `begin:end:step`."""
    first = _list(cursor)
    if not (cursor.next.text == "[" and (cursor.at("x") or cursor.at("->"))):
        return first
    found = [first]
    while cursor.next.text == "[" and (cursor.accept("x") or cursor.accept("->")):
        found.append(_list(cursor))
    return found


def _list(cursor: StableCursor) -> list[Any]:
    cursor.expect("[")
    found = []
    for _ in cursor.separated("]"):
        item = read_value(cursor)
        if cursor.at(":"):
            item = [item]
            while cursor.accept(":"):
                item.append(_plain(cursor))
        found.append(item)
    return found


def _angled(cursor: StableCursor) -> Any:
    """What stands in `<...>`: a table, the numbers of an array, or the last of several words."""
    cursor.expect("<")
    if cursor.at("{"):
        table = read_table(cursor)
        cursor.expect(">")
        return table
    if cursor.token.kind == "name" and cursor.next.text == "=":
        return read_table(cursor, ">")
    if cursor.token.kind == "name" and cursor.next.text in (":", ">"):
        cursor.advance()
        if cursor.accept(">"):
            return []
        cursor.expect(":")
        return [read_value(cursor) for _ in cursor.separated(">")]
    found: Any = []
    while not cursor.accept(">"):
        found = read_value(cursor)
        cursor.accept(",")
    return found
