"""Reductions of the planar engine. Sums are kept in float64: how the hardware rounds inside is not known."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from openane.engine import Reduce, Reduction, Root
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import BLOCK, Floats
from openane.simulator.blocks import coalesce, split
from openane.simulator.calls import LoopCall, PreparedTask, TaskCall, TaskCalls, Together, make
from openane.simulator.chunks import ValuesReader
from openane.simulator.context import TaskContext
from openane.simulator.kernels import Flat
from openane.simulator.memory import OperandArray
from openane.simulator.planar_functions import quieten, recipe, require_fit, scaled_function
from openane.simulator.streams import read, write
from openane.simulator.threads import lanes_for

LONGEST = 1 << 13
"""Numbers numpy adds at once: of more it casts and adds so many at a time."""
ROOTS = (Root.NONE, Root.RECIPROCAL, Root.RSQRT)
"""As `compiled.reducing` counts them."""


class Reducer(PreparedTask):
    """Reduces D, H, W of every (n, c)."""

    def __init__(self, operation: Reduction, first: OperandArray, second: OperandArray | None, result: OperandArray,
                 context: TaskContext) -> None:
        self._operation, self._context, what = operation, context, context.what
        self._result = result.array
        self._function = scaled_function(operation)
        self._summing = operation.reduce is Reduce.SUM
        shape = first.array.shape
        if result.array.shape != (*shape[:2], 1, 1, 1):
            raise SimulationError(f"{what}: reducing {shape} gives {(*shape[:2], 1, 1, 1)}, "
                                  f"the result has {result.array.shape}")
        operands = [first] if second is None else [first, second]
        require_fit(operands, shape, what)
        views = _planes([np.broadcast_to(operand.array, shape) for operand in operands])
        self._blocks = [(part[:2], [view[part] for view in views]) for part in split(views[0].shape, BLOCK)]
        self._readers: list[ValuesReader | None] | None = None
        self._calls: tuple[TaskCall, ...] | None = None

    def execute(self) -> None:
        """Accumulates block by block, then finishes all (n, c) at once."""
        kernels = self._context.workspace.kernels
        if kernels is not None and self._calls is None:
            self._calls = self._by_loops()
        if kernels is not None and self._calls:
            make(self._calls, kernels, self._context.report, self._context.workspace.helpers)
            return
        total = np.full(self._result.shape[:2], 0.0 if self._summing else -np.inf)
        for number, (place, raw) in enumerate(self._blocks):
            values = self._values(number, raw)
            axes = tuple(range(2, values.ndim))
            if self._summing:
                other = self._context.row_sums
                total[place] += values.sum(axis=axes, dtype=np.float64) if other is None else other(values)
            else:
                np.maximum(total[place], values.max(axis=axes), out=total[place])
        self._finish(total)

    def calls(self, before: object) -> TaskCalls | None:
        """All of them of loops."""
        return TaskCalls(self._calls) if self._calls else None

    def _by_loops(self) -> tuple[TaskCall, ...]:
        """What computes everything; nothing where an operand has no form for the loops, or numpy would add otherwise:
        up to `LONGEST` numbers they add alike. Threads share the blocks, but those of the same totals."""
        target = Flat.of(self._result) if self._result.dtype == np.uint16 else None
        readers = [*filter(None, self._block_readers())]
        if target is None or len(readers) < len(self._blocks) or self._context.row_sums is not None:
            return ()
        total, begun, lane = np.empty(self._result.shape[:2]), set[int](), 0
        lanes: list[list[LoopCall | Callable[[], object]]] = [[] for _ in range(self._threads())]
        for number, (reader, (place, raw)) in enumerate(zip(readers, self._blocks, strict=True)):
            rows = total[place].reshape(-1)  # a view: blocks follow each other
            first, shape = rows.ctypes.data, raw[0].shape
            if prod(shape) > LONGEST * rows.size:
                return ()
            if first not in begun:
                lane = number * len(lanes) // len(self._blocks)
            values = self._room(lane, shape)
            lanes[lane] += [reader.call(values), LoopCall("reduce", (values.reshape(-1), values.size // rows.size,
                                                                     self._summing, first not in begun, rows))]
            begun.add(first)
        places = np.array([*target.shape[:2], *target.strides[:2]], np.int64)
        numbers = np.array([self._operation.final_scale, self._operation.epsilon])
        finish = LoopCall("finish", (total.reshape(-1), numbers, ROOTS.index(self._operation.root),
                                     self._operation.relu, target.elements, places), stored=self._result)
        return Together.of(*filter(None, lanes)), finish

    def _threads(self) -> int:
        """How many share the blocks."""
        elements = sum(raw[0].size for _, raw in self._blocks)
        return lanes_for(elements, min(self._context.workspace.threads, max(1, len(self._blocks))))

    def _room(self, lane: int, shape: tuple[int, ...]) -> Floats:
        """Memory for the numbers of a block."""
        workspace = self._context.workspace
        return workspace.slot(lane, prod(shape)).reshape(shape) if lane else workspace.floats(shape)

    def _block_readers(self) -> list[ValuesReader | None]:
        """The loop's readers of all blocks."""
        if self._readers is None:
            described = recipe(self._operation, len(self._blocks[0][1]) if self._blocks else 1)
            self._readers = [ValuesReader.of(block, described) for _, block in self._blocks]
        return self._readers

    def _values(self, number: int, raw: list[np.ndarray]) -> Floats:
        """What is reduced of a block, none of it NaN."""
        workspace, report = self._context.workspace, self._context.report
        reader = None if workspace.kernels is None else self._block_readers()[number]
        if workspace.kernels is not None and reader is not None:
            found = workspace.floats(raw[0].shape)
            reader.call(found).bound(workspace.kernels, report)()
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
