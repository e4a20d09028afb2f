"""One program in the making: values as tensors, storage, and the engine operations emitted so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.compiler import moves, neural, normalisation, planar, products, reduction
from openane.compiler.memory import Block, Blocks, ConstantPool, Kind, padded
from openane.compiler.ports import Ports, Uses
from openane.compiler.walk import access
from openane.engine import Access, Activation, Binary, Operation, Pool, Post, Reduce, Root, Space
from openane.engine.table import Table
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.lowering import Lowering, Tensor

CHANNELS = 8192
"""Channels a streamed operation may have so that a row of every operand fits L2 beside what is resident."""
NEAR_SHARE = 8
"""A tensor that waits in L2 to be broadcast takes at most 1/8 of it."""


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A value that is `tensor` in row-major order under another shape; no data has moved yet."""

    tensor: Tensor
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Emitted:
    """An engine operation and the node it came from (None: moving a result to its port)."""

    operation: Operation
    node: Node | None


class Compiler:
    """Implements ops.lowering.Lowering for one graph and one chip."""

    def __init__(self, graph: Graph, limits: Limits) -> None:
        self.graph = graph
        self.limits = replace(limits, channels=min(limits.channels, CHANNELS))
        self.blocks = Blocks()
        self.constants = ConstantPool()
        self.emitted: list[Emitted] = []
        self.fused: dict[int, Node] = {}
        self._values: dict[int, Tensor | Reshaped] = {}
        self._assigned: dict[int, Tensor] = {}
        self._clamped: dict[int, Value] = {}
        self.uses = Uses(graph)
        self.ports = Ports(graph, self.uses, self.blocks)
        self.node: Node | None = None
        for value in graph.inputs:
            self.bind(value, self.ports.input_tensor(value))
        for value in graph.outputs:
            base, tensor = self.ports.output_base(value)
            if id(base) in self.uses.producers:
                self._assigned.setdefault(id(base), tensor)

    # What is being lowered

    @property
    def label(self) -> str:
        """The node being lowered, for messages."""
        return self.node.label if self.node is not None else "result port"

    def lower(self, node: Node) -> None:
        """Lowers one node. UnsupportedError when its operation has no lowering."""
        if id(node) in self.fused:
            return
        self.node = node
        if self._clamps_operand(node):
            return
        function = get_op(node.op).lower
        if function is None:
            raise UnsupportedError(node.label, "the operation has no lowering to engine operations",
                                   remedy="replace it by operations `ane ops` lists as running on the engine")
        target: Lowering = self
        function(node, target)
        self.node = None

    def finish(self) -> None:
        """Moves results that do not lie in their port yet."""
        for value in self.graph.outputs:
            known = self._values.get(id(value))
            tensor = known.tensor if isinstance(known, Reshaped) else known
            _, place = self.ports.output_base(value)
            if tensor is None or tensor.slot != place.slot:
                self.copy(self.read(value), self.ports.output_tensor(value))

    def followers(self, node: Node) -> tuple[Value, Post | None, Table | None]:
        """What may be fused behind a neural-engine operation: the value it then makes, its post stage and table."""
        value, scale = node.output, 1.0
        biased = node.get("bias") is not None
        while (user := self.uses.only_user(value)) is not None:
            post = get_op(user.op).post
            stage = post(user, self) if post is not None and user.get("x") is value else None
            if stage is None or (biased and (stage[0].scale != 1.0 or stage[0].bias != 0.0)):
                break
            before, table = stage
            if before.bias != 0.0 or (before.scale != 1.0 and scale != 1.0):
                break
            scale *= before.scale
            self.fused[id(user)] = node
            value = user.output
            if before.activation is not Activation.NONE:
                return value, Post(scale=scale, activation=before.activation), table
        return value, Post(scale=scale) if scale != 1.0 else None, None

    def relu_behind(self, node: Node) -> tuple[Value, bool]:
        """See ops.lowering.Lowering."""
        user = self.uses.only_user(node.output)
        if user is None or user.op != "relu":
            return node.output, False
        self.fused[id(user)] = node
        return user.output, True

    def clamped(self, value: Value) -> tuple[Tensor, bool]:
        """See ops.lowering.Lowering."""
        source = self._clamped.get(id(value))
        return (self.read(value), False) if source is None else (self.read(source), True)

    def _clamps_operand(self, node: Node) -> bool:
        """Whether a ReLU is done by the planar operation that alone reads its result, as it reads it."""
        user = self.uses.only_user(node.output) if node.op == "relu" else None
        if user is None or user.op not in ("add", "sub", "mul", "maximum", "minimum") \
                or any(value.constant for value in user.values()):
            return False
        self._clamped[id(node.output)] = node["x"]
        self.fused[id(node)] = user
        return True

    # Values

    def read(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        known = self._values.get(id(value))
        if isinstance(known, Tensor):
            return known
        if known is not None:
            tensor = self.scratch(known.shape)
            self.reshape(known.tensor, tensor)
        elif value.constant:
            tensor = self.constant(value.array())
        else:
            raise GraphError(f"{self.label} reads {value.name!r} before it is made")
        self._values[id(value)] = tensor
        return tensor

    def unshaped(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        known = self._values.get(id(value))
        return known.tensor if isinstance(known, Reshaped) else self.read(value)

    def result(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        tensor = self._assigned.get(id(value)) or self.scratch(value.shape or (1,))
        self._values[id(value)] = tensor
        return tensor

    def bind(self, value: Value, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """See ops.lowering.Lowering."""
        wanted = tuple(shape if shape is not None else value.shape) or (1,)
        if wanted == tensor.shape:
            self._values[id(value)] = tensor
            return
        seen = tensor.reshape(wanted)
        self._values[id(value)] = Reshaped(tensor, wanted) if seen is None else seen

    # Storage

    def scratch(self, shape: Sequence[int], order: Sequence[int] | None = None) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.temporary(shape, order, Space.MEMORY)

    def temporary(self, shape: Sequence[int], order: Sequence[int] | None, space: Space) -> Tensor:
        """Scratch memory or L2 for a tensor; `order` as in memory.padded."""
        memory = space is Space.MEMORY
        size, strides = padded(tuple(shape), 64 if memory else 16, None if order is None else tuple(order))
        slot = self.blocks.add(Block(size, Kind.SCRATCH if memory else Kind.L2))
        return Tensor(slot, 0, tuple(shape), strides, space)

    def near(self, shape: Sequence[int], row: int = -1) -> Tensor:
        """See ops.lowering.Lowering."""
        order = (*(d for d in range(len(shape)) if d != row), row)
        size, _ = padded(tuple(shape), 16, order)
        return self.temporary(shape, order, Space.L2) if size <= self.limits.l2_size // NEAR_SHARE \
            else self.scratch(shape)

    def constant(self, array: np.ndarray) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.constants.surface(array)

    def compact(self, tensor: Tensor) -> Tensor:
        """See ops.lowering.Lowering."""
        return tensor if tensor.aligned else self.copied(tensor)

    def copied(self, tensor: Tensor) -> Tensor:
        """The tensor in fresh row-major scratch."""
        target = self.scratch(tensor.shape)
        self.copy(tensor, target)
        return target

    def with_last(self, tensor: Tensor, axis: int) -> Tensor:
        """See ops.lowering.Lowering."""
        if tensor.contiguous in (axis, None):
            return tensor
        order = (*(d for d in range(tensor.rank) if d != axis), axis)
        size, _ = padded(tensor.shape, 16, order)
        small = size <= self.limits.l2_size // NEAR_SHARE
        target = self.temporary(tensor.shape, order, Space.L2 if small else Space.MEMORY)
        self.copy(tensor, target)
        return target

    def part(self, tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
        """See ops.lowering.Lowering."""
        return moves.part(self, tensor, axis, start, count, step)

    def join(self, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
        """See ops.lowering.Lowering."""
        moves.join(self, target, parts, axis)

    def reshape(self, source: Tensor, target: Tensor) -> None:
        """See ops.lowering.Lowering."""
        moves.reshape(self, source, target)

    # Operations

    def emit(self, operation: Operation) -> None:
        """See ops.lowering.Lowering."""
        self.emitted.append(Emitted(operation, self.node))

    def access(self, tensor: Tensor, dims: Sequence[int | None]) -> Access:
        """See ops.lowering.Lowering."""
        return access(tensor, dims)

    def copy(self, source: Tensor, target: Tensor, post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        if source.shape != target.shape:
            raise GraphError(f"{self.label}: cannot copy shape {source.shape} to {target.shape}")
        if planar.repeats(source):
            planar.repeat(self, source, target, post, table)
        else:
            neural.pass_through(self, source, target, post, table)

    def elementwise(self, target: Tensor, first: Tensor, second: Tensor | None = None,
                    function: Binary = Binary.ADD, **settings: float | bool) -> None:
        """See ops.lowering.Lowering."""
        planar.elementwise(self, target, first, second, function, dict(settings))

    def gain_offset(self, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
                    relu: bool = False) -> None:
        """See ops.lowering.Lowering."""
        planar.gain_offset(self, target, source, axis, offset, gain, relu)

    def reduce(self, target: Tensor, source: Tensor, axes: Sequence[int], kind: Reduce = Reduce.SUM,
               pre_scale: float = 1.0, final_scale: float = 1.0, epsilon: float = 0.0, root: Root = Root.NONE,
               square: bool = False) -> None:
        """See ops.lowering.Lowering."""
        closing: dict[str, Any] = {"final_scale": float(np.float32(final_scale)), "epsilon": float(np.float16(epsilon)),
                                   "root": root}
        reduction.reduce(self, target, source, axes, reduction.Folding(kind, pre_scale, square, closing))

    def sum_planes(self, target: Tensor, source: Tensor, axis: int, table: Table) -> bool:
        """See ops.lowering.Lowering."""
        return reduction.sum_planes(self, target, source, axis, table)

    def normalise(self, target: Tensor, source: Tensor, axes: Sequence[int], epsilon: float) -> None:
        """See ops.lowering.Lowering."""
        normalisation.normalise(self, target, source, axes, epsilon)

    def convolution(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                    stride: Sequence[int] = (1, 1), padding: Sequence[int] = (0, 0), groups: int = 1,
                    post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        neural.convolution(self, target, source, weights, bias, stride=stride, padding=padding, groups=groups,
                           post=post, table=table)

    def product(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        products.product(self, target, source, weights, bias, post, table)

    def runtime_product(self, target: Tensor, left: Tensor, right: Tensor) -> None:
        """See ops.lowering.Lowering."""
        products.runtime_product(self, target, left, right)

    def pool(self, target: Tensor, source: Tensor, kind: Pool, kernel: Sequence[int], stride: Sequence[int],
             padding: Sequence[int], final_scale: float = 1.0) -> None:
        """See ops.lowering.Lowering."""
        planar.pool(self, target, source, kind, kernel, stride, padding, final_scale)
