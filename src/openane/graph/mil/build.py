"""Names resolved: syntax of one MIL function to a Graph.

`const` statements and immediate arguments become constant values, everything else a node with the result types the
text declares. Attributes other than `name` are operands too: before iOS 18 the `constexpr_*` operations keep their
data there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Data, Graph, Node, Operand, Value
from openane.graph.mil.lexer import Cursor
from openane.graph.mil.literals import Literal
from openane.graph.mil.syntax import BlobFile, Declared, Expression, Function, Program, Reference, Statement
from openane.graph.types import NUMPY_TYPES, TensorType

Buffer = bytes | memoryview
Blobs = Callable[[str, int], Buffer | tuple[str, Buffer]]
"""Finds a blob by path and metadata offset as the text has them; gives its bytes, or (dtype name, bytes) as
`formats.blob.read_blob` does, in which case the dtype is checked too. Raises FormatError when there is none."""

PORT_KEY = "port:"
"""buildInfo key of a port whose own name is no MIL identifier: `port:IDENTIFIER` holds the name."""


@dataclass(slots=True)
class _Scope:
    """What is known while one function is built."""

    cursor: Cursor
    blobs: Blobs | None
    values: dict[str, Value] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    nodes: list[Node] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)


def build_graph(program: Program, function: Function, blobs: Blobs | None) -> Graph:
    """The Graph of one function of `program`. GraphError for names unknown or given twice, FormatError for constants
    that do not fit their type."""
    scope = _Scope(program.cursor, blobs)
    scope.renamed = {key.removeprefix(PORT_KEY): name for key, name in program.information.items()
                     if key.startswith(PORT_KEY)}
    scope.taken = {name for statement in function.statements for _, name in statement.results}
    metadata = _metadata(program, function)
    inputs = []
    for declared, name in function.inputs:
        inputs.append(_define(scope, declared, name, function.position))
        if declared.state:
            metadata[f"state:{inputs[-1].name}"] = "true"
    for statement in function.statements:
        _statement(scope, statement)
    outputs = tuple(_resolve(scope, reference, "output") for reference in function.outputs)
    graph = Graph(tuple(inputs), tuple(scope.nodes), outputs, function.name, metadata)
    graph.verify()
    return graph


def _metadata(program: Program, function: Function) -> dict[str, str]:
    table = {key: value for key, value in program.information.items() if not key.startswith(PORT_KEY)}
    table |= {"opset": function.opset}
    return table | {f"attribute:{key}": text for key, text in function.attributes.items()}


def _statement(scope: _Scope, statement: Statement) -> None:
    operands = dict(statement.arguments)
    name = statement.attributes.get("name")
    for key, expression in statement.attributes.items():
        if key != "name":
            operands.setdefault(key, expression)
    label = name.text(scope.cursor) if isinstance(name, Literal) else ""
    if statement.op == "const":
        _constant_statement(scope, statement, operands)
        return
    label = label or (statement.results[0][1] if statement.results else "")
    stem = statement.results[0][1] if statement.results else statement.op
    resolved = {key: _operand(scope, expression, f"{stem}_{key}") for key, expression in operands.items()}
    outputs = tuple(_define(scope, declared, result, statement.position) for declared, result in statement.results)
    line, _ = scope.cursor.where(statement.position)
    scope.nodes.append(Node(statement.op, resolved, outputs, label, f"MIL line {line}"))


def _constant_statement(scope: _Scope, statement: Statement, operands: dict[str, Expression]) -> None:
    expression = operands.get("val")
    if len(statement.results) != 1 or not isinstance(expression, Literal | BlobFile):
        scope.cursor.fail("const has one result and one immediate value", expected="T name = const()[val = VALUE]",
                          found=sorted(operands), position=statement.position)
    declared, name = statement.results[0]
    if declared.type != expression.type:
        scope.cursor.fail(f"const {name!r}: value and declaration differ", expected=declared.type,
                          found=expression.type, position=statement.position)
    if name in scope.values:
        _taken(scope, name, statement.position)
    scope.values[name] = Value(scope.renamed.get(name, name), expression.type, _data(scope, expression))


def _define(scope: _Scope, declared: Declared, name: str, position: int) -> Value:
    if name in scope.values:
        _taken(scope, name, position)
    value = Value(scope.renamed.get(name, name), declared.type)
    scope.values[name] = value
    scope.taken.add(name)
    return value


def _taken(scope: _Scope, name: str, position: int) -> None:
    line, column = scope.cursor.where(position)
    raise GraphError(f"line {line}, column {column}: the name {name!r} is already taken")


def _operand(scope: _Scope, expression: Expression, name: str) -> Operand:
    if isinstance(expression, tuple):
        return tuple(_value(scope, item, f"{name}_{index}") for index, item in enumerate(expression))
    return _value(scope, expression, name)


def _value(scope: _Scope, expression: Reference | Literal | BlobFile, name: str) -> Value:
    if isinstance(expression, Reference):
        return _resolve(scope, expression, "value")
    unique = name
    while unique in scope.taken or unique in scope.values:
        unique += "_"
    scope.taken.add(unique)
    return Value(unique, expression.type, _data(scope, expression))


def _resolve(scope: _Scope, reference: Reference, what: str) -> Value:
    value = scope.values.get(reference.name)
    if value is None:
        line, column = scope.cursor.where(reference.position)
        raise GraphError(f"line {line}, column {column}: no {what} {reference.name!r} has been made at this point")
    return value


def _data(scope: _Scope, expression: Literal | BlobFile) -> Data:
    if isinstance(expression, BlobFile):
        return _blob(scope, expression)
    if expression.type.dtype == "string":
        return expression.text(scope.cursor)
    return expression.array(scope.cursor)


def _blob(scope: _Scope, blob: BlobFile) -> np.ndarray:
    dtype = NUMPY_TYPES.get(blob.type.dtype)
    line, _ = scope.cursor.where(blob.position)
    if dtype is None:
        raise UnsupportedError(f"constant {blob.type} (line {line})", "there is no array of this element type",
                               found=blob.type.dtype, remedy="store the weights as fp16, int8 or uint8")
    if scope.blobs is None:
        scope.cursor.fail("the program keeps weights in a file, and no file was given", found=blob.path,
                          position=blob.position)
    found = scope.blobs(blob.path, blob.offset)
    stored, data = found if isinstance(found, tuple) else (blob.type.dtype, found)
    if stored != blob.type.dtype:
        scope.cursor.fail(f"blob of {blob.path} at offset {blob.offset} has another dtype", expected=blob.type.dtype,
                          found=stored, position=blob.position)
    if len(data) != blob.type.elements * dtype.itemsize:
        scope.cursor.fail(f"blob of {blob.path} at offset {blob.offset} does not fill {blob.type}",
                          expected=f"{blob.type.elements * dtype.itemsize} bytes", found=len(data),
                          position=blob.position)
    return _array(data, blob.type, dtype)


def _array(data: Buffer, declared: TensorType, dtype: np.dtype[np.generic]) -> np.ndarray:
    array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(declared.shape)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
