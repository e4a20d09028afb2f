"""Arrays on the command line: inputs read from .npy files or drawn from a seed, outputs written, errors measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openane.errors import UnsupportedError
from openane.numpy_files import read_npy
from openane.record_classes import dataclass

if TYPE_CHECKING:
    from openane.devices.shapes import ShapeChoice

Array = np.ndarray[Any, np.dtype[Any]]
THRESHOLD = 0.01
"""Relative L2 error from which a tensor is said to diverge."""


COUNT = 128
"""What drawn integers are below where no table is shorter."""


@dataclass(frozen=True, slots=True)
class ArrayPort:
    """A named input or output: its shape and numpy dtype.

    A compiled program knows how a tensor lies in memory, not the shape the model gave it: unless `strict`, any shape
    with as many elements will do. A strict one may still differ in extents of 1.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strict: bool = True

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether an array of `shape` fits without doubt about its axes."""
        if self.strict:
            return [n for n in shape if n != 1] == [n for n in self.shape if n != 1]
        return bool(np.prod(shape, dtype=object) == np.prod(self.shape, dtype=object))


def gather(ports: Sequence[ArrayPort], files: Mapping[str, Path], seed: int, choice: ShapeChoice | None = None,
           tables: Callable[[], Mapping[str, int]] | None = None) -> dict[str, Array]:
    """One array per port: from its file, or drawn from `seed` where none is given.

    `tables` says how long the tables are that ports hold positions of, and is asked where such may be drawn. Arrays are
    padded as a `choice` of shapes says. UnsupportedError for names that are no input, and for arrays of another shape
    or kind than the port's.
    """
    known = {port.name: port for port in ports}
    for name in files:
        if name not in known:
            raise UnsupportedError(f"--input {name}", "there is no input of this name", found=name,
                                   limit=", ".join(known) or "no inputs at all")
    rng = np.random.default_rng(seed)
    counted = any(port.name not in files and port.dtype.kind in "iu" for port in ports)
    lengths = tables() if tables is not None and counted else {}
    drawn = {port.name: draw(port, rng, lengths.get(port.name, COUNT))  # of all: a file does not change others' values
             for port in ports}
    return {name: fitting(known[name], files[name], choice) if name in files else array
            for name, array in drawn.items()}


def draw(port: ArrayPort, rng: np.random.Generator, length: int = COUNT) -> Array:
    """Seeded values a model can live with: normal for floats, small non-negative whole numbers, below `length`, for
    integers."""
    if port.dtype.kind == "f":
        return rng.standard_normal(port.shape, np.float32).astype(port.dtype)
    return rng.integers(0, 2 if port.dtype.kind == "b" else min(COUNT, length), port.shape).astype(port.dtype)


def fitting(port: ArrayPort, path: Path, choice: ShapeChoice | None = None) -> Array:
    """The file's array in the port's shape, padded where a `choice` of shapes says so, floats as precise as they are;
    UnsupportedError says what would fit."""
    array = read_npy(path)
    if choice is not None:
        array = choice.pad({port.name: array})[port.name]
    wanted = f"{port.dtype} {list(port.shape)}"
    if not port.takes(array.shape):
        raise UnsupportedError(f"--input {port.name}={path}", "the array must have the input's shape", limit=wanted,
                               found=f"{array.dtype} {list(array.shape)}",
                               remedy=reshape_hint(array.shape, port.shape))
    if not np.can_cast(array.dtype, port.dtype, "same_kind"):
        raise UnsupportedError(f"--input {port.name}={path}", "the array must hold the input's kind of number",
                               limit=wanted, found=f"{array.dtype} {list(array.shape)}",
                               remedy=f"save it with array.astype('{port.dtype}')")
    floats = array.dtype.kind == port.dtype.kind == "f" and array.dtype.itemsize <= 8
    return np.asarray(array, array.dtype if floats else port.dtype).reshape(port.shape)


def reshape_hint(found: Sequence[int], wanted: Sequence[int]) -> str:
    """What would make an array of one shape into the other."""
    if np.prod(found, dtype=object) == np.prod(wanted, dtype=object):
        return f"the number of elements fits: save it with array.reshape({', '.join(map(str, wanted))})"
    return "pass an array of that shape, or compile the model for this one with --shape"


def compare(found: Array, wanted: Array) -> dict[str, float]:
    """Largest absolute error, its size relative to the largest finite reference value, and the relative L2 error.
    Infinite where one side is infinite and the other is not, NaN where one side alone is NaN."""
    if not found.size:
        return {"max_abs": 0.0, "max_rel": 0.0, "l2_rel": 0.0}
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, a - b)  # equal infinities do not differ
        finite = np.where(np.isfinite(b), b, 0.0)
        largest = float(np.abs(error).max())
        peak, norm = float(np.abs(finite).max()), float(np.linalg.norm(finite))
        return {"max_abs": largest, "max_rel": largest / peak if peak else largest,
                "l2_rel": float(np.linalg.norm(error)) / norm if norm else float(np.linalg.norm(error))}


def unlike(found: Array, wanted: Array) -> tuple[int, int]:
    """How many values are infinite or NaN where the reference has a number, and how many the other way round or
    infinite of the other sign."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    lost = ~np.isfinite(a) & np.isfinite(b)
    other = ~np.isfinite(b) & (a != b) & ~(np.isnan(a) & np.isnan(b))
    return int(np.count_nonzero(lost)), int(np.count_nonzero(other))
