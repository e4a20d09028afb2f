"""The record of what a graph was lowered to. Nothing in it changes afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from openane.compiler.buffers.storage import VirtualBuffer
from openane.compiler.lower.provenance import Traced
from openane.engine import Operation
from openane.graph import Graph, Node
from openane.ops.lowering import Tensor
from openane.program import Constants, Layout
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Emitted:
    """An engine operation and the node it came from; None where it only copies a result to its port."""

    operation: Operation
    node: Node | None

    @property
    def label(self) -> str:
        """Where it comes from, for messages."""
        return "result port" if self.node is None else self.node.label


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph as engine operations over virtual buffers, nothing having an address.

    `blocks` are the buffers by virtual slot, `constants` the constant sections, of which that of the kernel DMA begins
    at `kernel_starts` if there is one; `layouts` and `slots` are the surfaces and virtual slots of ports by name.
    `fused` has the node in whose last stage a node is carried out, `tensors` where each value lies that is made at all,
    both by id; `traced` which constants became which bytes, by id of the node, for the nodes of which all is known.
    """

    graph: Graph
    emitted: tuple[Emitted, ...]
    blocks: Mapping[int, VirtualBuffer]
    constants: Constants
    kernel_starts: tuple[int, ...]
    layouts: Mapping[str, Layout]
    slots: Mapping[str, int]
    fused: Mapping[int, Node]
    tensors: Mapping[int, Tensor]
    traced: Mapping[int, tuple[Traced, ...]]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations alone."""
        return tuple(emitted.operation for emitted in self.emitted)
