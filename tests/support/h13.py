"""What most tests build with: the H13 generation, its surfaces, and coefficients whose parts lie together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from openane.chips import Limits, get_chip
from openane.engine import Access, Coefficients, CoefficientSection, CoefficientStream, DType, Space
from openane.engine.table import Table
from openane.program import Layout

CHIP = get_chip("h13")
LIMITS = CHIP.limits
FORMAT = LIMITS.coefficients


def smaller(monkeypatch: pytest.MonkeyPatch, **limits: int) -> Limits:
    """Puts a chip of smaller fields or memories in H13's place; its limits."""
    chip = replace(CHIP, policy=replace(CHIP.policy, limits=replace(LIMITS, **limits)))
    monkeypatch.setattr("openane.chips.h13.CHIP", chip)
    return chip.limits


def layout_of(shape: tuple[int, ...], dtype: DType = DType.FLOAT16) -> Layout:
    """The layout of a tensor [N, C, D, H, W] as inputs and outputs of H13 programs have it."""
    n, c, d, h, w = shape
    return Layout.packed((n, c, d, h, w), LIMITS.memory_alignment, dtype)


def coefficients_at(slot: int, streams: Sequence[CoefficientStream | tuple[int, int, int]],
                    **parts: Any) -> Coefficients:
    """Coefficients whose parts lie in the same streams of a slot; weights alone, unless `parts` says more."""
    return Coefficients.together(CoefficientSection.of(slot, tuple(CoefficientStream(*stream) for stream in streams)),
                                 **parts)


def held(data: bytes) -> Callable[[int], np.ndarray]:
    """Stores that hold `data` in every slot."""
    return lambda slot: np.frombuffer(data, np.uint8)


def by_rows(weights: np.ndarray) -> np.ndarray:
    """Weights [channels, inputs, height, width] in the order in which they are multiplied: rows of the kernel slowest,
    then inputs: [channels, height * inputs * width]."""
    return weights.swapaxes(1, 2).reshape(len(weights), -1)


def table_bytes(table: Table) -> bytes:
    """An activation table as constants hold it."""
    return FORMAT.table.pack(table)


def dense(slot: int, shape: tuple[int, int, int, int, int], dtype: DType = DType.FLOAT16, *,
          space: Space = Space.MEMORY) -> Access:
    """All of a buffer that holds N, C, D, H, W one behind the other, W contiguous and not padded."""
    strides = tuple(prod(shape[axis + 1:]) * dtype.size for axis in range(5))
    return Access(space=space, slot=slot, shape=shape, strides=strides, dtype=dtype)  # type: ignore[arg-type]


def turned(access: Access, first: int, second: int) -> Access:
    """The same elements walked with two loops exchanged."""
    order = list(range(5))
    order[first], order[second] = second, first
    shape, strides = (tuple(numbers[axis] for axis in order) for numbers in (access.shape, access.strides))
    return replace(access, shape=shape, strides=strides)  # type: ignore[arg-type]
