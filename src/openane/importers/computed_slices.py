"""Slices of MIL programs that begin where data says, as caches are written at the position of a token: the engine reads
and writes at positions that are known. What is read is looked up, and what is written is chosen element by element.

How many elements a slice has is static, stated by the type of its result or of the update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Node, TensorType, Value
from openane.graph.graph import substituted
from openane.importers.kept_boxes import keeps_boxes, kept_boxes
from openane.ops.rewriter import Rewriter
from openane.record_classes import dataclass

SLICES = ("slice_by_index", "slice_by_size", "slice_update")
LONGEST = 1 << 20
"""Positions of an axis that a slice begins within where data says: they become a constant."""
Begin = int | Value


@dataclass(frozen=True, slots=True)
class _Range:
    """Elements of one axis: where it begins (a value of one element where that is computed), how many, the step."""

    begin: Begin
    count: int
    step: int

    def whole(self, extent: int) -> bool:
        """Whether it is all of an axis, in its order."""
        return self.begin == 0 and self.count == extent and self.step == 1


def begins_late(node: Node) -> bool:
    """Whether a slice begins where data says."""
    return node.op in SLICES and any((bound := node.get(name)) is not None and not bound.constant
                                     for name in ("begin", "end"))


def with_lookups(graph: Graph) -> Graph:
    """The graph with lookups and choices in place of slices that begin where data says, and with numbers joined as
    vectors, where to begin is joined of them; itself where there are none.
    GraphError where their settings contradict each other."""
    if not any(begins_late(node) or joins_numbers(node) or keeps_boxes(node) for node in graph.nodes):
        return graph
    names = {value.name for node in graph.nodes for value in node.outputs} | {value.name for value in graph.inputs}
    producers = graph.producers()
    nodes: list[Node] = []
    for node in graph.nodes:
        rewriter = Rewriter(node, names, node.source)
        made = _instead(node, rewriter, producers)
        nodes += [node] if made is None else rewriter.instead(made)
    return replace(graph, nodes=tuple(nodes))


def _instead(node: Node, rewriter: Rewriter, producers: Mapping[int, Node]) -> list[Value] | None:
    """The values that take the place of a node's results; None for a node that stays."""
    if begins_late(node):
        return [(_written if node.op == "slice_update" else _read)(node, rewriter, producers)]
    if joins_numbers(node):
        return [_joined(node, rewriter)]
    return kept_boxes(node, rewriter) if keeps_boxes(node) else None


def _joined(node: Node, rewriter: Rewriter) -> Value:
    node = as_vectors(node)
    values = tuple(rewriter.single("reshape", x=value, shape=[1]) if not value.type.rank else value
                   for value in _values(node))
    return rewriter.single("concat", values=values, axis=0)


def joins_numbers(node: Node) -> bool:
    """Whether a concat joins numbers without dimensions, which make a vector."""
    return node.op == "concat" and any(not value.type.rank for value in _values(node))


def _values(node: Node) -> tuple[Value, ...]:
    values = node.operands.get("values", ())
    return values if isinstance(values, tuple) else (values,)


def as_vectors(node: Node, computed: bool = False) -> Node:
    """A concat of numbers as one of vectors of one element: constants, and, in their types alone, those that are
    `computed`."""
    wide = {id(value): Value(value.name, TensorType(value.dtype, (1,)),
                             value.array().reshape(1) if value.constant else None)
            for value in _values(node) if not value.type.rank and (value.constant or computed)}
    return substituted(node, wide)


def _flags(node: Node, name: str, rank: int) -> Sequence[bool]:
    value = node.get(name)
    found = [False] * rank if value is None else [bool(each) for each in value.array().reshape(-1)]
    if len(found) != rank:
        raise GraphError(f"{node.label}: {name} must hold {rank} booleans, found {len(found)}")
    return found


def _ranges(node: Node, rewriter: Rewriter, producers: Mapping[int, Node], piece: Value) -> list[_Range]:
    """The range of every axis of x. `piece` is what is read or written: its extents are how many elements there are,
    one where the axis is squeezed."""
    x = node["x"]
    rank = x.type.rank
    squeezed, open_begin = _flags(node, "squeeze_mask", rank), _flags(node, "begin_mask", rank)
    stride = node.get("stride")
    steps = [1] * rank if stride is None else [int(each) for each in stride.array().reshape(-1)]
    begin, left = node["begin"], iter(piece.shape)
    counts = [1 if squeeze else next(left, 0) for squeeze in squeezed]
    if {begin.type.elements, len(steps)} != {rank} or min(counts, default=1) < 1 or next(left, None) is not None:
        raise GraphError(f"{node.label}: begin, stride and {piece.type} do not fit the {rank} dimensions of {x.type}")
    begins = _elements(begin, rewriter, producers)
    longest = max((max(axis) for each, *axis in zip(begins, x.shape, counts, strict=True) if isinstance(each, Value)),
                  default=0)
    if longest > LONGEST:
        raise _too_long(node, longest)
    return [_Range(_first(begins[axis], extent, steps[axis], open_begin[axis] and not squeezed[axis]), counts[axis],
                   steps[axis]) for axis, extent in enumerate(x.shape)]


def _too_long(node: Node, found: int) -> UnsupportedError:
    return UnsupportedError(node.label, "positions of an axis within which a slice begins where data says are listed",
                            limit=LONGEST, found=found, remedy="let the host cut it, or use one more dimension")


def _first(begin: Begin, extent: int, step: int, is_open: bool) -> Begin:
    """Where a range begins, counted from the front where that is known."""
    if is_open:
        return 0 if step > 0 else extent - 1
    return begin + extent if isinstance(begin, int) and begin < 0 else begin


def _elements(vector: Value, rewriter: Rewriter, producers: Mapping[int, Node]) -> list[Begin]:
    """The numbers of a vector, those that are known as such, others as values [1]."""
    found: list[Begin] = []
    pending = [vector]
    while pending:
        part = pending.pop()
        if len(found) + part.type.elements > vector.type.elements:
            raise GraphError(f"{rewriter.name}: parts of {vector.name!r} have more elements than {vector.type}")
        made = producers.get(id(part))
        if part.constant:
            found += [int(each) for each in part.array().reshape(-1)]
        elif made is not None and made.op == "concat":
            pending += reversed(_values(made))
        elif part.type.elements == 1:
            found.append(part if part.shape == (1,) else rewriter.single("reshape", x=part, shape=[1]))
        else:
            found += [rewriter.single("slice_by_index", x=part, begin=[at], end=[at + 1])
                      for at in range(part.type.elements)]
    if len(found) < vector.type.elements:
        raise GraphError(f"{rewriter.name}: parts of {vector.name!r} have fewer elements than {vector.type}")
    return found


def _known(x: Value, ranges: Sequence[_Range]) -> list[_Range]:
    """The ranges that are known, and all of the other axes."""
    return [each if isinstance(each.begin, int) else _Range(0, extent, 1)
            for each, extent in zip(ranges, x.shape, strict=True)]


def _known_part(x: Value, ranges: Sequence[_Range], rewriter: Rewriter) -> Value:
    """Elements of the axes whose ranges are known, all of the others."""
    known = _known(x, ranges)
    if all(each.whole(extent) for each, extent in zip(known, x.shape, strict=True)):
        return x
    return rewriter.single("slice_by_index", x=x, **_bounds(known))


def _bounds(known: Sequence[_Range]) -> dict[str, Any]:
    """Settings of a slice whose ranges are known."""
    begins = [each.begin for each in known if isinstance(each.begin, int)]
    ends = [begin + each.count * each.step for begin, each in zip(begins, known, strict=True)]
    return {"begin": begins, "end": [max(end, 0) for end in ends], "stride": [each.step for each in known],
            "end_mask": [end < 0 for end in ends]}


def _read(node: Node, rewriter: Rewriter, producers: Mapping[int, Node]) -> Value:
    ranges = _ranges(node, rewriter, producers, node.output)
    found = _known_part(node["x"], ranges, rewriter)
    for axis, each in enumerate(ranges):
        if isinstance(each.begin, Value):
            places = rewriter.single("add", x=each.begin, y=np.arange(each.count, dtype=np.int32) * each.step)
            found = rewriter.single("gather", x=found, indices=places, axis=axis)
    return found if found.shape == node.output.shape else rewriter.single("reshape", x=found, shape=node.output.shape)


def _written(node: Node, rewriter: Rewriter, producers: Mapping[int, Node]) -> Value:
    x, update = node["x"], node["update"]
    ranges = _ranges(node, rewriter, producers, update)
    part = _known_part(x, ranges, rewriter)
    shape = tuple(each.count for each in ranges)
    new = update if update.shape == shape else rewriter.single("reshape", x=update, shape=shape)
    inside: Value | None = None
    for axis, each in enumerate(ranges):
        if isinstance(each.begin, Value):
            here, new = _placed(each, each.begin, new, axis, part.shape[axis], rewriter)
            here = rewriter.single("reshape", x=here, shape=[-1 if at == axis else 1 for at in range(x.type.rank)])
            inside = here if inside is None else rewriter.single("logical_and", x=inside, y=here)
    chosen = new if inside is None else rewriter.single("select", cond=inside, a=new, b=part)
    if part is x and inside is not None:
        return chosen
    return rewriter.single("slice_update", x=x, update=chosen, **_bounds(_known(x, ranges)))


def _placed(each: _Range, begin: Value, new: Value, axis: int, extent: int, rewriter: Rewriter) -> tuple[Value, Value]:
    """Which elements of an axis are written, and what is written as if all were."""
    if each.step != 1:
        raise GraphError(f"{rewriter.name}: a step of {each.step} from a computed begin; 1 would pass")
    offset = rewriter.single("sub", x=np.arange(extent, dtype=np.int32), y=begin)
    if each.count == 1:
        return rewriter.single("equal", x=offset, y=np.int32(0)), new
    after = rewriter.single("greater_equal", x=offset, y=np.int32(0))
    before = rewriter.single("less", x=offset, y=np.int32(each.count))
    near = rewriter.single("minimum", x=rewriter.single("maximum", x=offset, y=np.int32(0)),
                           y=np.int32(each.count - 1))
    return (rewriter.single("logical_and", x=after, y=before),
            rewriter.single("gather", x=new, indices=near, axis=axis))
