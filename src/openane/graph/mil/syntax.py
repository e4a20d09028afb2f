"""Syntax of MIL text: types, values, statements, functions, read into the records of `program`.

Both spellings are read: the older one wraps scalars in rank-0 tensors (`tensor<string, []>("x")`), the newer one does
not (`string("x")`), and writers mix them.
"""

from __future__ import annotations

from openane.errors import UnsupportedError
from openane.graph.mil.attributes import default_shapes, raw_attributes, string_pairs
from openane.graph.mil.lexer import Cursor, unquote
from openane.graph.mil.literals import Literal, parse_literal
from openane.graph.mil.program import (
    OPEN,
    OPSET_NAMES,
    BlobFile,
    Declared,
    Expression,
    MilFunction,
    MilProgram,
    Reference,
    Statement,
)
from openane.graph.types import DTYPES, TensorType

_CONTAINERS = frozenset(["list", "tuple", "dict"])

MAXIMUM_RANK = 32
MAXIMUM_EXTENT = 2**31 - 1


def parse_syntax(text: str) -> MilProgram:
    """Reads a program's text. FormatError with line and column where it breaks the grammar; UnsupportedError for
    what the grammar has and this reader does not (ranks left open, nested blocks)."""
    cursor = Cursor(text)
    cursor.expect("program")
    cursor.expect("(")
    if cursor.token.kind != "number":
        cursor.fail("unexpected token", expected="a program version", found=repr(cursor.token.text[:40]))
    program = MilProgram(cursor, cursor.advance().text)
    cursor.expect(")")
    if cursor.at("["):
        attributes = raw_attributes(cursor)
        program.information = string_pairs(attributes.get("buildInfo", ""))
    cursor.expect("{")
    while not cursor.accept("}"):
        program.functions.append(_function(cursor))
    if cursor.token.kind != "end":
        cursor.fail("text after the program", expected="the end of the text", found=repr(cursor.token.text[:40]))
    return program


def _function(cursor: Cursor) -> MilFunction:
    position = cursor.expect("func").position
    name = cursor.name("a function name")
    cursor.expect("<")
    opset = cursor.name("an opset such as ios18")
    opset = OPSET_NAMES.get(opset, opset)
    cursor.expect(">")
    cursor.expect("(")
    inputs = [_binding(cursor) for _ in cursor.separated(")")]
    attributes = raw_attributes(cursor) if cursor.at("[") else {}
    cursor.expect("{")
    statements = []
    while not cursor.accept("}"):
        statements.append(_statement(cursor))
    cursor.expect("->")
    cursor.expect("(")
    outputs = [_reference(cursor) for _ in cursor.separated(")")]
    cursor.expect(";")
    defaults = default_shapes(attributes.get("FlexibleShapeInformation", ""))
    return MilFunction(name, opset, inputs, attributes, statements, outputs, position, defaults)


def _statement(cursor: Cursor) -> Statement:
    position = cursor.token.position
    results: list[tuple[Declared, str]] = []
    if cursor.accept("("):
        results = [_binding(cursor) for _ in cursor.separated(")")]
        cursor.expect("=")
    elif cursor.next.text != "(":
        results = [_binding(cursor)]
        while cursor.accept(","):
            results.append(_binding(cursor))
        cursor.expect("=")
    op = cursor.name("an operation")
    cursor.expect("(")
    arguments = _assignments(cursor, ")")
    attributes = _assignments(cursor, "]") if cursor.accept("[") else {}
    if cursor.at("{") or (cursor.token.kind == "name" and not cursor.at(";")):
        line, _ = cursor.where()
        raise UnsupportedError(f"{op} (line {line})", "nested blocks are not supported: the engine has no control flow",
                               remedy="unroll the loop or take the branch before export")
    cursor.expect(";")
    return Statement(results, op, arguments, attributes, position)


def _binding(cursor: Cursor) -> tuple[Declared, str]:
    declared = parse_type(cursor)
    return declared, cursor.name("a name for the value")


def _reference(cursor: Cursor) -> Reference:
    position = cursor.token.position
    return Reference(cursor.name("the name of a value"), position)


def _assignments(cursor: Cursor, closing: str) -> dict[str, Expression]:
    table: dict[str, Expression] = {}
    for _ in cursor.separated(closing):
        if cursor.token.text in table:
            cursor.fail("given twice", found=repr(cursor.token.text))
        key = cursor.name("a keyword")
        cursor.expect("=")
        table[key] = _expression(cursor)
    return table


def _expression(cursor: Cursor) -> Expression:
    if cursor.accept("("):
        return tuple(_single(cursor) for _ in cursor.separated(")"))
    return _single(cursor)


def _single(cursor: Cursor) -> Reference | Literal | BlobFile:
    if cursor.token.kind == "name" and cursor.next.text not in ("(", "<"):
        return _reference(cursor)
    if cursor.token.kind != "name":
        cursor.fail("unexpected token", expected="a name, or a value with its type such as bool(true)",
                    found=repr(cursor.token.text[:40]))
    declared = parse_type(cursor).type
    position = cursor.expect("(").position
    if cursor.accept("BLOBFILE"):
        value: Literal | BlobFile = _blob_file(cursor, declared, position)
    elif cursor.token.kind == "string":
        value = Literal(declared, [unquote(cursor.advance().text)], (), position)
    else:
        value = parse_literal(cursor, declared, position)
    cursor.expect(")")
    return value


def _blob_file(cursor: Cursor, declared: TensorType, position: int) -> BlobFile:
    cursor.expect("(")
    table = _assignments(cursor, ")")
    path, offset = table.get("path"), table.get("offset")
    if not isinstance(path, Literal) or path.type.dtype != "string" or len(path.elements) != 1:
        cursor.fail("BLOBFILE without a path", expected='path = string("...")', found=sorted(table), position=position)
    if not isinstance(offset, Literal) or offset.type.dtype != "uint64":
        cursor.fail("BLOBFILE without an offset", expected="offset = uint64(...)", found=sorted(table),
                    position=position)
    return BlobFile(declared, path.text(cursor), int(offset.array(cursor)[()]), position)


def parse_type(cursor: Cursor) -> Declared:
    """Reads a type: a dtype, `tensor<dtype, [extents]>` or `state<tensor<...>>`."""
    if cursor.accept("state"):
        cursor.expect("<")
        inner = _tensor_type(cursor)
        cursor.expect(">")
        return Declared(inner, state=True)
    return Declared(_tensor_type(cursor))


def _tensor_type(cursor: Cursor) -> TensorType:
    if not cursor.accept("tensor"):
        return TensorType(_dtype(cursor), ())
    cursor.expect("<")
    dtype = _dtype(cursor)
    cursor.expect(",")
    cursor.expect("[")
    shape = tuple(_extent(cursor) for _ in cursor.separated("]"))
    if len(shape) > MAXIMUM_RANK:
        cursor.fail("rank too large", expected=f"at most {MAXIMUM_RANK}", found=len(shape))
    cursor.expect(">")
    return TensorType(dtype, shape)


def _dtype(cursor: Cursor) -> str:
    if cursor.token.text in _CONTAINERS:
        line, _ = cursor.where()
        raise UnsupportedError(f"type {cursor.token.text}<...> (line {line})",
                               "values are tensors, scalars and strings", remedy="pass the elements one by one")
    if cursor.token.text not in DTYPES:
        cursor.fail("unexpected token", expected="a type", found=repr(cursor.token.text[:40]))
    return cursor.advance().text


def _extent(cursor: Cursor) -> int:
    token = cursor.token
    if cursor.accept("?"):
        return OPEN
    if token.text == "*":
        line, _ = cursor.where()
        raise UnsupportedError(f"type of unknown rank (line {line})", "shapes are static",
                               remedy="export the model with fixed input shapes")
    if not token.text.isdecimal() or len(token.text) > 10 or int(token.text) > MAXIMUM_EXTENT:
        cursor.fail("not an extent", expected=f"an integer in 0..{MAXIMUM_EXTENT}", found=token.text[:40])
    return int(cursor.advance().text)
