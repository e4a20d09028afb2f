"""Tasks that work element by element by compiled loops: what is worked out once for operands that stay in place."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag, auto

import numpy as np

from openane.record_classes import dataclass
from openane.simulator.arithmetic.half import Bits, Floats
from openane.simulator.calls import LoopCall
from openane.simulator.kernels import Flat, placed


class LoopStep(IntFlag):
    """Steps of the loop, in its order (`compiled.planar`)."""

    FIRST_RELU = auto()
    PRE_SCALE = auto()
    NEGATE = auto()
    ABSOLUTE = auto()
    SECOND_RELU = auto()
    SUBTRACT = auto()
    GAIN = auto()
    SQUARE = auto()
    SCALE = auto()
    BIAS = auto()
    RELU = auto()
    KEEP = auto()


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function of elements: `LoopStep`s, how two operands are combined, and pre-scale, scale and bias (float32)."""

    steps: int
    function: int
    numbers: np.ndarray


NOWHERE, UNUSED = np.empty(0, np.float32), np.empty(0, np.uint16)


class ChunkTask:
    """One elementwise task by the loop."""

    def __init__(self, sources: Sequence[Flat], target: Flat, result: np.ndarray, recipe: Recipe) -> None:
        """Every source is broadcast to the target's shape."""
        first, *others = sources
        operands = [first, *others, *[first] * (2 - len(others))]
        places = placed(target.shape, *(each.strides for each in (*operands, target)))
        self._arguments = (*(each.elements for each in (*operands, target)), NOWHERE, places, recipe.steps,
                           recipe.function, recipe.numbers)
        self._result = result

    @staticmethod
    def of(sources: Sequence[np.ndarray], result: np.ndarray, recipe: Recipe) -> ChunkTask | None:
        """None where an operand has no form for the loop."""
        if any(array.dtype != np.uint16 for array in (*sources, result)):
            return None
        target = Flat.of(result)
        flats = [Flat.of(source, result.shape) for source in sources]
        known = [flat for flat in flats if flat is not None]
        return None if target is None or len(known) < len(flats) else ChunkTask(known, target, result, recipe)

    @property
    def call(self) -> LoopCall:
        """What computes all elements."""
        return LoopCall("planar", self._arguments, reads=True, stored=self._result)


class TranslateTask:
    """A task that copies words or looks each up in a table, by the loop."""

    def __init__(self, source: Flat, target: Flat, result: np.ndarray) -> None:
        self._source, self._target, self._result = source.elements, target.elements, result
        self._places = placed(target.shape, source.strides, target.strides)

    @staticmethod
    def of(source: np.ndarray, result: np.ndarray) -> TranslateTask | None:
        """None where an operand has no form for the loop."""
        target, flat = Flat.of(result), Flat.of(source, result.shape)
        return None if target is None or flat is None else TranslateTask(flat, target, result)

    def call(self, table: Bits | None) -> LoopCall:
        """What translates all words; copies them where there is no table."""
        arguments = self._source, self._target, self._places, UNUSED if table is None else table, table is None
        return LoopCall("translate", arguments, reads=True, stored=self._result)


class ValuesReader:
    """Numbers of a function of one or two operands, block by block, by the loop."""

    def __init__(self, sources: Sequence[Flat], recipe: Recipe) -> None:
        """Sources have one shape."""
        first, *others = sources
        operands = [first, *others, *[first] * (2 - len(others))]
        self._operands = [each.elements for each in operands]
        self._places = placed(first.shape, *(each.strides for each in (*operands, first)))
        self._recipe = Recipe(int(recipe.steps | LoopStep.KEEP), recipe.function, recipe.numbers)

    @staticmethod
    def of(sources: Sequence[np.ndarray], recipe: Recipe) -> ValuesReader | None:
        """None where an operand has no form for the loop."""
        if any(array.dtype != np.uint16 for array in sources):
            return None
        flats = [Flat.of(source) for source in sources]
        known = [flat for flat in flats if flat is not None]
        return None if len(known) < len(flats) else ValuesReader(known, recipe)

    def call(self, values: Floats) -> LoopCall:
        """What puts them into contiguous `values`."""
        recipe = self._recipe
        return LoopCall("planar", (*self._operands, UNUSED, values.reshape(-1), self._places, recipe.steps,
                                   recipe.function, recipe.numbers), reads=True)
