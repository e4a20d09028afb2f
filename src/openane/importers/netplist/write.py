"""Graphs to net.plist files, so that they can go back to Apple's tools."""

from __future__ import annotations

import os
import plistlib
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from openane.errors import GraphError, UnsupportedError
from openane.formats.files import write_atomically
from openane.graph import Graph, Node, Value
from openane.importers.netplist import outgoing_elements, outgoing_shapes
from openane.importers.netplist.load import PORT_TYPES, SUFFIX
from openane.importers.netplist.outgoing import RESERVED, Outgoing, refusal

VERSION = "1.0.9"
WRITERS: Mapping[str, outgoing_elements.Writer] = {**outgoing_elements.WRITERS, **outgoing_shapes.WRITERS}
"""Operations that net.plist units express."""
_TYPES = {dtype: name for name, dtype in PORT_TYPES.items()}
_INNER = (*_TYPES, "bool")


def write_netplist(graph: Graph, path: str | os.PathLike[str]) -> Path:
    """Writes `graph` as a net.plist with its weights in NAME.weights beside it; returns the path.

    Tensors must be [N, C, H, W] or all [N, C, D, H, W], of fp16 (ports also of uint8 and int8). Reading the file
    again gives the same graph wherever an operation is one unit; the others come back as the units they became.
    UnsupportedError for what the units cannot express, OSError when the files cannot be written.
    """
    target = Path(path)
    weights = target.with_suffix(".weights")
    document, data = to_netplist(graph, weights.name)
    text = plistlib.dumps(document, sort_keys=False)
    if data:
        write_atomically(weights, data)
    write_atomically(target, text)
    return target


def to_netplist(graph: Graph, weights: str = "net.weights") -> tuple[dict[str, Any], bytes]:
    """The document of `graph` and the contents of its weight file, which the document calls `weights`."""
    out = Outgoing(_rank(graph), Counter([*(id(value) for node in graph.nodes for value in node.values()),
                                          *map(id, graph.outputs)]))
    for value in graph.inputs:
        if value.name in RESERVED or any(ord(character) < 32 for character in value.name):
            raise UnsupportedError(f"net.plist, input {value.name!r}", "this name is none in a network",
                                   found=value.name, remedy="rename the input")
        out.names[id(value)] = out.unique(value.name)
    for value in graph.outputs:
        if value.constant:
            raise UnsupportedError(f"net.plist, output {value.name!r}", "outputs are made by units", found="a constant",
                                   remedy="without it")
        out.taken.add(value.name + SUFFIX)
    for node in graph.nodes:
        for value in node.outputs:
            out.names[id(value)] = out.unique(value.name)
    for node in graph.nodes:
        _write(out, node)
    return _document(graph, out, weights), bytes(out.weights)


def _rank(graph: Graph) -> int:
    """The rank all tensors share: 4 or 5."""
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
    if not graph.inputs or not graph.outputs:
        raise GraphError("a net.plist has at least one input and one output")
    for value in values:
        if value.type.rank not in (4, 5) or value.type.rank != values[0].type.rank:
            raise UnsupportedError(f"net.plist, tensor {value.name!r}", "all tensors are [N, C, H, W], or all "
                                   "[N, C, D, H, W]", found=value.type, remedy="reshape to rank 4 throughout")
        if value.dtype not in _INNER:
            raise UnsupportedError(f"net.plist, tensor {value.name!r}", "tensors are fp16, uint8 or int8",
                                   found=value.type, remedy="fp16")
    return values[0].type.rank


def _write(out: Outgoing, node: Node) -> None:
    writer = WRITERS.get(node.op)
    if writer is None:
        near = get_close_matches(node.op, WRITERS, n=3, cutoff=0.7)
        remedy = f"nearest: {', '.join(near)}" if near else f"operations with a unit: {', '.join(sorted(WRITERS))}"
        raise refusal(node, "no unit expresses this operation", node.op, remedy)
    if node.op != "cast" and any(value.dtype != "fp16" for value in _tensors(node)):
        raise refusal(node, "units read fp16", ", ".join(str(value.type) for value in _tensors(node)),
                      "fp16 operands, by way of cast")
    writer(out, node)


def _tensors(node: Node) -> list[Value]:
    return list(node.computed())


def _document(graph: Graph, out: Outgoing, weights: str) -> dict[str, Any]:
    network: dict[str, Any] = {
        "Inputs": [out.names[id(value)] for value in graph.inputs],
        "Outputs": [value.name + SUFFIX for value in graph.outputs], "Units": list(out.units)}
    if len(set(network["Outputs"])) != len(network["Outputs"]):
        raise GraphError("outputs must be named once each")
    if out.weights:
        network["Weights"] = [weights]
    if out.constants:
        network["Constants"] = list(out.constants)
    for value in graph.inputs:
        network[out.names[id(value)]] = {**out.extents("Input", value.shape, "BatchSize"),
                                         "InputType": _TYPES[value.dtype]}
    network.update(out.constants)
    network.update(out.units)
    for value in graph.outputs:
        _check_port(value)
        network[value.name + SUFFIX] = {"Bottom": out.names[id(value)], "OutputType": _TYPES[value.dtype]}
    return {"Networks": ["net"], "Version": VERSION, "net": network}


def _check_port(value: Value) -> None:
    """A comparison's result is Float16 in a net.plist: as a port it would come back as another type."""
    if value.dtype not in _TYPES:
        raise UnsupportedError(f"net.plist, output {value.name!r}", "ports are fp16, uint8 or int8", found=value.type,
                               remedy='cast to "fp16" first')


__all__ = ["WRITERS", "to_netplist", "write_netplist"]
