"""Reductions of the planar engine. Sums are kept in float64: how the hardware rounds inside is not known."""

from __future__ import annotations

import numpy as np

from openane.engine import Reduce, Reduction, Root
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import BLOCK, Floats
from openane.simulator.blocks import coalesce, split
from openane.simulator.chunks import ValuesReader
from openane.simulator.context import TaskContext
from openane.simulator.kernels import Flat, Kernels
from openane.simulator.memory import OperandArray
from openane.simulator.planar_functions import quieten, recipe, require_fit, scaled_function
from openane.simulator.streams import read, write

LONGEST = 1 << 13
"""Numbers numpy adds at once: of more it casts and adds so many at a time."""
ROOTS = (Root.NONE, Root.RECIPROCAL, Root.RSQRT)
"""As `compiled.reducing` counts them."""


class Reducer:
    """Reduces D, H, W of every (n, c)."""

    def __init__(self, operation: Reduction, first: OperandArray, second: OperandArray | None, result: OperandArray,
                 context: TaskContext) -> None:
        self._operation, self._context, what = operation, context, context.what
        self._result = result.array
        self._function = scaled_function(operation)
        shape = first.array.shape
        if result.array.shape != (*shape[:2], 1, 1, 1):
            raise SimulationError(f"{what}: reducing {shape} gives {(*shape[:2], 1, 1, 1)}, "
                                  f"the result has {result.array.shape}")
        operands = [first] if second is None else [first, second]
        require_fit(operands, shape, what)
        views = _planes([np.broadcast_to(operand.array, shape) for operand in operands])
        self._blocks = [(part[:2], [view[part] for view in views]) for part in split(views[0].shape, BLOCK)]
        self._readers: list[ValuesReader | None] | None = None
        self._numbers = np.array([operation.final_scale, operation.epsilon])
        self._flat: Flat | None = None

    def execute(self) -> None:
        """Accumulates block by block, then finishes all (n, c) at once."""
        summing, kernels = self._operation.reduce is Reduce.SUM, self._context.workspace.kernels
        total = np.full(self._result.shape[:2], 0.0 if summing else -np.inf)
        for number, (place, raw) in enumerate(self._blocks):
            values = self._values(number, raw)
            axes = tuple(range(2, values.ndim))
            rows = total[place].reshape(-1)  # a view: blocks follow each other
            if kernels is not None and self._by_loop(values, rows):
                kernels.reduce(values.reshape(-1), values.size // rows.size, summing, rows)
            elif summing:
                other = self._context.row_sums
                total[place] += values.sum(axis=axes, dtype=np.float64) if other is None else other(values)
            else:
                np.maximum(total[place], values.max(axis=axes), out=total[place])
        if kernels is None or not self._finish_by_loop(kernels, total):
            self._finish(total)

    def _by_loop(self, values: Floats, rows: np.ndarray) -> bool:
        """Whether the compiled loop reduces a block: it adds as numpy does up to `LONGEST` numbers."""
        return self._context.row_sums is None and values.flags.c_contiguous and values.size <= LONGEST * rows.size

    def _finish_by_loop(self, kernels: Kernels, total: np.ndarray) -> bool:
        """Finishes by the compiled loop; False where that does not know the result's form."""
        if self._flat is None and self._result.dtype == np.uint16:
            self._flat = Flat.of(self._result)
        if self._flat is None:
            return False
        places = np.array([*self._flat.shape[:2], *self._flat.strides[:2]], np.int64)
        self._context.report.surveyed(self._result, *kernels.finish(
            total.reshape(-1), self._numbers, ROOTS.index(self._operation.root), self._operation.relu,
            self._flat.elements, places))
        return True

    def _values(self, number: int, raw: list[np.ndarray]) -> Floats:
        """What is reduced of a block, none of it NaN."""
        workspace, report = self._context.workspace, self._context.report
        if workspace.kernels is not None:
            if self._readers is None:
                described = recipe(self._operation, len(raw))
                self._readers = [ValuesReader.of(block, described) for _, block in self._blocks]
            reader = self._readers[number]
            if reader is not None:
                found = workspace.floats(raw[0].shape)
                reader(workspace.kernels, found, report)
                return found
        numbers: list[Floats] = []
        for source in raw:
            values = workspace.floats(source.shape, len(numbers))
            read(source, values, report)
            numbers.append(values)
        values = self._function(*numbers)
        quieten(values)
        return values

    def _finish(self, total: np.ndarray) -> None:
        operation = self._operation
        value = np.where(np.isnan(total), 0, total) * operation.final_scale + operation.epsilon
        if operation.root is Root.RECIPROCAL:
            value = 1 / np.where(value == 0, 0.0, value)
        elif operation.root is Root.RSQRT:
            value = 1 / np.sqrt(np.where(value == 0, 0.0, value))
        if operation.relu:
            value = np.maximum(value, 0)
        write(value, self._result, self._context, to_even=True)


def _planes(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """[N, C, D, H, W] arrays with D, H, W merged where possible."""
    merged = coalesce([array[0, 0] for array in arrays])
    return [np.lib.stride_tricks.as_strided(array, (*array.shape[:2], *plane.shape),
                                            (*array.strides[:2], *plane.strides), writeable=False)
            for array, plane in zip(arrays, merged, strict=True)]
