"""One program in the making: values as tensors, storage, and the engine operations emitted so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.compiler.loops.assign import access
from openane.compiler.lower import fusion
from openane.compiler.lower.allocation import Allocation
from openane.compiler.lower.byte_types import Shadows
from openane.compiler.lower.ports import Ports, Uses
from openane.compiler.lower.values import Values
from openane.compiler.recipes import (
    constant_product,
    convolution_axes,
    data_movement,
    gather,
    linear_map,
    neural_ops,
    normalisation,
    planar_ops,
    pooling,
    reduction,
    runtime_product,
)
from openane.engine import Access, Binary, DType, Operation, Pool, Post, Reduce, Root
from openane.engine.table import Table
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.lowering import Lowering, Move, Tensor


@dataclass(frozen=True, slots=True)
class Emitted:
    """An engine operation and the node it came from (None: moving a result to its port)."""

    operation: Operation
    node: Node | None


class Compiler(Allocation):
    """Implements ops.lowering.Lowering for one graph and one chip."""

    def __init__(self, graph: Graph, limits: Limits, shared: frozenset[str] = frozenset()) -> None:
        super().__init__(limits)
        self.graph = graph
        self.emitted: list[Emitted] = []
        self.fused: dict[int, Node] = {}
        self.clamps: dict[int, Value] = {}
        self.uses = Uses(graph)
        self.ports = Ports(graph, self.uses, self.blocks, limits.memory_alignment, shared)
        self.shadows = Shadows(self.blocks)
        self.values = Values(self, self.ports, self.shadows)

    # What is being lowered

    @property
    def label(self) -> str:
        """The node being lowered, for messages."""
        return self.node.label if self.node is not None else "result port"

    @property
    def owner(self) -> tuple[str, ...]:
        """Names of the constants of the node being lowered: what its weights are made of."""
        return () if self.node is None else tuple(value.name for value in self.node.values() if value.constant)

    def lower(self, node: Node) -> None:
        """Lowers one node. UnsupportedError when its operation has no lowering."""
        if id(node) in self.fused:
            return
        if fusion.clamps_operand(self, node):
            return
        self.node = node
        function = get_op(node.op).lower
        if function is None:
            raise UnsupportedError(node.label, "the operation has no lowering to engine operations",
                                   remedy="replace it by operations `ane ops` lists as running on the engine")
        target: Lowering = self
        function(node, target)
        self.node = None

    def finish(self) -> None:
        """Moves results that do not lie in their port yet."""
        self.values.finish()
        self.shadows.settle(self)

    def followers(self, node: Node, tables: bool = True) -> tuple[Value, Post | None, Table | None]:
        """See ops.lowering.Lowering."""
        return fusion.followers(self, node, tables)

    def relu_behind(self, node: Node) -> tuple[Value, bool]:
        """See ops.lowering.Lowering."""
        return fusion.relu_behind(self, node)

    def clamped(self, value: Value) -> tuple[Tensor, bool]:
        """See ops.lowering.Lowering."""
        source = self.clamps.get(id(value))
        return (self.read(value), False) if source is None else (self.read(source), True)

    # Values

    def read(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.values.read(value)

    def native(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.values.native(value)

    def unshaped(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.values.unshaped(value)

    def alias(self, value: Value, source: Value) -> None:
        """See ops.lowering.Lowering."""
        self.values.alias(value, source)

    def result(self, value: Value) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.values.result(value)

    def native_result(self, value: Value, dtype: DType) -> Tensor:
        """See ops.lowering.Lowering."""
        return self.values.native_result(value, dtype)

    def bind(self, value: Value, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """See ops.lowering.Lowering."""
        self.values.bind(value, tensor, shape)

    # Movement

    def compact(self, tensor: Tensor) -> Tensor:
        """See ops.lowering.Lowering."""
        return tensor if tensor.aligned else self.copied(tensor)

    def copied(self, tensor: Tensor) -> Tensor:
        """The tensor in fresh row-major scratch."""
        target = self.scratch(tensor.shape, None, tensor.dtype)
        self.copy(tensor, target)
        return target

    def with_last(self, tensor: Tensor, axis: int) -> Tensor:
        """See ops.lowering.Lowering."""
        if tensor.contiguous in (axis, None):
            return tensor
        order = (*(d for d in range(tensor.rank) if d != axis), axis)
        target = self.scratch(tensor.shape, order, tensor.dtype)
        self.copy(tensor, target)
        return target

    def part(self, tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
        """See ops.lowering.Lowering."""
        return data_movement.part(self, tensor, axis, start, count, step)

    def join(self, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
        """See ops.lowering.Lowering."""
        data_movement.join(self, target, parts, axis)

    def turned(self, tensor: Tensor, axis: int) -> Tensor:
        """See ops.lowering.Lowering."""
        return gather.turned(self, tensor, axis)

    def taken(self, tensor: Tensor, axis: int, indices: np.ndarray, place: Callable[[], Tensor]) -> Tensor:
        """See ops.lowering.Lowering."""
        return gather.taken(self, tensor, axis, indices, place)

    def moved(self, target: Tensor, axis: int, moves: Sequence[Move]) -> None:
        """See ops.lowering.Lowering."""
        gather.moved(self, target, axis, moves)

    def mix(self, target: Tensor, source: Tensor, axis: int, matrix: np.ndarray) -> None:
        """See ops.lowering.Lowering."""
        linear_map.mix(self, target, source, axis, matrix)

    def reshape(self, source: Tensor, target: Tensor) -> None:
        """See ops.lowering.Lowering."""
        data_movement.reshape(self, source, target)

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
        widens = source.dtype is not DType.FLOAT16 and target.dtype is DType.FLOAT16
        if post is None and table is None and widens:
            planar_ops.elementwise(self, target, source, None, Binary.ADD, {})  # as Apple's casts of bool
        elif planar_ops.repeats(source):
            planar_ops.repeat(self, source, target, post, table)
        else:
            neural_ops.pass_through(self, source, target, post, table)

    def elementwise(self, target: Tensor, first: Tensor, second: Tensor | None = None,
                    function: Binary = Binary.ADD, **settings: float | bool) -> None:
        """See ops.lowering.Lowering."""
        planar_ops.elementwise(self, target, first, second, function, dict(settings))

    def gain_offset(self, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
                    relu: bool = False) -> None:
        """See ops.lowering.Lowering."""
        planar_ops.gain_offset(self, target, source, axis, offset, gain, relu)

    def reduce(self, target: Tensor, source: Tensor, axes: Sequence[int], kind: Reduce = Reduce.SUM,
               pre_scale: float = 1.0, final_scale: float = 1.0, epsilon: float = 0.0, root: Root = Root.NONE,
               square: bool = False) -> None:
        """See ops.lowering.Lowering."""
        closing: dict[str, Any] = {"final_scale": float(np.float32(final_scale)), "epsilon": float(np.float16(epsilon)),
                                   "root": root}
        reduction.reduce(self, target, source, axes, reduction.Folding(kind, pre_scale, square, closing))

    def max_planes(self, target: Tensor, source: Tensor, axis: int) -> bool:
        """See ops.lowering.Lowering."""
        return reduction.max_planes(self, target, source, axis)

    def multiply_planes(self, target: Tensor, first: Tensor, second: Tensor, axis: int, before: Table,
                        after: Table) -> bool:
        """See ops.lowering.Lowering."""
        return reduction.multiply_planes(self, target, first, second, axis, before, after)

    def staged(self, tensor: Tensor) -> Tensor:
        """See ops.lowering.Lowering."""
        return reduction.staged(self, tensor)

    def sum_planes(self, target: Tensor, source: Tensor, axis: int, table: Table) -> bool:
        """See ops.lowering.Lowering."""
        return reduction.sum_planes(self, target, source, axis, table)

    def normalise(self, target: Tensor, source: Tensor, axes: Sequence[int], epsilon: float) -> None:
        """See ops.lowering.Lowering."""
        normalisation.normalise(self, target, source, axes, epsilon)

    def convolution(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                    stride: Sequence[int] = (), padding: Sequence[int] = (), dilation: Sequence[int] = (),
                    groups: int = 1, post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        convolution_axes.convolution(self, target, source, weights, bias, stride=stride, padding=padding,
                                     dilation=dilation, groups=groups, post=post, table=table)

    def product(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        constant_product.product(self, target, source, weights, bias, post, table)

    def rows_product(self, value: Value, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                     post: Post | None = None, table: Table | None = None) -> None:
        """See ops.lowering.Lowering."""
        constant_product.rows_product(self, value, source, weights, bias, post, table)

    def runtime_product(self, value: Value, left: Tensor, right: Tensor, post: Post | None = None) -> None:
        """See ops.lowering.Lowering."""
        runtime_product.product_of(self, value, left, right, post)

    def runtime_convolution(self, target: Tensor, matrices: Tensor, source: Tensor, post: Post | None = None) -> bool:
        """See ops.lowering.Lowering."""
        return runtime_product.runtime_convolution(self, target, matrices, source, post)

    def pool(self, target: Tensor, source: Tensor, kind: Pool, kernel: Sequence[int], stride: Sequence[int],
             padding: Sequence[int]) -> None:
        """See ops.lowering.Lowering."""
        pooling.pool(self, target, source, kind, kernel, stride, padding)
