"""What elements go through in the planar engine: functions of float32 arrays, and the same for the compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from openane.engine import Binary, Elementwise, GainOffset, PlanarOperation, Reduction
from openane.errors import SimulationError
from openane.simulator.arithmetic.half import Floats
from openane.simulator.chunks import LoopStep, Recipe
from openane.simulator.memory import OperandArray
from openane.simulator.streams import Function

BINARY: dict[Binary, Callable[..., Floats]] = {
    Binary.ADD: np.add, Binary.MULTIPLY: np.multiply, Binary.MAXIMUM: np.maximum, Binary.MINIMUM: np.minimum,
    Binary.SQUARE_SUM: np.add,
}
LOOP_FUNCTION = {Binary.ADD: 1, Binary.MULTIPLY: 2, Binary.MAXIMUM: 3, Binary.MINIMUM: 4, Binary.SQUARE_SUM: 1}
"""How the compiled loop calls them; 0 is a function of one operand."""


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
        return affine(x, scale, bias)

    return compute


def affine(x: Floats, scale: np.float32, bias: np.float32) -> Floats:
    """x * scale + bias in place; what has no value on the way is +0."""
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


def clamped(x: Floats, relu: bool) -> Floats:
    """Not below zero where there is a ReLU, in place."""
    return np.maximum(x, 0, out=x) if relu else x


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


def require_fit(operands: Sequence[OperandArray], shape: tuple[int, ...], what: str) -> None:
    """SimulationError unless every operand broadcasts to the shape."""
    for operand in operands:
        if any(extent not in (1, wanted) for extent, wanted in zip(operand.array.shape, shape, strict=True)):
            raise SimulationError(f"{what}: an operand of shape {operand.array.shape} does not broadcast to {shape}")
