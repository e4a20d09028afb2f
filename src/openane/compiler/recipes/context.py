"""What recipes are written against: one program in the making, as they see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from openane.chips import Chip
from openane.compiler.buffers.storage import VirtualBuffers
from openane.compiler.weights.pack import PackedCoefficients
from openane.engine import DType, Space
from openane.graph import Node, Value
from openane.ops.lowering import Lowering, Tensor


class RecipeContext(Lowering, Protocol):
    """What `lower` functions call (`ops.lowering.Lowering`), and what recipes need beside it: virtual buffers, the
    constant section, and who reads what. `limits` are those of `chip`, channels cut to what any operation can stream
    through L2."""

    chip: Chip
    blocks: VirtualBuffers

    @property
    def label(self) -> str:
        """The node that is lowered, for messages."""
        ...

    def temporary(self, shape: Sequence[int], order: Sequence[int] | None, space: Space,
                  dtype: DType = DType.FLOAT16) -> Tensor:
        """New scratch memory, or new storage in L2, for a tensor; `order` as in `buffers.storage.padded`."""
        ...

    def copied(self, tensor: Tensor) -> Tensor:
        """The tensor in fresh row-major scratch."""
        ...

    def store(self, packed: PackedCoefficients, *, weights: bool, table: bool) -> int:
        """Puts coefficient streams into the constant section: their offset. `weights`: they hold constants of the node
        that is lowered; `table`: each begins with a table."""
        ...

    def only_user(self, value: Value) -> Node | None:
        """The one node that reads `value`; None when there are more, or it is an output."""
        ...

    def is_output(self, slot: int) -> bool:
        """Whether a virtual buffer is an output's."""
        ...
