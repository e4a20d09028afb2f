"""Graph to MIL text and the weight file beside it.

Constants become named `const` statements in front of the first operation that uses them, as Apple's tools write them:
floats in hexadecimal, larger tensors as entries of the weight file. Names that are no MIL identifiers are replaced; for
ports the own name is kept in `buildInfo`, beside the graph's metadata, and `parse_mil` restores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from openane.errors import GraphError
from openane.formats.blob import BlobWriter
from openane.graph.graph import Graph, Node, Operand, Value
from openane.graph.mil.build import PORT_KEY
from openane.graph.mil.syntax import DTYPES, quote

OPSETS = {"ios15": "1.0", "ios16": "1.0", "ios17": "1.0", "ios18": "1.3", "ios26": "1.3"}
"""Opset to program version. From 1.3 on scalars and strings are written without `tensor<..., []>`."""

COMPILER = {"coremlc-component-MIL": "3520.4.1", "coremlc-version": "3520.5.1"}
"""buildInfo entries some of Apple's readers insist on."""

BLOB_MINIMUM = 10
"""Fewest elements worth an entry of the weight file (the limit coremltools uses)."""

_BLOB_DTYPES = frozenset(["fp16", "fp32", "int8", "uint8"])
_BLOB_DTYPES_NEW = _BLOB_DTYPES | {"int16", "uint16", "int32", "uint32"}
_WORDS = DTYPES | {"tensor", "state", "list", "tuple", "dict", "const", "func", "program", "BLOBFILE", "true", "false",
                   "inf", "nan"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*", re.ASCII)
_HIDDEN = ("opset", "attribute:", "state:", PORT_KEY)


@dataclass(slots=True)
class _Text:
    """The text being written and what has been said so far."""

    scalars: bool
    path: str
    large: frozenset[str]
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: set(_WORDS))
    written: set[int] = field(default_factory=set)
    blobs: BlobWriter = field(default_factory=BlobWriter)


def print_mil(graph: Graph, dialect: str = "ios18",
              path: str = "@model_path/weights/weight.bin") -> tuple[str, bytes]:
    """MIL text of `graph` for opset `dialect` and the weight file it refers to as `path` (empty when it needs none).

    `parse_mil` gives the same graph back: structure, types, port names, metadata, constants bit for bit.
    GraphError for an unknown dialect and for names of functions and operands MIL cannot write.
    """
    if dialect not in OPSETS:
        raise GraphError(f"dialect {dialect!r} is not one of {', '.join(OPSETS)}")
    scalars = OPSETS[dialect] != "1.0"
    text = _Text(scalars, path, _BLOB_DTYPES_NEW if scalars else _BLOB_DTYPES)
    for value in _ports(graph):
        _name(text, value)
    text.lines += [f"program({OPSETS[dialect]})", _information(text, graph), "{"]
    head = f"func {_word(graph.name, 'function')}<{dialect}>"
    text.lines.append(f"  {head}({_inputs(text, graph)}){_attributes(graph)} {{")
    for node in graph.nodes:
        _node(text, node)
    for value in graph.outputs:
        _constant(text, value)
    outputs = ", ".join(_name(text, value) for value in graph.outputs)
    text.lines += [f"  }} -> ({outputs});", "}", ""]
    return "\n".join(text.lines), text.blobs.finish() if len(text.blobs) else b""


def _ports(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from graph.outputs


def _word(text: str, what: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise GraphError(f"{what} name {text!r} is no MIL identifier: letters, digits, _ and @, no digit first")
    return text


def _name(text: _Text, value: Value) -> str:
    """The identifier of `value`: its own name where MIL allows it and nobody has it, else one made from it."""
    known = text.names.get(id(value))
    if known is not None:
        return known
    stem = re.sub(r"[^A-Za-z0-9_@]", "_", value.name)
    if not _IDENTIFIER.fullmatch(stem):
        stem = f"_{stem}"
    name, number = stem, 0
    while name in text.taken:
        number += 1
        name = f"{stem}_{number}"
    text.taken.add(name)
    text.names[id(value)] = name
    return name


def _information(text: _Text, graph: Graph) -> str:
    table = COMPILER | {key: value for key, value in graph.metadata.items() if not key.startswith(_HIDDEN)}
    table |= {PORT_KEY + name: value.name for value in _ports(graph) if (name := _name(text, value)) != value.name}
    string = "string" if text.scalars else "tensor<string, []>"
    pairs = ", ".join(f"{{{quote(key)}, {quote(value)}}}" for key, value in table.items())
    return f"[buildInfo = dict<{string}, {string}>({{{pairs}}})]"


def _attributes(graph: Graph) -> str:
    pairs = [f"{key.removeprefix('attribute:')} = {value}" for key, value in graph.metadata.items()
             if key.startswith("attribute:")]
    return f" [{', '.join(pairs)}]" if pairs else ""


def _inputs(text: _Text, graph: Graph) -> str:
    parts = []
    for value in graph.inputs:
        kind = f"tensor<{value.dtype}, {list(value.shape)}>"
        state = f"state:{value.name}" in graph.metadata
        parts.append(f"{f'state<{kind}>' if state else kind} {_name(text, value)}")
    return ", ".join(parts)


def _type(text: _Text, value: Value) -> str:
    return value.dtype if text.scalars and not value.shape else f"tensor<{value.dtype}, {list(value.shape)}>"


def _string(text: _Text, content: str) -> str:
    return f"{'string' if text.scalars else 'tensor<string, []>'}({quote(content)})"


def _node(text: _Text, node: Node) -> None:
    held = not text.scalars and node.op.startswith("constexpr_") and all(
        isinstance(operand, Value) and operand.constant for operand in node.operands.values())
    if not held:
        for value in node.values():
            _constant(text, value)
    results = ", ".join(f"{_type(text, value)} {_name(text, value)}" for value in node.outputs)
    label = _string(text, node.name or (_name(text, node.outputs[0]) if node.outputs else node.op))
    keys = [_word(key, "operand") for key in sorted(node.operands)]
    if held:
        pairs = [f"{key} = {_value(text, node[key])}" for key in keys]
        arguments, attributes = "", ", ".join([*pairs, f"name = {label}"])
    else:
        arguments = ", ".join(f"{key} = {_operand(text, node.operands[key])}" for key in keys)
        attributes = f"name = {label}"
    call = f"{_word(node.op, 'operation')}({arguments})[{attributes}]"
    text.lines.append(f"    {results} = {call};" if results else f"    {call};")


def _operand(text: _Text, operand: Operand) -> str:
    if isinstance(operand, tuple):
        return f"({', '.join(_name(text, value) for value in operand)})"
    return _name(text, operand)


def _constant(text: _Text, value: Value) -> None:
    if not value.constant or id(value) in text.written:
        return
    text.written.add(id(value))
    name = _name(text, value)
    text.lines.append(f"    {_type(text, value)} {name} = const()[name = {_string(text, name)}, "
                      f"val = {_value(text, value)}];")


def _value(text: _Text, value: Value) -> str:
    """A constant as a typed immediate, or a reference to the weight file."""
    if isinstance(value.data, str):
        return _string(text, value.data)
    array = value.array()
    if array.size >= BLOB_MINIMUM and value.dtype in text.large:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        offset = text.blobs.add(value.dtype, little.reshape(-1).view(np.uint8).data)
        number = "uint64" if text.scalars else "tensor<uint64, []>"
        content = f"BLOBFILE(path = {_string(text, text.path)}, offset = {number}({offset}))"
    else:
        content = _nested(array)
    return f"{_type(text, value)}({content})"


def _nested(array: np.ndarray) -> str:
    if array.ndim:
        return f"[{', '.join(_nested(row) for row in array)}]"
    return _element(array)


def _element(array: np.ndarray) -> str:
    value = array[()]
    if array.dtype.kind == "b":
        return "true" if value else "false"
    if array.dtype.kind != "f":
        return str(int(value))
    if np.isnan(value):  # the payload survives as a bit pattern only
        return hex(int(array.view(f"u{array.dtype.itemsize}")[()]))
    return _hexadecimal(float(value))


def _hexadecimal(value: float) -> str:
    """C's %a without trailing zeros: 0x1.5p-17."""
    return re.sub(r"(\.0+|(\.[0-9a-f]*[1-9a-f])0+)p", r"\2p", value.hex())
