"""Constants of an ONNX model in the engine's dtypes: floating point in fp16, integers in int32."""

from __future__ import annotations

import warnings
from weakref import ref

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import RoundedArray, Value
from openane.importers.step import beyond_half, in_half
from openane.ops.build import GraphBuilder
from openane.ops.halves import LARGEST, halves_finite

MATRIX = 2
"""Dimensions of weights whose digits beyond fp16 are given up, since they take the memory of three: most of a language
model's are such, and nothing is folded into them as batch norms are into convolutions."""
UNBOUNDED = 1e9
"""Magnitude from which on numbers stand for infinity, as in the masks of attention: what they are does not matter."""


class OnnxConstants:
    """Converts arrays once and remembers the values made from them, so that shared weights stay shared."""

    def __init__(self, builder: GraphBuilder, reserved: frozenset[str], saturate: bool) -> None:
        self._builder, self._reserved, self._saturate = builder, reserved, saturate
        self._values: dict[int, tuple[ref[np.ndarray], Value]] = {}  # by id, which is another's when the array is gone
        self._detailed: dict[int, ref[np.ndarray]] = {}

    def in_detail(self, array: np.ndarray) -> np.ndarray:
        """The array itself, whose digits beyond fp16 are kept whatever its dimensions."""
        self._detailed[id(array)] = ref(array)
        return array

    def detailed(self, array: np.ndarray) -> bool:
        """Whether `in_detail` was told of this array."""
        known = self._detailed.get(id(array))
        return known is not None and known() is array

    def value(self, array: np.ndarray, name: str) -> Value:
        """The constant value of `array`, called `name` unless an output has that name."""
        known = self._values.get(id(array))
        if known is None or known[0]() is not array:
            if not array.size:
                raise UnsupportedError(f"tensor {name!r}", "tensors without elements cannot be computed",
                                       found=f"shape {list(array.shape)}", remedy="leave its operators out")
            label = f"{name}.constant" if name in self._reserved else name
            digits = array.dtype == np.float32 and (array.ndim != MATRIX or self.detailed(array))
            made = self._builder.late(array, label) if digits else None
            if made is None:
                converted = self.converted(array, name)
                kept = digits and halves_finite(converted)
                made = self._builder.constant(RoundedArray(converted, array) if kept else converted, label)
            known = self._values[id(array)] = ref(array), made
        return known[1]

    def converted(self, array: np.ndarray, name: str) -> np.ndarray:
        """`array` in the engine's dtype: fp16, int32 or bool. GraphError when a value does not fit."""
        if array.dtype.kind == "f":
            return self.half(array, name)
        if array.dtype.kind in "iu":
            limits = np.iinfo(np.int32)
            if array.size and not (limits.min <= array.min() and array.max() <= limits.max):
                raise GraphError(f"constant {name!r} holds integers outside int32: {array.min()}..{array.max()}")
            return array.astype(np.int32, copy=False)
        if array.dtype.kind == "b":
            return array
        raise UnsupportedError(f"constant {name!r}", "elements must be numbers", found=array.dtype)

    def half(self, array: np.ndarray, name: str) -> np.ndarray:
        """`array` in fp16. Numbers that stand for infinity become the largest finite one. GraphError naming the
        constant when another finite value becomes infinite; when saturating, such values become the largest finite one
        too and a RuntimeWarning says so."""
        result, lost = in_half(array)
        if lost is None or not lost.any():
            return result
        if np.abs(array[lost]).min() >= UNBOUNDED:
            return _clamped(array, result, lost)
        message = f"constant {name!r} {beyond_half(array, lost)} ({int(lost.sum())} of {array.size} values)"
        if not self._saturate:
            raise GraphError(f"{message}; rescale the model, or clamp them in Python: load_onnx(..., saturate=True)")
        warnings.warn(f"{message}; clamped", RuntimeWarning, stacklevel=2)
        return _clamped(array, result, lost)


def _clamped(array: np.ndarray, half: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """`half`, the largest finite number where `array` was lost in it."""
    return np.where(lost, np.sign(array) * LARGEST, half).astype(np.float16)
