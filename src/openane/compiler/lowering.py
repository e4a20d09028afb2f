"""One program in the making: values as tensors, storage, and the engine operations emitted so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.compiler import neural, planar
from openane.compiler.memory import Block, Blocks, ConstantPool, Kind, padded, port_layout, view
from openane.compiler.walk import access
from openane.engine import Access, Activation, Binary, Operation, Pool, Post, Reduce, Root, Space
from openane.engine.table import Table
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.lowering import Tensor
from openane.program import Layout

CHANNELS = 8192
"""Channels a streamed operation may have so that a row of every operand fits L2 beside what is resident."""
NEAR_SHARE = 8
"""A tensor that waits in L2 to be broadcast takes at most 1/8 of it."""
CELL_BYTES = 1 << 24
"""Scratch a reshape through 64-byte cells takes at most at a time."""
CELL_LIMIT = 1 << 30
"""Beyond this a reshape that cannot be cut is refused."""


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
        self.layouts: dict[str, Layout] = {}
        self._values: dict[int, Tensor | Reshaped] = {}
        self._assigned: dict[int, Tensor] = {}
        self._ports: dict[str, int] = {}
        self._users = graph.users()
        self._outputs = {id(value) for value in graph.outputs}
        self._producers = graph.producers()
        self.node: Node | None = None
        self._make_ports()

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
        function = get_op(node.op).lower
        if function is None:
            raise UnsupportedError(node.label, "the operation has no lowering to engine operations",
                                   remedy="replace it by operations `ane ops` lists as running on the engine")
        function(node, self)
        self.node = None

    def finish(self) -> None:
        """Moves results that do not lie in their port yet."""
        for value in self.graph.outputs:
            slot = self._ports[_output_key(value.name)]
            known = self._values.get(id(value))
            tensor = known.tensor if isinstance(known, Reshaped) else known
            if tensor is not None and tensor.slot == slot:
                continue
            self.copy(self.read(value), self._port_tensor(value, slot))

    def followers(self, node: Node) -> tuple[Value, Post | None, Table | None]:
        """What may be fused behind a neural-engine operation: the value it then makes, its post stage and table."""
        value, scale = node.output, 1.0
        biased = node.get("bias") is not None
        while (user := self._only_user(value)) is not None:
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

    def _only_user(self, value: Value) -> Node | None:
        users = self._users.get(id(value), [])
        if len(users) != 1 or id(value) in self._outputs:
            return None
        return users[0]

    # Values

    def read(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        known = self._values.get(id(value))
        if isinstance(known, Tensor):
            return known
        if known is not None:
            tensor = self._moved(known.tensor, known.shape)
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

    def near(self, shape: Sequence[int]) -> Tensor:
        """See ops.lowering.Lowering."""
        cells = (*range(len(shape)), -1)
        if 16 * math.prod(shape) <= self.limits.l2_size // NEAR_SHARE:
            return self.temporary(shape, cells, Space.L2)
        return self.scratch(shape)

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
        target = self.scratch(tensor.shape, (*(d for d in range(tensor.rank) if d != axis), axis))
        self.copy(tensor, target)
        return target

    def part(self, tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
        """Elements start, start + step, ... of one dimension as a tensor the engine can address."""
        seen = tensor.part(axis, start, count, step)
        if seen.aligned:
            return seen
        others = [d for d in range(tensor.rank) if d != axis]
        last = max(others, key=lambda d: tensor.shape[d], default=-1)
        turned = self.scratch(tensor.shape, (*(d for d in range(tensor.rank) if d != last), last))
        self.copy(tensor, turned)
        return turned.part(axis, start, count, step)

    def join(self, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
        """target = parts side by side along `axis`."""
        places, start = [], 0
        for source in parts:
            places.append((start, source.shape[axis]))
            start += source.shape[axis]
        whole = target
        if not all(target.part(axis, at, count).aligned for at, count in places):
            others = [d for d in range(target.rank) if d != axis]
            last = max(others, key=lambda d: target.shape[d], default=-1)
            whole = self.scratch(target.shape, (*(d for d in range(target.rank) if d != last), last))
        for source, (at, count) in zip(parts, places, strict=True):
            self.copy(source, whole.part(axis, at, count))
        if whole is not target:
            self.copy(whole, target)

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
        planar.reduce(self, target, source, axes, planar.Folding(kind, pre_scale, square, closing))

    def convolution(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                    stride: Sequence[int] = (1, 1), padding: Sequence[int] = (0, 0), groups: int = 1,
                    post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        neural.convolution(self, target, source, weights, bias, stride=stride, padding=padding, groups=groups,
                           post=post, table=table)

    def product(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        neural.product(self, target, source, weights, bias, post, table)

    def runtime_product(self, target: Tensor, left: Tensor, right: Tensor) -> None:
        """See ops.lowering.Lowering."""
        neural.runtime_product(self, target, left, right)

    def pool(self, target: Tensor, source: Tensor, kind: Pool, kernel: Sequence[int], stride: Sequence[int],
             padding: Sequence[int], final_scale: float = 1.0) -> None:
        """See ops.lowering.Lowering."""
        planar.pool(self, target, source, kind, kernel, stride, padding, final_scale)

    # Reshapes that move data

    def _moved(self, source: Tensor, shape: tuple[int, ...]) -> Tensor:
        target = self.scratch(shape)
        self.reshape(source, target)
        return target

    def reshape(self, source: Tensor, target: Tensor) -> None:
        """See ops.lowering.Lowering: every element through a 64-byte cell, where any strides will do."""
        for seen, place in ((source.reshape(target.shape), target), (source, target.reshape(source.shape))):
            if seen is not None and place is not None:
                self.copy(seen, place)
                return
        cells = 64 * source.elements
        if cells > CELL_BYTES:
            pieces = _common_split(source, target)
            if pieces is not None:
                for piece, place in pieces:
                    self.reshape(piece, place)
                return
        if cells > CELL_LIMIT:
            raise UnsupportedError(self.label, "a reshape that reorders rows must fit the scratch memory it goes through",
                                   limit=CELL_LIMIT, found=cells,
                                   remedy="keep the last dimension, or make it a multiple of 32 elements")
        spread = self.scratch(source.shape, (*range(source.rank), -1))
        self.copy(source, spread)
        seen = spread.reshape(target.shape)
        assert seen is not None, "cells can be reshaped to anything"
        self.copy(seen, target)

    # Ports

    def port_slot(self, side: str, name: str) -> int:
        """Virtual slot of a port; `side` is input or output."""
        return self._ports[f"{side} {name}"]

    def _make_ports(self) -> None:
        for value in self.graph.inputs:
            layout = port_layout(self._input_shape(value))
            slot = self._port(value.name, _input_key(value.name), layout)
            tensor = view(layout, slot, self._input_shape(value))
            self.bind(value, tensor)
        for value in self.graph.outputs:
            if _output_key(value.name) in self._ports:
                continue
            base = self._output_base(value)
            layout = port_layout(base.shape)
            slot = self._port(value.name, _output_key(value.name), layout)
            if not base.constant and id(base) in self._producers:
                self._assigned.setdefault(id(base), view(layout, slot, base.shape))

    def _port(self, name: str, key: str, layout: Layout) -> int:
        slot = self.blocks.add(Block(layout.size, Kind.PORT, name))
        self._ports[key] = slot
        self.layouts[key] = layout
        return slot

    def _port_tensor(self, value: Value, slot: int) -> Tensor:
        layout = self.layouts[_output_key(value.name)]
        shape = self._output_base(value).shape
        tensor = view(layout, slot, shape)
        seen = tensor.reshape(value.shape or (1,))
        if seen is None:
            self.layouts[_output_key(value.name)] = port_layout(value.shape)
            self.blocks.table[slot] = Block(port_layout(value.shape).size, Kind.PORT, value.name)
            return view(port_layout(value.shape), slot, value.shape)
        return seen

    def _input_shape(self, value: Value) -> tuple[int, ...]:
        """The shape an input's surface has: that of the reshape that alone reads it, when a view cannot express it."""
        seen, shape = value, value.shape
        while (user := self._only_user(seen)) is not None and get_op(user.op).view and user.get("x") is seen:
            seen = user.output
        plain = view(port_layout(shape), 0, shape)
        if seen is value or len(seen.shape) > 5 or plain.reshape(seen.shape or (1,)) is not None:
            return shape
        return seen.shape

    def _output_base(self, value: Value) -> Value:
        """The value an output is a mere reshape of, when nothing else reads it: it is then written to the port."""
        base = value
        while (node := self._producers.get(id(base))) is not None and get_op(node.op).view:
            before = node["x"]
            used_once = len(self._users.get(id(before), [])) == 1 and id(before) not in self._outputs
            if before.constant or id(before) not in self._producers or not used_once or len(before.shape) > 5:
                break
            base = before
        return base


def _input_key(name: str) -> str:
    return f"input {name}"


def _output_key(name: str) -> str:
    return f"output {name}"


def _common_split(source: Tensor, target: Tensor) -> list[tuple[Tensor, Tensor]] | None:
    """Pairs of (source, target) pieces of a reshape that keeps its leading elements apart, or None."""
    outer, inner = 0, 0
    left = right = 1
    best: tuple[int, int] | None = None
    while outer < source.rank and inner < target.rank:
        if left <= right:
            left *= source.shape[outer]
            outer += 1
        else:
            right *= target.shape[inner]
            inner += 1
        if left == right and left > 1 and outer < source.rank and inner < target.rank and best is None:
            best = outer, inner
    if best is None:
        return None
    heads = [np.ndindex(source.shape[:best[0]]), np.ndindex(target.shape[:best[1]])]
    return [(_at(source, i), _at(target, j)) for i, j in zip(*heads, strict=True)]


def _at(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    for axis, position in enumerate(index):
        tensor = tensor.part(axis, position, 1)
    keep = range(len(index), tensor.rank)
    return Tensor(tensor.slot, tensor.offset, tuple(tensor.shape[d] for d in keep),
                  tuple(tensor.strides[d] for d in keep), tensor.space)


