"""Element types of values. The engine computes in fp16; ports with one-byte elements are converted where they are read
and written.

Evidence: Apple's casts of bool inputs are one planar copy from uint8 to fp16, its `less` writes uint8 from an fp16
source in the operation that compares, its transposes of bool copy uint8 unchanged. int8 surfaces and planar results of
one byte are inferred from these.
"""

from __future__ import annotations

from dataclasses import replace

from openane.compiler.buffers.storage import BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.buffers.uses import read_slots
from openane.compiler.lower.lowered import Emitted
from openane.compiler.recipes.context import RecipeContext
from openane.engine import Access, DType
from openane.graph import Value
from openane.ops.lowering import ELEMENT, Tensor
from openane.record_classes import dataclass

STORED: dict[str, DType] = {
    "fp16": DType.FLOAT16, "fp32": DType.FLOAT16, "int16": DType.FLOAT16, "uint16": DType.FLOAT16,
    "int32": DType.FLOAT16, "bool": DType.UINT8, "uint8": DType.UINT8, "int8": DType.INT8,
}
"""How a port of a MIL type lies in memory; those of other sizes than their surface are converted by the host."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """The scratch memory in which the fp16 result for a one-byte port is made; its strides are twice the port's."""

    made: Tensor
    port: Tensor


class Shadows:
    """The fp16 stand-ins of one-byte ports. A stand-in that is written and never read is replaced by the port itself in
    the end."""

    def __init__(self, blocks: VirtualBuffers) -> None:
        self._blocks = blocks
        self._known: dict[int, Shadow] = {}

    def of(self, port: Tensor) -> Tensor:
        """The stand-in of a port's tensor."""
        for shadow in self._known.values():
            if shadow.port == port:
                return shadow.made
        slot = self._blocks.add(VirtualBuffer(ELEMENT * self._blocks.table[port.slot].size, BufferKind.SCRATCH))
        made = Tensor(slot, ELEMENT * port.offset, port.shape, tuple(ELEMENT * s for s in port.strides),
                      port.alignment, port.space)
        self._known[slot] = Shadow(made, port)
        return made

    def stands_for(self, tensor: Tensor, port: Tensor) -> bool:
        """Whether `tensor` is the stand-in of `port` (under any shape)."""
        shadow = self._known.get(tensor.slot)
        return shadow is not None and shadow.port.slot == port.slot

    def settle(self, context: RecipeContext, written: list[Emitted]) -> None:
        """Operations that write a stand-in which nobody reads write its port instead. Other stand-ins are followed by a
        copy that converts."""
        read = {slot for emitted in written for slot in read_slots(emitted.operation)} if self._known else frozenset()
        for slot, shadow in self._known.items():
            if slot in read:
                context.copy(shadow.made, shadow.port)
                continue
            for position, emitted in enumerate(written):
                if emitted.operation.result.slot == slot:
                    result = _narrowed(emitted.operation.result, shadow.port)
                    written[position] = replace(emitted, operation=replace(emitted.operation, result=result))


def widened(context: RecipeContext, tensor: Tensor) -> Tensor:
    """A one-byte tensor as fp16, in scratch of its own."""
    order = tuple(sorted(range(tensor.rank), key=lambda d: (d == tensor.contiguous, d)))
    target = context.scratch(tensor.shape, order)
    context.elementwise(target, tensor)
    return target


def stored(value: Value) -> DType:
    """The element type of a value's surface."""
    return STORED.get(value.dtype, DType.FLOAT16)


def _narrowed(result: Access, port: Tensor) -> Access:
    """The result with one-byte elements at half the distances."""
    return replace(result, slot=port.slot, offset=result.offset // ELEMENT, dtype=port.dtype,
                   strides=tuple(stride // ELEMENT for stride in result.strides))  # type: ignore[arg-type]
