"""Where the values of a graph are while it is lowered: in ports, in scratch memory, among the constants, or as views of
others."""

from __future__ import annotations

from collections.abc import Sequence

from openane.compiler.buffers.storage import VirtualBuffers
from openane.compiler.lower.byte_types import Shadows, widened
from openane.compiler.lower.lowered import Emitted
from openane.compiler.lower.ports import Ports
from openane.compiler.lower.users import Users
from openane.compiler.recipes.context import RecipeContext
from openane.engine import DType
from openane.errors import GraphError
from openane.graph import Graph, Value
from openane.ops.lowering import Tensor
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A value that is `tensor`, read in row-major order, under another shape; no element has been copied yet."""

    tensor: Tensor
    shape: tuple[int, ...]


class Values(RecipeContext):
    """What is known of each value so far. `shared` names the ports that other programs use as well."""

    def __init__(self, graph: Graph, users: Users, blocks: VirtualBuffers, alignment: int,
                 shared: frozenset[str]) -> None:
        self._graph = graph
        self._shadows = Shadows(blocks)
        self._known: dict[int, Tensor | Reshaped] = {}
        self._widened: dict[int, Tensor] = {}
        self._assigned: dict[int, Tensor] = {}
        self.ports = Ports(graph, users, blocks, alignment, shared)
        for value in graph.inputs:
            self.bind(value, self.ports.input_tensor(value))
        for value in graph.outputs:
            base, tensor = self.ports.output_base(value)
            if id(base) in users.producers:
                self._assigned.setdefault(id(base), tensor)

    def read(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        tensor = self._widened.get(id(value)) or self.native(value)
        if tensor.dtype is not DType.FLOAT16:
            tensor = self._widened[id(value)] = widened(self, tensor)
        return tensor

    def stored(self, value: Value) -> Tensor | None:
        """The tensor a value is, perhaps in another shape of the same row-major order; None where it never is one."""
        known = self._known.get(id(value))
        return known.tensor if isinstance(known, Reshaped) else known

    def native(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering. GraphError when the value is not made yet."""
        known = self._known.get(id(value))
        if isinstance(known, Tensor):
            return known
        if known is not None:
            tensor = self.scratch(known.shape, None, known.tensor.dtype)
            self.reshape(known.tensor, tensor)
        elif value.constant:
            tensor = self.constant(value.array())
        else:
            raise GraphError(f"{self.label} reads {value.name!r} before it is made")
        self._known[id(value)] = tensor
        return tensor

    def unshaped(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        known = self._known.get(id(value))
        if isinstance(known, Reshaped) and known.tensor.dtype is DType.FLOAT16:
            return known.tensor
        return self.read(value)

    def alias(self, value: Value, source: Value) -> None:
        """See ops.lowering.Lowering."""
        known = self._known.get(id(source))
        self.bind(value, known.tensor if isinstance(known, Reshaped) else self.native(source), value.shape)

    def result(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        tensor = self._assigned.get(id(value)) or self.scratch(value.shape or (1,))
        if tensor.dtype is not DType.FLOAT16:
            tensor = self._shadows.of(tensor)
        self._known[id(value)] = tensor
        return tensor

    def native_result(self, value: Value, dtype: DType) -> Tensor:
        """See ops.lowering.Lowering."""
        tensor = self._assigned.get(id(value)) or self.scratch(value.shape or (1,), None, dtype)
        if tensor.dtype is not dtype:
            return self.result(value)
        self._known[id(value)] = tensor
        return tensor

    def bind(self, value: Value, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """See ops.lowering.Lowering."""
        wanted = tuple(shape if shape is not None else value.shape) or (1,)
        if wanted == tensor.shape:
            self._known[id(value)] = tensor
            return
        seen = tensor.reshape(wanted)
        self._known[id(value)] = Reshaped(tensor, wanted) if seen is None else seen

    def is_output(self, slot: int) -> bool:
        """See recipes.context.RecipeContext."""
        return self.ports.is_output(slot)

    def settle(self, emitted: list[Emitted]) -> None:
        """Copies those results to their ports that do not lie there yet; `emitted` are all operations so far."""
        for value in self._graph.outputs:
            base, place = self.ports.output_base(value)
            if not (self._lies_in(value, place) or self._lies_in(base, place)):
                self.copy(self.native(value), self.ports.output_tensor(value))
        self._shadows.settle(self, emitted)

    def _lies_in(self, value: Value, port: Tensor) -> bool:
        """Whether a value is stored in a port, or in what becomes it."""
        tensor = self.stored(value)
        return tensor is not None and (tensor.slot == port.slot or self._shadows.stands_for(tensor, port))
