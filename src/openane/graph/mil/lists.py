"""Lists of MIL programs, as loops fill and read them: which tensor lies where is known when the graph is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Value
from openane.graph.mil.program import OPEN, Reference, Statement
from openane.graph.mil.scope import Held, Listed, Scope
from openane.graph.types import TensorType

MOST_ZEROS = 1 << 24
"""Of an element that nobody wrote."""
LONGEST = 1 << 16
"""Most elements of a list."""


def _source(scope: Scope, statement: Statement) -> str:
    return scope.places.source(statement.position)


def _value(scope: Scope, statement: Statement, key: str) -> Value:
    expression = statement.arguments.get(key)
    if expression is None or isinstance(expression, tuple):
        raise GraphError(f"{statement.op} ({_source(scope, statement)}): {key!r} is missing or not a single value")
    return scope.value(expression, f"{statement.op}_{key}")


def _list(scope: Scope, statement: Statement) -> Listed:
    expression = statement.arguments.get("ls")
    held = scope.resolve(expression, "list") if isinstance(expression, Reference) else None
    if not isinstance(held, Listed):
        raise GraphError(f"{statement.op} ({_source(scope, statement)}): 'ls' is no list")
    return held


def _place(scope: Scope, statement: Statement, index: int, length: int) -> int:
    if not -length <= index < length:
        raise GraphError(f"{statement.op} ({_source(scope, statement)}): index {index} of a list of {length}")
    return index % length


def _make_list(scope: Scope, statement: Statement) -> Sequence[Held]:
    """`init_length` elements of the declared type, none of which is known yet."""
    if len(statement.results) != 1 or not statement.results[0][0].listed:
        raise GraphError(f"make_list ({_source(scope, statement)}): declares no list")
    length = 1
    if "init_length" in statement.arguments:
        found = _value(scope, statement, "init_length")
        length = int(_known(scope, statement, found, "init_length").reshape(-1)[0])
    if not 0 <= length <= LONGEST:
        raise UnsupportedError(f"make_list ({_source(scope, statement)})", "every element is a tensor of its own",
                               limit=LONGEST, found=length, remedy="use a tensor with one more dimension")
    return [Listed((None,) * length, statement.results[0][0].type)]


def _known(scope: Scope, statement: Statement, value: Value, what: str) -> np.ndarray:
    if not value.constant:
        raise UnsupportedError(f"{statement.op} ({_source(scope, statement)})",
                               f"{what} must be known when the model is read", found=f"{value.name!r}, computed",
                               remedy="count the turns of the loop, or use a tensor and scatter in place of a list")
    return value.array()


def _put(scope: Scope, statement: Statement, held: Listed, index: int, value: Value) -> Listed:
    """The list with another element; one that is behind its end makes it longer."""
    elements = [*held.elements, *(None,) * (index + 1 - len(held.elements))] if index <= LONGEST else held.elements
    if OPEN not in held.type.shape and value.type != held.type:
        raise GraphError(f"{statement.op} ({_source(scope, statement)}): {value.type} in a list of {held.type}")
    place = _place(scope, statement, index, len(elements))
    return replace(held, elements=(*elements[:place], value, *elements[place + 1:]))


def _list_write(scope: Scope, statement: Statement) -> Sequence[Held]:
    where = _known(scope, statement, _value(scope, statement, "index"), "where a list is written")
    value = _value(scope, statement, "value")
    return [_put(scope, statement, _list(scope, statement), int(where.reshape(-1)[0]), value)]


def _list_scatter(scope: Scope, statement: Statement) -> Sequence[Held]:
    held, value = _list(scope, statement), _value(scope, statement, "value")
    for number, index in enumerate(_known(scope, statement, _value(scope, statement, "indices"),
                                          "where a list is written").reshape(-1)):
        held = _put(scope, statement, held, int(index), _row(scope, statement, value, number))
    return [held]


def _row(scope: Scope, statement: Statement, value: Value, number: int) -> Value:
    """One place along the first axis, which is gone."""
    name, rest = f"{value.name}_{number}", value.shape[1:]
    source = _source(scope, statement)
    begin, end = ([first, *others] for first, others in ((number, [0] * len(rest)), (number + 1, rest)))
    part = scope.add("slice_by_index", f"{name}_part", source, x=value,
                     begin=scope.constant(f"{name}_begin", np.array(begin), "int32"),
                     end=scope.constant(f"{name}_end", np.array(end), "int32"))
    return scope.add("squeeze", name, source, x=part, axes=scope.constant(f"{name}_axes", np.array([0]), "int32"))


def _element(scope: Scope, statement: Statement, held: Listed, place: int) -> Value:
    """An element; zeros where nothing was put."""
    found = held.elements[place]
    if found is not None:
        return found
    known = next((each.type for each in held.elements if each is not None), held.type)
    if OPEN in known.shape:
        raise GraphError(f"{statement.op} ({_source(scope, statement)}): element {place} is read before it is written")
    if known.elements > MOST_ZEROS:
        raise UnsupportedError(f"{statement.op} ({_source(scope, statement)})",
                               f"element {place} is read before it is written, and its zeros become a constant",
                               limit=MOST_ZEROS, found=known.elements, remedy="write it first")
    return scope.constant("nothing", np.zeros(known.shape), known.dtype)


def _list_read(scope: Scope, statement: Statement) -> Sequence[Held]:
    held, index = _list(scope, statement), _value(scope, statement, "index")
    if index.constant:
        place = _place(scope, statement, int(index.array().reshape(-1)[0]), len(held.elements))
        return [_element(scope, statement, held, place)]
    stacked = _stacked(scope, statement, held, range(len(held.elements)))
    return [_gathered(scope, statement, stacked, index)]


def _list_gather(scope: Scope, statement: Statement) -> Sequence[Held]:
    held, indices = _list(scope, statement), _value(scope, statement, "indices")
    if not indices.constant:
        stacked = _stacked(scope, statement, held, range(len(held.elements)))
        return [_gathered(scope, statement, stacked, indices)]
    places = [_place(scope, statement, int(index), len(held.elements)) for index in indices.array().reshape(-1)]
    return [_stacked(scope, statement, held, places)]


def _stacked(scope: Scope, statement: Statement, held: Listed, places: Sequence[int]) -> Value:
    """Some elements, along a first axis of their own."""
    if not places:
        raise UnsupportedError(f"{statement.op} ({_source(scope, statement)})",
                               "tensors without elements cannot be computed", found="a list of no elements",
                               remedy="leave the list out")
    values = tuple(_element(scope, statement, held, place) for place in places)
    return scope.add("stack", "stacked", _source(scope, statement), values=values,
                     axis=scope.constant("stacked_axis", np.array(0), "int32"))


def _gathered(scope: Scope, statement: Statement, stacked: Value, indices: Value) -> Value:
    return scope.add("gather", "read", _source(scope, statement), x=stacked, indices=indices,
                     axis=scope.constant("read_axis", np.array(0), "int32"))


def _list_length(scope: Scope, statement: Statement) -> Sequence[Held]:
    return [Value(scope.unused("length"), TensorType("int32", ()),
                  np.array(len(_list(scope, statement).elements), np.int32))]


LISTS: Mapping[str, Callable[[Scope, Statement], Sequence[Held]]] = {
    "make_list": _make_list, "list_write": _list_write, "list_read": _list_read, "list_gather": _list_gather,
    "list_scatter": _list_scatter, "list_length": _list_length}
