"""Reading a node's operands: presence, kinds, constants and defaults, with messages that name operation and operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import NUMPY_TYPES, Operand, TensorType, Value, numpy_type
from openane.ops.spec import REQUIRED, Op, Parameter

FLOATS = ("fp16", "fp32")
NUMBERS = ("fp16", "fp32", "int32")
ELEMENTS = ("fp16", "fp32", "int32", "bool", "int8", "uint8", "int16", "uint16")
INDICES = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
KINDS = {"index": INDICES, "number": (*NUMBERS, "uint16"), "own": tuple(NUMPY_TYPES)}
"""Element types of operand kinds that stand for several."""
PLAIN = {"index": "int32", "number": "fp32"}
"""Element type of Python data for them."""
MAXIMUM_ELEMENTS = 2 ** 31
"""Largest tensor a graph may hold: shapes are checked against it before anything is allocated."""


def refusal(op: str, operand: str, problem: str, found: object = None) -> GraphError:
    """The error for operand `operand` of `op`: what is wrong (and so what would pass), and what was found."""
    tail = "" if found is None else f"; found {found}"
    return GraphError(f"{op}: operand {operand!r} {problem}{tail}")


class Arguments:
    """The operands of one node, read by name. Missing ones take the parameter's default, in x's element type.

    Every method raises GraphError, naming the operation and the operand, when the operand is not what it asks for.
    """

    def __init__(self, op: str, parameters: Sequence[Parameter], operands: Mapping[str, Operand]) -> None:
        self.op, self.parameters, self.operands = op, parameters, operands

    def takes(self, name: str) -> bool:
        """Whether the operation has an operand called so."""
        return any(parameter.name == name for parameter in self.parameters)

    def given(self, name: str) -> bool:
        """Whether the node states the operand itself."""
        return name in self.operands

    def tensor(self, name: str, dtypes: Sequence[str] = FLOATS, ranks: tuple[int, int] = (0, 8)) -> Value:
        """A single tensor operand whose element type and rank (lowest, highest) are allowed."""
        value = self.operands.get(name)
        if value is None:
            raise refusal(self.op, name, "is missing")
        if not isinstance(value, Value):
            raise refusal(self.op, name, "must be one tensor", f"a tuple of {len(value)}")
        self._check(name, value, dtypes, ranks)
        return value

    def tensors(self, name: str, dtypes: Sequence[str] = ELEMENTS,
                ranks: tuple[int, int] = (0, 8)) -> tuple[Value, ...]:
        """A variadic operand: one tensor or more (a single one may be given bare)."""
        values = self.operands.get(name, ())
        values = (values,) if isinstance(values, Value) else values
        if not values:
            raise refusal(self.op, name, "must hold at least one tensor", "none")
        for value in values:
            self._check(name, value, dtypes, ranks)
        return values

    def like(self, name: str, x: Value, shape: tuple[int, ...] | None = None) -> Value | None:
        """A tensor of x's element type and of exactly `shape` (any shape when None); None when it may be left out."""
        if name not in self.operands and self._parameter(name).default is not REQUIRED:
            return None
        value = self.tensor(name, (x.dtype,))
        if shape is not None and value.shape != shape:
            raise refusal(self.op, name, f"must have shape {list(shape)}", list(value.shape))
        return value

    def constant(self, name: str) -> np.ndarray | str | None:
        """A constant operand's data, its default where the node leaves it out, None when there is neither."""
        value = self.operands.get(name)
        if value is None:
            return default_data(self.op, self._parameter(name), element_type(self.parameters, self.operands))
        if not isinstance(value, Value) or value.data is None:
            raise refusal(self.op, name, "must be a constant, known at compile time")
        return value.data

    def integers(self, name: str, default: Sequence[int] | None = None, *, count: int | None = None,
                 minimum: int | None = None) -> tuple[int, ...] | None:
        """A constant vector of integers, each at least `minimum`, `count` of them; `default` when left out."""
        data = self.constant(name)
        if data is None:
            return None if default is None else tuple(default)
        if isinstance(data, str) or data.dtype.kind not in "iu" or data.ndim != 1:
            raise refusal(self.op, name, "must be a vector of integers", describe(data))
        numbers = tuple(data.tolist())
        if count is not None and len(numbers) != count:
            raise refusal(self.op, name, f"must hold {count} integers", f"{len(numbers)}: {list(numbers)[:16]}")
        if minimum is not None and any(number < minimum for number in numbers):
            raise refusal(self.op, name, f"must hold integers of {minimum} or more", list(numbers)[:16])
        return numbers

    def vector(self, name: str, default: Sequence[int], *, minimum: int | None = None) -> tuple[int, ...]:
        """As `integers`, with exactly as many numbers as the default has."""
        return self.integers(name, default, count=len(default), minimum=minimum) or tuple(default)

    def integer(self, name: str, low: int | None = None, high: int | None = None) -> int:
        """A constant integer scalar within low..high."""
        data = self.constant(name)
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "iu" or data.ndim:
            raise refusal(self.op, name, "must be one integer", describe(data))
        number = int(data)
        if (low is not None and number < low) or (high is not None and number > high):
            raise refusal(self.op, name, f"must be {low if low is not None else '...'} to "
                          f"{high if high is not None else 'any size'}", number)
        return number

    def axis(self, name: str, rank: int) -> int:
        """A constant axis of a tensor of `rank` dimensions, counted from the front; negative ones count back."""
        axis = self.integer(name, -rank, rank - 1)
        return axis % rank

    def axes(self, name: str, rank: int) -> tuple[int, ...] | None:
        """Distinct constant axes of a tensor of `rank` dimensions in rising order; None when left out."""
        axes = self.integers(name)
        return None if axes is None else normalised_axes(self.op, name, axes, rank)

    def flag(self, name: str) -> bool:
        """A constant boolean scalar."""
        data = self.constant(name)
        if not isinstance(data, np.ndarray) or data.dtype != np.bool_ or data.ndim:
            raise refusal(self.op, name, "must be one boolean", describe(data))
        return bool(data)

    def text(self, name: str, choices: Sequence[str]) -> str:
        """A constant string, one of `choices`."""
        data = self.constant(name)
        if not isinstance(data, str) or data not in choices:
            raise refusal(self.op, name, f"must be one of {', '.join(choices)}", describe(data))
        return data

    def number(self, name: str) -> float:
        """A constant real scalar."""
        data = self.constant(name)
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "fiu" or data.ndim:
            raise refusal(self.op, name, "must be one number", describe(data))
        return float(data)

    def _parameter(self, name: str) -> Parameter:
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def _check(self, name: str, value: Value, dtypes: Sequence[str], ranks: tuple[int, int]) -> None:
        if value.dtype not in dtypes:
            raise refusal(self.op, name, f"must have elements of {' or '.join(dtypes)}", value.type)
        if not ranks[0] <= value.type.rank <= ranks[1]:
            wanted = f"{ranks[0]}" if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}"
            raise refusal(self.op, name, f"must have rank {wanted}", f"rank {value.type.rank}: {value.type}")


def normalised_axes(op: str, name: str, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in rising order. GraphError when one is out of range or named twice."""
    if any(not -rank <= axis < rank for axis in axes):
        raise refusal(op, name, f"must hold axes from {-rank} to {rank - 1}", list(axes)[:16])
    front = sorted(axis % rank for axis in axes)
    if len(set(front)) != len(front):
        raise refusal(op, name, "must name each axis once", list(axes)[:16])
    return tuple(front)


def element_type(parameters: Sequence[Parameter], operands: Mapping[str, Any]) -> str | None:
    """Element type an operation works in: that of its first tensor operand, in parameter order; others may be data."""
    for parameter in parameters:
        operand = operands.get(parameter.name) if parameter.kind == "tensor" else None
        if isinstance(operand, Value):
            return operand.dtype
        for value in operand if isinstance(operand, tuple | list) else ():
            if isinstance(value, Value):
                return value.dtype
    return None


def default_data(op: str, parameter: Parameter, dtype: str | None) -> np.ndarray | str | None:
    """A parameter's default as constant data, real numbers in `dtype`. GraphError when the operand is required."""
    if parameter.default is REQUIRED:
        raise refusal(op, parameter.name, "is missing")
    if parameter.default is None or isinstance(parameter.default, str):
        return parameter.default
    wanted = (dtype or "fp32") if parameter.kind == "tensor" else PLAIN.get(parameter.kind, parameter.kind)
    return np.asarray(parameter.default, numpy_type(wanted))


def describe(data: object) -> str:
    """Constant data in a few words, for messages."""
    if isinstance(data, np.ndarray):
        values = f" {data.tolist()}" if data.size <= 8 else ""
        return f"{data.dtype} {list(data.shape)}{values}"
    return "nothing" if data is None else repr(data)


def result_types(op: Op, operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    """Result types of `op` on these operands: names, constness and element kinds checked, then the shape rule.

    GraphError when an operand is unknown, missing, not constant where it must be, or does not fit.
    """
    require_known(op, operands)
    for parameter in op.parameters:
        if parameter.name in operands:
            _check_operand(op.name, parameter, operands[parameter.name])
        elif parameter.default is REQUIRED:
            raise refusal(op.name, parameter.name, f"is missing; it takes {', '.join(op.named)}")
    types = op.infer(operands)
    for result in types:
        if min(result.shape, default=1) < 1 or result.elements > MAXIMUM_ELEMENTS:
            first = op.parameters[0].name
            raise refusal(op.name, first, f"gives a result outside 1 to {MAXIMUM_ELEMENTS} elements", result)
    return types


def require_known(op: Op, operands: Mapping[str, Any]) -> None:
    """GraphError for an operand that `op` does not take."""
    if not operands.keys() <= op.named.keys():
        name = next(name for name in operands if name not in op.named)
        raise refusal(op.name, name, f"is not one it takes ({', '.join(op.named)})")


def _check_operand(op: str, parameter: Parameter, operand: Operand) -> None:
    if isinstance(operand, tuple) and not parameter.variadic:
        raise refusal(op, parameter.name, "must be one value", f"a tuple of {len(operand)}")
    kind = parameter.kind
    for value in _flat(operand):
        found = value.type
        if parameter.const and not value.constant:
            raise refusal(op, parameter.name, "must be a constant, known at compile time", found)
        if kind == "tensor" and found.dtype not in NUMPY_TYPES:
            raise refusal(op, parameter.name, "must be a tensor", found.dtype)
        if kind in ("tensor", "own") and found.shape and min(found.shape) < 1:
            raise refusal(op, parameter.name, "must have at least one element along every dimension", found)
        if kind != "tensor" and found.dtype not in (allowed := KINDS.get(kind, (kind,))):
            raise refusal(op, parameter.name, f"must be of type {', '.join(allowed)}", found)


def _flat(operand: Operand) -> tuple[Value, ...]:
    return operand if isinstance(operand, tuple) else (operand,)
