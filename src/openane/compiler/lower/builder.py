"""Lowering: turns every node of a graph into engine operations over virtual buffers."""

from __future__ import annotations

from openane.chips import Chip
from openane.compiler.loops.assign import access
from openane.compiler.lower.allocation import Allocation
from openane.compiler.lower.fusion import Fusion
from openane.compiler.lower.lowered import Emitted, Lowered
from openane.compiler.lower.repeats import Repeats
from openane.compiler.lower.users import Users
from openane.compiler.lower.values import Values
from openane.compiler.recipes import (
    constant_product,
    convolution_axes,
    copies,
    data_movement,
    gather,
    grouped_product,
    linear_map,
    normalisation,
    planar_ops,
    pooling,
    reduction,
    runtime_product,
)
from openane.engine import Operation
from openane.errors import UnsupportedError
from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.lowering import Lowering
from openane.ops.optimisation import level_of

MOST_OPERATIONS = 8192
"""Engine operations that one operation of a model may take: each is a task or more, of which a program has room for
some ten thousands, and takes the compiler milliseconds."""


def lower(graph: Graph, chip: Chip, shared: frozenset[str] = frozenset()) -> Lowered:
    """The graph as engine operations. Ports called as `shared` says keep their tensor's own shape.

    UnsupportedError names the node that has no lowering, or none on this chip.
    """
    builder = Builder(graph, chip, shared)
    for node in graph.nodes:
        builder.lower(node)
    return builder.finished()


def constant_elements(graph: Graph) -> int:
    """How many numbers the constants have that nodes name, vectors apart."""
    held = {id(value): value.type for node in graph.nodes for value in node.values()
            if len(value.type.shape) > 1 and value.constant}
    return sum(of.elements for of in held.values())


class Builder(Repeats):
    """What a node's lowering calls, for one graph and one chip: it implements `ops.lowering.Lowering` and
    `recipes.context.RecipeContext`. Most of its methods are recipes: functions whose first argument is the context, so
    that they can stand in a class as they are."""

    def __init__(self, graph: Graph, chip: Chip, shared: frozenset[str] = frozenset()) -> None:
        users = Users(graph)
        Allocation.__init__(self, chip, len(graph.inputs) + len(graph.outputs), constant_elements(graph))
        Fusion.__init__(self, users)
        Values.__init__(self, graph, users, self.blocks, chip.limits.memory_alignment, shared)
        self._graph = graph
        self._emitted: list[Emitted] = []
        self._first = 0

    access = staticmethod(access)
    copy, copied, compact, with_last = copies.copy, copies.copied, copies.compact, copies.with_last
    part, join, reshape = data_movement.part, data_movement.join, data_movement.reshape
    turned, taken, copy_indexed = gather.turned, gather.taken, gather.copy_indexed
    mix = linear_map.mix
    elementwise, gain_offset = planar_ops.elementwise, planar_ops.gain_offset
    reduce, staged = reduction.reduce, reduction.staged
    max_planes, sum_planes = reduction.max_planes, reduction.sum_planes
    multiply_planes = reduction.multiply_planes
    normalise = normalisation.normalise
    pool = pooling.pool
    convolution = convolution_axes.convolution
    product, rows_product = constant_product.product, constant_product.rows_product
    runtime_product, runtime_convolution = runtime_product.product_of, runtime_product.runtime_convolution
    products = grouped_product.products

    @property
    def level(self) -> int:
        """See ops.lowering.Lowering."""
        return level_of(self._graph)

    @property
    def close_functions(self) -> bool:
        """See ops.lowering.Lowering."""
        return self._graph.metadata.get(FUNCTIONS) == CLOSE

    @property
    def label(self) -> str:
        """See recipes.context.Context."""
        return self.node.label if self.node is not None else "result port"

    def emit(self, operation: Operation) -> None:
        """See ops.lowering.Lowering. UnsupportedError for one more than an operation of a model may take."""
        self._require_few(len(self._emitted) - self._first + 1)
        self._emitted.append(Emitted(operation, self.node))

    def _require_few(self, count: int) -> None:
        """UnsupportedError for more engine operations than one of a model may take."""
        if count > MOST_OPERATIONS:
            raise UnsupportedError(self.label, "one operation may take so many engine operations at most",
                                   limit=MOST_OPERATIONS, found=f"{MOST_OPERATIONS} and more",
                                   remedy="use a smaller input or window, or several operations")

    def lower(self, node: Node) -> None:
        """Lowers one node. UnsupportedError when its operation has no lowering."""
        if id(node) in self.fused or self.enters(node):
            return
        function = get_op(node.op).lower
        if function is None:
            raise UnsupportedError(node.label, "the operation has no lowering to engine operations",
                                   remedy="replace it by operations `ane ops` lists as running on the engine")
        self.node, self._first = node, len(self._emitted)
        here = None if get_op(node.op).view else self.situation(node)
        repeated = None if here is None else self.repeat(here, node)
        if repeated is not None:
            self._require_few(len(repeated))
            self._emitted += [Emitted(operation, node) for operation in repeated]
        else:
            before = None if here is None else self.before(here)
            target: Lowering = self
            function(self.trace.tagged(node), target)
            if here is not None and before is not None:
                self.keep(here, before, node, tuple([each.operation for each in self._emitted[self._first:]]))
        self.fills.clear()
        self.node = None

    def finished(self) -> Lowered:
        """What was lowered, its results in their ports. Nothing can be lowered any more."""
        self._first = len(self._emitted)  # what is copied into ports is no part of the last operation
        self.settle(self._emitted)
        values = [value for node in self._graph.nodes for value in node.outputs]
        tensors = {id(value): tensor for value in values if (tensor := self.stored(value)) is not None}
        constants, kernel_starts = self.all_constants()
        return Lowered(self._graph, tuple(self._emitted), self.blocks.table, constants, kernel_starts,
                       {name: layout for (_, name), layout in self.ports.layouts.items()},
                       {name: slot for (_, name), slot in self.ports.slots.items()}, self.fused, tensors,
                       {key: tuple(pieces) for key, pieces in self.trace.pieces.items() if key not in self.trace.lost})
