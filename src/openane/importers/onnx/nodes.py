"""What an ONNX node says, as Python values: the protobuf runtime makes new ones each time it is asked."""

from __future__ import annotations

from typing import Any

from openane.record_classes import dataclass

Proto = Any
"""A protobuf message of the onnx package, which states no types."""


@dataclass(slots=True)
class StatedNode:
    """A NodeProto that was read. `attributes` are messages still; `reads` are the tensors it refers to: its inputs,
    and what nodes and outputs of graphs inside of it refer to."""

    proto: Proto
    kind: str
    name: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: list[Proto]
    reads: list[str]


def nodes_of(graph: Proto) -> list[StatedNode]:
    """The nodes of a graph in their order."""
    return list(map(_node, graph.node))


def _node(proto: Proto) -> StatedNode:
    # A slice makes the list of a repeated field at once; iterating over one asks for every element, and one beyond.
    inputs, attributes = proto.input[:], proto.attribute[:]
    reads = inputs
    for attribute in attributes:
        if attribute.HasField("g"):
            reads = [*reads, *_read_inside(attribute.g)]
    return StatedNode(proto, proto.op_type, proto.name, proto.domain, inputs, proto.output[:], attributes, reads)


def _read_inside(graph: Proto) -> list[str]:
    """Names that the nodes and outputs of a nested graph refer to."""
    return [*(port.name for port in graph.output), *(name for node in nodes_of(graph) for name in node.reads)]
