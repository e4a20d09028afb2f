"""Which tensors the nodes of an ONNX graph refer to, those in nested graphs included."""

from __future__ import annotations

from collections.abc import Iterator

from openane.importers.onnx.model import Proto


def lasts(graph: Proto) -> dict[int, list[str]]:
    """Names by the position of the last node that refers to them; outputs have none."""
    outputs = {port.name for port in graph.output}
    last = {name: position for position, node in enumerate(graph.node) for name in (*read_by(node), *node.output)}
    table: dict[int, list[str]] = {}
    for name, position in last.items():
        if name not in outputs:
            table.setdefault(position, []).append(name)
    return table


def read(graph: Proto) -> Iterator[str]:
    """Names that nodes and outputs of a graph, or of the graphs inside, refer to."""
    yield from (port.name for port in graph.output)
    for node in graph.node:
        yield from read_by(node)


def read_by(node: Proto) -> Iterator[str]:
    """Names a node refers to."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from read(attribute.g)
