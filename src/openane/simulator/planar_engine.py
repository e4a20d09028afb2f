"""The planar engine: elementwise arithmetic, gain-offset vectors, reductions and pooling.

Arithmetic is float32 between fp16 operands and an fp16 result rounded half to even; it has the full fp16 range, unlike
the neural engine's accumulator. Sums of reductions are kept in float64: how the hardware rounds inside is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import fields

import numpy as np

from openane.engine import (
    Binary,
    Elementwise,
    GainOffset,
    PlanarOperation,
    Pool,
    Pooling,
    Reduce,
    Reduction,
    Root,
)
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import BLOCK, Floats
from openane.simulator.blocks import coalesce, split
from openane.simulator.chunks import LoopStep, Recipe, ValuesReader
from openane.simulator.context import TaskContext
from openane.simulator.memory import OperandArray
from openane.simulator.stores import PoolLoop
from openane.simulator.streams import ElementwiseTask, Function, read, write

BINARY: dict[Binary, Callable[..., Floats]] = {
    Binary.ADD: np.add, Binary.MULTIPLY: np.multiply, Binary.MAXIMUM: np.maximum, Binary.MINIMUM: np.minimum,
    Binary.SQUARE_SUM: np.add,
}
LOOP_FUNCTION = {Binary.ADD: 1, Binary.MULTIPLY: 2, Binary.MAXIMUM: 3, Binary.MINIMUM: 4, Binary.SQUARE_SUM: 1}
"""How the compiled loop calls them; 0 is a function of one operand."""
POOL_FILL = {Pool.AVERAGE: 0.0, Pool.MAXIMUM: -np.inf, Pool.MINIMUM: np.inf}
LOOP_POOL = {Pool.AVERAGE: 1, Pool.MAXIMUM: 3, Pool.MINIMUM: 4}
POOL_STEP: dict[Pool, Callable[..., Floats]] = {Pool.AVERAGE: np.add, Pool.MAXIMUM: np.maximum,
                                                Pool.MINIMUM: np.minimum}


def prepare(operation: PlanarOperation, first: OperandArray, second: OperandArray | None, result: OperandArray,
            context: TaskContext) -> Callable[[], None]:
    """The function that executes the operation. SimulationError where shapes do not fit each other."""
    what = context.what
    if isinstance(operation, Elementwise):
        sources = [first] if second is None else [first, second]
        _require_fit(sources, result.array.shape, what)
        key = _without_operands(operation) if second is None else None
        return ElementwiseTask(sources, result, _elementwise(operation), context, to_even=True, key=key,
                               recipe=recipe(operation, len(sources))).execute
    if isinstance(operation, GainOffset):
        return _gain_offset(operation, first, second, result, context)
    if isinstance(operation, Reduction):
        return Reducer(operation, first, second, result, context).execute
    if isinstance(operation, Pooling):
        if second is not None:
            raise SimulationError(f"{what}: pooling has one operand; no meaning is known for a second one")
        return Pooler(operation, first, result, context).execute
    raise SimulationError(f"{what}: {type(operation).__name__} is not a planar operation openane simulates")


def operand_function(operation: PlanarOperation) -> Function:
    """The operands as they enter the arithmetic: clamped, scaled, signed. Works in place."""
    pre_scale = np.float32(operation.pre_scale)

    def enter(x: Floats, y: Floats | None = None) -> Floats:
        if operation.first_relu:
            np.maximum(x, 0, out=x)
        if pre_scale != 1:
            np.multiply(x, pre_scale, out=x)
        if operation.negate:
            np.negative(x, out=x)
        if operation.absolute:
            np.abs(x, out=x)
        if y is not None:
            if operation.second_relu:
                np.maximum(y, 0, out=y)
            if operation.subtract:
                np.negative(y, out=y)
        return x

    return enter


def scaled_function(operation: Elementwise | Reduction) -> Function:
    """scale * function(x, y) + bias, in place in x."""
    enter = operand_function(operation)
    combine = BINARY[operation.function]
    scale, bias = np.float32(operation.scale), np.float32(operation.bias)

    def compute(x: Floats, y: Floats | None = None) -> Floats:
        enter(x, y)
        if y is not None:
            combine(x, y, out=x)
        if operation.function is Binary.SQUARE_SUM:
            np.multiply(x, x, out=x)
        return _affine(x, scale, bias)

    return compute


def _affine(x: Floats, scale: np.float32, bias: np.float32) -> Floats:
    if scale != 1 or bias != 0:
        quieten(x)
        if scale != 1:
            np.multiply(x, scale, out=x)
            quieten(x)
        if bias != 0:
            np.add(x, bias, out=x)
    return x


def quieten(x: Floats) -> None:
    """Results without a value (inf - inf, 0 * inf) are +0, in place."""
    if x.size and math.isnan(np.maximum.reduce(x, axis=None)):
        x[np.isnan(x)] = 0


def _relu(x: Floats, relu: bool) -> Floats:
    return np.maximum(x, 0, out=x) if relu else x


def _elementwise(operation: Elementwise) -> Function:
    compute = scaled_function(operation)
    return lambda *operands: _relu(compute(*operands), operation.relu)


def recipe(operation: Elementwise | GainOffset | Reduction, operands: int) -> Recipe:
    """The same function of so many operands for the compiled loop."""
    function = Binary.ADD if isinstance(operation, GainOffset) else operation.function
    steps = {
        LoopStep.FIRST_RELU: operation.first_relu, LoopStep.PRE_SCALE: operation.pre_scale != 1,
        LoopStep.NEGATE: operation.negate, LoopStep.ABSOLUTE: operation.absolute,
        LoopStep.SECOND_RELU: operation.second_relu, LoopStep.SUBTRACT: operation.subtract,
        LoopStep.GAIN: isinstance(operation, GainOffset), LoopStep.SQUARE: function is Binary.SQUARE_SUM,
        LoopStep.SCALE: operation.scale != 1, LoopStep.BIAS: operation.bias != 0,
        LoopStep.RELU: operation.relu and not isinstance(operation, Reduction)}
    return Recipe(sum(step for step, wanted in steps.items() if wanted), LOOP_FUNCTION[function] if operands > 1 else 0,
                  np.array([operation.pre_scale, operation.scale, operation.bias], np.float32))


def _without_operands(operation: Elementwise) -> Hashable:
    """What makes two operations on other operands the same function."""
    return tuple((each.name, getattr(operation, each.name)) for each in fields(operation)
                 if each.name not in ("first", "second", "result"))


def _gain_offset(operation: GainOffset, first: OperandArray, second: OperandArray | None, result: OperandArray,
                 context: TaskContext) -> Callable[[], None]:
    what = context.what
    if second is None or second.array.shape[3] != 2:
        raise SimulationError(f"{what}: the vectors of a gain-offset operation are a second operand of two rows (H 2): "
                              f"offsets, then gains; found {None if second is None else second.array.shape}")
    offsets, gains = OperandArray(second.array[:, :, :, 0:1]), OperandArray(second.array[:, :, :, 1:2])
    _require_fit([first, offsets, gains], result.array.shape, what)
    enter = operand_function(operation)
    scale, bias = np.float32(operation.scale), np.float32(operation.bias)

    def compute(x: Floats, offset: Floats, gain: Floats) -> Floats:
        enter(x, offset)
        np.add(x, offset, out=x)
        quieten(x)
        np.multiply(x, gain, out=x)
        return _relu(_affine(x, scale, bias), operation.relu)

    return ElementwiseTask([first, offsets, gains], result, compute, context, to_even=True,
                           recipe=recipe(operation, 3)).execute


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
        _require_fit(operands, shape, what)
        views = _planes([np.broadcast_to(operand.array, shape) for operand in operands])
        self._blocks = [(part[:2], [view[part] for view in views]) for part in split(views[0].shape, BLOCK)]
        self._readers: list[ValuesReader | None] | None = None

    def execute(self) -> None:
        """Accumulates block by block, then finishes all (n, c) at once."""
        summing = self._operation.reduce is Reduce.SUM
        total = np.full(self._result.shape[:2], 0.0 if summing else -np.inf)
        for number, (place, raw) in enumerate(self._blocks):
            values = self._values(number, raw)
            axes = tuple(range(2, values.ndim))
            if summing:
                other = self._context.row_sums
                total[place] += values.sum(axis=axes, dtype=np.float64) if other is None else other(values)
            else:
                np.maximum(total[place], values.max(axis=axes), out=total[place])
        self._finish(total)

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


class Pooler:
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
                loop(workspace.kernels, self._context.report)
                continue
            write(self._pool(self._source[part]), self._result[part], self._context, to_even=True)

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
        _affine(inside, np.float32(operation.scale), np.float32(operation.bias))
        quieten(inside)
        total: Floats | None = None
        for window in self._windows(padded):
            total = window.copy() if total is None else POOL_STEP[operation.pool](total, window, out=total)
        assert total is not None
        if operation.final_scale != 1:
            np.multiply(total, np.float32(operation.final_scale), out=total)
        return _relu(total, operation.relu)

    def _windows(self, padded: Floats) -> list[Floats]:
        (rows, columns), (down, across) = self._operation.kernel, self._operation.stride
        high, wide = self._result.shape[3:]
        return [padded[..., i:i + (high - 1) * down + 1:down, j:j + (wide - 1) * across + 1:across]
                for i in range(rows) for j in range(columns)]


def _planes(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """[N, C, D, H, W] arrays with D, H, W merged where possible."""
    merged = coalesce([array[0, 0] for array in arrays])
    return [np.lib.stride_tricks.as_strided(array, (*array.shape[:2], *plane.shape),
                                            (*array.strides[:2], *plane.strides), writeable=False)
            for array, plane in zip(arrays, merged, strict=True)]


def _require_fit(operands: list[OperandArray], shape: tuple[int, ...], what: str) -> None:
    for operand in operands:
        if any(extent not in (1, wanted) for extent, wanted in zip(operand.array.shape, shape, strict=True)):
            raise SimulationError(f"{what}: an operand of shape {operand.array.shape} does not broadcast to {shape}")
