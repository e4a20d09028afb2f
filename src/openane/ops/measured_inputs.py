"""Inputs beside those that a model's ranges were measured on: powers of two are chosen for what these were."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openane.ops.half_bits import from_half
from openane.ops.halves import RANGE
from openane.record_classes import dataclass

MARGIN = 4.0
"""How much larger than on samples an input may be: so much room sums have left at the least."""


class BeyondRangeWarning(UserWarning):
    """A model was run on inputs that are much larger than those its ranges were measured on."""


@dataclass(frozen=True, slots=True)
class BeyondRange:
    """An input that is much larger than it was where the model's ranges were measured, on `source`."""

    name: str
    largest: float
    measured: float
    source: str

    def __str__(self) -> str:
        return (f"input {self.name!r} reaches {self.largest:.4g}; the model's ranges are from {self.source}, where it "
                f"reached {self.measured:.4g}: what is computed of it may leave fp16 (compile with --sample, or ask "
                "ane check)")


def beyond_ranges(metadata: Mapping[str, str], inputs: Mapping[str, np.ndarray]) -> list[BeyondRange]:
    """The inputs that are more than `MARGIN` times as large as they were where the ranges of a compiled graph, of which
    `metadata` tell, were measured; none where they were not measured."""
    found = []
    for name, array in inputs.items():
        measured, source = _known(metadata.get(f"{RANGE}{name}", ""))
        if measured < math.inf and (largest := largest_of(np.asarray(array))) > MARGIN * measured:
            found.append(BeyondRange(name, largest, measured, source))
    return found


def _known(stated: str) -> tuple[float, str]:
    """The largest number that was measured, and on what; infinity where that is not said, as in a file by others."""
    measured, _, source = stated.partition(" ")
    try:
        return float(measured), source
    except ValueError:
        return math.inf, source


def largest_of(array: np.ndarray) -> float:
    """The largest magnitude of an array; 0 of an empty one."""
    array = from_half(array) if array.dtype == np.float16 else array
    return max(float(np.max(array, initial=0.0)), -float(np.min(array, initial=0.0)))
