"""What one engine operation costs on each part of the engine, and which part decides.

Inside a task everything is pipelined, so the slowest part decides; between tasks nothing overlaps but the coefficients
of the next one (`program`). The array holds 256 output channels at once, 16 to a core; more take another pass over the
source, and a last pass that is not full takes as long as a full one. Evidence: chains of 256, 384 and 512 channels on
M4 Max. Fewer than 256 channels leave nothing idle: layers of 16 to 256 channels on M5 Pro.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, prod

from openane.engine import (
    Access,
    Convolution,
    MatrixProduct,
    NeuralOperation,
    Operation,
    Space,
    sources,
)
from openane.engine.coefficients import CORES
from openane.timing.parameters import BELIEVED, Parameters
from openane.timing.rates import Rates

LANES = 16
"""Output channels a core holds at once."""
BURST = 64


class Part(StrEnum):
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
    parts: dict[Part, float]
    fixed: float

    @property
    def bound(self) -> Part:
        """The part that takes longest."""
        return max(self.parts, key=lambda part: self.parts[part])

    @property
    def pipelined(self) -> float:
        """Seconds without waiting for coefficients."""
        return max(seconds for part, seconds in self.parts.items() if part is not Part.KERNEL) + self.fixed


def work(operation: Operation, parameters: Parameters = BELIEVED) -> Work:
    """What an operation asks of the engine."""
    operands = [*sources(operation), operation.result]
    copies = [access.copy for access in operands if access.copy is not None]
    neural = isinstance(operation, NeuralOperation)
    passes = ceil(operation.result.shape[1] / (CORES * LANES)) if neural else 1
    multiplies, cycles, kernel = _array(operation, parameters) if isinstance(operation, NeuralOperation) else (0, 0, 0)
    read = passes * sum(moved(access) for access in sources(operation) if access.space is Space.L2)
    written = sum(moved(access) for access in (operation.result, *copies) if access.space is Space.L2)
    planar = 0 if neural else max(access.elements for access in operands) * (len(operands) - 1)
    return Work(multiplies, cycles, kernel,
                sum(moved(access) for access in (*operands, *copies) if access.space is Space.MEMORY),
                read, written, planar)


def times(operation: Operation, rates: Rates, parameters: Parameters = BELIEVED) -> Times:
    """Seconds of every part for one operation on one chip."""
    asked = work(operation, parameters)
    clock, l2 = rates.clock.value or 1.0, rates.l2_clock.value or 1.0
    parts = {
        Part.MULTIPLY: asked.array_cycles / (clock * parameters.efficiency.value),
        Part.KERNEL: asked.kernel_bytes / (rates.kernel.value or 1.0),
        Part.TILE: asked.tile_bytes / (rates.tile.value or 1.0),
        Part.L2: max(asked.l2_read, asked.l2_write) / (parameters.l2_bytes.value * l2),
        Part.PLANAR: asked.planar_elements / (parameters.planar_elements.value * l2),
    }
    return Times(asked, parts, parameters.task_cycles.value / clock)


def moved(access: Access) -> int:
    """Bytes an access moves, in whole bursts; what is broadcast moves once."""
    n, c, d, h, w = access.blocks
    _, sc, sd, sh, sw = access.strides
    element = access.dtype.size * access.interleave
    if sc and abs(sc) < abs(sw):
        c, w, sc, sw = w, c, sw, sc
    extents = [1 if extent > 1 and not stride else extent for extent, stride in ((c, sc), (d, sd), (h, sh))]
    row = (1 if w > 1 and not sw else w) * element
    if access.space is Space.MEMORY:
        row = ceil(row / BURST) * BURST
    return n * prod(extents) * row


def _array(operation: NeuralOperation, parameters: Parameters) -> tuple[int, int, int]:
    """Multiplications, cycles of the array and bytes of coefficients."""
    coefficients = operation.coefficients
    kernel = sum(stream.size for stream in coefficients.streams) if coefficients is not None else 0
    n, c, d, h, w = operation.result.shape
    positions = d * h * w
    taps, inputs, lanes = 1, 1, CORES * LANES
    if isinstance(operation, Convolution):
        taps = prod(operation.kernel)
        inputs = operation.unicast or operation.source.shape[1]
    elif isinstance(operation, MatrixProduct):
        inputs = operation.source.shape[1]
    computed = c if c <= lanes else ceil(c / lanes) * lanes
    cycles = ceil(n * computed * inputs * taps * positions / (lanes * parameters.pixels.value))
    return n * c * positions * inputs * taps, cycles, kernel
