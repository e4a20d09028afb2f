"""The planar engine: elementwise arithmetic, gain-offset vectors, reductions and pooling.

Arithmetic is float32 between fp16 operands and an fp16 result rounded half to even; it has the full fp16 range, unlike
the neural engine's accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields

import numpy as np

from openane.engine import Elementwise, GainOffset, PlanarOperation, Pool, Pooling, Reduction
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import BLOCK, Floats
from openane.simulator.blocks import split
from openane.simulator.calls import PreparedTask, TaskCalls, Together
from openane.simulator.context import TaskContext
from openane.simulator.memory import OperandArray
from openane.simulator.planar_functions import (
    affine,
    clamped,
    operand_function,
    quieten,
    recipe,
    require_fit,
    scaled_function,
)
from openane.simulator.reductions import Reducer
from openane.simulator.stores import PoolLoop
from openane.simulator.streams import ElementwiseTask, Function, read, write

POOL_FILL = {Pool.AVERAGE: 0.0, Pool.MAXIMUM: -np.inf, Pool.MINIMUM: np.inf}
LOOP_POOL = {Pool.AVERAGE: 1, Pool.MAXIMUM: 3, Pool.MINIMUM: 4}
POOL_STEP: dict[Pool, Callable[..., Floats]] = {Pool.AVERAGE: np.add, Pool.MAXIMUM: np.maximum,
                                                Pool.MINIMUM: np.minimum}


def prepare(operation: PlanarOperation, first: OperandArray, second: OperandArray | None, result: OperandArray,
            context: TaskContext) -> PreparedTask:
    """What executes the operation. SimulationError where shapes do not fit each other."""
    what = context.what
    if isinstance(operation, Elementwise):
        sources = [first] if second is None else [first, second]
        require_fit(sources, result.array.shape, what)
        key = _without_operands(operation) if second is None else None
        return ElementwiseTask(sources, result, _elementwise(operation), context, to_even=True, key=key,
                               recipe=recipe(operation, len(sources)))
    if isinstance(operation, GainOffset):
        return _gain_offset(operation, first, second, result, context)
    if isinstance(operation, Reduction):
        return Reducer(operation, first, second, result, context)
    if isinstance(operation, Pooling):
        if second is not None:
            raise SimulationError(f"{what}: pooling has one operand; no meaning is known for a second one")
        return Pooler(operation, first, result, context)
    raise SimulationError(f"{what}: {type(operation).__name__} is not a planar operation openane simulates")


def _elementwise(operation: Elementwise) -> Function:
    compute = scaled_function(operation)
    return lambda *operands: clamped(compute(*operands), operation.relu)


def _without_operands(operation: Elementwise) -> Hashable:
    """What makes two operations on other operands the same function."""
    return tuple((each.name, getattr(operation, each.name)) for each in fields(operation)
                 if each.name not in ("first", "second", "result"))


def _gain_offset(operation: GainOffset, first: OperandArray, second: OperandArray | None, result: OperandArray,
                 context: TaskContext) -> PreparedTask:
    what = context.what
    if second is None or second.array.shape[3] != 2:
        raise SimulationError(f"{what}: the vectors of a gain-offset operation are a second operand of two rows (H 2): "
                              f"offsets, then gains; found {None if second is None else second.array.shape}")
    offsets, gains = OperandArray(second.array[:, :, :, 0:1]), OperandArray(second.array[:, :, :, 1:2])
    require_fit([first, offsets, gains], result.array.shape, what)
    enter = operand_function(operation)
    scale, bias = np.float32(operation.scale), np.float32(operation.bias)

    def compute(x: Floats, offset: Floats, gain: Floats) -> Floats:
        enter(x, offset)
        np.add(x, offset, out=x)
        quieten(x)
        np.multiply(x, gain, out=x)
        return clamped(affine(x, scale, bias), operation.relu)

    return ElementwiseTask([first, offsets, gains], result, compute, context, to_even=True,
                           recipe=recipe(operation, 3))


class Pooler(PreparedTask):
    """Windowed pooling over H and W."""

    def __init__(self, operation: Pooling, source: OperandArray, result: OperandArray, context: TaskContext) -> None:
        self._operation, self._context, what = operation, context, context.what
        self._source, self._result = source.array, result.array
        if source.array.shape[:3] != result.array.shape[:3]:
            raise SimulationError(f"{what}: pooling keeps N, C and D, but the source has {source.array.shape[:3]} and "
                                  f"the result {result.array.shape[:3]}")
        if min(*operation.kernel, *operation.stride) < 1 or min(operation.padding) < 0:
            raise SimulationError(f"{what}: kernel {operation.kernel} and stride {operation.stride} must be at least "
                                  f"1, padding {operation.padding} at least 0")
        self._enter = operand_function(operation)
        height, width = (self._extent(axis) for axis in (0, 1))
        self._padded = (height, width)
        planes = max(1, BLOCK // (height * width))
        self._parts = list(split(source.array.shape[:3], planes))
        self._loops: list[PoolLoop | None] | None = None

    def _extent(self, axis: int) -> int:
        operation = self._operation
        outputs, inputs = int(self._result.shape[3 + axis]), int(self._source.shape[3 + axis])
        needed = (outputs - 1) * operation.stride[axis] + operation.kernel[axis]
        return max(needed, operation.padding[axis] + inputs)

    def execute(self) -> None:
        """Pools some planes at a time."""
        workspace = self._context.workspace
        if workspace.kernels is not None and self._loops is None:
            self._loops = [self._loop(part) for part in self._parts]
        for number, part in enumerate(self._parts):
            loop = self._loops[number] if self._loops is not None and workspace.kernels is not None else None
            if loop is not None and workspace.kernels is not None:
                loop.call.bound(workspace.kernels, self._context.report)()
                continue
            write(self._pool(self._source[part]), self._result[part], self._context, to_even=True)

    def calls(self, before: object) -> TaskCalls | None:
        """Those of the planes."""
        found = [loop.call for loop in self._loops or () if loop is not None]
        whole = found and len(found) == len(self._parts)
        return TaskCalls((Together.of(*([call] for call in found)),)) if whole else None

    def _loop(self, part: tuple[slice, ...]) -> PoolLoop | None:
        """The compiled loop for some planes; None where it does not know the operation."""
        operation, source = self._operation, self._source[part]
        plain = not (operation.first_relu or operation.negate or operation.absolute)
        if not plain or (operation.pre_scale, operation.scale, operation.bias) != (1, 1, 0):
            return None
        (top, left), (height, width) = operation.padding, source.shape[3:]
        inside = (slice(top, top + height), slice(left, left + width))
        return PoolLoop.of(source, self._result[part], (*source.shape[:3], *self._padded), inside,
                           (*operation.kernel, *operation.stride), LOOP_POOL[operation.pool],
                           POOL_FILL[operation.pool], operation.final_scale, operation.relu)

    def _pool(self, raw: np.ndarray) -> Floats:
        operation = self._operation
        (top, left), (height, width) = operation.padding, raw.shape[3:]
        padded = np.full((*raw.shape[:3], *self._padded), POOL_FILL[operation.pool], np.float32)
        inside = padded[..., top:top + height, left:left + width]
        read(raw, inside, self._context.report)
        self._enter(inside)
        affine(inside, np.float32(operation.scale), np.float32(operation.bias))
        quieten(inside)
        total: Floats | None = None
        for window in self._windows(padded):
            total = window.copy() if total is None else POOL_STEP[operation.pool](total, window, out=total)
        assert total is not None
        if operation.final_scale != 1:
            np.multiply(total, np.float32(operation.final_scale), out=total)
        return clamped(total, operation.relu)

    def _windows(self, padded: Floats) -> list[Floats]:
        (rows, columns), (down, across) = self._operation.kernel, self._operation.stride
        high, wide = self._result.shape[3:]
        return [padded[..., i:i + (high - 1) * down + 1:down, j:j + (wide - 1) * across + 1:across]
                for i in range(rows) for j in range(columns)]
