"""Graph to MIL text and the weight file beside it: floats in hexadecimal, larger tensors as entries of the file."""

from __future__ import annotations

import re
from dataclasses import field

import numpy as np

from openane.errors import GraphError
from openane.formats.blob import BlobWriter
from openane.graph.graph import Graph
from openane.graph.mil.lexer import quote
from openane.graph.mil.packed import to_bytes
from openane.graph.mil.program import (
    OPSETS,
    Declared,
    Expression,
    Immediate,
    MilFunction,
    MilProgram,
    Reference,
    Statement,
)
from openane.graph.mil.unbuild import to_program
from openane.graph.types import PACKED_BITS, TensorType
from openane.record_classes import dataclass

WEIGHT_PATH = "@model_path/weights/weight.bin"
"""Where Core ML keeps a program's weights."""
BLOB_MINIMUM = 10
"""Fewest elements worth an entry of the weight file (the limit coremltools uses)."""

_BLOB_DTYPES = frozenset(["fp16", "fp32", "int8", "uint8", *PACKED_BITS])
_BLOB_DTYPES_NEW = _BLOB_DTYPES | {"int16", "uint16", "int32", "uint32"}


def blob_dtypes(opset: str) -> frozenset[str]:
    """Element types of tensors that programs of `opset` keep in the weight file."""
    return _BLOB_DTYPES if OPSETS[opset] == "1.0" else _BLOB_DTYPES_NEW


@dataclass(slots=True)
class _Text:
    """The text being written. `scalars`: types of rank 0 are written without `tensor<..., []>`."""

    scalars: bool
    path: str
    large: frozenset[str]
    lines: list[str] = field(default_factory=list)
    blobs: BlobWriter = field(default_factory=BlobWriter)


def print_mil(graph: Graph, dialect: str = "ios18",
              path: str = WEIGHT_PATH) -> tuple[str, bytes]:
    """MIL text of `graph` for opset `dialect` and the weight file it refers to as `path` (empty when it needs none).

    `parse_mil` gives the same graph back: structure, types, port names, metadata, constants bit for bit.
    GraphError for an unknown dialect and for names of functions and operands MIL cannot write.
    """
    return print_program(to_program(graph, dialect), path)


def print_program(program: MilProgram, path: str = WEIGHT_PATH, once: bool = False) -> tuple[str, bytes]:
    """The text of a program made by `to_program`, and its weight file; `once` stores equal constants once."""
    opset = program.functions[0].opset
    text = _Text(program.version != "1.0", path, blob_dtypes(opset), blobs=BlobWriter(once))
    text.lines += [f"program({program.version})", _information(text, program), "{"]
    for function in program.functions:
        _function(text, function)
    text.lines += ["}", ""]
    return "\n".join(text.lines), text.blobs.finish() if len(text.blobs) else b""


def _information(text: _Text, program: MilProgram) -> str:
    kind = "string" if text.scalars else "tensor<string, []>"
    pairs = ", ".join(f"{{{quote(key)}, {quote(content)}}}" for key, content in program.information.items())
    return f"[buildInfo = dict<{kind}, {kind}>({{{pairs}}})]"


def _function(text: _Text, function: MilFunction) -> None:
    inputs = ", ".join(f"{_declared(declared)} {name}" for declared, name in function.inputs)
    pairs = [f"{key} = {content}" for key, content in function.attributes.items()]
    attributes = f" [{', '.join(pairs)}]" if pairs else ""
    text.lines.append(f"  func {function.name}<{function.opset}>({inputs}){attributes} {{")
    for statement in function.statements:
        _statement(text, statement)
    text.lines.append(f"  }} -> ({', '.join(reference.name for reference in function.outputs)});")


def _declared(declared: Declared) -> str:
    """The type of an input: a tensor, also at rank 0."""
    kind = f"tensor<{declared.type.dtype}, {list(declared.type.shape)}>"
    return f"state<{kind}>" if declared.state else kind


def _type(text: _Text, type_: TensorType) -> str:
    return type_.dtype if text.scalars and not type_.shape else f"tensor<{type_.dtype}, {list(type_.shape)}>"


def _statement(text: _Text, statement: Statement) -> None:
    results = ", ".join(f"{_type(text, declared.type)} {name}" for declared, name in statement.results)
    arguments, attributes = (", ".join(f"{key} = {_expression(text, expression)}" for key, expression in table.items())
                             for table in (statement.arguments, statement.attributes))
    call = f"{statement.op}({arguments})[{attributes}]"
    text.lines.append(f"    {results} = {call};" if results else f"    {call};")


def _expression(text: _Text, expression: Expression) -> str:
    if isinstance(expression, tuple):
        return f"({', '.join(_expression(text, item) for item in expression)})"
    if isinstance(expression, Reference):
        return expression.name
    if isinstance(expression, Immediate):
        return _value(text, expression)
    raise GraphError(f"{expression.type} has no data to print")


def _value(text: _Text, constant: Immediate) -> str:
    """A constant as a typed immediate, or a reference to the weight file."""
    kind = _type(text, constant.type)
    if isinstance(constant.data, str):
        return f"{kind}({quote(constant.data)})"
    dtype, array = constant.type.dtype, constant.data
    if array.size >= BLOB_MINIMUM and dtype in text.large:
        offset = text.blobs.add(dtype, to_bytes(array, dtype), array.size)
        path, number = _type(text, TensorType("string", ())), _type(text, TensorType("uint64", ()))
        content = f"BLOBFILE(path = {path}({quote(text.path)}), offset = {number}({offset}))"
    else:
        content = _nested(array)
    return f"{kind}({content})"


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
