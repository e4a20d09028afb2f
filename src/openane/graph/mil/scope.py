"""What is known while one function of a MIL program is built: names and the values they stand for.

Within blocks names mean something else in each turn, so values have names of their own in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Data, Node, Operand, Value
from openane.graph.mil.lexer import Places
from openane.graph.mil.literals import Literal
from openane.graph.mil.packed import byte_count, from_bytes
from openane.graph.mil.program import OPEN, BlobFile, Declared, Expression, Immediate, Reference, Single, Statement
from openane.graph.types import NUMPY_TYPES, TensorType
from openane.record_classes import dataclass

Buffer = bytes | memoryview
Blobs = Callable[[str, int], Buffer | tuple[str, Buffer]]
"""Finds a blob by path and metadata offset as the program has them; gives its bytes, or (dtype name, bytes) as
`formats.blob.read_blob` does, in which case the dtype is checked too. Raises FormatError when there is none."""

Infer = Callable[[Node], Sequence[tuple[TensorType, Data]]]
"""Types of a node's results (those it states are to be ignored), each with its data when that is known."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list: its elements, None where nothing was put yet, and the type every one of them has."""

    elements: tuple[Value | None, ...]
    type: TensorType


Held = Value | Listed
"""What a name stands for."""


@dataclass(slots=True)
class Scope:
    """`statement` builds one; `infer` is set when the function leaves dimensions open, or has blocks; `outputs` are
    names of its results, which they keep; `inside` is how many blocks surround what is built now, `serial` numbers what
    is made there, `written` counts its statements; `constants` are those of blocks by the id of their statement, for
    all turns."""

    places: Places
    blobs: Blobs | None
    infer: Infer | None
    statement: Callable[[Scope, Statement], None]
    values: dict[str, Held] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    nodes: list[Node] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    outputs: frozenset[str] = frozenset()
    inside: int = 0
    serial: int = 0
    written: int = 0
    constants: dict[int, Value] = field(default_factory=dict)

    def define(self, type_: TensorType, name: str, position: int, data: Data = None) -> Value:
        """A value under a name nobody has; within a block it has a name of its own."""
        value = Value(self.unused(name) if self.inside else self.renamed.get(name, name), type_, data)
        self.hold(name, value, position)
        return value

    def hold(self, name: str, held: Held, position: int) -> None:
        """Lets a name stand for something. GraphError when it stands for something else already."""
        if name in self.values:
            raise GraphError(f"{self.places.place(position)}: the name {name!r} is already taken")
        self.values[name] = held
        self.taken.add(name)

    def unused(self, name: str) -> str:
        """The name, or the shortest that begins with it, that nobody has; it is taken from now on."""
        stem = name
        while name in self.taken or name in self.values:
            self.serial += self.inside > 0
            name = f"{stem}_{self.serial}" if self.inside else f"{name}_"
        self.taken.add(name)
        return name

    def operand(self, expression: Expression, name: str) -> Operand:
        """An expression as a node has it; constants within it are called `name`."""
        if isinstance(expression, tuple):
            return tuple(self.value(item, f"{name}_{index}") for index, item in enumerate(expression))
        return self.value(expression, name)

    def value(self, expression: Single, name: str) -> Value:
        """One value; a constant is called `name`. GraphError for a list."""
        if isinstance(expression, Reference):
            found = self.resolve(expression, "value")
            if isinstance(found, Listed):
                raise GraphError(f"{self.places.place(expression.position)}: {expression.name!r} is a list; "
                                 "list_read and list_gather take tensors from one")
            return found
        return Value(self.unused(name), expression.type, self.data(expression))

    def resolve(self, reference: Reference, what: str) -> Held:
        """What a name stands for. GraphError when that is nothing."""
        held = self.values.get(reference.name)
        if held is None:
            place = self.places.place(reference.position)
            raise GraphError(f"{place}: no {what} {reference.name!r} has been made at this point")
        return held

    def add(self, op: str, name: str, source: str, **operands: Operand) -> Value:
        """A node that no statement states, with one result, by inference: a constant where that is known."""
        if self.infer is None:
            raise GraphError(f"{source}: nothing is inferred here")
        node = Node(op, operands, (), name, source)
        ((type_, data),) = self.infer(node)
        value = Value(self.unused(name), type_, data)
        if data is None:
            self.nodes.append(Node(op, operands, (value,), name, source))
        return value

    def constant(self, name: str, array: np.ndarray, dtype: str) -> Value:
        """An array as a constant."""
        return Value(self.unused(name), TensorType(dtype, array.shape), np.asarray(array, NUMPY_TYPES[dtype]))

    def data(self, expression: Literal | BlobFile | Immediate) -> np.ndarray | str:
        """What a constant holds."""
        if isinstance(expression, BlobFile):
            return _blob(self, expression)
        if isinstance(expression, Immediate):
            return expression.data
        if expression.type.dtype == "string":
            return expression.text(self.places)
        return expression.array(self.places)

    def fits(self, declared: Declared, type_: TensorType, label: str) -> None:
        """GraphError where a result has not the type that is declared, dimensions that are open aside."""
        if type_.dtype != declared.type.dtype or len(type_.shape) != len(declared.type.shape) or not all(
                wanted in (OPEN, extent) for wanted, extent in zip(declared.type.shape, type_.shape, strict=True)):
            raise GraphError(f"{label}: declares {declared.type}, its operands give {type_}")


def _blob(scope: Scope, blob: BlobFile) -> np.ndarray:
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
