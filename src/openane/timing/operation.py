"""What one engine operation costs on each part of the engine, and which part decides.

Inside a task everything is pipelined, so the slowest part decides; between tasks nothing overlaps but the coefficients
of the next one (`program`). Output channels are dealt to the cores in rounds of blocks (`chips.coefficients`); a round
is a pass over the source and takes as long as its blocks have lanes, 16 being all of a core's. So 384 channels,
rounds of 16 and 8 lanes, take one and a half passes. Evidence: chains of 256, 384 and 512 channels on M4 Max and
M3 Ultra; layers of 16 to 256 channels on M5 Pro, which leave nothing idle. Dense 3x3 convolutions of stride 1 need four
products for every two results of a row where an engine has the Winograd form (`rates`).
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from math import ceil, prod

from openane.chips import Limits
from openane.chips.coefficients import CoefficientFormat
from openane.engine import (
    Access,
    Convolution,
    MatrixProduct,
    NeuralOperation,
    Operation,
    Space,
    sources,
)
from openane.record_classes import dataclass
from openane.rounding import round_up
from openane.timing.parameters import BELIEVED, TimingParameters
from openane.timing.rates import Rates

TRANSFORMED = (1, 3, 3)
"""Kernels that have the Winograd form."""


class EnginePart(StrEnum):
    """A part of the engine that a task keeps busy."""

    MULTIPLY = "multiply"   # the neural engine's array
    KERNEL = "kernel"       # coefficients from memory
    TILE = "tile"           # operands from and results to memory
    L2 = "l2"               # the on-chip scratchpad
    PLANAR = "planar"       # the planar engine


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation asks of the engine, whatever the chip: cycles of the array, bytes moved, elements visited."""

    multiplies: int
    array_cycles: int
    kernel_bytes: int
    tile_bytes: int
    l2_read: int
    l2_write: int
    planar_elements: int

    @property
    def memory_bytes(self) -> int:
        """Bytes to and from memory."""
        return self.kernel_bytes + self.tile_bytes


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds each part is busy with an operation."""

    work: Work
    parts: dict[EnginePart, float]
    fixed: float

    @property
    def bound(self) -> EnginePart:
        """The part that takes longest."""
        return max(self.parts, key=lambda part: self.parts[part])

    @property
    def pipelined(self) -> float:
        """Seconds without waiting for coefficients."""
        return max(seconds for part, seconds in self.parts.items() if part is not EnginePart.KERNEL) + self.fixed


def work(operation: Operation, rates: Rates, parameters: TimingParameters = BELIEVED) -> Work:
    """What an operation asks of a chip's engine."""
    limits = rates.limits
    operands = [*sources(operation), operation.result]
    copies = [access.copy for access in operands if access.copy is not None]
    neural = isinstance(operation, NeuralOperation)
    passes = len(rounds(operation, limits)) if _dense(operation) else 1
    multiplies, cycles, kernel = _array(operation, rates, parameters) \
        if isinstance(operation, NeuralOperation) else (0, 0, 0)
    read = passes * sum(bytes_moved(access, limits.burst) for access in sources(operation) if access.space is Space.L2)
    written = sum(bytes_moved(access, limits.burst) for access in (operation.result, *copies)
                  if access.space is Space.L2)
    planar = 0 if neural else max(access.elements for access in operands) * (len(operands) - 1)
    return Work(multiplies, cycles, kernel,
                sum(bytes_moved(access, limits.burst) for access in (*operands, *copies)
                    if access.space is Space.MEMORY),
                read, written, planar)


def times(operation: Operation, rates: Rates, parameters: TimingParameters = BELIEVED) -> Times:
    """Seconds of every part for one operation on one chip."""
    asked = work(operation, rates, parameters)
    clock, l2 = rates.clock.value or 1.0, rates.l2_clock.value or 1.0
    parts = {
        EnginePart.MULTIPLY: asked.array_cycles * (saved(operation) if rates.winograd else 1.0)
        / (clock * parameters.efficiency.value),
        EnginePart.KERNEL: asked.kernel_bytes / (rates.kernel.value or 1.0),
        EnginePart.TILE: asked.tile_bytes / (rates.tile.value or 1.0),
        EnginePart.L2: max(asked.l2_read, asked.l2_write) / (parameters.l2_bytes.value * l2),
        EnginePart.PLANAR: asked.planar_elements / (parameters.planar_elements.value * l2),
    }
    return Times(asked, parts, parameters.task_cycles.value / clock)


def rounds(operation: Operation, limits: Limits) -> tuple[int, ...]:
    """Lanes of every round of blocks its output channels are dealt out in; one round where there are no weights."""
    given = operation.coefficients if isinstance(operation, Convolution | MatrixProduct) else None
    channels = operation.result.shape[1]
    if given is None or given.weights is None:
        return (ceil(channels / limits.cores),)
    return _rounds(limits.coefficients, channels, given.lanes)


@lru_cache(maxsize=1 << 10)
def _rounds(form: CoefficientFormat, channels: int, lanes: int) -> tuple[int, ...]:
    return tuple(width for core, width, _, repeats in form.rounds(channels, lanes) if core == 0 for _ in range(repeats))


def _dense(operation: Operation) -> bool:
    """Whether every output channel reads all of the source."""
    return isinstance(operation, MatrixProduct) or (isinstance(operation, Convolution) and not operation.unicast)


def saved(operation: Operation) -> float:
    """What the Winograd form leaves of an operation's multiplications: F(2, 3) along the width makes two results of
    four products instead of six. Which engines have it: error norms of published 3x3 convolutions."""
    if not isinstance(operation, Convolution) or operation.unicast or operation.kernel != TRANSFORMED \
            or operation.stride != (1, 1, 1):
        return 1.0
    width = operation.result.shape[4]
    return 4 * ceil(width / 2) / (3 * width)


def bytes_moved(access: Access, burst: int) -> int:
    """Bytes an access moves, in whole bursts of so many bytes; what is broadcast moves once."""
    n, c, d, h, w = access.blocks
    _, sc, sd, sh, sw = access.strides
    element = access.dtype.size * access.interleave
    if sc and abs(sc) < abs(sw):
        c, w, sc, sw = w, c, sw, sc
    extents = [1 if extent > 1 and not stride else extent for extent, stride in ((c, sc), (d, sd), (h, sh))]
    row = (1 if w > 1 and not sw else w) * element
    if access.space is Space.MEMORY:
        row = round_up(row, burst)
    return n * prod(extents) * row


def _array(operation: NeuralOperation, rates: Rates, parameters: TimingParameters) -> tuple[int, int, int]:
    """Multiplications, cycles of the array and bytes of coefficients."""
    coefficients = operation.coefficients
    limits = rates.limits
    kernel = limits.coefficients.fetched(coefficients) if coefficients is not None else 0
    n, c, d, h, w = operation.result.shape
    positions = d * h * w
    taps, inputs, computed = 1, 1, c
    if isinstance(operation, Convolution):
        taps = prod(operation.kernel)
        inputs = operation.unicast or operation.source.shape[1]
        computed = limits.cores * sum(rounds(operation, limits))
    elif isinstance(operation, MatrixProduct):
        inputs = operation.source.shape[1]
        computed = limits.cores * sum(rounds(operation, limits))
    array = (rates.cores.value or limits.cores) * limits.lanes.most * parameters.pixels.value
    cycles = ceil(n * computed * inputs * taps * positions / array)
    return n * c * positions * inputs * taps, cycles, kernel
