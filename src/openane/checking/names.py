"""The model's own name of what the compiler made of it."""

from __future__ import annotations

import numpy as np

from openane.checking.numbers import usual
from openane.checking.operands import gain, offset
from openane.graph import Graph, Node, Value

SOURCE = " (from "


class Names:
    """Names of a compiled graph's operations in the graph that was compiled."""

    def __init__(self, model: Graph, compiled: Graph) -> None:
        self._named = {node.name: node for node in reversed(model.nodes) if node.name}
        self._labels = {node.label: node for node in model.nodes}
        self._outputs = {value.name: node for node in model.nodes for value in node.outputs}
        self._made = compiled.producers()

    def of(self, node: Node) -> str:
        """What the model calls an operation: its own label where it is one of the model's, that of the operation it is
        a part of where it is not, or that of the one before it."""
        seen: set[int] = set()
        while id(node) not in seen:
            seen.add(id(node))
            found = self._own(node)
            if found is not None:
                return found.label
            before = next((self._made[id(value)] for value in node.values() if id(value) in self._made), None)
            if before is None:
                break
            node = before
        return node.label

    def adding(self, node: Node, size: float) -> str:
        """What adds most of a node's constant of a usual size: the last operation that was merged into it, or it."""
        last = self._outputs.get(node.outputs[0].name)
        added = None if last is None else offset(last, np.zeros(node.outputs[0].shape))
        return self.of(node) if last is None or added is None or usual(added) < size / 2 else last.label

    def enlarging(self, node: Node, times: float) -> str | None:
        """Of the operations that were merged into a node the one that multiplies by most, where the node's numbers
        would be at least so many times smaller without them."""
        merged, own, last = [], self._own(node), self._outputs.get(node.outputs[0].name)
        while last is not None and last is not own:
            merged.append(last)
            last = next((self._outputs.get(value.name) for value in last.values() if not value.constant), None)
        gains = [gain(each) for each in merged] if last is own else []
        if not gains or np.prod(gains) <= times:
            return None
        return merged[int(np.argmax(gains))].label

    def maker(self, value: Value) -> str:
        """What made a tensor of the compiled graph."""
        node = self._made.get(id(value))
        return f"input {value.name!r}" if node is None else self.of(node)

    def producer(self, value: Value) -> Node | None:
        """The node of the compiled graph that makes a tensor."""
        return self._made.get(id(value))

    def _own(self, node: Node) -> Node | None:
        """The model's operation that a node is, or is a part of."""
        source = node.source
        while source:
            if source in self._labels:
                return self._labels[source]
            _, _, source = source.partition(SOURCE)
            source = source.removesuffix(")") if source.count("(") < source.count(")") else source
        found = self._named.get(node.name) if node.name else None
        return found or next((self._outputs[v.name] for v in node.outputs if v.name in self._outputs), None) \
            or self._begun(node.name)

    def _begun(self, name: str) -> Node | None:
        """The model's operation, or what makes its tensor, whose name one begins with: passes add to names."""
        while "_" in name:
            name = name.rpartition("_")[0]
            found = self._named.get(name) or self._outputs.get(name)
            if found is not None:
                return found
        return None


def short(label: str) -> str:
    """A label without where it came from."""
    return label.partition(SOURCE)[0]
