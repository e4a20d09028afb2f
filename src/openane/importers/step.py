"""What importers share: one operator of a model while nodes take its place, and what is said when that cannot be.

Every format has a step of its own that adds how attributes, operands and weights are read (onnx.step, torch.step,
coreml.layers.layer, espresso.layer, netplist.unit). What several formats have as one operator and MIL has not is built
in composites.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

import numpy as np

from openane.errors import AneError, GraphError, UnsupportedError
from openane.graph import RoundedArray, Value
from openane.ops.build import GraphBuilder
from openane.ops.half_bits import half_and_finite
from openane.ops.halves import LARGEST
from openane.record_classes import dataclass

CLOSE = 0.7
"""How alike two names are, of at most 1, that are taken for one misspelt."""


@dataclass(slots=True)
class ImportStep:
    """One operator of a model. `label` names it in messages, and is the source of its nodes; `name` is what its result
    is called in the graph, and what begins the names of intermediate ones; `joint` stands between the two parts of
    those."""

    label: str
    name: str
    builder: GraphBuilder
    joint: ClassVar[str] = "_"
    stated: ClassVar[str] = ""
    """What the format calls what it states beside operands."""

    def add(self, op: str, part: str = "", **operands: Any) -> Value:
        """A node of the graph in place of this one; `part` names an intermediate result of several nodes. GraphError
        when it has several results."""
        result = self.builder.add(op, self._called(part), self.label, **operands)
        if isinstance(result, tuple):
            raise GraphError(f"{self.label}: {op} has {len(result)} results")
        return result

    def add_all(self, op: str, part: str = "", **operands: Any) -> tuple[Value, ...]:
        """As `add`, for operations with any number of results."""
        result = self.builder.add(op, self._called(part), self.label, **operands)
        return (result,) if isinstance(result, Value) else result

    def _called(self, part: str) -> str:
        return f"{self.name}{self.joint}{part}" if part else self.name

    def cast(self, value: Value, dtype: str, part: str = "cast") -> Value:
        """`value` in an element type; itself where it has it."""
        return value if value.dtype == dtype else self.add("cast", part, x=value, dtype=dtype)

    def reshaped(self, value: Value, shape: Sequence[int], part: str = "") -> Value:
        """`value` in another shape; itself where it has it."""
        return value if value.shape == tuple(shape) else self.add("reshape", part, x=value, shape=tuple(shape))

    def front(self, axis: int, rank: int, *, end: bool = False) -> int:
        """An axis counted from the front; `end` allows `rank` itself. GraphError when it is out of range."""
        if not -rank <= axis < rank + end:
            raise GraphError(f"{self.label}: axis must be in {-rank}..{rank - 1 + end}, found {axis}")
        return axis + rank if axis < 0 else axis

    def refuse(self, what: str, found: object, nearest: str) -> UnsupportedError:
        """The error for something stated that is not supported; `nearest` says what would work."""
        rule = f"{self.stated} {what!r} has an unsupported value" if self.stated else f"{what} is not supported"
        return UnsupportedError(self.label, rule, found=found, remedy=nearest)


def whole_numbers(array: np.ndarray, label: str) -> np.ndarray | None:
    """Integers in int32, and truth values, as the engine's graph has them; None for real numbers. GraphError when an
    integer does not fit."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu":
        bounds = np.iinfo(np.int32)
        if array.size and not (bounds.min <= array.min() and array.max() <= bounds.max):
            raise GraphError(f"{label}: a constant holds integers outside int32: {array.min()}..{array.max()}")
        return array.astype(np.int32)
    return None


def to_half(array: np.ndarray, what: str) -> np.ndarray:
    """An array in fp16. GraphError when a finite number becomes infinite there; `what` names one of its numbers."""
    half, lost = in_half(array)
    if lost is not None and lost.any():
        raise GraphError(f"{what} {beyond_half(array, lost)}; rescale the model")
    return half


def rounded(array: np.ndarray, what: str) -> RoundedArray:
    """As `to_half`, with the digits that were rounded away."""
    return RoundedArray(to_half(array, what), np.asarray(array, np.float32))


def in_half(array: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """An array in fp16, and where finite numbers became infinite; None where all are finite."""
    half, finite = half_and_finite(array)
    return half, None if finite else np.isinf(half) & np.isfinite(array)


def beyond_half(array: np.ndarray, lost: np.ndarray) -> str:
    """What is wrong with numbers that fp16 does not hold."""
    return (f"does not fit fp16: its largest magnitude is {float(np.abs(array[lost].astype(np.float64)).max()):.6g}, "
            f"the limit is {LARGEST:g}")


def unknown_operator(label: str, found: str, known: Iterable[str], otherwise: str,
                     what: str = "this operator") -> UnsupportedError:
    """The error for an operator nobody imports: the nearest names that are `known`, or what to do `otherwise`."""
    near = get_close_matches(found, list(known), n=3, cutoff=CLOSE)
    return UnsupportedError(label, f"{what} is not supported", found=found,
                            remedy=f"nearest supported: {', '.join(near)}" if near else otherwise)


MALFORMED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What Python and numpy raise where a model is not what its operator asks for."""


def malformed(label: str, what: str, error: BaseException) -> GraphError:
    """What is raised in place of one of those."""
    return GraphError(f"{label}: {what}: {error}")


class TypedErrors:
    """GraphError in place of what is raised for `MALFORMED` models."""

    def __init__(self, label: str, what: str) -> None:
        self._label, self._what = label, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, MALFORMED) and not isinstance(error, AneError):
            raise malformed(self._label, self._what, error) from error
