"""Names resolved: one function of a MIL program to a Graph.

`const` statements and immediate arguments become constant values, everything else a node with the result types the
program declares. Attributes other than `name` are operands too: before iOS 18 the `constexpr_*` operations keep their
data there. Where the program leaves dimensions open, the shapes of its inputs are filled in and what follows is
inferred; results that then are known (shapes of tensors, and what is computed from them) become constants. The same
holds where it has loops and branches, which are written out: see `control`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Graph, Node, Value, copy_of
from openane.graph.mil.control import CONTROL, Result, written_out
from openane.graph.mil.literals import Literal
from openane.graph.mil.program import (
    OPEN,
    BlobFile,
    Declared,
    Expression,
    Immediate,
    MilFunction,
    MilProgram,
    Reference,
    Statement,
)
from openane.graph.mil.scope import Blobs, Infer, Listed, Scope
from openane.graph.types import TensorType

PORT_KEY = "port:"
"""buildInfo key of a port whose own name is no MIL identifier: `port:IDENTIFIER` holds the name."""


def build_graph(program: MilProgram, function: MilFunction, blobs: Blobs | None = None,
                shapes: Mapping[str, Sequence[int]] | None = None, infer: Infer | None = None) -> Graph:
    """The Graph of one function of `program`. `shapes` fixes inputs whose dimensions are open, by name; `infer` is
    needed for those. GraphError for names unknown or given twice and shapes that do not fit, FormatError for constants
    that do not fit their type, UnsupportedError for dimensions that stay open."""
    scope = _scope(program, function, blobs, infer)
    metadata = _metadata(program, function)
    inputs = []
    for declared, name in function.inputs:
        fixed = _fixed(declared, name, scope.renamed.get(name, name), function, shapes or {})
        inputs.append(scope.define(fixed, name, function.position))
        if declared.state:
            metadata[f"state:{inputs[-1].name}"] = "true"
    _check_shapes(inputs, shapes or {})
    for statement in function.statements:
        _statement(scope, statement)
    outputs = tuple(scope.value(reference, "output") for reference in function.outputs)
    graph = Graph(tuple(inputs), tuple(scope.nodes), outputs, function.name, metadata)
    graph.verify()
    return graph


def _scope(program: MilProgram, function: MilFunction, blobs: Blobs | None, infer: Infer | None) -> Scope:
    inferred = any(declared.open for declared, _ in function.inputs) or written_out(function.statements)
    scope = Scope(program.places, blobs, infer if inferred else None, _statement,
                  outputs=frozenset(reference.name for reference in function.outputs))
    scope.renamed = {key.removeprefix(PORT_KEY): name for key, name in program.information.items()
                     if key.startswith(PORT_KEY)}
    scope.taken = {name for statement in function.statements for _, name in statement.results}
    return scope


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


def _statement(scope: Scope, statement: Statement) -> None:
    operands = dict(statement.arguments)
    for key, expression in statement.attributes.items():
        if key != "name":
            operands.setdefault(key, expression)
    if statement.op == "const":
        _constant_statement(scope, statement, operands)
        return
    if statement.op in CONTROL:
        _bind(scope, statement, CONTROL[statement.op](scope, statement))
        return
    label = _name(scope, statement)
    stem = statement.results[0][1] if statement.results else statement.op
    resolved = {key: scope.operand(expression, f"{stem}_{key}") for key, expression in operands.items()}
    source = scope.places.source(statement.position)
    if scope.infer is not None:
        _inferred(scope, statement, Node(statement.op, resolved, (), label, source), scope.infer)
        return
    outputs = tuple(scope.define(_static(scope, declared, statement), result, statement.position)
                    for declared, result in statement.results)
    scope.nodes.append(Node(statement.op, resolved, outputs, label, source))


def _name(scope: Scope, statement: Statement) -> str:
    """The name a statement states, or that of its first result."""
    name = statement.attributes.get("name")
    label = "" if name is None or isinstance(name, Reference | tuple) else scope.data(name)
    return label if isinstance(label, str) and label else statement.results[0][1] if statement.results else ""


def _static(scope: Scope, declared: Declared, statement: Statement) -> TensorType:
    if declared.open:
        raise UnsupportedError(f"{statement.op} ({scope.places.place(statement.position)})",
                               "shapes are static, and this result has a dimension that depends on data",
                               remedy="export the model with fixed shapes")
    return declared.type


def _inferred(scope: Scope, statement: Statement, node: Node, infer: Infer) -> None:
    """Defines the results of a statement by inference; no node is needed where all of them are known."""
    found = infer(node)
    if len(found) != len(statement.results):
        scope.places.fail(f"{node.op} has {len(found)} results", expected=len(found), found=len(statement.results),
                          position=statement.position)
    outputs = []
    for (type_, data), (declared, name) in zip(found, statement.results, strict=True):
        scope.fits(declared, type_, node.label)
        outputs.append(scope.define(type_, name, statement.position, data))
    if not outputs or not all(value.constant for value in outputs):
        scope.nodes.append(Node(node.op, node.operands, tuple(outputs), node.name, node.source))


def _constant_statement(scope: Scope, statement: Statement, operands: dict[str, Expression]) -> None:
    expression = operands.get("val")
    if len(statement.results) != 1 or not isinstance(expression, Literal | BlobFile | Immediate):
        scope.places.fail("const has one result and one immediate value", expected="T name = const()[val = VALUE]",
                          found=sorted(operands), position=statement.position)
    declared, name = statement.results[0]
    if declared.type != expression.type:
        scope.places.fail(f"const {name!r}: value and declaration differ", expected=declared.type,
                          found=expression.type, position=statement.position)
    if not scope.inside:
        scope.define(expression.type, name, statement.position, scope.data(expression))
        return
    made = scope.constants.get(id(statement))  # the same for every turn
    if made is None:
        made = Value(scope.unused(name), expression.type, scope.data(expression))
        scope.constants[id(statement)] = made
    scope.hold(name, made, statement.position)


def _bind(scope: Scope, statement: Statement, results: Sequence[Result]) -> None:
    """Lets the names of a statement's results stand for what was made of it; the function's own results get a name of
    their own."""
    if len(results) != len(statement.results):
        scope.places.fail(f"{statement.op} has {len(results)} results", expected=len(results),
                          found=len(statement.results), position=statement.position)
    source = scope.places.source(statement.position)
    for held, (declared, name) in zip(results, statement.results, strict=True):
        if isinstance(held, Listed) != declared.listed:
            raise GraphError(f"{statement.op} ({source}): a list where a tensor is declared, or the other way round")
        scope.fits(declared, held.type, f"{statement.op} ({source})")
        if isinstance(held, Value) and not scope.inside and name in scope.outputs:
            copied = Value(scope.renamed.get(name, name), held.type)
            scope.nodes.append(copy_of(held, copied, source))
            held = copied
        scope.hold(name, held, statement.position)
