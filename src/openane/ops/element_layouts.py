"""Which elements of a tensor x a value has, where means are taken over some of its axes: all of x in its order, one for
each mean, or as many as broadcast to x."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from math import prod

import numpy as np

from openane.record_classes import dataclass

Runs = tuple[tuple[bool, int], ...]
"""Runs of elements: whether they are averaged, and how many. See runs_of."""


class ElementLayout(Enum):
    """What a value has elements for."""

    WHOLE = "those of x, in its order"
    KEPT = "the means, in their order"
    PART = "some dimensions of x, the others 1"
    TURNED = "those of x, the averaged ones elsewhere between the others"


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The shape of a computed operand, and which elements it has; `runs` says which of a turned one are averaged."""

    shape: tuple[int, ...]
    layout: ElementLayout
    runs: Runs


class Layouts:
    """Of what is computed of a tensor of `shape` and its means over `axes`."""

    def __init__(self, shape: tuple[int, ...], axes: Sequence[int]) -> None:
        self.shape, self.axes = shape, tuple(sorted(axes))
        self.kept = tuple(1 if axis in self.axes else extent for axis, extent in enumerate(shape))
        self.elements, self.means = prod(shape), prod(self.kept)
        self.runs = runs_of(shape, self.axes)

    def of_result(self, shape: tuple[int, ...], operands: Iterable[LaidOut]) -> tuple[ElementLayout, Runs] | None:
        """What an elementwise result of a shape has, given what its computed operands have; None where they do not lie
        beside each other as x and its means do."""
        given = list(operands)
        if prod(shape) == self.means and {operand.layout for operand in given} == {ElementLayout.KEPT}:
            return ElementLayout.KEPT, ()
        turned = {operand.runs for operand in given if operand.layout is ElementLayout.TURNED}
        whole, runs = prod(shape) == self.elements, next(iter(turned), ())
        kept = self.kept_of(shape, runs) if whole else self.kept
        if not all(self._fits(operand, shape, kept, runs) for operand in given):
            return None
        if whole:
            return ElementLayout.TURNED if turned else ElementLayout.WHOLE, runs
        return self._part(shape)

    def _part(self, shape: tuple[int, ...]) -> tuple[ElementLayout, Runs] | None:
        return (ElementLayout.PART, ()) if self._broadcasts(shape) else None

    def _fits(self, operand: LaidOut, shape: tuple[int, ...], kept: tuple[int, ...] | None, runs: Runs) -> bool:
        """Whether an operand lies in a result of a shape, which has means along `kept`, as x and its means do."""
        found = padded(operand.shape, len(shape))
        if operand.layout is ElementLayout.KEPT:
            return kept is not None and found == padded(kept, len(shape))
        if operand.layout is ElementLayout.PART:
            return self._broadcasts(shape)
        return found == shape and operand.runs == runs

    def _broadcasts(self, shape: Sequence[int]) -> bool:
        rank = len(self.shape)
        return len(bare(shape)) <= rank and all(
            extent in (1, full) for extent, full in zip(padded(shape, rank), self.shape, strict=True))

    def constant(self, array: np.ndarray, layout: ElementLayout, result: tuple[int, ...]) -> np.ndarray | None:
        """A constant operand of a result as it broadcasts to x; None where that cannot be said."""
        if array.size == 1:
            return array.reshape(())
        if layout is ElementLayout.KEPT:
            return np.broadcast_to(array, result).reshape(self.kept)
        shape, rank = bare(array.shape), len(self.shape)
        reshaped = layout is ElementLayout.WHOLE and bare(result) != bare(self.shape)
        if layout is ElementLayout.TURNED or len(shape) > rank or reshaped:
            return None
        return array.reshape((1,) * (rank - len(shape)) + shape)

    def kept_of(self, shape: Sequence[int], runs: Runs = ()) -> tuple[int, ...] | None:
        """A shape of x's elements with 1 where means are taken; None where dimensions lie across."""
        axes = axes_along(shape, runs or self.runs)
        return None if axes is None else tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))

    def turned(self, shape: Sequence[int], perm: Sequence[int]) -> Runs | None:
        """The runs of x's elements, seen in a shape, after a permutation of its dimensions; None where that changes the
        order of the means."""
        averaged = axes_along(shape, self.runs)
        if averaged is None:
            return None
        kept = [axis for axis in perm if shape[axis] > 1 and axis not in averaged]
        if kept != sorted(kept):
            return None
        return runs_of([shape[axis] for axis in perm], [place for place, axis in enumerate(perm) if axis in averaged])


def axes_along(shape: Sequence[int], runs: Runs) -> tuple[int, ...] | None:
    """The axes of a shape, above 1, that average what runs of elements say; None where dimensions lie across."""
    groups, found = list(runs), list[int]()
    left = groups[0][1] if groups else 1
    for axis, extent in enumerate(shape):
        if left == 1 and extent > 1:
            groups.pop(0)
            left = groups[0][1]
        if left % extent:
            return None
        left //= extent
        if extent > 1 and groups[0][0]:
            found.append(axis)
    return tuple(found)


def runs_of(shape: Sequence[int], axes: Sequence[int]) -> Runs:
    """Runs of elements (averaged?, how many): the same for shapes and axes that average the same elements."""
    runs: list[tuple[bool, int]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        if runs and runs[-1][0] == (axis in axes):
            extent *= runs.pop()[1]
        runs.append((axis in axes, extent))
    return tuple(runs)


def bare(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without leading ones."""
    first = next((axis for axis, extent in enumerate(shape) if extent > 1), len(shape))
    return tuple(shape[first:])


def padded(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """A shape with as many leading ones as make it `rank` long."""
    found = bare(shape)
    return (1,) * (rank - len(found)) + found
