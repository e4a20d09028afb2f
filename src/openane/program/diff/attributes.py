"""Engine operations as flat properties with names in words, so that two can be compared one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from openane.engine import AXES, Access, Coefficients, Operation, Post, Space
from openane.program.diff.records import AttributeChange, Plain

AXIS_WORDS = {"N": "group", "C": "channel", "D": "depth", "H": "row", "W": "column"}
EXTENT_WORDS = {"N": "groups", "C": "channels", "D": "depth", "H": "height", "W": "width"}
PARTS = ("weights", "bias", "table")
WINDOW_AXES = {2: ("height", "width"), 3: ("depth", "height", "width")}

Properties = dict[str, tuple[Plain, str]]
"""Name in words to value and unit."""


def properties(operation: Operation | None) -> Properties:
    """Every property of an operation; none of one that is not described."""
    if operation is None:
        return {}
    found: Properties = {"operation": (type(operation).__name__, "")}
    for f in fields(operation):
        for name, value, unit in _flat(f.name.replace("_", " "), getattr(operation, f.name)):
            found[name] = (value, unit)
    return found


def changes(before: Operation | None, after: Operation | None) -> list[AttributeChange]:
    """Properties that differ; those that only one side has stand against None."""
    old, new = properties(before), properties(after)
    found = []
    for name in dict.fromkeys((*old, *new)):
        (was, unit), (becomes, other) = old.get(name, (None, "")), new.get(name, (None, ""))
        if repr(was) != repr(becomes):
            found.append(AttributeChange(name, was, becomes, unit or other))
    return found


def _flat(name: str, value: object) -> Iterator[tuple[str, Plain, str]]:
    if isinstance(value, Access):
        yield from _access(name, value)
    elif isinstance(value, Coefficients):
        yield from _coefficients(name, value)
    elif isinstance(value, Post):
        for f in fields(value):
            yield f"post {f.name}", _plain(getattr(value, f.name)), ""
    elif isinstance(value, tuple):
        axes = WINDOW_AXES.get(len(value), tuple(map(str, range(len(value)))))
        for axis, number in zip(axes, value, strict=True):
            yield f"{name} {axis}", number, ""
    else:
        yield name, _plain(value), ""


def _access(name: str, access: Access) -> Iterator[tuple[str, Plain, str]]:
    yield f"{name} space", str(access.space), ""
    if access.space is Space.MEMORY:
        yield f"{name} slot", access.slot, ""
    yield f"{name} offset", access.offset, "bytes"
    for axis, extent in zip(AXES, access.shape, strict=True):
        yield f"{name} {EXTENT_WORDS[axis]}", extent, ""
    for axis, stride in zip(AXES, access.strides, strict=True):
        yield f"{name} {AXIS_WORDS[axis]} stride", stride, "bytes"
    yield f"{name} element type", str(access.dtype), ""
    yield f"{name} interleave", access.interleave, ""
    yield f"{name} interleaved dimension", AXES[access.packed], ""
    if access.copy is not None:
        yield from _access(f"{name} copy", access.copy)


def _coefficients(name: str, held: Coefficients) -> Iterator[tuple[str, Plain, str]]:
    for f in fields(held):
        value = getattr(held, f.name)
        yield f"{name} {f.name.replace('_', ' ')}", value is not None if f.name in PARTS else _plain(value), ""
    for section in held.sections:
        part = f"{name} table" if section == held.table != held.weights and len(held.sections) > 1 else name
        yield f"{part} slot", section.slot, ""
        for stream in section.streams:
            yield f"{part} offset of core {stream.core}", stream.offset, "bytes"
            yield f"{part} size of core {stream.core}", stream.size, "bytes"


def _plain(value: object) -> Plain:
    return value if isinstance(value, bool | int | float) or value is None else str(value)
