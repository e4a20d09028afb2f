"""Buffers that a PyTorch program writes, as states of the model.

States are zero before the first run. A buffer that begins with other numbers has a second state beside it, which is 0
until the first run is over and 1 from then on: what is read is chosen by it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field

import numpy as np

from openane.graph import Value
from openane.importers.torch.step import Tensor, TorchConstants
from openane.ops.build import GraphBuilder
from openane.record_classes import dataclass


@dataclass(slots=True)
class States:
    """The states of one program by the name of the buffer; `taken` are the names of its inputs."""

    builder: GraphBuilder
    constants: TorchConstants
    taken: Container[str]
    _handles: dict[str, Value] = field(default_factory=dict)
    _flags: dict[str, Value] = field(default_factory=dict)

    def read(self, buffer: str, held: Tensor) -> Value:
        """What the buffer holds when a run begins, `held` before the first."""
        label = f"PyTorch buffer {buffer!r}"
        first = self.constants.value(held, label)
        name = buffer.replace(".", "_")
        name = f"buffer_{name}" if name in self.taken else name
        handle = self._handles[buffer] = self.builder.state(name, first.dtype, first.shape)
        contents = self.builder.read(handle)
        if not np.any(first.data):
            return contents
        flag = self._flags[buffer] = self.builder.state(f"{name}_begun", "fp16", (1,) * max(first.type.rank, 1))
        begun = self.builder.single("not_equal", f"{name}_is_begun", label, x=self.builder.read(flag), y=0.0)
        if not first.type.rank:
            begun = self.builder.single("reshape", f"{name}_is_begun", label, x=begun, shape=())
        return self.builder.single("select", f"{name}_now", label, cond=begun, a=contents, b=first)

    def write(self, buffer: str, value: Value) -> None:
        """What the buffer holds after a run. GraphError when its type is another."""
        handle = self._handles[buffer]
        if value.dtype != handle.dtype:
            value = self.builder.single("cast", f"{handle.name}_cast", x=value, dtype=handle.dtype)
        self.builder.write(handle, value)
        if buffer in self._flags:
            flag = self._flags[buffer]
            self.builder.write(flag, self.builder.constant(np.ones(flag.shape, np.float16)))
