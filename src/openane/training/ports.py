"""Weights and gradients by the few ports of a program: many matrices lie one below the other in one surface.

A program has a base-address slot for every input and output, 28 of them, and a joint graph with weights as inputs has
two ports for every weight. A task's operand may begin at any row of a surface and its result
may be written from any row on, so matrices of one width can share a port at no cost: their rows follow each other. A
graph is rewritten so by `packed`, which also says what the host has to put where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from openane.chips import DEFAULT_TARGET, get_chip
from openane.compiler.partition.capacity import Capacity
from openane.errors import GraphError
from openane.graph import Graph, Node, TensorType, Value, numpy_type, substituted
from openane.ops.build import GraphBuilder
from openane.passes.rewrite import taken_names

WIDENED = 4
"""How much more an element counts by which rows of results grow than one by which rows of inputs do: the engine has to
write the zeros of the former."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor of `shape` lies: rows `row` to `row + rows` of a port, the first `columns` elements of each."""

    port: str
    row: int
    rows: int
    columns: int
    shape: tuple[int, ...]

    def of(self, surface: np.ndarray) -> np.ndarray:
        """The tensor as a view of the port's array [rows, columns]; a copy where its rows are shorter than those."""
        return surface[self.row:self.row + self.rows, :self.columns].reshape(self.shape)


@dataclass(frozen=True, slots=True)
class PackedSurfaces:
    """The ports of one side by name, and the place of every tensor that was packed."""

    ports: Mapping[str, TensorType]
    places: Mapping[str, TensorPlace]

    def pack(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The ports' arrays; what no tensor covers is zero. Numbers that a port's element type does not hold become
        infinite. GraphError when a tensor is missing or has another shape."""
        made = {name: np.zeros(type_.shape, numpy_type(type_.dtype)) for name, type_ in self.ports.items()}
        with np.errstate(over="ignore"):
            for name, place in self.places.items():
                if name not in arrays or arrays[name].shape != place.shape:
                    found = arrays[name].shape if name in arrays else "none"
                    raise GraphError(f"{name!r} must be given with shape {list(place.shape)}; found {found}")
                rows = slice(place.row, place.row + place.rows)
                made[place.port][rows, :place.columns] = arrays[name].reshape(place.rows, place.columns)
        return made

    def unpack(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors, where ports were packed, and all other arrays as they are."""
        found = {name: array for name, array in arrays.items() if name not in self.ports}
        return found | {name: place.of(arrays[place.port]) for name, place in self.places.items()}


@dataclass(frozen=True, slots=True)
class PackedPorts:
    """A graph with packed ports, and what its inputs and outputs are made of."""

    graph: Graph
    inputs: PackedSurfaces
    outputs: PackedSurfaces


def packed(graph: Graph, inputs: Iterable[str], outputs: Iterable[str], target: str = DEFAULT_TARGET) -> PackedPorts:
    """The graph with the inputs and outputs of these names packed into few ports, all together at most as many as one
    program for `target` has, where that can be.

    Tensors of one element type and width share a port; where that is not few enough, those whose union wastes least do,
    the narrower ones in the first elements of longer rows. Vectors are rows, tensors of more dimensions have a row for
    each index of the first one that is not 1. All other ports stay as they are and come first. GraphError when a name
    is no port's, or `outputs` names what is packed as an input or a constant.
    """
    read, written = set(inputs), set(outputs)
    known = {value.name for value in graph.inputs}, {value.name for value in graph.outputs if not value.constant}
    for name in sorted((read - known[0]) | (written - known[1]) | (written & read)):
        raise GraphError(f"{name!r} is no port of {graph.name!r} that can be packed on that side")
    sides = ([value for value in graph.inputs if value.name in read],
             [value for value in graph.outputs if value.name in written])
    others = len(graph.inputs) + len(graph.outputs) - sum(map(len, sides))
    groups = _few((_by_width(sides[0]), _by_width(sides[1])), Capacity.of(get_chip(target).limits).ports - others)
    taken = taken_names(graph)
    weights, gradients = (_surfaces(side, label, taken) for side, label in
                          zip(groups, ("weights", "gradients"), strict=True))
    made = _written(_read(graph, weights, taken), gradients, taken)
    made.verify()
    return PackedPorts(made, weights, gradients)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns a tensor is packed with."""
    front = next((d for d, extent in enumerate(shape) if extent > 1), len(shape))
    shape = shape[front:]
    return (1, prod(shape)) if len(shape) < 2 else (shape[0], prod(shape[1:]))


Group = list[Value]
"""Tensors that share a port."""


def _surfaces(groups: list[Group], label: str, taken: set[str]) -> PackedSurfaces:
    found: dict[str, TensorType] = {}
    places: dict[str, TensorPlace] = {}
    for group in groups:
        name, row = _free(f"{label}{len(found)}", taken), 0
        for value in group:
            rows, columns = _matrix(value.shape)
            places[value.name] = TensorPlace(name, row, rows, columns, value.shape)
            row += rows
        found[name] = TensorType(group[0].dtype, (row, _width(group)))
    return PackedSurfaces(found, places)


def _by_width(values: list[Value]) -> list[Group]:
    found: dict[tuple[str, int], Group] = {}
    for value in values:
        found.setdefault((value.dtype, _matrix(value.shape)[1]), []).append(value)
    return [found[key] for key in sorted(found)]


def _few(sides: tuple[list[Group], list[Group]], ports: int) -> tuple[list[Group], list[Group]]:
    """The groups of inputs and of outputs, neighbours joined while they are more than `ports` together."""
    while sum(map(len, sides)) > ports:
        pairs = [(_waste(side[i], side[i + 1]) * weight, number, i)
                 for number, (side, weight) in enumerate(zip(sides, (1, WIDENED), strict=True))
                 for i in range(len(side) - 1) if side[i][0].dtype == side[i + 1][0].dtype]
        if not pairs:
            break
        _, number, i = min(pairs)
        sides[number][i:i + 2] = [sides[number][i] + sides[number][i + 1]]
    return sides


def _width(group: Group) -> int:
    return max(_matrix(value.shape)[1] for value in group)


def _waste(narrow: Group, wide: Group) -> int:
    """Elements by which rows grow when the first group's become as wide as the second's."""
    return sum(_matrix(value.shape)[0] for value in narrow) * (_width(wide) - _width(narrow))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _read(graph: Graph, side: PackedSurfaces, taken: set[str]) -> Graph:
    """The graph with slices of packed inputs in the place of inputs."""
    builder = Addition(taken)
    ports = {name: Value(name, type_) for name, type_ in side.ports.items()}
    taken.update(ports)
    now: dict[int, Value] = {}
    for value in graph.inputs:
        if (place := side.places.get(value.name)) is not None:
            part = builder.single("slice_by_index", x=ports[place.port], begin=[place.row, 0],
                                  end=[place.row + place.rows, place.columns])
            now[id(value)] = builder.single("reshape", x=part, shape=list(value.shape))
    return replace(graph, inputs=(*(v for v in graph.inputs if id(v) not in now), *ports.values()),
                   nodes=(*builder.nodes, *(substituted(node, now) for node in graph.nodes)),
                   outputs=tuple(now.get(id(v), v) for v in graph.outputs))


def _written(graph: Graph, side: PackedSurfaces, taken: set[str]) -> Graph:
    """The graph with the outputs of each packed port one below the other."""
    builder, outputs = Addition(taken), {value.name: value for value in graph.outputs}
    made = []
    for port, type_ in side.ports.items():
        parts = []
        for name, place in side.places.items():
            if place.port == port:
                part = builder.single("reshape", x=outputs[name], shape=[place.rows, place.columns])
                if place.columns < type_.shape[1]:
                    part = builder.single("pad", x=part, pad=[0, 0, 0, type_.shape[1] - place.columns],
                                          mode="constant", constant_val=0.0)
                parts.append(part)
        made.append(builder.single("concat", port, values=tuple(parts), axis=0) if len(parts) > 1
                    else builder.single("identity", port, x=parts[0]))
    return replace(graph, nodes=(*graph.nodes, *builder.nodes),
                   outputs=(*(v for v in graph.outputs if v.name not in side.places), *made))


class Addition(GraphBuilder):
    """A GraphBuilder for nodes that are added to a graph whose names are taken."""

    def __init__(self, taken: set[str]) -> None:
        super().__init__()
        self._names = taken

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those built so far."""
        return tuple(self._nodes)
