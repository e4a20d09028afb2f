"""Writes new numbers for constants whose routes are known into copies of the constant sections.

What depends on the routes alone is made once and kept: all vectors of all folded steps as one array, and for every
piece the strided copies that bring the fp16 elements of a weight to their places in the section.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Protocol, TypeVar

import numpy as np

from openane.chips import Limits
from openane.chips.coefficients import CoefficientFormat
from openane.compiler.patch.fold_vectors import FoldedVectors, Vectors, fold
from openane.compiler.patch.fold_weights import scaled
from openane.compiler.patch.strided_copy import StridedCopies, strided_copies
from openane.compiler.weights.layout_records import (
    ConstantForm,
    ConstantPiece,
    ConstantRecord,
    Picked,
    Route,
    Routes,
    WeightView,
)
from openane.compiler.weights.pack import pack_sparse
from openane.graph import numpy_type
from openane.passes.fold_affine import OVERFLOW
from openane.program import Constants, Program
from openane.record_classes import dataclass

Arrays = Mapping[str, np.ndarray]
LARGE = 1 << 22
"""From so many elements of weights on, starting threads saves time."""
THREADS = 4
NORMAL = float(np.finfo(np.float16).smallest_normal)
INFINITE = int(np.float16(np.inf).view(np.uint16))
SURE = 1.001
"""A margin wider than the rounding to fp16."""


S = TypeVar("S")
T = TypeVar("T")


class Each(Protocol):
    """What `map` is: a function that calls another for every item."""

    def __call__(self, function: Callable[[S], T], items: Iterable[S], /) -> Iterator[T]:
        """The function of each item, in order."""
        ...


def _ways(vectors: Vectors, routes: Sequence[Route], limits: Limits) -> tuple[_Way, ...]:
    """The routes of one kind with what their pieces need; their `vectors` count channels on."""
    return tuple(_Way(number, start, route, route.weight or "", _placed(route, limits))
                 for number, (start, route) in enumerate(zip(vectors.starts, routes, strict=False)))


class ConstantWriter:
    """Writes new numbers for some constants."""

    def __init__(self, routes: Routes, names: frozenset[str], limits: Limits) -> None:
        taken, self._form = routes.of(names), limits.coefficients
        self.constants = routes.constants
        self.sources = frozenset(name for route in taken for name in route.sources)
        weighted = sorted((route for route in taken if route.weight is not None), key=lambda route: -len(route.steps))
        norms = [route for route in taken if route.weight is None]
        self._vectors, self._norms = Vectors(weighted, self.constants), Vectors(norms, self.constants)

        self._weighted = _ways(self._vectors, weighted, limits)
        self._standing = _ways(self._norms, norms, limits)
        self._folded = frozenset(name for route in taken for name in (route.sources if route.scales else route.vectors))
        self._elements = sum(self.constants[way.weight].elements for way in self._weighted)
        self._programs = frozenset(piece.program for route in taken for piece in route.pieces)

    def owned(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Copies of the arrays, row-major: as they are where something is computed with them, else as they are stored,
        which takes half the memory."""
        names = tuple(arrays)

        def copied(name: str) -> np.ndarray:
            kind = None if name in self._folded else numpy_type(self.constants[name].dtype)
            with np.errstate(over="ignore"):
                return np.array(arrays[name], dtype=kind, order="C")

        with _each(self._elements) as each:
            return dict(zip(names, each(copied, names), strict=True))

    def programs(self, programs: Sequence[Program], arrays: Arrays) -> tuple[Program, ...] | None:
        """The programs with the constants made of `arrays`, which has all `sources`. None when these would change more
        than bytes of constants."""
        with np.errstate(all="ignore"):
            made = fold(self._vectors, self._vectors.pool(arrays))
            if made is None or any(way.route.biased != bool(made.biased[way.number]) for way in self._weighted):
                return None
            sections = {number: _Section(programs[number].constants, self._form) for number in self._programs}
            self._write_norms(sections, arrays)
            with _each(self._elements) as each:
                good = all(each(partial(self._write, sections, arrays, made), self._weighted))
        finished = {number: section.finished() for number, section in sections.items()}
        if not good:
            return None
        return tuple(replace(program, constants=finished[number]) if number in finished else program
                     for number, program in enumerate(programs))

    def _write(self, sections: Mapping[int, _Section], arrays: Arrays, made: FoldedVectors, way: _Way) -> bool:
        """Writes the pieces of one weight; False where they take another form."""
        route, place = way.route, slice(way.start, way.start + way.route.channels)
        gains = [gain[place] for level, gain in enumerate(made.gains[:len(route.steps)])
                 if made.scaled[level][way.number]]
        array = arrays[way.weight]
        halves = _halves(array.reshape(route.extents), gains, bool(route.steps), self.constants[way.weight])
        return halves is not None and all(
            sections[piece.program].write(piece, steps, halves.reshape(-1), 0, made.bias, way.start)
            for piece, steps in way.pieces)

    def _write_norms(self, sections: Mapping[int, _Section], arrays: Arrays) -> None:
        """Gains and offsets of normalisations that stand alone are rounded once."""
        if not self._standing:
            return
        gain, offset = (part.astype(np.float16) for part in self._norms.gains(self._norms.pool(arrays), 0))
        for way in self._standing:
            for piece, steps in way.pieces:
                sections[piece.program].write(piece, steps, gain, way.start, offset, way.start)


@dataclass(frozen=True, slots=True)
class _Way:
    """A route, its number and first channel among those of its kind, its weight, and its pieces with their moves."""

    number: int
    start: int
    route: Route
    weight: str
    pieces: tuple[tuple[ConstantPiece, StridedCopies], ...]


def _placed(route: Route, limits: Limits) -> tuple[tuple[ConstantPiece, StridedCopies], ...]:
    return tuple((piece, strided_copies(piece, piece.weights if isinstance(piece.weights, WeightView) else
                                        WeightView.whole(piece.weights.shape), limits)) for piece in route.pieces)


class _Section:
    """The constants of a program in the making; what no piece writes stays as it was."""

    def __init__(self, constants: Constants, form: CoefficientFormat) -> None:
        self._form = form
        self._file = BytesIO()  # gives its bytes away without another copy
        self._file.write(constants)
        self._buffer = self._file.getbuffer()
        self._bytes: np.ndarray | None = np.frombuffer(self._buffer, np.uint8)

    def write(self, piece: ConstantPiece, steps: StridedCopies, weights: np.ndarray, first: int, biases: np.ndarray,
              start: int) -> bool:
        """Fills a piece from fp16 weights, counted from element `first`, and biases from `start`. False where it takes
        another form."""
        section = self._bytes
        assert section is not None, "nothing is written to what is finished"
        if isinstance(piece.weights, Picked):
            weights = piece.weights.of(weights).reshape(-1)
        if piece.form is ConstantForm.SPARSE and (not steps.weights or _least(weights) == 0):
            return self._write_sparse(piece, weights, biases[start:], section)
        for copy in steps.weights:
            copy.apply(section, weights, first)
        for copy in steps.biases:
            copy.apply(section, biases, start)
        return True

    def finished(self) -> bytes:
        """All bytes; nothing can be written any more."""
        self._bytes = None
        self._buffer.release()
        return self._file.getvalue()

    def _write_sparse(self, piece: ConstantPiece, weights: np.ndarray, biases: np.ndarray, section: np.ndarray) -> bool:
        table = section[piece.offset:piece.offset + self._form.table.size].tobytes() if piece.table else None
        bias = None if piece.bias is None else piece.bias.of(biases)
        seen = piece.weights.of(weights) if isinstance(piece.weights,
                                                       WeightView) else weights.reshape(piece.weights.shape)
        packed = pack_sparse(self._form, seen, bias, piece.lanes, table)
        if packed.streams != piece.streams:
            return False
        packed.write(section[piece.offset:piece.offset + packed.size])
        return True


def _halves(weight: np.ndarray, gains: Sequence[np.ndarray], folded: bool,
            constant: ConstantRecord) -> np.ndarray | None:
    """The weight [outer, channels, inner] as it is packed, times its gains; None where fp16 does not hold them, so that
    they would not be folded."""
    with np.errstate(all="ignore"):
        if gains:
            halves, largest = scaled(weight, gains)
            return halves if _held(largest, gains) or _held_exactly(weight, gains) else None
        stored = weight.astype(numpy_type(constant.dtype), copy=False)
        halves = np.ascontiguousarray(stored.astype(np.float16, copy=False))
        return None if folded and _peak(halves) >= INFINITE else halves


def _peak(halves: np.ndarray) -> int:
    """The bits of the largest magnitude: they are in the order of the numbers, infinity and NaN last."""
    return int(np.abs(halves).view(np.uint16).max(initial=0))


def _least(halves: np.ndarray) -> int:
    """The bits of the smallest magnitude."""
    return int(np.abs(halves).view(np.uint16).min(initial=INFINITE))


def _held(largest: float, gains: Sequence[np.ndarray]) -> bool:
    """Whether fp16 holds the weights after every step for sure; see fold_affine for what it must hold."""
    low = high = largest
    for gain in gains:
        sizes = np.abs(gain)
        before, low, high = high, low * float(sizes.min()) / SURE, high * float(sizes.max()) * SURE
        if not (high < OVERFLOW and (low >= NORMAL or low >= before)):
            return False
    return largest < OVERFLOW


def _held_exactly(weight: np.ndarray, gains: Sequence[np.ndarray]) -> bool:
    """The same by the largest weight of each channel: rounding keeps the order of numbers."""
    peaks = np.abs(weight.astype(np.float16)).max(axis=(0, 2)).astype(np.float64)
    for gain in gains:
        largest, peaks = float(peaks.max()), peaks * np.abs(gain)
        found = float(peaks.max())
        if not (found < OVERFLOW and (found == 0 or found >= NORMAL or found >= largest)):
            return False
        peaks = peaks.astype(np.float16).astype(np.float64)
    return True


@contextmanager
def _each(elements: int) -> Iterator[Each]:
    """map; of many elements by threads, as numpy casts and copies side by side."""
    if elements < LARGE:
        yield map
        return
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        yield pool.map
