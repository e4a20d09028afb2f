"""One operator of a PyTorch program while it is imported: its arguments by name, and nodes to put in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import RoundedArray, Value
from openane.graph.budget import Budget
from openane.importers.masks import MEANS_FARTHEST, nearer, note_replaced
from openane.importers.step import ImportStep as AnyStep
from openane.importers.step import to_half, whole_numbers
from openane.importers.unpooling import PooledPlaces
from openane.ops.build import GraphBuilder
from openane.ops.halves import LARGEST
from openane.record_classes import dataclass

Tensor = Any
"""A torch.Tensor: known when the program is imported. PyTorch is imported in load alone."""
COMPLEX = "complex "
"""Before the name of an operator that takes or gives complex numbers."""


@dataclass(frozen=True, slots=True)
class ComplexValue:
    """A tensor of complex numbers: its parts, the imaginary one None where it is 0."""

    real: Value
    imaginary: Value | None


PLACES = "places "
"""Before the name of an operator that is given positions of maxima."""
EXPERTS = "experts "
"""Before the name of an operator that is given the numbers of experts."""


@dataclass(frozen=True, slots=True)
class ExpertNumbers:
    """The number of the expert that was chosen for every token, whatever order the program puts tokens in."""

    value: Value


UNROUNDED = "unrounded "
"""Before the name of an operator that is given numbers that a program would round, or the scale it would round by."""


UNROUNDED_ALONE = "numbers that are rounded to a measured scale are dequantised again, and nothing else"
DEQUANTISE = "dequantise behind every quantisation, or give it a scale that is known"


class MeasuredScale:
    """A scale, or zero point, that a program takes from a tensor while it runs; each is itself alone."""


@dataclass(frozen=True, slots=True)
class Unrounded:
    """Integers that a program rounds to a scale, but which stay unrounded: value / scale + offset."""

    value: Value
    scale: MeasuredScale | None
    offset: float | np.ndarray = 0.0


Result = Any
"""A Value, a ComplexValue, PooledPlaces, an Unrounded tensor, a Tensor, or a tuple of them with None for results that
cannot be given."""
Handler = Callable[["TorchStep"], Result]

class TorchConstants:
    """Converts tensors once, so that shared weights stay shared."""

    def __init__(self, builder: GraphBuilder, budget: Budget) -> None:
        """`budget`: how much may be made of what the program states."""
        self._builder, self.budget = builder, budget
        self._values: dict[tuple[int, float], tuple[Tensor, Value]] = {}  # keeps the tensor: its id stays its own
        self.masks: set[str] = set()
        """Names of values that are 0 or -FARTHEST."""
        self.places: set[str] = set()
        """Names of positions the engine finds: of the largest elements, and of sorted ones."""

    def value(self, tensor: Tensor, label: str, farthest: float = 0.0) -> Value:
        """The constant value of a tensor; see `to_array`."""
        known = self._values.get((id(tensor), farthest))
        if known is None:
            array = to_array(tensor, label, farthest)
            replaced = farthest and array.dtype == np.float16 and bool((np.abs(array) >= farthest).any())
            known = tensor, self._builder.constant(array if replaced else with_digits(array, tensor))
            self._values[id(tensor), farthest] = known
            if farthest and known[1].dtype == "fp16":
                self.note(label, as_numpy(tensor), farthest)
        return known[1]

    def note(self, label: str, numbers: np.ndarray, farthest: float) -> None:
        """Keeps in the graph's metadata that finite numbers of a constant were replaced."""
        note_replaced(self._builder.metadata, label, numbers, farthest)


def to_array(tensor: Tensor, label: str, farthest: float = 0.0) -> np.ndarray:
    """A tensor in the engine's types: fp16, int32 or bool. GraphError when a number does not fit. Where `farthest` is
    not 0, numbers that mean "below (or above) all others" become it, with their sign."""
    array = as_numpy(tensor)
    whole = whole_numbers(array, label)
    if whole is not None:
        return whole
    if array.dtype.kind != "f":
        raise UnsupportedError(label, "constants must be numbers", found=array.dtype)
    return to_half(nearer(array, farthest) if farthest else array, f"{label}: a constant")


def with_digits(half: np.ndarray, tensor: Tensor) -> RoundedArray | np.ndarray:
    """A tensor in fp16 with the digits that were rounded away, where there are any."""
    longer = half.dtype == np.float16 and tensor.element_size() > half.itemsize
    return RoundedArray(half, as_numpy(tensor).astype(np.float32, copy=False)) if longer else half


def as_numpy(tensor: Tensor) -> np.ndarray:
    """A tensor's numbers as they are."""
    plain = tensor.detach().cpu()
    if plain.is_floating_point() and plain.element_size() == 2:
        plain = plain.float()  # numpy has no bfloat16
    return np.asarray(plain.contiguous().numpy())


@dataclass(slots=True)
class TorchStep(AnyStep):
    """An operator. `arguments` are resolved: values of the graph, tensors known already, Python data; `shape` and
    `kind` ("float", "int" or "bool") are those of its first result, `strides` and `offset` say how its first tensor
    lies in memory, `dtype` is its element type in PyTorch's words."""

    op: str
    arguments: Mapping[str, Any]
    shape: tuple[int, ...]
    kind: str
    constants: TorchConstants
    strides: tuple[int, ...] = ()
    offset: int = 0
    dtype: str = ""
    stated: ClassVar[str] = "argument"

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument as it is; `default` where it is absent or None."""
        found = self.arguments.get(name)
        return default if found is None else found

    def filled(self, shape: Sequence[int], number: float, dtype: type[np.generic]) -> np.ndarray:
        """An array of one number. UnsupportedError where it is more than the program may make of itself."""
        self.constants.budget.take(self.label, prod(shape) * np.dtype(dtype).itemsize)
        return np.full(shape, number, dtype)

    def given(self, name: str) -> bool:
        """Whether an optional argument is given."""
        return self.arguments.get(name) is not None

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """An argument that is a list of integers, one number standing for `count` of them."""
        found = self.argument(name, ())
        numbers = (found,) if isinstance(found, int) else tuple(found)
        return numbers * count if count is not None and len(numbers) == 1 else numbers

    def value(self, name: str, farthest: float = 0.0) -> Value:
        """A tensor argument as a value of the graph. GraphError when it is absent."""
        return self.as_value(self.arguments.get(name), name, farthest)

    def as_value(self, found: Any, name: str, farthest: float = 0.0) -> Value:
        """A value or a tensor as a value; `farthest` as for `to_array`."""
        if isinstance(found, Value):
            return found
        if not hasattr(found, "detach"):
            raise GraphError(f"{self.label}: argument {name!r} must be a tensor, found {found!r:.60}")
        return self.constants.value(found, self.label, farthest)

    def number(self, name: str, farthest: float = 0.0) -> Value:
        """A tensor argument of the kind the result has; `farthest` as for `to_array`."""
        return self.matched(self.value(name, farthest), self.kind)

    def other(self, name: str, kind: str, farthest: float = 0.0) -> Value | float | int | bool:
        """An argument that is a tensor or a Python number, in element type `kind`; `farthest` as for `to_array`."""
        found = self.arguments.get(name)
        if isinstance(found, bool | int | float):
            if kind == "float" and farthest and abs(found) >= MEANS_FARTHEST:
                self.constants.note(self.label, np.array([found], np.float64), farthest)
                return float(np.copysign(farthest, found))
            if kind == "float" and LARGEST < abs(found) < float("inf"):
                raise GraphError(f"{self.label}: {name} {found:g} does not fit fp16, whose limit is {LARGEST:g}; "
                                 "rescale the model")
            return float(found) if kind == "float" else found
        return self.matched(self.value(name, farthest if kind == "float" else 0.0), kind)

    def matched(self, value: Value, kind: str) -> Value:
        """`value` in fp16, int32 or bool."""
        return self.cast(value, {"float": "fp16", "int": "int32", "bool": "bool"}[kind])

    def spread(self, value: Value, shape: Sequence[int], part: str = "spread") -> Value:
        """`value` repeated up to a shape it broadcasts to, dimensions added in front."""
        added = (1,) * (len(shape) - value.type.rank)
        ranked = self.reshaped(value, (*added, *value.shape), f"{part}_ranked".lstrip("_"))
        counts = [whole // extent for whole, extent in zip(shape, ranked.shape, strict=True)]
        return ranked if set(counts) <= {1} else self.add("tile", part=part, x=ranked, reps=counts)

    def constant(self, name: str, what: str) -> Tensor:
        """A tensor argument that is known already. UnsupportedError when it is computed at run time."""
        found = self.argument(name)
        if isinstance(found, Value):
            raise UnsupportedError(self.label, f"{what} must be a constant", found=f"{found.name!r}, computed",
                                   remedy="make it a parameter or a buffer of the module, one that is not trained here")
        return found

    def half(self, name: str) -> np.ndarray | None:
        """A tensor known already, as fp16, or None where it is absent."""
        found = self.constant(name, name)
        return None if found is None else to_array(found, self.label)

    def rounded(self, name: str) -> RoundedArray | np.ndarray | None:
        """As `half`, with the digits that were rounded away."""
        half = self.half(name)
        return None if half is None else with_digits(half, self.constant(name, name))

    def axis(self, name: str, rank: int, default: int = 0) -> int:
        """An axis counted from the front."""
        return int(self.argument(name, default)) % max(rank, 1)


def kind_prefix(arguments: Iterable[Any], kind: str) -> str:
    """What an operator's name begins with where it takes or gives something else than a tensor of real numbers."""
    flat = [each for found in arguments for each in (found if isinstance(found, list) else [found])]
    if any(isinstance(each, ExpertNumbers) for each in flat):
        return EXPERTS
    if any(isinstance(each, PooledPlaces) for each in flat):
        return PLACES
    if any(isinstance(each, Unrounded | MeasuredScale) for each in flat):
        return UNROUNDED
    return COMPLEX if kind == "complex" or any(isinstance(each, ComplexValue) for each in flat) else ""
