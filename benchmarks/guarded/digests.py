"""Digests of compiled models, the file that lists them, and what differs between the two.

A line of the file is one model for one target: how many tasks it has, how many engine programs and host steps, and a
digest each of the graph it was compiled from, of its words, constants and buffers. So a difference says what changed;
where the graph differs, it is not the compiler that has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from openane.compiler import Model
from openane.graph import Graph, Operand, Value
from openane.ops.halves import RANGE, RESCALED
from openane.program import Layout, Program

LISTED = Path(__file__).parents[2] / "tests" / "guard_digests.txt"
SIZE = 6
"""Bytes of a digest."""
HEADING = """\
# What the compiler makes of the programs of benchmarks/guard.py, which compares it, or lists it anew with --write.
# name, target, tasks, engine programs + host steps, digests of: graph, words, constants, buffers
"""


@dataclass(frozen=True, slots=True)
class Digest:
    """One line of the file: `tasks` and `steps` as text, digests in hexadecimal."""

    tasks: str
    steps: str
    graph: str
    words: str
    constants: str
    buffers: str

    @staticmethod
    def of(model: Model) -> Digest:
        """That of a compiled model, all its functions together."""
        functions = list(model.functions.values())
        programs = [program for function in functions for program in function.programs]
        hosted = sum(len(function.host_steps) for function in functions)
        return Digest(str(sum(len(program.tasks) for program in programs)), f"{len(programs)}+{hosted}",
                      _digest(part for function in functions for part in graph_parts(function.graph)),
                      _digest(part for program in programs for part in word_parts(program)),
                      _digest(part for program in programs for part in (len(program.constants), program.constants)),
                      _digest(part for function in functions for part in buffer_parts(function)))

    def differences(self, other: Digest) -> list[str]:
        """The names of what is not the same."""
        return [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]


Key = tuple[str, str]
"""Name and target of a model."""
Digests = Mapping[Key, Digest]


def graph_parts(graph: Graph) -> Iterator[object]:
    """What the meaning of a graph depends on: ports by name and type, operations and their operands in order. Values
    are numbered as they occur: neither their names nor those of operations count."""
    numbers: dict[int, int] = {}

    def told(value: Value) -> Iterator[object]:
        known = id(value) in numbers
        yield numbers.setdefault(id(value), len(numbers))
        if not known:
            yield value.dtype, _whole(value.shape)
            yield value.data

    def operand(given: Operand) -> Iterator[object]:
        for value in given if isinstance(given, tuple) else (given,):
            yield from told(value)

    for value in graph.inputs:
        yield value.name
        yield from told(value)
    for node in graph.nodes:
        yield node.op
        for name, given in sorted(node.operands.items()):
            yield name
            yield from operand(given)
        yield from operand(node.outputs)
    for value in graph.outputs:
        yield value.name
        yield from told(value)
    said = (RESCALED, RANGE)  # of it, not in it
    yield sorted(item for item in graph.metadata.items() if not item[0].startswith(said))


def word_parts(program: Program) -> Iterator[object]:
    """The generation, and the offset and words of every task."""
    yield program.chip
    for task in program.tasks:
        yield int(task.offset)
        yield np.array(task.words, "<u4")


def buffer_parts(model: Model) -> Iterator[object]:
    """The function's name, buffers of every program, ports and states, and operations of the host in their order."""
    yield model.name
    for program in model.programs:
        for buffer in program.buffers:
            yield buffer.name, int(buffer.slot), str(buffer.role), int(buffer.size)
            yield None if buffer.layout is None else layout_part(buffer.layout)
    for port in (*model.inputs, *model.outputs, *(state.port for state in model.states)):
        yield port.name, _whole(port.shape), port.dtype
        yield layout_part(port.layout)
    yield [(state.name, state.next) for state in model.states]
    yield [(step.node.op, [value.name for value in (*step.operands, *step.results)]) for step in model.host_steps]


def layout_part(layout: Layout) -> tuple[object, ...]:
    """A layout as plain data."""
    return _whole(layout.shape), _whole(layout.strides), str(layout.dtype), int(layout.interleave)


def _whole(numbers: Iterable[int]) -> tuple[int, ...]:
    """The numbers as Python's own: numpy's are written otherwise."""
    return tuple(map(int, numbers))


def _digest(parts: Iterable[object]) -> str:
    """Of a sequence of plain data, bytes and arrays, each told apart from its neighbours."""
    made = hashlib.blake2b(digest_size=SIZE)
    for part in parts:
        if isinstance(part, np.ndarray):
            text, data = f"{part.dtype.str} {part.shape}", np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        elif isinstance(part, bytes | memoryview):
            text, data = f"{len(part)} bytes", memoryview(part)
        else:
            text, data = repr(part), memoryview(b"")
        made.update(f"{len(text)}:{text}".encode())
        made.update(data)
    return made.hexdigest()


def read_digests(path: Path = LISTED) -> dict[Key, Digest]:
    """The digests a file lists."""
    rows = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {(name, target): Digest(*row) for name, target, *row in rows}


def written(digests: Digests) -> str:
    """The text of the file, sorted by name and target."""
    rows = [(*key, *(getattr(digest, f.name) for f in fields(Digest))) for key, digest in sorted(digests.items())]
    return HEADING + "".join(" ".join(row) + "\n" for row in rows)


@dataclass(frozen=True, slots=True)
class Difference:
    """A model that is not what the file says: `what` lists what differs, in words."""

    name: str
    target: str
    what: str
    comparable: bool = False
    """Whether there is a program on both sides."""

    def __str__(self) -> str:
        return f"{self.name} for {self.target}: {self.what}"

    @property
    def key(self) -> Key:
        """Name and target."""
        return self.name, self.target


def compared(listed: Digests, found: Mapping[Key, Digest | str]) -> list[Difference]:
    """Every difference, by name. In place of a digest may stand why there is none. A name that only one side has is a
    difference, too."""
    differences = []
    for name, target in sorted(listed.keys() | found.keys()):
        before, after = listed.get((name, target)), found.get((name, target))
        if isinstance(after, str):
            differences.append(Difference(name, target, after))
        elif after is None:
            differences.append(Difference(name, target, "is listed, but there is no such program any more"))
        elif before is None:
            differences.append(Difference(name, target, "is not listed"))
        elif before != after:
            differences.append(Difference(name, target, _in_words(before, after), True))
    return differences


def _in_words(before: Digest, after: Digest) -> str:
    """`words, tasks 3 -> 4 differ`; the graph first, since what follows from another graph is no surprise."""
    names = before.differences(after)
    parts = [f"{name} {getattr(before, name)} -> {getattr(after, name)}" if name in ("tasks", "steps") else name
             for name in names]
    text = f"{', '.join(parts)} differ{'s' if len(parts) == 1 and parts[0] == 'graph' else ''}"
    return f"the graph that is compiled is another one: {text}" if "graph" in names else text
