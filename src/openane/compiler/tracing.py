"""Which constants of a graph become which bytes of its programs, recorded while it is compiled.

Weights reach their packing as views of a node's constants: the place in memory tells which elements they are. What a
fold made is made again from the nodes it was made of. Constants that take any other way are not recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.array_utils import byte_bounds

from openane.compiler.packing import DenseForm, Packed, pack_sparse
from openane.engine import Packing
from openane.engine.coefficients import TABLE_BYTES
from openane.graph import Graph, Node, Value
from openane.passes.fold_affine import Folded, refolded, takes_up
from openane.passes.rewrite import substituted

if TYPE_CHECKING:
    from openane.compiler.segment import Segment

OPERATIONS = ("conv", "linear", "matmul")
"""Operations whose lowering does not depend on the values of their weights."""


@dataclass(frozen=True, slots=True)
class View:
    """Elements of the constant `operand` of a node: `offset` and `strides` are bytes in an array with strides
    `whole`."""

    operand: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    whole: tuple[int, ...]

    def of(self, node: Node) -> np.ndarray | None:
        """The same elements of another node's operand, None where that lies in another way."""
        value = node.get(self.operand)
        if value is None or value.array().strides != self.whole:
            return None
        flat = value.array().ravel(order="K")
        return np.ndarray(self.shape, flat.dtype, flat, self.offset, self.strides)


@dataclass(frozen=True, slots=True)
class Piece:
    """Streams of one task at `offset` of a program's constants; `owner` as in memory.ConstantPool.add."""

    offset: int
    size: int
    owner: tuple[str, ...]
    weights: View
    bias: View | None
    lanes: int
    table: bool
    streams: tuple[tuple[int, int, int], ...]
    form: DenseForm | None = field(compare=False)

    def write(self, section: np.ndarray, before: np.ndarray, node: Node) -> bool:
        """Packs the node's constants into a section of zeros here; a table is taken from the section as it was. False
        where they do not take the same form."""
        weights = self.weights.of(node)
        bias = None if self.bias is None else self.bias.of(node)
        if weights is None or (bias is None) != (self.bias is None):
            return False
        if self.form is None:
            table = before[self.offset:self.offset + TABLE_BYTES].tobytes() if self.table else None
            packed = pack_sparse(weights, bias, self.lanes, table)
            if packed.streams != self.streams:
                return False
            section[self.offset:self.offset + self.size] = np.frombuffer(packed.data, np.uint8)
            return True
        self.form.write(section, self.offset, weights, bias)
        for _, start, _ in self.streams if self.table else ():
            place = slice(self.offset + start, self.offset + start + TABLE_BYTES)
            section[place] = before[place]
        return True


class Trace:
    """What became of the constants of each node that is lowered, by id(node)."""

    def __init__(self) -> None:
        self.pieces: dict[int, list[Piece]] = {}
        self.lost: set[int] = set()

    def packed(self, node: Node | None, packed: Packed, offset: int, owner: tuple[str, ...], table: bool) -> None:
        """Weights of a node were stored."""
        if node is None or node.op not in OPERATIONS or packed.weights is None:
            self.unknown(node)
            return
        weights = _view(node, packed.weights)
        bias = None if packed.bias is None else _view(node, packed.bias)
        if weights is None or (bias is None and packed.bias is not None) or packed.packing is Packing.PALETTE:
            self.unknown(node)
            return
        self.pieces.setdefault(id(node), []).append(Piece(
            offset, len(packed.data), owner, weights, bias, packed.lanes, table, packed.streams, packed.form))

    def unknown(self, node: Node | None) -> None:
        """Something was stored for a node that may be made of its constants."""
        if node is not None:
            self.lost.add(id(node))


def _view(node: Node, array: np.ndarray) -> View | None:
    found = []
    low, high = byte_bounds(array)
    for name, operand in node.operands.items():
        data = operand.data if isinstance(operand, Value) else None
        if not isinstance(data, np.ndarray) or data.dtype != array.dtype or not data.size or not array.size:
            continue
        first, last = byte_bounds(data)
        if first <= low and high <= last and last - first == data.nbytes:
            place = array.__array_interface__["data"][0] - first
            found.append(View(name, place, array.shape, array.strides, data.strides))
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, eq=False, slots=True)
class Named(Value):
    """Stands for the constant of that name."""


@dataclass(frozen=True, slots=True)
class Route:
    """A node before `users` were folded into it, the operands it has then, and the pieces its constants become, each
    with the number of its program. Arrays that may change are left out of the nodes."""

    node: Node
    users: tuple[Node, ...]
    operands: frozenset[str]
    pieces: tuple[tuple[int, Piece], ...]

    def made(self, values: Mapping[str, Value]) -> Node | None:
        """The node that is lowered when constants are `values`; None where it is another one."""
        node, *users = (_with(each, values) for each in (self.node, *self.users))
        made = refolded(node, users) if users else node
        return made if made is not None and made.operands.keys() == self.operands else None


@dataclass(frozen=True, slots=True)
class Routes:
    """Every constant that does nothing but become bytes of constants: its value now, and its routes by number."""

    routes: tuple[Route, ...]
    values: Mapping[str, Value]
    names: Mapping[str, tuple[int, ...]]

    def updated(self, arrays: Mapping[str, np.ndarray]) -> Routes:
        """The same with other arrays, of the shapes and types the values have."""
        known = {name: replace(self.values[name], data=data) for name, data in arrays.items() if name in self.values}
        return replace(self, values={**self.values, **known})


def traced(graph: Graph, segments: Sequence[Segment]) -> Routes:
    """What is known of a graph's constants after its compilation to programs."""
    values, counts, twice = dict[str, Value](), Counter[str](), set[str]()
    for value in _constants(graph.nodes):
        if values.setdefault(value.name, value) is not value:
            twice.add(value.name)
        counts[value.name] += 1
    routes = _agreeing([route for number, segment in enumerate(segments) for route in _routes(segment, number)])
    names: dict[str, list[int]] = {}
    for number, route in enumerate(routes):
        for value in _constants((route.node, *route.users)):
            if values.get(value.name) is value:
                names.setdefault(value.name, []).append(number)
    known = {name: tuple(dict.fromkeys(numbers)) for name, numbers in names.items()
             if len(numbers) == counts[name] and name not in twice}
    ids = {id(values[name]) for name in names}
    kept = tuple(Route(_stripped(r.node, ids), tuple(_stripped(user, ids) for user in r.users), r.operands, r.pieces)
                 for r in routes)
    return Routes(kept, {name: values[name] for name in names}, known)


def _routes(segment: Segment, number: int) -> Iterator[Route]:
    trace, users = segment.compiler.trace, segment.graph.users()
    for node in segment.graph.nodes:
        pieces = trace.pieces.get(id(node))
        if not pieces or id(node) in trace.lost:
            continue
        readers = users.get(id(node.output), [])
        if len(readers) == 1 and takes_up(node, readers[0]):
            continue  # the numbers forbade a fold that others might allow
        folded = next((value for value in node.values() if isinstance(value, Folded)), None)
        before, behind = (node, ()) if folded is None or folded.before is None else (folded.before, folded.users)
        if before.op in OPERATIONS:
            found = tuple((number, piece) for piece in dict.fromkeys(pieces))
            yield Route(before, behind, frozenset(node.operands), found)


def _agreeing(routes: list[Route]) -> list[Route]:
    """The routes without those that came to share bytes though they are made of different constants."""
    first: dict[tuple[int, int], object] = {}
    bad: set[tuple[int, int]] = set()
    for route in routes:
        made_of = tuple(id(value) for value in _constants((route.node, *route.users)))
        for number, piece in route.pieces:
            if first.setdefault((number, piece.offset), (made_of, piece)) != (made_of, piece):
                bad.add((number, piece.offset))
    return [route for route in routes if not any((number, piece.offset) in bad for number, piece in route.pieces)]


def _constants(nodes: Sequence[Node]) -> Iterator[Value]:
    return (value for node in nodes for value in node.values()
            if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f")


def _stripped(node: Node, ids: set[int]) -> Node:
    """The node with those constants by name alone."""
    return substituted(node, {id(value): Named(value.name, value.type) for value in _constants((node,))
                              if id(value) in ids})


def _with(node: Node, values: Mapping[str, Value]) -> Node:
    """A stripped node with constants."""
    return substituted(node, {id(value): values[value.name] for value in node.values() if isinstance(value, Named)})
