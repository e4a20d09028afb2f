"""One ONNX node while it is imported: typed access to its attributes and inputs, and nodes to put in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import RoundedArray, Value
from openane.graph.budget import Budget
from openane.importers.onnx.constants import OnnxConstants
from openane.importers.onnx.dtypes import SMALL_INTEGERS
from openane.importers.step import ImportStep as AnyStep
from openane.ops.halves import SMALLEST
from openane.record_classes import dataclass

_WHOLE = frozenset(["add", "maximum", "minimum", "mul", "sub"])
"""Operations on integers that MIL has."""
_INTEGERS = frozenset([int, bool])
_SINGLE = (bytes, str, int, float)
Operand = Value | np.ndarray
"""What an ONNX tensor is during import: a value of the graph, or an array known already, in the model's dtype."""

Result = Operand | tuple[Operand, ...]
Handler = Callable[["OnnxStep"], Result]


class RunTimeOperandError(UnsupportedError):
    """A node needs an operand when the model is compiled that is computed while it runs: the tensor `operand`, which
    depends on the model's `inputs` (filled in by the walk)."""

    def __init__(self, label: str, what: str, operand: str, inputs: frozenset[str] = frozenset(),
                 data: frozenset[str] = frozenset()) -> None:
        remedy = _of_data(sorted(data)) if data else _of_settings(sorted(inputs) or ["NAME"])
        super().__init__(label, f"{what} must be a constant", found=f"{operand!r}, computed", remedy=remedy)
        self.what, self.operand, self.inputs = what, operand, inputs

    def of(self, inputs: frozenset[str], data: frozenset[str]) -> RunTimeOperandError:
        """The error with the inputs the operand depends on, and those among them that are data of each run."""
        return RunTimeOperandError(self.operation, self.what, self.operand, inputs, data)


def _of_settings(names: Sequence[str]) -> str:
    options = " ".join(f"--value {name}=NUMBER" for name in names)
    arrays = ", ".join(f'"{name}": array' for name in names)
    return f"make constants of the inputs it comes from ({options}, in Python values={{{arrays}}}), or simplify the " \
           "model first (onnxsim)"


def _of_data(names: Sequence[str]) -> str:
    return f"it comes of the data in {', '.join(map(repr, names))}, and what is computed, and its sizes, are settled " \
           "before a run: mask what does not count (Where) or keep a fixed number of the best (TopK) instead; or end " \
           "the model in front of it (onnx.utils.extract_model) and compute the rest on the host"


@dataclass(slots=True)
class OnnxStep(AnyStep):
    """An ONNX node. `inputs` are resolved operands, None where an optional one is left out."""

    op: str
    version: int
    proto: Any
    attributes: Mapping[str, Any]
    inputs: Sequence[Operand | None]
    input_names: Sequence[str]
    outputs: Sequence[str]
    constants: OnnxConstants
    body: Callable[[Any, Mapping[str, Operand]], tuple[Operand, ...]]
    """Imports a nested graph with these inputs, by name: its outputs."""
    is_set: Callable[[str], bool]
    """Whether a tensor comes of nothing but single integers and truth values among the model's inputs: a sample rate,
    whether there is a cache."""
    lookups: bool
    """Whether positions of elements may be computed: the host then picks and places them."""
    exact: bool
    """Whether its results are such positions, which stay integers where they are computed."""
    unrounded: bool = False
    """Whether what it quantises, or dequantises, may stay as it is: see importers.onnx.dynamic."""
    folding: Budget = field(default_factory=Budget)
    """That of the whole model."""
    producer: str = ""
    """What wrote the model, as it says itself."""
    stated: ClassVar[str] = "attribute"

    # Inputs

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def operand(self, index: int) -> Operand:
        """Input `index`, computed or constant. GraphError when it is left out."""
        operand = self.inputs[index] if index < len(self.inputs) else None
        if operand is None:
            raise GraphError(f"{self.label}: input {index} is missing")
        return operand

    def value(self, index: int) -> Value:
        """Input `index` as a value of the graph; constants are converted to the engine's dtypes."""
        operand = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(operand, Value):
            operand = self.constants.value(self.array(index, f"input {index}"), self.input_names[index])
        return operand

    def array(self, index: int, what: str) -> np.ndarray:
        """Input `index` as an array. UnsupportedError when it is computed at run time."""
        operand = self.operand(index)
        if isinstance(operand, Value):
            raise RunTimeOperandError(self.label, what, self.input_names[index])
        return operand

    def number(self, index: int) -> Value:
        """Input `index` as a value to compute with: integers of 8 and 16 bits as int32."""
        return self.widened(self.value(index))

    def positive(self, index: int) -> Value:
        """Input `index` as `number`; a single positive number that would be 0 in fp16 is the smallest one there: it is
        added, or a bound, so that nothing is 0 that is divided by or has a logarithm."""
        found = self.operand(index)
        if not isinstance(found, np.ndarray) or found.size != 1 or found.dtype.kind != "f":
            return self.number(index)
        if 0 < found.max() <= SMALLEST / 2:
            smallest = np.full(found.shape, SMALLEST, np.float16)
            return self.constants.value(smallest, f"{self.input_names[index]}.smallest")
        return self.number(index)

    def real(self, index: int) -> Value:
        """Input `index` in fp16."""
        value = self.value(index)
        return value if value.type.dtype == "fp16" else self.cast(value, "fp16")

    def widened(self, value: Value) -> Value:
        """`value`, integers of 8 and 16 bits as int32."""
        return self.cast(value, "int32") if value.type.dtype in SMALL_INTEGERS else value

    def integers_in(self, index: int, what: str) -> tuple[int, ...]:
        """Input `index`, a constant vector of integers."""
        array = self.array(index, what)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise GraphError(f"{self.label}: {what} must be a vector of integers, found {array.dtype} "
                             f"{list(array.shape)}")
        return tuple(array.reshape(-1).tolist())

    def number_in(self, index: int, what: str) -> float:
        """Input `index`, a constant number."""
        array = self.array(index, what)
        if array.size != 1 or array.dtype.kind not in "iuf":
            raise GraphError(f"{self.label}: {what} must be one number, found {array.dtype} {list(array.shape)}")
        return float(array.reshape(()))

    def half(self, array: np.ndarray, index: int) -> np.ndarray:
        """An array made from input `index`, in fp16. GraphError naming the input when a value is too large for it."""
        return self.constants.half(array, self.input_names[index])

    def rounded(self, array: np.ndarray, index: int) -> RoundedArray:
        """As `half`, with the digits that were rounded away."""
        array = np.asarray(array)  # one number computed of others is no array
        return RoundedArray(self.half(array, index), array.astype(np.float32))

    # Attributes

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self._attribute(name, default, int, "an integer"))

    def real_attribute(self, name: str, default: float) -> float:
        """A floating-point attribute."""
        return float(self._attribute(name, default, (int, float), "a number"))

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self._attribute(name, default, (bytes, str), "a string")
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def integers(self, name: str, default: Sequence[int] | None = None, count: int | None = None) -> tuple[int, ...]:
        """A vector of integers, `count` of them. GraphError when it is missing and has no default."""
        values = self.attributes.get(name, default)
        if values is None:
            raise GraphError(f"{self.label}: attribute {name!r} is missing")
        if isinstance(values, _SINGLE) or not _INTEGERS.issuperset(map(type, values)):
            raise GraphError(f"{self.label}: attribute {name!r} must be a vector of integers, found {values!r:.60}")
        if count is not None and len(values) != count:
            raise GraphError(f"{self.label}: attribute {name!r} must hold {count} integers, found {len(values)}")
        return tuple(values)

    def _attribute(self, name: str, default: Any, kinds: Any, what: str) -> Any:
        value = self.attributes.get(name, default)
        if not isinstance(value, kinds):
            raise GraphError(f"{self.label}: attribute {name!r} must be {what}, found {value!r:.60}")
        return value

    # Results

    def add_real(self, op: str, part: str = "", **operands: Any) -> Value:
        """As `add`, for operations the engine has for real numbers alone: integers are computed as the fp16 numbers
        they are there, exactly up to 2048, and stay integers; positions are computed as integers, by the host."""
        whole = any(isinstance(each, Value) and each.dtype == "int32" for each in operands.values())
        if not whole or (self.exact and op in _WHOLE):
            return self.add(op, part, **operands)
        real = {name: self.cast(each, "fp16") if isinstance(each, Value) and each.dtype == "int32" else each
                for name, each in operands.items()}
        return self.cast(self.add(op, part or "real", **real), "int32")

    def uses(self, index: int) -> bool:
        """Whether output `index` has a name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def only_output(self, what: str) -> None:
        """UnsupportedError when more than the first output is used."""
        extra = [name for name in self.outputs[1:] if name]
        if extra:
            raise UnsupportedError(self.label, f"its {what} cannot be computed", found=f"output {extra[0]!r}",
                                   remedy="export the model for inference, or leave the output unused")


def axes_of(step: OnnxStep, index: int, since: int) -> tuple[int, ...] | None:
    """Axes of a node that takes them as attribute `axes` before opset `since` and as input `index` from it on."""
    if step.version >= since:
        return step.integers_in(index, "axes") if step.has(index) else None
    return step.integers("axes") if "axes" in step.attributes else None
