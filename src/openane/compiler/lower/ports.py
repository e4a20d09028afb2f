"""Where the inputs and outputs of a program lie.

A surface normally has its tensor's own shape. Where a reshape alone reads an input (or alone makes an output) and no
view expresses it, the surface takes the reshaped form instead: the elements are the same, the host packs them anyway.
Surfaces that several programs share keep their tensor's shape.
"""

from __future__ import annotations

from openane.compiler.buffers.storage import BufferKind, VirtualBuffer, VirtualBuffers, port_layout, view
from openane.compiler.lower.byte_types import stored
from openane.compiler.lower.users import Users
from openane.graph import Graph, Value
from openane.ops import get_op
from openane.ops.lowering import Tensor
from openane.program import Layout

INPUT, OUTPUT = "input", "output"
Key = tuple[str, str]
"""Side and name of a port."""


class Ports:
    """Virtual slots and surfaces of a graph's inputs and outputs. `shared` names those other programs know too."""

    def __init__(self, graph: Graph, users: Users, blocks: VirtualBuffers, alignment: int,
                 shared: frozenset[str] = frozenset()) -> None:
        self.layouts: dict[Key, Layout] = {}
        self.slots: dict[Key, int] = {}
        self._users, self._blocks, self._shared, self._alignment = users, blocks, shared, alignment
        self._bases: dict[Key, Value] = {}
        for value in graph.inputs:
            self._add((INPUT, value.name), port_layout(self._input_shape(value), self._alignment, stored(value)))
        for value in graph.outputs:
            key = OUTPUT, value.name
            if key not in self.slots:
                self._bases[key] = self._output_base(value)
                self._add(key, port_layout(self._bases[key].shape, self._alignment, stored(value)))

    def input_tensor(self, value: Value) -> Tensor:
        """An input as it lies (its shape may be that of the reshape behind it)."""
        key = INPUT, value.name
        return view(self.layouts[key], self.slots[key], self._input_shape(value), self._alignment)

    def output_base(self, value: Value) -> tuple[Value, Tensor]:
        """The value whose elements an output port holds, and where they are written."""
        key = OUTPUT, value.name
        base = self._bases[key]
        return base, view(self.layouts[key], self.slots[key], base.shape, self._alignment)

    def output_tensor(self, value: Value) -> Tensor:
        """An output port under the output's own shape; its surface is changed to that where no view expresses it."""
        _, tensor = self.output_base(value)
        seen = tensor.reshape(value.shape or (1,))
        if seen is not None:
            return seen
        key = OUTPUT, value.name
        layout = port_layout(value.shape, self._alignment, stored(value))
        self.layouts[key], self._bases[key] = layout, value
        self._blocks.table[self.slots[key]] = VirtualBuffer(layout.size, BufferKind.PORT, value.name, layout)
        return view(layout, self.slots[key], value.shape, self._alignment)

    def is_output(self, slot: int) -> bool:
        """Whether a virtual slot is an output's."""
        return any(side == OUTPUT and known == slot for (side, _), known in self.slots.items())

    def _add(self, key: Key, layout: Layout) -> None:
        self.layouts[key] = layout
        self.slots[key] = self._blocks.add(VirtualBuffer(layout.size, BufferKind.PORT, key[1], layout))

    def _input_shape(self, value: Value) -> tuple[int, ...]:
        seen, shape = value, value.shape
        if value.name in self._shared:
            return shape
        while (user := self._users.only_user(seen)) is not None and user.get("x") is seen \
                and get_op(user.op).views(user):
            seen = user.output
        plain = view(port_layout(shape, self._alignment, stored(value)), 0, shape, self._alignment)
        if seen is value or len(seen.shape) > 5 or plain.reshape(seen.shape or (1,)) is not None:
            return shape
        return seen.shape

    def _output_base(self, value: Value) -> Value:
        """The value an output is a mere reshape of, when nothing else reads it."""
        base = value
        if value.name in self._shared:
            return base
        while (node := self._users.producers.get(id(base))) is not None and get_op(node.op).views(node):
            before = node["x"]
            alone = self._users.only_user(before) is not None
            if before.constant or id(before) not in self._users.producers or not alone or len(before.shape) > 5:
                break
            base = before
        return base
