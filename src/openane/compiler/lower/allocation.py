"""The storage of one program while it is lowered: scratch memory, L2 and constants, none of which has an address
yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from openane.chips import Chip
from openane.compiler.buffers.storage import BufferKind, ConstantPool, VirtualBuffer, VirtualBuffers, padded
from openane.compiler.loops.assign import streamed_channels
from openane.compiler.lower.provenance import Provenance
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.weights.pack import PackedCoefficients
from openane.engine import DType, Space
from openane.errors import UnsupportedError
from openane.graph import Node
from openane.ops.lowering import Tensor, plane_axis
from openane.program import Constants
from openane.record_classes import dataclass

OPERANDS = 3
"""Streamed operands an operation may have."""
PADDED = 2
"""Streams and rows of constants take at most about so many times the elements' bytes."""
NEAR_SHARE = 8
"""A tensor that waits in L2 to be broadcast takes at most 1/8 of it."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Constants that a node stored: of `size` bytes at `offset` of a section, the kernel DMA's or that of operands, in
    `slot`; `weights`: of its operands; coefficients in `packed`."""

    kernels: bool
    slot: int
    offset: int
    size: int
    weights: bool
    packed: PackedCoefficients | None = None


class Allocation(RecipeContext):
    """Virtual buffers and the constant sections: what tasks read as operands, and what the kernel DMA reads, which is
    the same section or from `kernel_slot` on one of its own; `node` is the one that is lowered."""

    def __init__(self, chip: Chip, ports: int, weights: int = 0) -> None:
        """`ports`: how many inputs and outputs the program has, `weights`: how many elements its constants have."""
        self.chip = chip
        self.limits = replace(chip.limits, channels=streamed_channels(chip.limits, chip.limits.width, OPERANDS))
        self.blocks = VirtualBuffers()
        slots = chip.limits.slots
        kernels = slots.first_kernels(range(slots.first_port, slots.first_port + ports))
        expected = PADDED * weights * DType.FLOAT16.size
        self.kernels = ConstantPool(chip.limits, expected)
        self.constants = self.kernels if kernels is None else ConstantPool(chip.limits)
        self.kernel_slot = slots.constants if kernels is None else kernels
        self.trace = Provenance()
        self.fills: list[Fill] = []
        self.node: Node | None = None

    def scratch(self, shape: Sequence[int], order: Sequence[int] | None = None,
                dtype: DType = DType.FLOAT16) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.temporary(shape, order, Space.MEMORY, dtype)

    def temporary(self, shape: Sequence[int], order: Sequence[int] | None, space: Space,
                  dtype: DType = DType.FLOAT16) -> Tensor:
        """See recipes.context.RecipeContext."""
        memory = space is Space.MEMORY
        alignment = self.limits.alignment(not memory)
        size, strides = padded(tuple(shape), alignment, None if order is None else tuple(order), dtype.size)
        self._require_addressable(size)
        slot = self.blocks.add(VirtualBuffer(size, BufferKind.SCRATCH if memory else BufferKind.L2))
        return Tensor(slot, 0, tuple(shape), strides, alignment, space, dtype)

    def _require_addressable(self, size: int) -> None:
        """UnsupportedError for a tensor of more bytes than addresses reach."""
        if size > self.limits.addresses:
            raise UnsupportedError("result port" if self.node is None else self.node.label,
                                   "a tensor must be within reach of addresses", limit=f"{self.limits.addresses} bytes",
                                   found=f"{size} bytes", remedy="use a smaller input")

    def near(self, shape: Sequence[int], row: int = -1) -> Tensor:
        """See ops.lowering.Lowering."""
        inner = (row,) if row >= 0 or (plane := plane_axis(len(shape))) is None else (plane, row)
        order = (*(d for d in range(len(shape)) if d not in inner), *inner)
        size, _ = padded(tuple(shape), self.limits.l2_alignment, order)
        return self.temporary(shape, order, Space.L2) if size <= self.limits.l2_size // NEAR_SHARE \
            else self.scratch(shape)

    def constant(self, array: np.ndarray) -> Tensor:
        """See ops.lowering.Lowering."""
        self._require_addressable(array.size * DType.FLOAT16.size)
        tensor = self.constants.surface(array)
        size, _ = padded(tensor.shape, tensor.alignment)
        self.fills.append(Fill(self.constants is self.kernels, tensor.slot, tensor.offset, size, True))
        self.trace.stored(self.node, array, tensor.offset)
        return tensor

    def channel_affine(self, node: Node) -> tuple[np.ndarray, np.ndarray]:
        """See ops.lowering.Lowering."""
        return self.trace.channel_affine(node)

    def store(self, packed: PackedCoefficients, *, weights: bool, table: bool) -> int:
        """See recipes.context.Context."""
        offset = self.kernels.fill(packed.size, packed.write, self._owner() if weights else None)
        self.fills.append(Fill(True, self.kernel_slot, offset, packed.size, weights, packed))
        if weights:
            self.trace.packed(self.node, packed, offset, table)
        return offset

    def held(self, fill: Fill) -> bytes:
        """The bytes of constants that were stored."""
        return (self.kernels if fill.kernels else self.constants).held(fill.offset, fill.size)

    def refill(self, fill: Fill, write: Callable[[np.ndarray], None]) -> int:
        """Stores constants of the same kind and size, which `write` puts there, for the node that is lowered."""
        owner = self._owner() if fill.weights and fill.packed is not None else None
        return (self.kernels if fill.kernels else self.constants).fill(fill.size, write, owner)

    def _owner(self) -> tuple[str, ...]:
        """Whose weights are stored: those of a node with these constants."""
        return () if self.node is None else tuple([value.name for value in self.node.values() if value.constant])

    def all_constants(self) -> tuple[Constants, tuple[int, ...]]:
        """All constants, and where the kernel DMA's section begins if it has one; nothing can be added any more."""
        constants = self.constants.taken()
        kernels = b"" if self.kernels is self.constants else self.kernels.taken()
        if not kernels:
            return constants, ()
        self.trace.shift_coefficients(len(constants))
        return b"".join((constants, kernels)), (len(constants),)
