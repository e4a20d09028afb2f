"""Model graphs: static single assignment over MIL operations, static shapes.

A `Value` is produced once: by a function input, by a node, or it is a constant and carries `data` (an array, a string,
a bool...). A `Node` is one MIL operation; its arguments are keyword operands as MIL spells them, constants included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from openane.errors import GraphError
from openane.graph.types import TensorType
from openane.record_classes import dataclass

Data = np.ndarray | str | None
_SOUND = "_sound"
"""What a graph has beside its fields that was verified: no part of it changes."""
_TABLES = ("_users", "_producers")
"""And what is found of its nodes."""


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor (or a string) in the graph, identified by object identity; `name` is unique within a graph.

    `data` is set for constants: a numpy array of exactly `type` (rank 0 for scalars), or a str (type dtype "string").
    """

    name: str
    type: TensorType
    data: Data = None

    @property
    def constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.data is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """MIL dtype name."""
        return self.type.dtype

    def array(self) -> np.ndarray:
        """The constant's array. GraphError when the value is not a constant tensor."""
        if not isinstance(self.data, np.ndarray):
            raise GraphError(f"{self.name} is not a constant tensor")
        return self.data


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class RoundedConstant(Value):
    """A constant that the model states in more digits than its type holds: `stated`, or what that computes, times
    2^`exponent` are its numbers as they were, in the shape of `data`, for what is computed from them before that is
    rounded itself."""

    stated: np.ndarray | Callable[[], np.ndarray]
    exponent: int = 0

    def in_its_type(self) -> Value:
        """The constant in its type alone."""
        return Value(self.name, self.type, self.data)

    def digits(self) -> np.ndarray:
        """The numbers in all their digits, float32."""
        stated = self.stated if isinstance(self.stated, np.ndarray) else self.stated()
        return np.asarray(np.ldexp(stated, self.exponent)) if self.exponent else stated


@dataclass(frozen=True, eq=False, slots=True)
class RoundedArray:
    """An array in the type of a graph's constant, and in the digits the model states."""

    data: np.ndarray
    stated: np.ndarray

    def reshaped(self, *shape: int) -> RoundedArray:
        """The array in another shape."""
        return RoundedArray(self.data.reshape(shape), self.stated.reshape(shape))


Operand = Value | tuple[Value, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One MIL operation. `source` says where it came from (an ONNX node's name, a MIL line) for messages."""

    op: str
    operands: Mapping[str, Operand]
    outputs: tuple[Value, ...]
    name: str = ""
    source: str = ""
    _found: tuple[tuple[Value, ...], tuple[Value, ...]] | None = field(default=None, init=False, repr=False)
    """`values` and `computed`, which are no part of what it is, once somebody asked."""

    def __getitem__(self, key: str) -> Value:
        """The single-value operand `key`. GraphError when absent or a tuple."""
        value = self.operands.get(key)
        if value is None or isinstance(value, tuple):
            raise GraphError(f"{self.label}: operand {key!r} is missing or not a single value")
        return value

    def get(self, key: str) -> Value | None:
        """The single-value operand `key`, or None."""
        value = self.operands.get(key)
        return None if isinstance(value, tuple) else value

    @property
    def output(self) -> Value:
        """The only result. GraphError when there are several."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self.label} has {len(self.outputs)} results")
        return self.outputs[0]

    @property
    def label(self) -> str:
        """Operation and name for messages: `conv 'stem'`, with the source when there is one."""
        text = f"{self.op} {self.name!r}" if self.name else self.op
        return f"{text} (from {self.source})" if self.source else text

    def values(self) -> tuple[Value, ...]:
        """Every operand, tuples flattened."""
        return (self._found or self._find())[0]

    def computed(self) -> tuple[Value, ...]:
        """The operands that are no constants."""
        return (self._found or self._find())[1]

    def _find(self) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        values: list[Value] = []
        for operand in self.operands.values():
            if isinstance(operand, tuple):
                values += operand
            else:
                values.append(operand)
        found = tuple(values), tuple([value for value in values if not value.constant])
        object.__setattr__(self, "_found", found)
        return found


def as_stated(node: Node) -> Node:
    """The node with constants in all digits the model states; itself where they are in their type."""
    return substituted(node, {id(value): Value(value.name, value.type, value.digits()) for value in node.values()
                              if isinstance(value, RoundedConstant)})


def with_data(value: Value, data: np.ndarray) -> Value:
    """The constant with other numbers of its type and shape."""
    return Value(value.name, value.type, data) if isinstance(value, RoundedConstant) else replace(value, data=data)


def in_their_types(graph: Graph) -> tuple[Graph, Mapping[int, Value]]:
    """The graph with constants in their types alone, itself where there are no others; and what became of these, by
    id."""
    plain: dict[int, Value] = {}
    nodes = []
    for node in graph.nodes:
        changed = False
        for value in node.values():
            if isinstance(value, RoundedConstant):
                changed = True
                if id(value) not in plain:
                    plain[id(value)] = value.in_its_type()
        nodes.append(substituted(node, plain) if changed else node)
    return replace(graph, nodes=tuple(nodes)) if plain else graph, plain


def without_stated(graph: Graph) -> Graph:
    """The graph with constants in their types alone; itself where there are no others."""
    return in_their_types(graph)[0]


def substituted(node: Node, values: Mapping[int, Value]) -> Node:
    """The node with operands replaced (by id of the old value); itself when nothing changes."""
    if not values or values.keys().isdisjoint(map(id, node.values())):
        return node

    operands: dict[str, Operand] = {
        name: tuple([values.get(id(value), value) for value in operand]) if isinstance(operand, tuple)
        else values.get(id(operand), operand) for name, operand in node.operands.items()}
    return Node(node.op, operands, node.outputs, node.name, node.source)  # in a third of the time `replace` takes


@dataclass(frozen=True, eq=False)
class Graph:
    """One function: inputs, nodes in topological order, outputs."""

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    name: str = "main"
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(f"{v.name} {v.type}" for v in side) for side in (self.inputs, self.outputs))
        return f"<Graph {self.name!r}: {inputs} -> {outputs}, {len(self.nodes)} nodes>"

    def verify(self) -> None:
        """Checks the structure. GraphError names the first node that uses a value before it is made, makes one
        twice, or repeats a name; and an output nobody makes."""
        if _SOUND in vars(self):
            return
        known: set[int] = set()
        names: set[str] = set()
        for value in self.inputs:
            _define(value, known, names, None)
        for node in self.nodes:
            if not known.issuperset(map(id, node.computed())):
                early = next(value.name for value in node.computed() if id(value) not in known)
                raise GraphError(f"{node.label} uses {early!r} before it is made")
            for value in node.outputs:
                key, name = id(value), value.name
                if key in known or name in names:
                    _define(value, known, names, node)
                known.add(key)
                names.add(name)
        for value in self.outputs:
            if not value.constant and id(value) not in known:
                raise GraphError(f"output {value.name!r} is made by no node")
        vars(self)[_SOUND] = True

    def with_metadata(self, metadata: Mapping[str, str]) -> Graph:
        """The same graph with other metadata. What was found of it stays known."""
        made = replace(self, metadata=metadata)
        vars(made).update({name: found for name, found in vars(self).items() if name in (_SOUND, *_TABLES)})
        return made

    def within(self, other: Graph) -> Graph:
        """The nodes and outputs of this graph in place of those of another one, of which it was made. What was found of
        the nodes stays known."""
        made = replace(other, nodes=self.nodes, outputs=self.outputs)
        vars(made).update({name: found for name, found in vars(self).items() if name in _TABLES})
        return made

    def users(self) -> Mapping[int, list[Node]]:
        """Nodes that read each value, by id(value)."""
        return self._users

    @cached_property
    def _users(self) -> dict[int, list[Node]]:
        table: dict[int, list[Node]] = {}
        for node in self.nodes:
            for key in map(id, node.values()):
                if key in table:
                    table[key].append(node)
                else:
                    table[key] = [node]
        return table

    def producers(self) -> Mapping[int, Node]:
        """The node that makes each value, by id(value)."""
        return self._producers

    @cached_property
    def _producers(self) -> dict[int, Node]:
        return {id(value): node for node in self.nodes for value in node.outputs}


COPY = "identity"


def copy_of(value: Value, result: Value, source: str = "") -> Node:
    """The node that makes `result` what `value` is, under its name."""
    return Node(COPY, {"x": value}, (result,), result.name, source)


def _define(value: Value, known: set[int], names: set[str], by: Node | None) -> None:
    """Takes note of an input, or of what a node makes."""
    if id(value) in known or value.name in names:
        who = "input" if by is None else by.label
        raise GraphError(f"{who} makes {value.name!r} a second time" if id(value) in known
                         else f"{who}: the name {value.name!r} is taken")
    known.add(id(value))
    names.add(value.name)
