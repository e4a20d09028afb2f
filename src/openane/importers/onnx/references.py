"""Which tensors the nodes of an ONNX graph refer to, those in nested graphs included."""

from __future__ import annotations

from collections.abc import Sequence

from openane.importers.onnx.model import Proto


def lasts(graph: Proto, reads: Sequence[Sequence[str]]) -> dict[int, list[str]]:
    """Names by the position of the last node that refers to them, where each refers to those of `reads`; outputs have
    none."""
    outputs = {port.name for port in graph.output}
    last: dict[str, int] = {}
    for position, (node, names) in enumerate(zip(graph.node, reads, strict=True)):
        last.update(dict.fromkeys(names, position))
        last.update(dict.fromkeys(node.output, position))
    table: dict[int, list[str]] = {}
    for name, position in last.items():
        if name not in outputs:
            table.setdefault(position, []).append(name)
    return table


def read_by(node: Proto) -> list[str]:
    """Names a node refers to, and the nodes and outputs of graphs inside of it."""
    names = list(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names += [port.name for port in attribute.g.output]
            for inner in attribute.g.node:
                names += read_by(inner)
    return names
