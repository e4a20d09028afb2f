"""Where an ONNX graph refers to its tensors for the last time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from openane.importers.onnx.nodes import StatedNode


def lasts(nodes: Sequence[StatedNode], outputs: Iterable[str]) -> list[Collection[str]]:
    """For each node, the names that no later one refers to or makes; outputs of the graph are none of them."""
    seen, table = set(outputs), list[Collection[str]]()
    for node in reversed(nodes):
        fresh = {*node.reads, *node.outputs} - seen
        seen |= fresh
        table.append(fresh)
    return table[::-1]
