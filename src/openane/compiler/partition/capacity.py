"""Cuts a graph that one engine program cannot hold into several, at boundaries between operations.

A program holds as many ports as there are base-address slots, as many tasks as the number of a task can count, and as
much memory as addresses reach. A tensor that crosses a cut becomes a buffer that both programs know by its name.
"""

from __future__ import annotations

import numpy as np

from openane.chips import Limits
from openane.compiler.lower.byte_types import STORED
from openane.errors import UnsupportedError
from openane.graph import Graph, Value
from openane.record_classes import dataclass

PORT_RANK = 5
FILE_PARTS = 1 << 24
"""Bytes a file puts before and between the parts of a program, at most."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one program may hold: inputs and outputs together, tasks, bytes of text, constants and buffers."""

    ports: int
    tasks: int
    memory: int

    @staticmethod
    def of(limits: Limits) -> Capacity:
        """A chip's: the slots that are left beside text, constants and scratch, the tasks that can be numbered, the
        bytes that can be addressed."""
        return Capacity(limits.slots.ports, limits.tasks, limits.addresses - FILE_PARTS)


class FullError(UnsupportedError):
    """One engine program cannot hold the graph; parts of it may fit."""

    def about(self, operation: str) -> UnsupportedError:
        """The same of a single operation, which has no parts."""
        return UnsupportedError(operation, self.rule, limit=self.limit, found=self.found, remedy=self.remedy)


def check_ports(graph: Graph, capacity: Capacity) -> None:
    """FullError when the graph's inputs and outputs are too many."""
    count = len(graph.inputs) + len({id(value) for value in graph.outputs})
    if count > capacity.ports:
        raise FullError("ports", "every input and output of an engine program needs a base-address slot",
                        limit=capacity.ports, found=count,
                        remedy="split the operation that has so many operands or results")


def check_size(tasks: int, memory: int, capacity: Capacity) -> None:
    """FullError when tasks or bytes of memory are too many."""
    if tasks > capacity.tasks:
        raise FullError("tasks", "tasks of an engine program are numbered", limit=capacity.tasks, found=tasks,
                        remedy="use a smaller input")
    if memory > capacity.memory:
        raise FullError("memory", "an engine program and its buffers must be within reach of addresses",
                        limit=capacity.memory, found=memory, remedy="use a smaller input")


def cut(graph: Graph, capacity: Capacity) -> int | None:
    """After how many nodes to cut the graph in two: where both halves have ports enough, near the middle, where few
    bytes cross. None where it cannot be cut."""
    count = len(graph.nodes)
    if count < 2:
        return None
    lives = _Lives(graph)
    allowed = lives.storable
    worst = np.maximum(lives.first_ports, lives.second_ports)
    places = np.arange(1, count)
    outside = (places < count // 4) | (places > count - count // 4)
    excess = np.maximum(worst - capacity.ports, 0)
    order = np.lexsort((np.abs(places - count / 2), lives.bytes, outside, excess, ~allowed))
    best = int(order[0])
    return int(places[best]) if allowed[best] else None


class _Lives:
    """For each place a cut could be (after node 1, 2, ...): ports of both halves, bytes that cross, and whether all
    of those can lie in memory."""

    def __init__(self, graph: Graph) -> None:
        count = len(graph.nodes)
        self.first_ports, self.second_ports = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        self.bytes, unstorable = np.zeros(count + 1, np.float64), np.zeros(count + 1, np.int64)
        outputs = {id(value) for value in graph.outputs}
        last = {id(value): place for place, node in enumerate(graph.nodes) for value in node.values()}
        first: dict[int, int] = {}
        for place, node in enumerate(graph.nodes):
            for value in node.values():
                first.setdefault(id(value), place)
        for value in graph.inputs:
            self.first_ports[first.get(id(value), count) + 1:] += 1
            self.second_ports[:last.get(id(value), -1) + 1] += 1
        for place, node in enumerate(graph.nodes):
            for value in node.outputs:
                crossing, end = slice(place + 1, last.get(id(value), place) + 1), id(value) in outputs
                self.first_ports[slice(place + 1, None) if end else crossing] += 1
                self.second_ports[crossing] += 1
                self.second_ports[:place + 1] += end
                self.bytes[crossing] += value.type.elements
                unstorable[crossing] += not storable(value)
        self.storable = unstorable[1:count] == 0
        self.first_ports, self.second_ports = self.first_ports[1:count], self.second_ports[1:count]
        self.bytes = self.bytes[1:count]


def storable(value: Value) -> bool:
    """Whether a buffer can hold the value between programs."""
    return value.dtype in STORED and value.type.rank <= PORT_RANK
