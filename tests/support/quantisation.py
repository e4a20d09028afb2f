"""Quantisation that is written out, as importers do it, and what it stands for."""

from __future__ import annotations

import numpy as np

from openane.graph import RoundedArray, Value
from openane.ops.build import GraphBuilder


def stated(array: np.ndarray | float) -> RoundedArray:
    """A constant in fp16 with all digits of fp32."""
    numbers = np.asarray(array, np.float32)
    return RoundedArray(numbers.astype(np.float16), numbers)


def quantised(builder: GraphBuilder, x: Value, step: float, zero: float, low: float, high: float) -> Value:
    """x in steps, and back."""
    units = builder.single("mul", x=x, y=stated(1 / step))
    moved = builder.single("add", x=builder.single("round", x=units), y=np.float16(zero))
    byte = builder.single("cast", x=builder.single("clip", x=moved, alpha=low, beta=high),
                          dtype="uint8" if low == 0 else "int8")
    number = builder.single("sub", x=builder.single("cast", x=byte, dtype="fp16"), y=np.float16(zero))
    return builder.single("mul", x=number, y=stated(step))


def steps(x: np.ndarray, step: float, zero: float, low: float, high: float) -> np.ndarray:
    """Whole steps in float64."""
    return np.asarray(np.clip(np.rint(x.astype(np.float64) / np.float32(step)) + zero, low, high) - zero)
