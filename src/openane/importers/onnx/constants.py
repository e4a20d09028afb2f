"""Constants of an ONNX model in the engine's dtypes: floating point in fp16, integers in int32."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from weakref import ref

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import RoundedArray, Value
from openane.importers.onnx.nodes import StatedNode
from openane.importers.onnx.together import (
    NORM,
    STATISTICS,
    NormConstants,
    NormKey,
    halves_together,
    norms_together,
    seen_in,
)
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
        self._halves: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._norms: dict[NormKey, NormConstants] = {}

    def prepare(self, nodes: Sequence[StatedNode], known: Mapping[str, object]) -> None:
        """Makes what the nodes will ask for of the arrays among `known` that have few numbers, all at once."""
        norms = {name for node in nodes if node.kind == NORM for name in node.inputs[STATISTICS]}
        self._norms = norms_together(nodes, known)
        self._halves = halves_together(array for name, array in known.items() if name not in norms)

    def norm(self, statistics: Sequence[np.ndarray], epsilon: float) -> NormConstants | None:
        """The constants of a batch norm of these statistics, where they were prepared."""
        made = self._norms.pop(tuple(map(id, statistics)), None)
        return made if made is not None and made.of[1] == epsilon else None

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
            known = self._values[id(array)] = ref(array), self._made(array, name)
        return known[1]

    def _made(self, array: np.ndarray, name: str) -> Value:
        label = f"{name}.constant" if name in self._reserved else name
        if array.dtype != np.float32 or (array.ndim == MATRIX and not self.detailed(array)):
            return self._builder.constant(self.converted(array, name), label)
        made = self._builder.late(array, label)
        if made is not None:
            return made
        ready = self._prepared(array)
        half = self.converted(array, name) if ready is None else ready
        kept = ready is not None or halves_finite(half)
        return self._builder.constant(RoundedArray(half, array) if kept else half, label)

    def _prepared(self, array: np.ndarray) -> np.ndarray | None:
        """What was made of an array, or of one with the same numbers in the same order in another shape."""
        found = self._halves.pop(id(seen_in(array)), None)  # another constant of the array gets numbers of its own
        return None if found is None else found[1].reshape(array.shape)

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
        result, lost = self._prepared(array), None
        if result is None:
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
