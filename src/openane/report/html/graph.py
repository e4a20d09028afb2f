"""The graph a report draws: the model's operations and the tasks they became, or the tasks alone where no model came
with them, and where each stands.

Edges are the model's values; operations that exist only in the engine's form of the model (and all tasks of a bare
program) are joined by the data that flows between their tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from openane.graph import Graph
from openane.record_classes import dataclass
from openane.report.html.layout import Point, layered
from openane.report.profile import Profile, Row

FOLDED = "folded"
ENGINE = "engine"
MICRO = 1e6


@dataclass(frozen=True, slots=True)
class OperationPlace:
    """Where an operation of the model went (`engine`, `fused`, `free`, `folded`, `port`, `host`), and why."""

    operation: str
    where: str
    reason: str = ""


@dataclass(slots=True)
class _Node:
    name: str
    where: str
    reason: str = ""
    tasks: list[int] = field(default_factory=list)
    engines: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def drawn(profile: Profile, flow: Iterable[tuple[int, int]], graph: Graph | None = None,
          origins: Sequence[OperationPlace] = ()) -> dict[str, Any]:
    """`nodes` (name, where, reason, engine, tasks, microseconds, place) in the order they run, `edges` (pairs of node
    numbers, with the corners of the line), and the drawing's `width` and `height`."""
    nodes: dict[str, _Node] = {}
    edges: dict[tuple[str, str], None] = {}
    if graph is not None:
        _of_model(graph, {name: each for each in origins for name in (_short(each.operation), each.operation)},
                  nodes, edges)
    of_model = set(nodes)
    homes = [_home(number, row, nodes) for number, row in enumerate(profile.rows)]
    for first, second in flow:
        pair = homes[first], homes[second]
        if pair[0] != pair[1] and not (pair[0] in of_model and pair[1] in of_model):
            edges[pair] = None
    return _placed(list(nodes.values()), edges)


def _of_model(graph: Graph, origins: Mapping[str, OperationPlace], nodes: dict[str, _Node],
              edges: dict[tuple[str, str], None]) -> None:
    """The model's operations that are left, with the values between them; what was folded is passed through."""
    makers: dict[int, tuple[str, ...]] = {}
    for value in graph.inputs:
        name = f"input {value.name!r}"
        nodes[name] = _Node(name, "input")
        makers[id(value)] = (name,)
    for node in graph.nodes:
        read = tuple(dict.fromkeys(name for value in node.values() for name in makers.get(id(value), ())))
        origin = origins.get(node.label) or origins.get(_short(node.label))
        if origin is not None and origin.where != FOLDED:
            known = nodes.setdefault(origin.operation, _Node(origin.operation, origin.where, origin.reason))
            edges.update(dict.fromkeys((name, known.name) for name in read if name != known.name))
            read = (known.name,)
        makers.update({id(value): read for value in node.outputs})
    for value in graph.outputs:
        name = f"output {value.name!r}"
        nodes[name] = _Node(name, "output")
        edges.update(dict.fromkeys((maker, name) for maker in makers.get(id(value), ())))


def _short(label: str) -> str:
    """A label without what it came from, which a bundle's graph does not keep."""
    return label.partition(" (from ")[0]


def _home(number: int, row: Row, nodes: dict[str, _Node]) -> str:
    """Adds a task to its node; a task whose operation is not known is a node of its own."""
    name = row.node or f"task {row.program}.{row.task} {row.operation}"
    node = nodes.setdefault(name, _Node(name, ENGINE))
    node.tasks.append(number)
    node.engines[row.engine] = node.engines.get(row.engine, 0.0) + row.seconds
    node.seconds += row.seconds
    return name


def _placed(nodes: list[_Node], edges: Mapping[tuple[str, str], None]) -> dict[str, Any]:
    numbers = {node.name: number for number, node in enumerate(_in_order(nodes, edges))}
    ordered = sorted(nodes, key=lambda node: numbers[node.name])
    pairs = sorted((numbers[a], numbers[b]) for a, b in edges)
    layout = layered(len(ordered), pairs)
    return {"width": layout.width, "height": layout.height,
            "nodes": [{"name": node.name, "where": node.where, "reason": node.reason,
                       "engine": _engines(node), "tasks": node.tasks, "us": node.seconds * MICRO,
                       "x": round(x, 1), "y": round(y, 1)}
                      for node, (x, y) in zip(ordered, layout.places, strict=True)],
            "edges": [[a, b, *_corners(corners)] for (a, b), corners in zip(pairs, layout.lines, strict=True)]}


def _engines(node: _Node) -> str:
    """The engines a node's tasks run on, the one that takes longest first."""
    return " and ".join(sorted(node.engines, key=lambda name: -node.engines[name]))


def _corners(points: Sequence[Point]) -> list[float]:
    return [round(number, 1) for point in points for number in point]


def _in_order(nodes: Sequence[_Node], edges: Mapping[tuple[str, str], None]) -> list[_Node]:
    """Every node after those it reads; where operations read each other's parts, in the order they are known."""
    table = {node.name: node for node in nodes}
    readers: dict[str, list[str]] = {}
    waiting = dict.fromkeys(table, 0)
    for first, second in edges:
        readers.setdefault(first, []).append(second)
        waiting[second] += 1
    left = dict.fromkeys(table)
    ready = [name for name, count in waiting.items() if not count][::-1]
    found: list[_Node] = []
    while left:
        name = ready.pop() if ready else next(iter(left))
        if name not in left:
            continue
        del left[name]
        found.append(table[name])
        for reader in readers.get(name, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return found
