"""A model's graph as the system's compiler for the engine takes it: fp16 throughout, ports of the types it allows.

The engine computes fp16; its compiler refuses functions whose inputs or outputs are fp32, int32, bf16 or bool, and
takes fp16, int8, uint8, int16 and uint16 (source: one public project that tried each; fp16 is what all of them use).
Whole numbers of 32 bits pass as int16, truth values as fp16 0 and 1, and are cast in the graph; states hold fp16.
Ports get identifiers that begin with their number: the runtime takes ports in alphabetical order of their names, and so
every way of sorting gives the model's order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from openane.devices.macos.spelled import spelled
from openane.errors import UnsupportedError
from openane.graph import Data, Graph, Node, Operand, TensorType, Value, substituted
from openane.ops import all_ops
from openane.ops.spec import Movement
from openane.record_classes import dataclass

NARROWED = {"fp32": "fp16", "fp64": "fp16", "int64": "int32", "uint32": "int32", "uint64": "int32"}
"""Element types inside the graph to those the engine's compiler knows."""

PORTS = {"fp16": "fp16", "int8": "int8", "uint8": "uint8", "int16": "int16", "uint16": "uint16", "int32": "int16",
         "bool": "fp16"}
"""Element types of ports, narrowed, to those the runtime takes."""

LARGEST_RANK = 5
MOST_INT16_ROWS = 32768
"""Rows beyond which an index does not fit int16; such an index is taken as uint16."""

_TYPE_WORDS = ("dtype", "output_dtype")
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class PortNames:
    """One port: the model's name, the identifier in the graph made, its shape there and its element type there."""

    name: str
    mil: str
    shape: tuple[int, ...]
    element: str


@dataclass(slots=True)
class Halved:
    """The graph being made: `seen` has the new value by the id of the old one; `states` are ports of states."""

    states: frozenset[str] = frozenset()
    seen: dict[int, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    ports: tuple[tuple[PortNames, ...], tuple[PortNames, ...]] = ((), ())

    def graph(self) -> Graph:
        """What was made, as function `main`."""
        return Graph(tuple(self.inputs), tuple(self.nodes), tuple(self.outputs), "main")


def halved(graph: Graph, states: frozenset[str] = frozenset()) -> Halved:
    """`graph` in the engine's types; `states` are the inputs and outputs that stand for states. UnsupportedError names
    a value or operation the route cannot take."""
    made = Halved(states)
    users = graph.users()
    inputs = tuple(_input(made, number, value, users.get(id(value), [])) for number, value in enumerate(graph.inputs))
    roots = _roots(graph)
    _name_outputs(made, graph, roots)
    known: set[int] = set()
    names = {value.name for node in graph.nodes for value in (*node.outputs, *node.values())}
    for node in graph.nodes:
        if node.outputs and id(node.outputs[0]) in roots:
            continue
        new = _node(made, substituted(node, roots))
        if all(value.constant or id(value) in known for value in new.values()):
            known.update(map(id, new.outputs))
        made.nodes += spelled(new, names, known)
    outputs = tuple(_output(made, number, value, roots) for number, value in enumerate(graph.outputs))
    made.ports = (inputs, outputs)
    return made


def _input(made: Halved, number: int, value: Value, users: list[Node]) -> PortNames:
    """A port of the graph made, and the value the nodes read."""
    element = _port_type(made, "input", value)
    if element == "int16" and any(_rows(node) > MOST_INT16_ROWS for node in users):
        element = "uint16"
    port = Value(_identifier("in", number, value.name), TensorType(element, value.shape or (1,)))
    made.inputs.append(port)
    inner, wanted = port, NARROWED.get(value.dtype, value.dtype)
    if not value.shape:
        operands = {"x": inner, "axes": _axes(port)}
        inner = _made(made, "squeeze", operands, TensorType(element, ()), f"{port.name}_scalar")
    if element != wanted:
        inner = _cast(made, inner, wanted, f"{port.name}_as_{wanted}")
    made.seen[id(value)] = inner
    return PortNames(value.name, port.name, port.shape, element)


def _rows(node: Node) -> int:
    """How many rows a node selects among; 0 when it selects none."""
    table, axis = node.get("x"), node.get("axis")
    op = all_ops().get(node.op)
    if op is None or op.moves is not Movement.MIX or node.get("indices") is None or table is None:
        return 0
    known = axis is not None and isinstance(axis.data, np.ndarray) and axis.data.dtype.kind == "i" and axis.data.size
    if axis is None or known != 1 or not table.shape:
        return max(table.shape, default=0)
    return table.shape[int(axis.array().reshape(-1)[0]) % len(table.shape)]


def _roots(graph: Graph) -> dict[int, Value]:
    """What each copy is a copy of: reshapes that keep the shape, and casts between types that are one here."""
    roots: dict[int, Value] = {}
    for node in graph.nodes:
        op = all_ops().get(node.op)
        copies = op is not None and (op.casts or op.moves is Movement.SHAPE)
        if copies and _narrow(node["x"].type) == _narrow(node.output.type):
            roots[id(node.output)] = roots.get(id(node["x"]), node["x"])
    return roots


def _name_outputs(made: Halved, graph: Graph, roots: Mapping[int, Value]) -> None:
    """Results that are outputs as they are take the port's identifier at once."""
    producers = graph.producers()
    for number, value in enumerate(graph.outputs):
        plain = _port_type(made, "output", value) == NARROWED.get(value.dtype, value.dtype) and value.shape
        root = roots.get(id(value), value)
        if id(root) in producers and plain and id(root) not in made.seen:
            made.seen[id(root)] = Value(_identifier("out", number, value.name), _narrow(value.type))


def _output(made: Halved, number: int, value: Value, roots: Mapping[int, Value]) -> PortNames:
    """The port of an output; a node in front of it where its type, rank or name is not the port's."""
    element, name = _port_type(made, "output", value), _identifier("out", number, value.name)
    inner = _value(made, roots.get(id(value), value))
    if inner.name != name:
        wanted = TensorType(element, value.shape)
        stem = f"{name}_scalar" if not value.shape else name
        inner = _cast(made, inner, element, stem) if element != inner.dtype else \
            _made(made, "identity", {"x": inner}, wanted, stem)
        if not value.shape:
            inner = _made(made, "expand_dims", {"x": inner, "axes": _axes(inner)}, TensorType(element, (1,)), name)
    made.outputs.append(inner)
    return PortNames(value.name, name, inner.shape, element)


def _node(made: Halved, node: Node) -> Node:
    for value in (*node.values(), *node.outputs):
        if len(value.shape) > LARGEST_RANK:
            raise UnsupportedError(node.label, f"{value.name!r} has too many dimensions for the engine's compiler",
                                   limit=LARGEST_RANK, found=len(value.shape))
    operands = {key: _operand(made, key, operand) for key, operand in node.operands.items()}
    return replace(node, operands=operands, outputs=tuple(_value(made, value) for value in node.outputs))


def _operand(made: Halved, key: str, operand: Operand) -> Operand:
    if isinstance(operand, tuple):
        return tuple(_value(made, value) for value in operand)
    if key in _TYPE_WORDS and isinstance(operand.data, str):
        return replace(operand, data=NARROWED.get(operand.data, operand.data))
    if key == "epsilon" and isinstance(operand.data, np.ndarray) and operand.data.dtype.kind == "f":
        return _positive(operand)
    return _value(made, operand)


def _value(made: Halved, value: Value) -> Value:
    known = made.seen.get(id(value))
    if known is None:
        known = value if value.dtype not in NARROWED else Value(value.name, _narrow(value.type), _data(value.data))
        made.seen[id(value)] = known
    return known


def _narrow(kind: TensorType) -> TensorType:
    return TensorType(NARROWED.get(kind.dtype, kind.dtype), kind.shape)


def _data(data: Data) -> Data:
    """A constant in the narrower type; finite numbers stay finite."""
    if not isinstance(data, np.ndarray):
        return data
    if data.dtype.kind != "f":
        limits = np.iinfo(np.int32)
        return np.clip(data, limits.min, limits.max).astype(np.int32)
    return np.where(np.isfinite(data), np.clip(data, -_LARGEST, _LARGEST), data).astype(np.float16)


def _positive(value: Value) -> Value:
    """An epsilon above zero stays above zero: the smallest fp16 where it would round to 0. Finite ones stay finite."""
    number = np.asarray(value.array(), np.float64)
    return Value(value.name, _narrow(value.type), _data(np.where(number > 0, np.maximum(number, _SMALLEST), number)))


def _cast(made: Halved, x: Value, dtype: str, name: str) -> Value:
    word = Value(f"{name}_dtype", TensorType("string", ()), dtype)
    return _made(made, "cast", {"x": x, "dtype": word}, TensorType(dtype, x.shape), name)


def _made(made: Halved, op: str, operands: Mapping[str, Operand], kind: TensorType, name: str) -> Value:
    result = Value(name, kind)
    made.nodes.append(Node(op, operands, (result,), name))
    return result


def _axes(value: Value) -> Value:
    return Value(f"{value.name}_axes", TensorType("int32", (1,)), np.zeros(1, np.int32))


def _port_type(made: Halved, side: str, value: Value) -> str:
    dtype = NARROWED.get(value.dtype, value.dtype)
    if dtype not in PORTS:
        raise UnsupportedError(f"{side} {value.name!r}", "ports of this element type are not taken by the runtime",
                               limit=", ".join(PORTS), found=value.dtype)
    if len(value.shape) > LARGEST_RANK:
        raise UnsupportedError(f"{side} {value.name!r}", "it has too many dimensions for the engine's compiler",
                               limit=LARGEST_RANK, found=len(value.shape))
    element = PORTS[dtype]
    return "fp16" if value.name in made.states and element in ("int16", "uint16") else element


def _identifier(side: str, number: int, name: str) -> str:
    return f"{side}{number:03}_{re.sub('[^A-Za-z0-9_]', '_', name, flags=re.ASCII)}"
