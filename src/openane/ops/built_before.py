"""Nodes that are built as others were: a network has the same layers again and again, and is imported again.

Which constants a node's operands become, and which types its results have, follows from its operation, the types of the
tensors it is given and the numbers that are stated beside them. It is kept with these from the second such node on, as
keeping costs what using saves. Numbers of large constants are no part of that: an operation whose types depend on them
is asked each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from openane.graph import Operand, RoundedArray, RoundedConstant, TensorType, Value
from openane.ops.late_constant import LateValue
from openane.record_classes import dataclass

MOST = 1 << 12
"""Nodes that are kept; then it begins anew."""
SHORT = 16
"""Numbers that constants have at most which are told by their numbers."""
CONSTANT = "constant"
"""Told of a constant in place of its numbers."""
Told = tuple[Hashable, ...]
"""An operation and what it is given."""
Types = tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """What became of a node: types of its results, and its operands in order. With the name of each comes the constant
    that Python data became; None for a tensor that is given, or an array that is taken as it is."""

    types: Types
    operands: tuple[tuple[str, Value | None], ...]


@cache
def kept() -> dict[Told, Built | None]:
    """What this process keeps: what became of nodes; None where their types depend on more than is told of them."""
    return {}


@cache
def met() -> set[Told]:
    """What nodes were told by that this process met once, which is not worth keeping more of."""
    return set()


def met_before(key: Told) -> bool:
    """Whether a node that is told so was met; it is now."""
    if key in met():
        return True
    if len(met()) >= MOST:
        met().clear()
    met().add(key)
    return False


def told(op: str, given: Mapping[str, Any]) -> Told | None:
    """What tells a node of this operation and these operands from others; None where that is more than its types."""
    found: list[Hashable] = [op, *given]
    for operand in given.values():
        if type(operand) is Value and operand.data is None:
            found.append((operand.type.dtype, operand.type.shape))
        elif (of_operand := _operand(operand)) is None:
            return None
        else:
            found.append(of_operand)
    return tuple(found)


def _operand(given: Any) -> Hashable:
    tells = _TELLS.get(type(given))
    if tells is None:
        return _value(given) if isinstance(given, Value) else None
    return tells(given)


def _plain(given: Any) -> Hashable:
    return type(given), given


def _real(given: float) -> Hashable:
    return float, float.hex(given)


def _array(given: np.ndarray) -> Hashable:
    return np.ndarray, given.dtype, given.shape, given.tobytes() if given.size <= SHORT else None


def _rounded_array(given: RoundedArray) -> Hashable:
    return RoundedArray, _array(given.data), _array(given.stated)


def _several(given: Sequence[Any]) -> Hashable:
    """Of several integers themselves, of several tensors their types."""
    if set(map(type, given)) == {int}:
        return (int, *given) if len(given) <= SHORT else None
    if given and all(isinstance(each, Value) for each in given):
        return (tuple, *map(_value, given))
    return None


def _value(value: Value) -> Hashable:
    type_ = value.type
    if not value.constant:
        return type_.dtype, type_.shape
    numbers: object = None
    if type_.dtype == "string":
        numbers = value.data
    elif type_.elements <= SHORT:
        digits = value.digits().tobytes() if isinstance(value, RoundedConstant) else None
        numbers = value.array().tobytes(), digits
    return type_.dtype, type_.shape, numbers or CONSTANT


_TELLS: Mapping[type, Callable[[Any], Hashable]] = {
    bool: _plain, float: _real, int: _plain, list: _several, np.ndarray: _array, RoundedArray: _rounded_array,
    str: _plain, tuple: _several, Value: _value}
"""What tells data of a type, the most frequent ones."""


def keep(key: Told, given: Mapping[str, Any], operands: Mapping[str, Operand],
         infer: Callable[[Mapping[str, Operand]], Types]) -> Types:
    """The types that are inferred of a node's operands, which were made of what was given. They are kept."""
    watched: list[LateValue] = []
    types = infer({name: tuple([_seen(each, watched) for each in operand]) if isinstance(operand, tuple)
                   else _seen(operand, watched) for name, operand in operands.items()})
    asked = any(value.asked for value in watched)
    if len(kept()) >= MOST:
        kept().clear()
    kept()[key] = None if asked else _built(types, given, operands)
    return infer(operands) if asked else types


def _built(types: Types, given: Mapping[str, Any], operands: Mapping[str, Operand]) -> Built | None:
    """What became of a node; None where an array that is given became another one."""
    if not all(_taken(operand, given.get(name)) for name, operand in operands.items()):
        return None
    return Built(types, tuple([(name, operand if isinstance(operand, Value) and _stated(given.get(name)) else None)
                               for name, operand in operands.items()]))


def _seen(value: Value, watched: list[LateValue]) -> Value:
    """A value as it is told: a constant that is told by its type is watched, whether its numbers are asked for."""
    if not value.constant or value.dtype == "string" or value.type.elements <= SHORT:
        return value
    watched.append(LateValue.of(value))
    return watched[-1]


def _stated(given: object) -> bool:
    """Whether an operand is Python data, or is left out."""
    return not isinstance(given, Value | tuple | list | np.ndarray | RoundedArray) or _whole(given)


def _whole(given: Any) -> bool:
    return isinstance(given, tuple | list) and not isinstance(given[0], Value)


def _taken(operand: Operand, given: object) -> bool:
    """Whether an operand that is an array is taken as it is."""
    if not isinstance(given, np.ndarray | RoundedArray):
        return True
    assert isinstance(operand, Value), "one constant is made of one array"
    return operand.data is (given.data if isinstance(given, RoundedArray) else given)


def again(stated: Value, name: str) -> Value:
    """A constant of the same data, with a name of its own."""
    data = stated.data.copy() if isinstance(stated.data, np.ndarray) else stated.data
    if isinstance(stated, RoundedConstant):
        return RoundedConstant(name, stated.type, data, stated=stated.digits().copy())
    return Value(name, stated.type, data)
