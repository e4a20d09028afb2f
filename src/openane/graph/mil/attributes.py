"""Attributes of MIL programs and functions: kept as text, and the few of them that mean something here."""

from __future__ import annotations

import re

from openane.graph.mil.lexer import Cursor, MilToken, unquote

_DEFAULTS = re.compile(r'"DefaultShapes"\s*,\s*\{((?:[^{}]|\{[^{}]*\})*)\}')
_SHAPE = re.compile(r'\{\s*("(?:[^"\\]|\\.)*")\s*,\s*\[([0-9,\s]*)\]\s*\}', re.DOTALL)
_LARGEST = 10  # digits of an extent


def raw_attributes(cursor: Cursor) -> dict[str, str]:
    """`[key = anything, ...]`, each value as its text."""
    cursor.expect("[")
    table: dict[str, str] = {}
    for _ in cursor.separated("]"):
        key = cursor.name("an attribute")
        cursor.expect("=")
        table[key] = _balanced(cursor)
    return table


def _balanced(cursor: Cursor) -> str:
    """Text up to the next comma or closing bracket outside all brackets."""
    start = end = cursor.token.position
    depth = 0
    while depth or cursor.token.text not in (",", "]"):
        if cursor.token.kind == "end":
            cursor.fail("attribute without an end", position=start)
        token: MilToken = cursor.advance()
        if token.kind == "mark":
            depth += (token.text in "([{<") - (token.text in ")]}>")
        end = token.position + len(token.text)
        if depth < 0:
            cursor.fail("closing bracket without an opening one", found=repr(token.text), position=token.position)
    return cursor.text[start:end]


def string_pairs(text: str) -> dict[str, str]:
    """Keys and values of a dictionary of strings: `dict<string, string>({{"k", "v"}, ...})` in either spelling."""
    cursor = Cursor(text)
    strings = []
    while cursor.token.kind != "end":
        token = cursor.advance()
        if token.kind == "string":
            strings.append(unquote(token.text))
    if len(strings) % 2:
        cursor.fail("buildInfo holds a key without a value")
    return dict(zip(strings[::2], strings[1::2], strict=True))


def default_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """The entry `("DefaultShapes", {{"x", [1, 3]}, ...})` of FlexibleShapeInformation: shapes by input name."""
    found = _DEFAULTS.search(text)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, extents in _SHAPE.findall(found.group(1) if found else ""):
        numbers = [extent.strip() for extent in extents.split(",")] if extents.strip() else []
        if all(number.isdecimal() and len(number) <= _LARGEST for number in numbers):
            shapes[unquote(name)] = tuple(map(int, numbers))
    return shapes
