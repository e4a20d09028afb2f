"""Where the nodes of a graph stand: layers from top to bottom, few crossings, straight lines where there is room.

The usual three steps (Sugiyama): every node goes one layer below the last node it reads; nodes of a layer are ordered
by the mean place of their neighbours, a few times down and up; then each moves as near to its neighbours as the order
allows. An edge over several layers bends around what lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from openane.record_classes import dataclass

WIDTH, HEIGHT = 190.0, 62.0
"""Distance between nodes of a layer, and between layers."""
BEND = 40.0
"""Room for a line that passes through a layer."""
SWEEPS = 6
LONGEST = 400
"""Layers an edge may cross with bends; a longer one is drawn straight."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The place of every node (its middle), the corners between the ends of every edge, and the extent of it all."""

    places: tuple[Point, ...]
    lines: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layered(nodes: int, edges: Sequence[tuple[int, int]]) -> Drawing:
    """Places nodes numbered so that edges lead from lower to higher numbers; others do not count for the layers."""
    if not nodes:
        return Drawing((), tuple(() for _ in edges), 0.0, 0.0)
    layers = _layers(nodes, edges)
    chains: list[list[int]] = []
    for a, b in edges:
        between = range(layers[a] + 1, layers[b]) if layers[b] - layers[a] <= LONGEST else range(0)
        chains.append([a, *range(len(layers), len(layers) + len(between)), b])
        layers.extend(between)
    above: list[list[int]] = [[] for _ in layers]
    below: list[list[int]] = [[] for _ in layers]
    for chain in chains:
        for upper, lower in pairwise(chain):
            if layers[upper] < layers[lower]:
                above[lower].append(upper)
                below[upper].append(lower)
    rows = _ordered(layers, above, below)
    x = _moved(rows, above, below, nodes)
    left = min(x) - WIDTH / 2
    points = [(across - left, (layer + 0.5) * HEIGHT) for across, layer in zip(x, layers, strict=True)]
    return Drawing(tuple(points[:nodes]), tuple(tuple(points[bend] for bend in chain[1:-1]) for chain in chains),
                   max(x) - left + WIDTH / 2, (max(layers) + 1) * HEIGHT)


def _layers(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    layers = [0] * nodes
    for a, b in sorted(edges):
        if a < b:
            layers[b] = max(layers[b], layers[a] + 1)
    readers: dict[int, list[int]] = {}
    for a, b in edges:
        readers.setdefault(a, []).append(layers[b])
    sources = {b for _, b in edges}
    return [min(readers[n]) - 1 if n not in sources and readers.get(n) and min(readers[n]) > 0 else layer
            for n, layer in enumerate(layers)]


def _ordered(layers: Sequence[int], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[list[int]]:
    """Every layer's nodes from left to right."""
    rows: list[list[int]] = [[] for _ in range(max(layers) + 1)]
    for node, layer in enumerate(layers):
        rows[layer].append(node)
    place = {node: float(number) for row in rows for number, node in enumerate(row)}
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        near = above if downwards else below
        for row in rows if downwards else reversed(rows):
            wanted = {node: sum(place[n] for n in near[node]) / len(near[node]) if near[node] else place[node]
                      for node in row}
            row.sort(key=lambda node: wanted[node])
            place.update({node: float(number) for number, node in enumerate(row)})
    return rows


def _moved(rows: Sequence[Sequence[int]], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]],
           nodes: int) -> list[float]:
    """How far right every node stands: near the mean of its neighbours, its layer's order and distances kept."""
    x = [0.0] * sum(map(len, rows))
    for row in rows:
        for number, node in enumerate(row):
            x[node] = (number - (len(row) - 1) / 2) * WIDTH
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            near = above if sweep % 2 == 0 else below
            wanted = [sum(x[n] for n in near[node]) / len(near[node]) if near[node] else x[node] for node in row]
            for node, across in zip(row, _apart(row, wanted, nodes), strict=True):
                x[node] = across
    return x


def _apart(row: Sequence[int], wanted: Sequence[float], nodes: int) -> list[float]:
    """The places nearest to `wanted` with room between neighbours: means of runs that would overlap."""
    offsets = [0.0]
    for left, right in pairwise(row):
        room = (WIDTH if left < nodes else BEND) / 2 + (WIDTH if right < nodes else BEND) / 2
        offsets.append(offsets[-1] + room)
    runs: list[tuple[float, int]] = []  # sum and count
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while runs and runs[-1][0] / runs[-1][1] > total / count:
            before = runs.pop()
            total, count = total + before[0], count + before[1]
        runs.append((total, count))
    base = [total / count for total, count in runs for _ in range(count)]
    return [start + offset for start, offset in zip(base, offsets, strict=True)]
