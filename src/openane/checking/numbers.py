"""How arrays that must be alike differ: errors relative to the size of what is right."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def relative(found: Array, wanted: Array, offset: Array | float = 0.0) -> float:
    """The root of summed squares of the differences, by that of the values without an `offset`. Where what is wanted is
    infinite or NaN nothing counts; infinite where something found is not finite and should be."""
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    known = np.isfinite(b)
    if not known.any():
        return 0.0
    with np.errstate(all="ignore"):
        error = float(np.linalg.norm(np.where(known, a - b, 0.0)))
        size = float(np.linalg.norm(np.where(known, b - offset, 0.0)))
    if not np.isfinite(error):
        return float("inf")
    return error / size if size else (0.0 if not error else float("inf"))


def usual(array: Array) -> float:
    """The root mean square of what is finite."""
    finite = array[np.isfinite(array)].astype(np.float64) if array.dtype.kind == "f" else np.zeros(0)
    return float(np.sqrt(np.mean(finite ** 2))) if finite.size else 0.0


def largest(array: Array) -> float:
    """The largest magnitude of what is finite."""
    finite = np.abs(array[np.isfinite(array)].astype(np.float64)) if array.dtype.kind == "f" else np.zeros(0)
    return float(finite.max()) if finite.size else 0.0


def peak(array: Array) -> float:
    """The largest magnitude; infinite where one is infinite or NaN."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    size = float(np.abs(array).max())
    return size if np.isfinite(size) else float("inf")


def ends(array: Array) -> tuple[float | None, float | None]:
    """The smallest and the largest finite number."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    return (float(finite.min()), float(finite.max())) if finite.size else (None, None)


def infinities(found: Array, wanted: Array) -> int:
    """How many are infinite or NaN where finite numbers are wanted."""
    if found.dtype.kind != "f":
        return 0
    return int(np.count_nonzero(~np.isfinite(found) & np.isfinite(wanted.astype(np.float64))))


def steps_off(found: Array, wanted: Array, size: float) -> int | None:
    """How many steps two arrays differ at most; None where one is not finite."""
    most = float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0)) / size
    return round(most) if np.isfinite(most) else None
