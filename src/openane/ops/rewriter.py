"""Operations that run as several others: what their `decompose` functions are written against.

    def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
        scores = rewriter.single("matmul", x=node["query"], y=node["key"], transpose_y=True)
        ...

A decomposition is a piece of graph: what it makes is checked, folded and fused like nodes the user wrote, and names
the user's node as its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from openane.errors import GraphError
from openane.graph import Node, Value
from openane.ops.build import GraphBuilder


def fresh_name(name: str, names: set[str]) -> str:
    """The name, or the shortest that begins with it, that is not among `names`, to which it is added."""
    while name in names:
        name += "_"
    names.add(name)
    return name


class Rewriter(GraphBuilder):
    """A GraphBuilder for the nodes that take the place of one node. Their source is the node's label; names they take
    are added to `names`, the ones the graph has."""

    def __init__(self, node: Node, names: set[str], source: str = "") -> None:
        super().__init__(node.label)
        self._node, self._source = node, source or node.label
        self._names = names

    def add(self, op_name: str, name: str | None = None, source: str = "",
            **operands: Any) -> Value | tuple[Value, ...]:
        """As GraphBuilder.add, named after the node that is replaced."""
        return super().add(op_name, name or f"{self._node.name or self._node.op}_{op_name}", source or self._source,
                           **operands)

    @property
    def made(self) -> tuple[Node, ...]:
        """The nodes added so far, beside the one they are named after."""
        return tuple(self._nodes)

    def instead(self, made: Sequence[Value]) -> tuple[Node, ...]:
        """The nodes added so far, with `made` as the results of the node they replace. GraphError when a type
        differs."""
        taken: dict[int, Value] = {}
        for result, value in zip(self._node.outputs, made, strict=True):
            if value.type != result.type:
                raise GraphError(f"{self._node.label}: its decomposition makes {value.type} of {result.type}")
            if id(value) in taken or not any(value in node.outputs for node in self._nodes):
                value = self.single("identity", x=value)
            taken[id(value)] = result
        return tuple(_renamed(node, taken) for node in self._nodes)


def _renamed(node: Node, values: dict[int, Value]) -> Node:
    def swap(operand: Any) -> Any:
        return tuple(map(swap, operand)) if isinstance(operand, tuple) else values.get(id(operand), operand)

    return replace(node, operands={name: swap(operand) for name, operand in node.operands.items()},
                   outputs=swap(node.outputs))
