"""One layer while it is imported: its parameters, inputs and weights, and nodes to put in its place.

The older layers see a tensor as [..., channels, height, width]. Where arrays are mapped to five dimensions (sequence,
batch, channels, height, width) the first two are one here: nothing but recurrent layers tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.formats.protobuf import Message
from openane.graph import RoundedArray, Value
from openane.importers.coreml.weights import weight_array
from openane.importers.step import ImportStep, to_half
from openane.record_classes import dataclass

Result = Value | tuple[Value, ...]
Handler = Callable[["CoremlLayer"], Result]


@dataclass(slots=True)
class CoremlLayer(ImportStep):
    """A layer of kind `kind` with parameters `params`; `exact` networks keep the ranks their arrays have."""

    kind: str
    params: Message
    inputs: Sequence[Value]
    outputs: Sequence[str]
    exact: bool

    def real(self, index: int = 0) -> Value:
        """Input `index` in fp16; integers and booleans are cast."""
        if not 0 <= index < len(self.inputs):
            raise GraphError(f"{self.label}: input {index} is missing")
        return self.cast(self.inputs[index], "fp16", f"input{index}")

    def reals(self, least: int = 1) -> list[Value]:
        """All inputs in fp16. GraphError when there are fewer than `least`."""
        if len(self.inputs) < least:
            raise GraphError(f"{self.label}: needs {least} inputs, found {len(self.inputs)}")
        return [self.real(index) for index in range(len(self.inputs))]

    def only(self) -> Value:
        """The only input, in fp16. UnsupportedError when there are more."""
        if len(self.inputs) != 1:
            raise UnsupportedError(self.label, "parameters computed at run time are not supported",
                                   limit="1 input", found=len(self.inputs), remedy="store them in the layer")
        return self.real()

    def image(self) -> tuple[Value, Callable[[Value], Value]]:
        """The only input as [N, C, H, W], and what gives a result of that form the input's own rank."""
        x = self.only()
        rank = x.type.rank
        if rank == 4:
            return x, lambda result: result
        if rank < 3:
            raise GraphError(f"{self.label}: needs channels, height and width, found {x.type}")
        lead = x.shape[:-3]
        flat = self.add("reshape", part="flat", x=x, shape=[int(np.prod(lead, dtype=np.int64)), *x.shape[-3:]])
        return flat, lambda result: self.add("reshape", x=result, shape=[*lead, *result.shape[1:]])

    def weights(self, weights: Message, shape: Sequence[int], what: str = "weights", axis: int = 0) -> np.ndarray:
        """A WeightParams message in fp16, scales of quantised ones along `axis`. GraphError where fp16 overflows."""
        return self.half(weight_array(weights, shape, f"{self.label}: {what}", axis), what)

    def rounded(self, weights: Message, shape: Sequence[int],
                what: str = "weights") -> RoundedArray | np.ndarray:
        """As `weights`, with the digits that were rounded away, where there are any."""
        array = weight_array(weights, shape, f"{self.label}: {what}")
        half = self.half(array, what)
        return half if array.dtype == np.float16 else RoundedArray(half, array.astype(np.float32, copy=False))

    def half(self, array: np.ndarray, what: str) -> np.ndarray:
        """An array in fp16. GraphError when a number is beyond it."""
        return to_half(array, f"{self.label}: one of its {what}")

    def number(self, value: float, what: str) -> np.float16:
        """A parameter in fp16."""
        return np.float16(to_half(np.array(value, np.float64), f"{self.label}: {what}")[()])

    def pair(self, name: str, default: int = 1) -> tuple[int, int]:
        """Two integers, for height and width. GraphError when there are not two of 1 or more."""
        numbers = tuple(getattr(self.params, name)) or (default, default)
        if len(numbers) != 2 or min(numbers) < 1 or max(numbers) >= 2**31:
            raise GraphError(f"{self.label}: {name} must be two numbers of 1 or more, found {list(numbers)[:8]}")
        return numbers[0], numbers[1]
