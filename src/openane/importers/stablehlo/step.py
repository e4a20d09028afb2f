"""One StableHLO operation while it is imported: operands, attributes, and nodes to put in its place.

StableHLO repeats tensors up to the shape of others before it computes with them (broadcast_in_dim), where the graph's
operations do so themselves. A tensor is therefore held as small as it is, beside the shape it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.graph.budget import Budget
from openane.importers.masks import FARTHEST, nearer, note_replaced
from openane.importers.stablehlo.syntax import StableBlock, StableStatement
from openane.importers.stablehlo.values import Dense, StableType
from openane.importers.step import ImportStep, to_half, whole_numbers
from openane.ops.build import GraphBuilder
from openane.ops.operands import MAXIMUM_ELEMENTS
from openane.record_classes import dataclass

Held = Value | np.ndarray
Number = Value | np.ndarray | float | int | bool


@dataclass(frozen=True, slots=True)
class StableTensor:
    """A tensor of the program: a value of the graph, or an array where it is known, and its type in the program. What
    is held has the type's rank, and extents of 1 where it is repeated; its axes are those of the type in `order`,
    where there is one: convolutions compute with channels first, whatever the program says."""

    held: Held
    type: StableType
    order: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape it stands for."""
        return self.type.shape

    @property
    def kind(self) -> str:
        """float, int or bool."""
        return {"f": "float", "b": "bool"}.get(self.type.dtype.kind, "int")

    @property
    def number(self) -> float | None:
        """The number that every element is, where that is known and so."""
        return float(self.held.reshape(())) if isinstance(self.held, np.ndarray) and self.held.size == 1 else None


Result = Held | StableTensor | Sequence[Held | StableTensor]
Handler = Callable[["StableStep"], Result]

Origin = tuple[str, tuple[StableTensor, ...]]
"""An operation and its operands."""


@dataclass(slots=True)
class Shared:
    """What all operations of one import share."""

    builder: GraphBuilder
    budget: Budget
    constants: dict[tuple[int, bool], tuple[np.ndarray, Value]]
    """Values made of arrays, which are kept so that their id stays their own."""
    ordered: dict[tuple[str, tuple[int, ...]], Value]
    """Values in another order of axes."""
    origins: dict[str, Origin]
    """Operation and operands of some values, by name: what later operations are simpler with."""


@dataclass(slots=True)
class StableStep(ImportStep):
    """An operation: `tried` gives the results of a region for samples of its arguments, `inside` those of a region
    whose statements become part of the graph."""

    statement: StableStatement
    operands: Sequence[StableTensor]
    shared: Shared
    tried: Callable[[StableBlock, Sequence[StableTensor]], list[StableTensor]]
    inside: Callable[[StableBlock, Sequence[StableTensor]], list[StableTensor]]
    stated: ClassVar[str] = "attribute"

    @property
    def op(self) -> str:
        """The operation's name."""
        return self.statement.op

    @property
    def type(self) -> StableType:
        """That of the first result."""
        return self.statement.types[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the first result."""
        return self.type.shape

    @property
    def kind(self) -> str:
        """float, int or bool: that of the first result."""
        return StableTensor(np.zeros(()), self.type).kind

    # Attributes

    def attribute(self, *names: str) -> Any:
        """What is stated under one of these names; None where nothing is."""
        stated = self.statement.attributes
        return next((stated[name] for name in names if name in stated), None)

    def integers(self, *names: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers, whatever their brackets. GraphError when there is none and no default."""
        found = self.attribute(*names)
        if found is None:
            found = default
        if isinstance(found, Dense):
            if prod(found.type.shape) > 1 << 12:
                raise GraphError(f"{self.label}: attribute {names[0]!r} is too long")
            found = np.broadcast_to(found.array, found.type.shape)
        array = None if found is None else np.asarray(found)
        if array is None or (array.size and array.dtype.kind not in "iub"):
            raise GraphError(f"{self.label}: attribute {names[0]!r} must be a list of integers, found {found!r:.60}")
        return tuple(map(int, array.reshape(-1)))

    def integer(self, *names: str, default: int | None = None) -> int:
        """An integer. GraphError when there is none and no default."""
        found = self.integers(*names, default=None if default is None else [default])
        if len(found) != 1:
            raise GraphError(f"{self.label}: attribute {names[0]!r} must be an integer")
        return found[0]

    # Operands

    @property
    def known(self) -> bool:
        """Whether every operand is."""
        return all(isinstance(each.held, np.ndarray) for each in self.operands)

    def operand(self, index: int) -> StableTensor:
        """An operand. GraphError when it is missing."""
        if index >= len(self.operands):
            raise GraphError(f"{self.label}: operand {index} is missing")
        return self.operands[index]

    def array(self, index: int, what: str) -> np.ndarray:
        """An operand that is known, repeated up to its shape. UnsupportedError where it is computed."""
        tensor = self.operand(index)
        if isinstance(tensor.held, Value):
            raise UnsupportedError(self.label, f"{what} must be a constant", found=f"{tensor.held.name!r}, computed",
                                   remedy="close over it in the function that is exported")
        return self.repeated(tensor)

    def repeated(self, tensor: StableTensor) -> np.ndarray:
        """A known tensor as large as its shape says, which counts where it was smaller."""
        assert isinstance(tensor.held, np.ndarray)
        if tensor.held.shape == tensor.shape:
            return tensor.held
        self.take(tensor.shape, tensor.type.dtype.itemsize)
        return np.broadcast_to(tensor.held, tensor.shape)

    def take(self, shape: Sequence[int], size: int = 4) -> None:
        """Counts an array that is about to be made. UnsupportedError beyond the limits."""
        if prod(shape) > MAXIMUM_ELEMENTS:
            raise UnsupportedError(self.label, "a constant holds too many elements", limit=MAXIMUM_ELEMENTS,
                                   found=prod(shape))
        self.shared.budget.take(self.label, prod(shape) * size)

    def narrow(self, tensor: StableTensor, far: bool = False) -> Number:
        """An operand for an operation that repeats it where that is needed: a value, a number or an array in the
        engine's types. `far`: numbers beyond fp16 mean "below (or above) all others"."""
        if isinstance(tensor.held, Value):
            return tensor.held
        array = self.converted(tensor.held, far)
        return array.reshape(()).item() if array.size == 1 else array

    def value(self, index: int, far: bool = False) -> Value:
        """An operand as a value of its whole shape; `far` as for `narrow`."""
        return self.as_value(self.operand(index), far)

    def as_value(self, tensor: StableTensor, far: bool = False) -> Value:
        """A tensor as a value of its whole shape; `far` as for `narrow`."""
        if isinstance(tensor.held, Value):
            counts = [whole // extent for whole, extent in zip(tensor.shape, tensor.held.shape, strict=True)]
            return tensor.held if set(counts) <= {1} else self.add("tile", "spread", x=tensor.held, reps=counts)
        key = id(tensor.held), far
        made = self.shared.constants.get(key)
        if made is None or made[1].shape != tensor.shape:
            array = np.ascontiguousarray(self.repeated(StableTensor(self.converted(tensor.held, far), tensor.type)))
            made = self.shared.constants[key] = tensor.held, self.builder.constant(array)
        return made[1]

    def half(self, index: int, what: str) -> np.ndarray:
        """An operand that is known, in fp16."""
        return self.converted(self.array(index, what))

    def converted(self, array: np.ndarray, far: bool = False) -> np.ndarray:
        """An array in the engine's types: fp16, int32 or bool. GraphError when a number does not fit."""
        whole = whole_numbers(array, self.label)
        if whole is not None:
            return whole
        if far:
            note_replaced(self.builder.metadata, self.label, array, FARTHEST)
            array = nearer(array, FARTHEST)
        return to_half(array, f"{self.label}: a constant")

    def matched(self, value: Value, kind: str, part: str = "cast") -> Value:
        """`value` in fp16, int32 or bool; numbers other than 0 are true."""
        if kind == "bool" and value.dtype != "bool":
            return self.add("not_equal", part, x=value, y=0.0 if value.dtype == "fp16" else np.int32(0))
        return self.cast(value, {"float": "fp16", "int": "int32", "bool": "bool"}[kind], part)

    def permuted(self, value: Value, axes: Iterable[int], part: str = "") -> Value:
        """`value` with its axes in another order; itself where it is the one they have."""
        order = tuple(axes)
        if order == tuple(range(len(order))):
            return value
        made = self.shared.ordered.get((value.name, order))
        if made is None:
            wide = [axis for axis in order if value.shape[axis] > 1]
            made = self.reshaped(value, [value.shape[axis] for axis in order], part) if wide == sorted(wide) else \
                self.add("transpose", part, x=value, perm=order)
            self.shared.ordered[value.name, order] = made
        return made

    def in_order(self, tensor: StableTensor, order: Sequence[int]) -> Held:
        """What is held of a tensor, its axes in another order than the type has."""
        now = tensor.order or tuple(range(len(tensor.shape)))
        axes = [now.index(axis) for axis in order]
        return tensor.held.transpose(axes) if isinstance(tensor.held, np.ndarray) else \
            self.permuted(tensor.held, axes, "ordered")

    def ordered(self, index: int, order: Sequence[int]) -> Value:
        """An operand as a value of its whole shape, its axes in another order."""
        tensor = self.operand(index)
        kind = tensor.type._replace(shape=tuple(tensor.shape[axis] for axis in order))
        return self.as_value(StableTensor(self.in_order(tensor, order), kind))

    def as_stated(self, tensor: StableTensor) -> StableTensor:
        """A tensor whose axes lie as its type says."""
        return StableTensor(self.in_order(tensor, range(len(tensor.shape))), tensor.type) if tensor.order else tensor

    def origin(self, tensor: StableTensor, op: str) -> tuple[StableTensor, ...] | None:
        """The operands of the operation that made a tensor, where it is `op`."""
        found = self.shared.origins.get(tensor.held.name) if isinstance(tensor.held, Value) else None
        return found[1] if found is not None and found[0] == op else None
