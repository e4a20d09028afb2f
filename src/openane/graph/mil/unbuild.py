"""A Graph as a MIL program: names that both its forms can write, constants as `const` statements.

Constants stand in front of the first operation that uses them, as Apple's tools write them. Names that are no MIL
identifiers are replaced; for ports the own name is kept in `buildInfo`, beside the graph's metadata, and `build_graph`
restores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import NoReturn

from openane.errors import FormatError, GraphError
from openane.graph.graph import Graph, Node, Operand, Value
from openane.graph.mil.build import PORT_KEY
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
from openane.graph.types import DTYPES, TensorType
from openane.record_classes import dataclass

COMPILER = {"coremlc-component-MIL": "3520.4.1", "coremlc-version": "3520.5.1"}
"""buildInfo entries some of Apple's readers insist on."""

_WORDS = DTYPES | {"tensor", "state", "list", "tuple", "dict", "const", "func", "program", "BLOBFILE", "true", "false",
                   "inf", "nan"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*", re.ASCII)
_HIDDEN = ("opset", "attribute:", "state:", PORT_KEY)


class _Nowhere:
    """Places of a program that was made, not read."""

    def place(self, position: int) -> str:
        return f"statement {position}"

    def source(self, position: int) -> str:
        return self.place(position)

    def fail(self, message: str, *, expected: object = None, found: object = None,
             position: int | None = None) -> NoReturn:
        raise FormatError(f"{self.place(position or 0)}: {message}", expected=expected, found=found)


@dataclass(slots=True)
class _Names:
    """The program being made and what has been said so far."""

    inline: bool
    statements: list[Statement] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: set(_WORDS))
    written: set[int] = field(default_factory=set)


def to_program(graph: Graph, opset: str) -> MilProgram:
    """`graph` as a program of one function for `opset`; `build_graph` gives the same graph back.

    Before iOS 18, operations on compressed weights hold their data as attributes. GraphError for an unknown opset and
    for names of functions and operands MIL cannot write.
    """
    if opset not in OPSETS:
        raise GraphError(f"dialect {opset!r} is not one of {', '.join(OPSETS)}")
    names = _Names(inline=OPSETS[opset] == "1.0")
    for value in (*graph.inputs, *graph.outputs):
        _name(names, value)
    function = MilFunction(_word(graph.name, "function"), opset, _inputs(names, graph), {}, names.statements, [])
    for node in graph.nodes:
        _node(names, node)
    for value in graph.outputs:
        _constant(names, value)
    function.outputs = [Reference(_name(names, value)) for value in graph.outputs]
    function.attributes = {_word(key.removeprefix("attribute:"), "attribute"): text
                           for key, text in graph.metadata.items() if key.startswith("attribute:")}
    return MilProgram(_Nowhere(), OPSETS[opset], _information(names, graph), [function])


def _word(text: str, what: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise GraphError(f"{what} name {text!r} is no MIL identifier: letters, digits, _ and @, no digit first")
    return text


def _name(names: _Names, value: Value) -> str:
    """The identifier of `value`: its own name where MIL allows it and nobody has it, else one made from it."""
    known = names.names.get(id(value))
    if known is not None:
        return known
    stem = re.sub(r"[^A-Za-z0-9_@]", "_", value.name, flags=re.ASCII)
    if not _IDENTIFIER.fullmatch(stem):
        stem = f"_{stem}"
    name, number = stem, 0
    while name in names.taken:
        number += 1
        name = f"{stem}_{number}"
    names.taken.add(name)
    names.names[id(value)] = name
    return name


def _information(names: _Names, graph: Graph) -> dict[str, str]:
    metadata = {key: text for key, text in graph.metadata.items() if not key.startswith(_HIDDEN)}
    ports = {f"{PORT_KEY}{_name(names, value)}": value.name for value in _ports(graph)
             if _name(names, value) != value.name}
    return COMPILER | metadata | ports


def _ports(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from graph.outputs


def _inputs(names: _Names, graph: Graph) -> list[tuple[Declared, str]]:
    return [(Declared(value.type, f"state:{value.name}" in graph.metadata), _name(names, value))
            for value in graph.inputs]


def _holds_constants(names: _Names, node: Node) -> bool:
    """Whether the operands of a node are written within it, as those of compressed weights are."""
    return names.inline and node.op.startswith("constexpr_") and all(
        isinstance(operand, Value) and operand.constant for operand in node.operands.values())


def _node(names: _Names, node: Node) -> None:
    held = _holds_constants(names, node)
    if not held:
        for value in node.values():
            _constant(names, value)
    label = node.name or (_name(names, node.outputs[0]) if node.outputs else node.op)
    keys = [_word(key, "operand") for key in sorted(node.operands)]
    attributes: dict[str, Expression] = {key: immediate(node[key]) for key in keys if held}
    arguments: dict[str, Expression] = {key: _operand(names, node.operands[key]) for key in keys if not held}
    attributes["name"] = _string(label)
    results = [(Declared(value.type), _name(names, value)) for value in node.outputs]
    names.statements.append(Statement(results, _word(node.op, "operation"), arguments, attributes))


def _operand(names: _Names, operand: Operand) -> Expression:
    if isinstance(operand, tuple):
        return tuple(Reference(_name(names, value)) for value in operand)
    return Reference(_name(names, operand))


def _constant(names: _Names, value: Value) -> None:
    if not value.constant or id(value) in names.written:
        return
    names.written.add(id(value))
    name = _name(names, value)
    names.statements.append(Statement([(Declared(value.type), name)], "const", {},
                                      {"name": _string(name), "val": immediate(value)}))


def immediate(value: Value) -> Immediate:
    """A constant value as an expression. GraphError when it is computed."""
    return Immediate(value.type, value.data if isinstance(value.data, str) else value.array())


def _string(text: str) -> Immediate:
    return Immediate(TensorType("string", ()), text)
