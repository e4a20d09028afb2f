"""Where the values of a graph lie while it is lowered: in ports, in scratch, in constants, or as views of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openane.compiler.lower.byte_types import Shadows, widened
from openane.compiler.lower.ports import Ports
from openane.engine import DType
from openane.errors import GraphError
from openane.graph import Value
from openane.ops.lowering import Tensor

if TYPE_CHECKING:
    from openane.compiler.lower.builder import Compiler


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A value that is `tensor` in row-major order under another shape; no data has moved yet."""

    tensor: Tensor
    shape: tuple[int, ...]


class Values:
    """What is known of each value so far. Its methods are those of ops.lowering.Lowering with the same names."""

    def __init__(self, compiler: Compiler, ports: Ports, shadows: Shadows) -> None:
        self._compiler, self._ports, self._shadows = compiler, ports, shadows
        self._known: dict[int, Tensor | Reshaped] = {}
        self._widened: dict[int, Tensor] = {}
        self._assigned: dict[int, Tensor] = {}
        for value in compiler.graph.inputs:
            self.bind(value, ports.input_tensor(value))
        for value in compiler.graph.outputs:
            base, tensor = ports.output_base(value)
            if id(base) in compiler.uses.producers:
                self._assigned.setdefault(id(base), tensor)

    def read(self, value: Value) -> Tensor:
        """The fp16 tensor of a value."""
        tensor = self._widened.get(id(value)) or self.native(value)
        if tensor.dtype is not DType.FLOAT16:
            tensor = self._widened[id(value)] = widened(self._compiler, tensor)
        return tensor

    def stored(self, value: Value) -> Tensor | None:
        """The tensor a value is, perhaps in another shape of the same row-major order; None where it never is one."""
        known = self._known.get(id(value))
        return known.tensor if isinstance(known, Reshaped) else known

    def native(self, value: Value) -> Tensor:
        """The tensor of a value as it is stored. GraphError when it is not made yet."""
        compiler, known = self._compiler, self._known.get(id(value))
        if isinstance(known, Tensor):
            return known
        if known is not None:
            tensor = compiler.scratch(known.shape, None, known.tensor.dtype)
            compiler.reshape(known.tensor, tensor)
        elif value.constant:
            tensor = compiler.constant(value.array())
        else:
            raise GraphError(f"{compiler.label} reads {value.name!r} before it is made")
        self._known[id(value)] = tensor
        return tensor

    def unshaped(self, value: Value) -> Tensor:
        """The fp16 tensor a value is a reshape of."""
        known = self._known.get(id(value))
        if isinstance(known, Reshaped) and known.tensor.dtype is DType.FLOAT16:
            return known.tensor
        return self.read(value)

    def alias(self, value: Value, source: Value) -> None:
        """A value has the elements of another."""
        known = self._known.get(id(source))
        self.bind(value, known.tensor if isinstance(known, Reshaped) else self.native(source), value.shape)

    def result(self, value: Value) -> Tensor:
        """Where a value is to be written in fp16."""
        tensor = self._assigned.get(id(value)) or self._compiler.scratch(value.shape or (1,))
        if tensor.dtype is not DType.FLOAT16:
            tensor = self._shadows.of(tensor)
        self._known[id(value)] = tensor
        return tensor

    def native_result(self, value: Value, dtype: DType) -> Tensor:
        """Where a value is to be written in an element type."""
        tensor = self._assigned.get(id(value)) or self._compiler.scratch(value.shape or (1,), None, dtype)
        if tensor.dtype is not dtype:
            return self.result(value)
        self._known[id(value)] = tensor
        return tensor

    def bind(self, value: Value, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """A value is a tensor."""
        wanted = tuple(shape if shape is not None else value.shape) or (1,)
        if wanted == tensor.shape:
            self._known[id(value)] = tensor
            return
        seen = tensor.reshape(wanted)
        self._known[id(value)] = Reshaped(tensor, wanted) if seen is None else seen

    def finish(self) -> None:
        """Moves results that do not lie in their port yet."""
        for value in self._compiler.graph.outputs:
            base, place = self._ports.output_base(value)
            if not (self._lies_in(value, place) or self._lies_in(base, place)):
                self._compiler.copy(self.native(value), self._ports.output_tensor(value))

    def _lies_in(self, value: Value, port: Tensor) -> bool:
        """Whether a value is stored in a port, or in what becomes it."""
        tensor = self.stored(value)
        return tensor is not None and (tensor.slot == port.slot or self._shadows.stands_for(tensor, port))
