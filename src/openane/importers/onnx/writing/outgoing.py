"""An ONNX model while it is written: nodes, constants and names, collected node by node of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import blake2b

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Node, RoundedConstant, Value, mil_type, numpy_type
from openane.graph.budget import Budget
from openane.importers.names import untaken
from openane.ops import Arguments, arguments
from openane.record_classes import dataclass

Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]
REALS = ("fp16", "fp32")


@dataclass(slots=True)
class OnnxNode:
    """A node of the model: tensors by name, "" for an input that is left out."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Attribute]


@dataclass(slots=True)
class OutgoingModel:
    """What has been written: `tensors` are constants by name, `names` the tensors that hold values of the graph, by
    id. `wide`: real numbers are fp32, constants in all digits the model states; otherwise they are what the graph
    says. `budget`: how much may be made of constants and shapes."""

    wide: bool
    budget: Budget
    nodes: list[OnnxNode] = field(default_factory=list)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    _shared: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """`name`, or with a number behind it when it is taken."""
        return untaken(name, self.taken)

    def dtype(self, dtype: str) -> str:
        """The element type in which the model holds what the graph holds in `dtype`."""
        return "fp32" if self.wide and dtype == "fp16" else dtype

    def constant(self, array: np.ndarray, name: str = "constant") -> str:
        """The constant tensor that holds `array`, of exactly its type; equal ones are stored once."""
        held = np.ascontiguousarray(array).reshape(array.shape)
        key = (held.dtype.str, held.shape, blake2b(held.data if held.size else b"", digest_size=16).digest())
        if key not in self._shared:
            self._shared[key] = self.unique(name)
            self.tensors[self._shared[key]] = held
        return self._shared[key]

    def read(self, value: Value) -> str:
        """The tensor that holds a value of the graph."""
        if id(value) not in self.names:
            self.names[id(value)] = self.constant(self.numbers(value), value.name or "constant")
        return self.names[id(value)]

    def numbers(self, value: Value) -> np.ndarray:
        """The numbers of a constant, in the type the model holds them in."""
        if self.wide and isinstance(value, RoundedConstant):
            return np.asarray(value.digits(), np.float32)
        return value.array().astype(numpy_type(self.dtype(value.dtype)), copy=False)

    def add(self, op: str, inputs: Sequence[str], results: Sequence[str], **attributes: Attribute) -> None:
        """Appends a node."""
        self.nodes.append(OnnxNode(op, list(inputs), list(results), attributes))

    def rename(self, names: Mapping[str, str]) -> None:
        """Calls tensors otherwise, wherever they are made and read."""
        for node in self.nodes:
            node.inputs = [names.get(name, name) for name in node.inputs]
            node.outputs = [names.get(name, name) for name in node.outputs]


@dataclass(frozen=True, slots=True)
class OutgoingNode:
    """A node of the graph while ONNX nodes are written for it, and its constant operands by name (`arguments`)."""

    node: Node
    model: OutgoingModel
    arguments: Arguments

    def read(self, name: str = "x") -> str:
        """The tensor that holds the operand."""
        return self.model.read(self.node[name])

    def optional(self, name: str) -> str:
        """The tensor that holds the operand, "" where it is left out."""
        value = self.node.get(name)
        return "" if value is None else self.model.read(value)

    def all(self, name: str) -> list[str]:
        """The tensors of an operand of several."""
        return [self.model.read(value) for value in self.arguments.tensors(name)]

    def add(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """Appends a node of one result; its tensor."""
        return self.several(op, inputs, 1, **attributes)[0]

    def several(self, op: str, inputs: Sequence[str], results: int, **attributes: Attribute) -> list[str]:
        """Appends a node; the tensors it makes."""
        made = [self.model.unique(f"{self.node.name or self.node.op}_{op}") for _ in range(results)]
        self.model.add(op, inputs, made, **attributes)
        return made

    def number(self, number: float, like: str = "x") -> str:
        """A constant tensor of one number, of the element type of the operand `like`."""
        dtype = self.model.dtype(self.node[like].dtype)
        return self.model.constant(np.asarray(number).astype(numpy_type(dtype)))

    def array(self, array: np.ndarray, like: str = "x") -> str:
        """A constant tensor of these numbers, of the element type of the operand `like`."""
        return self.model.constant(np.asarray(array).astype(numpy_type(self.model.dtype(self.node[like].dtype))))

    def integers(self, numbers: Sequence[int]) -> str:
        """A constant vector of int64, what ONNX takes shapes, axes and positions in."""
        return self.model.constant(np.array(numbers, np.int64).reshape(-1))

    def cast(self, tensor: str, dtype: str) -> str:
        """The tensor in the model's type for `dtype`, MIL's name."""
        return self.add("Cast", tensor, to=element_code(self.model.dtype(dtype)))

    def reshape(self, tensor: str, shape: Sequence[int]) -> str:
        """The tensor under another shape."""
        return self.add("Reshape", tensor, self.integers(shape))

    def transpose(self, tensor: str, order: Sequence[int]) -> str:
        """The tensor with its dimensions in this order."""
        return tensor if list(order) == list(range(len(order))) else self.add("Transpose", tensor, perm=list(order))

    def slice(self, tensor: str, start: int, stop: int, axis: int) -> str:
        """A range of one dimension."""
        return self.add("Slice", tensor, *map(self.integers, ([start], [stop], [axis])))

    def take(self, elements: int) -> None:
        """Counts int64 numbers that are about to be made for the node. UnsupportedError where they are too many."""
        self.model.budget.take(self.node.label, 8 * elements)

    def refuse(self, rule: str, found: object, remedy: str) -> UnsupportedError:
        """The error for a node that ONNX cannot say."""
        return refusal(self.node, rule, found, remedy)


def outgoing(node: Node, model: OutgoingModel) -> OutgoingNode:
    """The node with its operands readable by name."""
    return OutgoingNode(node, model, arguments(node))


def refusal(node: Node, rule: str, found: object, remedy: str) -> UnsupportedError:
    """The error for a node that ONNX cannot say."""
    return UnsupportedError(f"ONNX, {node.label}", rule, found=found, remedy=remedy)


_CODES = {"fp32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "fp16": 10,
          "fp64": 11, "uint32": 12, "uint64": 13}
"""TensorProto.DataType."""


def element_code(dtype: str) -> int:
    """ONNX's number of an element type by MIL's name. UnsupportedError where ONNX has none."""
    if dtype not in _CODES:
        raise UnsupportedError("ONNX", "tensors are written in types that numpy has", limit=", ".join(_CODES),
                               found=dtype, remedy="cast it, or dequantise the weights")
    return _CODES[dtype]


def array_code(array: np.ndarray) -> int:
    """ONNX's number of an array's element type."""
    return element_code(mil_type(array.dtype))
