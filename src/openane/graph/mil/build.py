"""Names resolved: one function of a MIL program to a Graph.

`const` statements and immediate arguments become constant values, everything else a node with the result types the
program declares. Attributes other than `name` are operands too: before iOS 18 the `constexpr_*` operations keep their
data there. Where the program leaves dimensions open, the shapes of its inputs are filled in and what follows is
inferred; results that then are known (shapes of tensors, and what is computed from them) become constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Data, Graph, Node, Operand, Value
from openane.graph.mil.lexer import Places
from openane.graph.mil.literals import Literal
from openane.graph.mil.packed import byte_count, from_bytes
from openane.graph.mil.program import (
    OPEN,
    BlobFile,
    Declared,
    Expression,
    Immediate,
    MilFunction,
    MilProgram,
    Reference,
    Single,
    Statement,
)
from openane.graph.types import NUMPY_TYPES, TensorType
from openane.record_classes import dataclass

Buffer = bytes | memoryview
Blobs = Callable[[str, int], Buffer | tuple[str, Buffer]]
"""Finds a blob by path and metadata offset as the program has them; gives its bytes, or (dtype name, bytes) as
`formats.blob.read_blob` does, in which case the dtype is checked too. Raises FormatError when there is none."""

Infer = Callable[[Node], Sequence[tuple[TensorType, Data]]]
"""Types of a node's results (those it states are to be ignored), each with its data when that is known."""

PORT_KEY = "port:"
"""buildInfo key of a port whose own name is no MIL identifier: `port:IDENTIFIER` holds the name."""


@dataclass(slots=True)
class _Scope:
    """What is known while one function is built. `infer` is set when the function leaves dimensions open."""

    places: Places
    blobs: Blobs | None
    infer: Infer | None
    values: dict[str, Value] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    nodes: list[Node] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)


def build_graph(program: MilProgram, function: MilFunction, blobs: Blobs | None = None,
                shapes: Mapping[str, Sequence[int]] | None = None, infer: Infer | None = None) -> Graph:
    """The Graph of one function of `program`. `shapes` fixes inputs whose dimensions are open, by name; `infer` is
    needed for those. GraphError for names unknown or given twice and shapes that do not fit, FormatError for constants
    that do not fit their type, UnsupportedError for dimensions that stay open."""
    dynamic = any(declared.open for declared, _ in function.inputs)
    scope = _Scope(program.places, blobs, infer if dynamic else None)
    scope.renamed = {key.removeprefix(PORT_KEY): name for key, name in program.information.items()
                     if key.startswith(PORT_KEY)}
    scope.taken = {name for statement in function.statements for _, name in statement.results}
    metadata = _metadata(program, function)
    inputs = []
    for declared, name in function.inputs:
        fixed = _fixed(declared, name, scope.renamed.get(name, name), function, shapes or {})
        inputs.append(_define(scope, fixed, name, function.position))
        if declared.state:
            metadata[f"state:{inputs[-1].name}"] = "true"
    _check_shapes(inputs, shapes or {})
    for statement in function.statements:
        _statement(scope, statement)
    outputs = tuple(_resolve(scope, reference, "output") for reference in function.outputs)
    graph = Graph(tuple(inputs), tuple(scope.nodes), outputs, function.name, metadata)
    graph.verify()
    return graph


def _metadata(program: MilProgram, function: MilFunction) -> dict[str, str]:
    table = {key: value for key, value in program.information.items() if not key.startswith(PORT_KEY)}
    table |= {"opset": function.opset}
    return table | {f"attribute:{key}": text for key, text in function.attributes.items()}


def _fixed(declared: Declared, name: str, port: str, function: MilFunction,
           shapes: Mapping[str, Sequence[int]]) -> TensorType:
    """The static type of an input: what is declared, with the given or default shape in place of open dimensions."""
    if not declared.open:
        return declared.type
    stated = declared.type.shape
    shape = tuple(shapes.get(port, function.defaults.get(name, ())))
    fits = len(shape) == len(stated) and all(
        wanted in (OPEN, extent) and extent > 0 for wanted, extent in zip(stated, shape, strict=True))
    if fits:
        return TensorType(declared.type.dtype, shape)
    text = f"input {port!r} [{', '.join('?' if extent == OPEN else str(extent) for extent in stated)}]"
    if port in shapes:
        raise GraphError(f"{text}: the given shape {list(shape)} does not fit")
    example = ["1" if extent == OPEN else str(extent) for extent in stated]
    raise UnsupportedError(text, "shapes are static and this input leaves dimensions open",
                           remedy=f"give its shape, for example --shape {port}={'x'.join(example)}, in Python "
                                  f'shapes={{"{port}": [{", ".join(example)}]}}')


def _check_shapes(inputs: Sequence[Value], shapes: Mapping[str, Sequence[int]]) -> None:
    known = {value.name: value.shape for value in inputs}
    for name, shape in shapes.items():
        if known.get(name) != tuple(shape):
            raise GraphError(f"shape {list(shape)} for input {name!r}: the program states "
                             f"{', '.join(f'{key} {list(extents)}' for key, extents in known.items())}")


def _statement(scope: _Scope, statement: Statement) -> None:
    operands = dict(statement.arguments)
    name = statement.attributes.get("name")
    for key, expression in statement.attributes.items():
        if key != "name":
            operands.setdefault(key, expression)
    if statement.op == "const":
        _constant_statement(scope, statement, operands)
        return
    label = "" if name is None or isinstance(name, Reference | tuple) else _data(scope, name)
    label = label if isinstance(label, str) and label else statement.results[0][1] if statement.results else ""
    stem = statement.results[0][1] if statement.results else statement.op
    resolved = {key: _operand(scope, expression, f"{stem}_{key}") for key, expression in operands.items()}
    source = scope.places.source(statement.position)
    if scope.infer is not None:
        _inferred(scope, statement, Node(statement.op, resolved, (), label, source), scope.infer)
        return
    outputs = tuple(_define(scope, _static(scope, declared, statement), result, statement.position)
                    for declared, result in statement.results)
    scope.nodes.append(Node(statement.op, resolved, outputs, label, source))


def _static(scope: _Scope, declared: Declared, statement: Statement) -> TensorType:
    if declared.open:
        raise UnsupportedError(f"{statement.op} ({scope.places.place(statement.position)})",
                               "shapes are static, and this result has a dimension that depends on data",
                               remedy="export the model with fixed shapes")
    return declared.type


def _inferred(scope: _Scope, statement: Statement, node: Node, infer: Infer) -> None:
    """Defines the results of a statement by inference; no node is needed where all of them are known."""
    found = infer(node)
    if len(found) != len(statement.results):
        scope.places.fail(f"{node.op} has {len(found)} results", expected=len(found), found=len(statement.results),
                          position=statement.position)
    outputs = []
    for (type_, data), (declared, name) in zip(found, statement.results, strict=True):
        fits = type_.dtype == declared.type.dtype and len(type_.shape) == len(declared.type.shape) and all(
            wanted in (OPEN, extent) for wanted, extent in zip(declared.type.shape, type_.shape, strict=True))
        if not fits:
            raise GraphError(f"{node.label}: declares {declared.type}, its operands give {type_}")
        outputs.append(_define(scope, type_, name, statement.position, data))
    if not outputs or not all(value.constant for value in outputs):
        scope.nodes.append(Node(node.op, node.operands, tuple(outputs), node.name, node.source))


def _constant_statement(scope: _Scope, statement: Statement, operands: dict[str, Expression]) -> None:
    expression = operands.get("val")
    if len(statement.results) != 1 or not isinstance(expression, Literal | BlobFile | Immediate):
        scope.places.fail("const has one result and one immediate value", expected="T name = const()[val = VALUE]",
                          found=sorted(operands), position=statement.position)
    declared, name = statement.results[0]
    if declared.type != expression.type:
        scope.places.fail(f"const {name!r}: value and declaration differ", expected=declared.type,
                          found=expression.type, position=statement.position)
    _define(scope, expression.type, name, statement.position, _data(scope, expression))


def _define(scope: _Scope, type_: TensorType, name: str, position: int, data: Data = None) -> Value:
    if name in scope.values:
        raise GraphError(f"{scope.places.place(position)}: the name {name!r} is already taken")
    value = Value(scope.renamed.get(name, name), type_, data)
    scope.values[name] = value
    scope.taken.add(name)
    return value


def _operand(scope: _Scope, expression: Expression, name: str) -> Operand:
    if isinstance(expression, tuple):
        return tuple(_value(scope, item, f"{name}_{index}") for index, item in enumerate(expression))
    return _value(scope, expression, name)


def _value(scope: _Scope, expression: Single, name: str) -> Value:
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
        place = scope.places.place(reference.position)
        raise GraphError(f"{place}: no {what} {reference.name!r} has been made at this point")
    return value


def _data(scope: _Scope, expression: Literal | BlobFile | Immediate) -> np.ndarray | str:
    if isinstance(expression, BlobFile):
        return _blob(scope, expression)
    if isinstance(expression, Immediate):
        return expression.data
    if expression.type.dtype == "string":
        return expression.text(scope.places)
    return expression.array(scope.places)


def _blob(scope: _Scope, blob: BlobFile) -> np.ndarray:
    if blob.type.dtype not in NUMPY_TYPES:
        raise UnsupportedError(f"constant {blob.type} ({scope.places.place(blob.position)})",
                               "there is no array of this element type",
                               found=blob.type.dtype, remedy="store the weights as fp16, int8 or uint8")
    if scope.blobs is None:
        scope.places.fail("the program keeps weights in a file, and no file was given", found=blob.path,
                          position=blob.position)
    found = scope.blobs(blob.path, blob.offset)
    stored, data = found if isinstance(found, tuple) else (blob.type.dtype, found)
    size = byte_count(blob.type.dtype, blob.type.elements)
    lax = stored == "fp16" and blob.type.dtype in ("int8", "uint8") and len(data) == size
    if stored != blob.type.dtype and not lax:  # hand-written files call every blob fp16
        scope.places.fail(f"blob of {blob.path} at offset {blob.offset} has another dtype", expected=blob.type.dtype,
                          found=stored, position=blob.position)
    if len(data) != size:
        scope.places.fail(f"blob of {blob.path} at offset {blob.offset} does not fill {blob.type}",
                          expected=f"{size} bytes", found=len(data), position=blob.position)
    return from_bytes(data, blob.type.dtype, blob.type.shape)
