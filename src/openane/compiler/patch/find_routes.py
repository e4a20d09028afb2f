"""Finds out which bytes of a model's programs are made from which constants of its graph: the routes of new weights.

Three things are put together for that. The pass `fold_affine` remembers which nodes it folded into a constant
(`FoldedConstant`). Constants that were neither folded nor copied are recognised by the memory they lie in. And a kernel
whose taps are laid out anew is lowered a second time with the numbers 1, 2, 3, ... as its elements, which then show
where each element went. A constant that reaches the programs in any other way has no route: to change it, the model is
compiled again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from openane.chips import Chip
from openane.compiler.lower.constant_arrays import address
from openane.compiler.lower.provenance import Traced, keeps_weights
from openane.compiler.patch.follow_kernels import followed
from openane.compiler.patch.traced_nodes import TracedNodes
from openane.compiler.weights.layout_records import (
    ConstantPiece,
    ConstantRecord,
    Fold,
    FoldOperation,
    Route,
    Routes,
    WeightView,
)
from openane.graph import NUMPY_TYPES, Graph, Node, Value
from openane.ops import get_op
from openane.ops.affine import folding
from openane.ops.late_constant import LateConstant, LateValue
from openane.passes.folded_constants import FoldedConstant

MANY = 1 << 20
"""Counted for a constant of an operation that a pass takes apart: into how many uses is not known beforehand."""
REAL = frozenset([name for name, kind in NUMPY_TYPES.items() if kind.kind == "f"])
NORM_OPERANDS = ("mean", "variance", "gamma", "beta", "epsilon")


_Place = tuple[int, int, tuple[int, ...]]
"""Address, bytes, and the shape of a matrix that lies column by column."""


class _Constants:
    """The constants of a graph by the memory they lie in."""

    def __init__(self, graph: Graph) -> None:
        self.values: dict[str, Value] = {}
        self.counts: dict[str, int] = {}
        self._places: dict[_Place, str | None] = {}
        self._named: dict[int, tuple[Value, str | None]] = {}  # by id, which the value keeps while it is here
        twice = set()
        for node in graph.nodes:
            uses = MANY if get_op(node.op).decompose is not None else 1
            for value in _numbers(node):
                name = value.name
                if self.values.setdefault(name, value) is not value:
                    twice.add(name)
                self.counts[name] = self.counts.get(name, 0) + uses
        for name, value in self.values.items():
            place, known = _place(value)
            sure = known and name not in twice and place not in self._places
            self._places[place] = name if sure else None
        self._alone = {name for name in self._places.values() if name is not None}

    def name(self, value: Value | None) -> str | None:
        """The constant whose elements a value has, in the same order."""
        if value is None:
            return None
        known = self._named.get(id(value))
        if known is None:
            known = self._named[id(value)] = value, self._found(value)
        return known[1]

    def _found(self, value: Value) -> str | None:
        if self.values.get(value.name) is value:
            return value.name if value.name in self._alone else None
        if _late(value) is not None or not isinstance(value.data, np.ndarray):
            return None
        place, known = _place(value)
        found = self._places.get(place) if known else None
        return found if found is not None and self.values[found].dtype == value.dtype else None


def _place(value: Value) -> tuple[_Place, bool]:
    """Where a constant lies and how many bytes it has, and whether its elements lie there in an order that is followed;
    of one that is not rounded yet, and lies nowhere, what tells it from others."""
    late = _late(value)
    if late is not None:
        return (id(value), 0, ()), _followed_order(late.digits())
    data = value.array()
    turned = () if data.flags.c_contiguous else data.shape
    return (address(data), data.nbytes, turned), _followed_order(data) and bool(data.size)


def _followed_order(data: np.ndarray) -> bool:
    """Whether elements lie one behind the other row by row, or those of a matrix column by column."""
    return data.flags.c_contiguous or (data.ndim == 2 and data.flags.f_contiguous)


def _late(value: Value) -> LateConstant | None:
    """What makes the numbers of a constant that is not rounded yet; None of others."""
    if isinstance(value, LateValue) and not value.asked:
        value = value.before
    return value if isinstance(value, LateConstant) and not value.asked else None


def found_routes(graph: Graph, compiled: Sequence[TracedNodes], chip: Chip) -> Routes:
    """What is known of a graph's constants after its compilation to programs, which have these nodes."""
    constants = _Constants(graph)
    nodes = [[node.node() for node in made.nodes] for made in compiled]
    found = list[Route]()
    for number, made in enumerate(compiled):
        stored = [(nodes[number][at], followed(made.kernels[at], pieces, chip) if at in made.kernels else pieces)
                  for at, pieces in made.pieces.items()]
        found += _routes(stored, number, constants)
    routes = tuple(_agreeing(found))
    taken = Counter(name for route in routes for name in route.sources)
    left = _uses(nodes, constants)
    known = {name: ConstantRecord(value.dtype, value.shape) for name,
             value in constants.values.items() if name in taken}
    complete = frozenset(name for name in known if taken[name] == constants.counts[name] == left[name])
    return Routes(routes, known, complete)


def _uses(programs: Sequence[Sequence[Node]], constants: _Constants) -> Counter[str]:
    """How often the programs' operations, and those folded into them, read each constant."""
    found: Counter[str] = Counter()
    for node in (node for nodes in programs for node in nodes):
        folded = next((value for value in node.values() if isinstance(value, FoldedConstant) and value.before), None)
        parts = (node,) if folded is None or folded.before is None else (folded.before, *folded.users)
        found.update(name for part in parts for value in _numbers(part)
                     if (name := constants.name(value)) is not None)
    return found


def _routes(stored: Iterable[tuple[Node, Sequence[Traced]]], number: int, constants: _Constants) -> Iterator[Route]:
    """The routes to pieces that were stored for nodes of a program."""
    for node, pieces in stored:
        placed = [replace(each, piece=replace(each.piece, program=number)) for each in pieces] if number else pieces
        if get_op(node.op).channel_affine is not None:
            made: Iterable[Route | None] = [_norm_route(node, placed, constants)]
        elif keeps_weights(node):
            made = [_weight_route(node, placed, constants)]
        else:
            made = [_row_route(node, each, constants) for each in placed]
        yield from (route for route in made if route is not None)


def _row_route(node: Node, each: Traced, constants: _Constants) -> Route | None:
    """A tensor that is stored as it is."""
    name, _, number = each.operand.partition(".")
    operand = node.operands[name]
    value = operand[int(number)] if isinstance(operand, tuple) else operand
    source, piece = constants.name(value), _by_rows(each.piece, value, False)
    return None if source is None or piece is None else \
        Route(source, (1, 1, value.type.elements), None, (), False, (piece,))


def _norm_route(node: Node, pieces: Sequence[Traced], constants: _Constants) -> Route | None:
    """A normalisation that runs as an operation of its own: gains and offsets are its weights and biases."""
    unique = _unique([each.piece for each in pieces])
    if unique is None or any((each.operand, each.bias) != ("gain", "offset") for each in pieces):
        return None
    return Route(None, (1, node["x"].shape[1], 1), None, (_norm_step(node, constants),), True, unique)


def _weight_route(node: Node, pieces: Sequence[Traced], constants: _Constants) -> Route | None:
    """A convolution or product with constant weights and what was folded into it."""
    before, behind = _unfolded(node)
    names, biases = {each.operand for each in pieces}, {each.bias for each in pieces}
    if not keeps_weights(before) or len(names) != 1 or biases - {"", "bias"}:
        return None
    value, turned = before.get(*names), False
    if value is None:  # a folded matmul is a linear
        value, turned = before.get("y"), _channels_last(before)
    bias, unique = before.get("bias"), _unique([_by_rows(each.piece, node[each.operand], turned) for each in pieces])
    source, named = constants.name(value), constants.name(bias)
    if value is None or source is None or unique is None or (bias is not None and named is None):
        return None
    steps = _steps(before, behind, constants)
    return Route(source, _extents(before, value, bool(steps)), named, steps, "bias" in biases, unique)


def _by_rows(piece: ConstantPiece, value: Value, turned: bool) -> ConstantPiece | None:
    """The piece with the elements of a constant, or, with `turned`, of the matrix that it is the transpose of, counted
    row by row and not as they lie in memory; None where these do not follow each other at even distances."""
    data = value.array()
    by_column = not data.flags.c_contiguous
    if by_column == turned or not isinstance(piece.weights, WeightView):
        return piece
    if data.ndim != 2:
        return None
    rows, columns = data.shape[::-1] if by_column else data.shape
    seen = WeightView(0, (rows, columns), (1, rows)).through(piece.weights)
    return None if seen is None else replace(piece, weights=seen)


def _unfolded(node: Node) -> tuple[Node, Sequence[Node]]:
    """The node as it was before others were folded into it, and these."""
    folded = next((value for value in node.values() if isinstance(value, FoldedConstant)), None)
    return (node, ()) if folded is None or folded.before is None else (folded.before, folded.users)


def _unique(pieces: Sequence[ConstantPiece | None]) -> tuple[ConstantPiece, ...] | None:
    """Pieces once each; None where two that are different came to be stored once, and where one is not known."""
    found: dict[int, ConstantPiece] = {}
    same = all(each is not None and found.setdefault(each.offset, each) == each for each in pieces)
    return tuple(found.values()) if same else None


def _extents(node: Node, value: Value, folded: bool) -> tuple[int, int, int]:
    """The weight as [outer, channels, inner]; channels are those of the result where something is folded, else the
    first dimension, for want of a need."""
    shape = value.shape
    if folded and _channels_last(node):
        return prod(shape[:-1]), shape[-1], 1
    return 1, shape[0], prod(shape[1:])


def _channels_last(node: Node) -> bool:
    product = get_op(node.op).product
    return product is not None and product.channels_last(node)


def _steps(before: Node, users: Sequence[Node], constants: _Constants) -> tuple[Fold, ...]:
    """What was folded, one after the other."""
    results = (before.output, *(user.output for user in users))
    return tuple(_norm_step(user, constants) if get_op(user.op).channel_affine is not None else
                 _vector_step(user, result, constants) for user, result in zip(users, results, strict=False))


def _norm_step(node: Node, constants: _Constants) -> Fold:
    return Fold(FoldOperation.NORM, tuple(_operand(node.get(name), constants) for name in NORM_OPERANDS))


def _vector_step(node: Node, result: Value, constants: _Constants) -> Fold:
    first = node["x"] is result
    operand = _operand(node["y"] if first else node["x"], constants)
    return Fold(FoldOperation(folding(node, result)), (operand,))


def _operand(value: Value | None, constants: _Constants) -> str | tuple[float, ...] | None:
    """The name of a vector, its numbers where no constant of the model has them (one number where all are the same),
    None without one."""
    named = constants.name(value)
    if value is None or named is not None:
        return named
    numbers = value.array().reshape(-1)
    return (float(numbers[0]),) if (numbers == numbers[0]).all() else tuple(map(float, numbers))


def _agreeing(routes: list[Route]) -> Iterator[Route]:
    """The routes without those that came to share bytes though they are made of different constants."""
    first: dict[tuple[int, int], object] = {}
    bad: set[tuple[int, int]] = set()
    for route in routes:
        made_of = route.weight, route.extents, route.bias, route.steps
        for piece in route.pieces:
            if first.setdefault((piece.program, piece.offset), (made_of, piece)) != (made_of, piece):
                bad.add((piece.program, piece.offset))
    return (route for route in routes if not any((piece.program, piece.offset) in bad for piece in route.pieces))


def _numbers(node: Node) -> list[Value]:
    """The constants of real numbers, of which those in more digits may not be rounded yet."""
    return [value for value in node.values() if value.type.dtype in REAL and value.constant]
