"""A written model as an ONNX file: the protobuf, and weights beside it where it would be larger than one may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openane.formats.files import write_atomically
from openane.formats.protobuf import Message, Schema, write_message
from openane.graph import TensorType
from openane.importers.onnx.writing.outgoing import Attribute, OnnxNode, array_code, element_code
from openane.version import __version__

OPSET = 20
"""The version of ONNX's operators that is written: the first that has Gelu."""
VERSION = 9
"""Of the file format that goes with it."""
LARGEST = 2**31 - 2**24
"""Bytes of constants a file holds itself: a protobuf message is smaller than 2 GiB, names and nodes included."""
LEAST = 1024
"""Bytes from which a constant goes into the file beside, when there is one."""
ALIGNMENT = 4096
"""Where constants begin there, so that they can be mapped."""

_SCHEMA = Schema("""
ModelProto: ir_version 1 int; producer_name 2 string; producer_version 3 string; graph 7 GraphProto;
 opset_import 8 Opset*
Opset: domain 1 string; version 2 int
GraphProto: node 1 NodeProto*; name 2 string; initializer 5 TensorProto*; input 11 ValueInfo*; output 12 ValueInfo*
NodeProto: input 1 string*; output 2 string*; name 3 string; op_type 4 string; attribute 5 AttributeProto*
AttributeProto: name 1 string; f 2 float; i 3 int; s 4 bytes; floats 7 float*; ints 8 int*; strings 9 bytes*;
 type 20 int
TensorProto: dims 1 int*; data_type 2 int; name 8 string; raw_data 9 bytes; external_data 13 Entry*;
 data_location 14 int
Entry: key 1 string; value 2 string
ValueInfo: name 1 string; type 2 TypeProto
TypeProto: tensor_type 1 TensorInfo
TensorInfo: elem_type 1 int; shape 2 Shape
Shape: dim 1 Dimension*
Dimension: dim_value 1 int
""")
_FLOAT, _INT, _STRING, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 6, 7, 8
_EXTERNAL = 1


class Document:
    """A model's parts as messages."""

    def __init__(self, tensors: Mapping[str, np.ndarray], file: str, largest: int = LARGEST) -> None:
        """`file` is the name of the file beside, should the constants be more than `largest` bytes."""
        apart = sum(array.nbytes for array in tensors.values()) > largest
        self._beside: bytearray | None = bytearray() if apart else None
        self._file = file
        self._initializers = [self._tensor(name, array) for name, array in tensors.items()]

    def model(self, name: str, nodes: Sequence[OnnxNode], inputs: Mapping[str, TensorType],
              outputs: Mapping[str, TensorType]) -> bytes:
        """The bytes of the ModelProto."""
        graph = _message("GraphProto", name=name, node=[_node(node) for node in nodes], initializer=self._initializers,
                         input=[_port(*port) for port in inputs.items()],
                         output=[_port(*port) for port in outputs.items()])
        return write_message(_message("ModelProto", ir_version=VERSION, producer_name="openane",
                                      producer_version=__version__, graph=graph,
                                      opset_import=[_message("Opset", version=OPSET)]))

    @property
    def beside(self) -> bytes | None:
        """What goes into the file beside the model; None where all is in one."""
        return None if self._beside is None else bytes(self._beside)

    def _tensor(self, name: str, array: np.ndarray) -> Message:
        """A constant, little-endian elements in a row."""
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        place: dict[str, Any] = {"raw_data": data}
        if self._beside is not None and len(data) >= LEAST:
            self._beside += bytes(-len(self._beside) % ALIGNMENT)
            where = {"location": self._file, "offset": str(len(self._beside)), "length": str(len(data))}
            self._beside += data
            place = {"data_location": _EXTERNAL,
                     "external_data": [_message("Entry", key=key, value=value) for key, value in where.items()]}
        return _message("TensorProto", name=name, dims=list(array.shape), data_type=array_code(array), **place)


def write_files(path: Path, model: bytes, beside: bytes | None) -> None:
    """Writes the model, after the constants it refers to. OSError where that is not possible."""
    if beside is not None:
        write_atomically(data_file(path), beside)
    write_atomically(path, model)


def data_file(path: Path) -> Path:
    """Where constants of the model go that it does not hold itself."""
    return path.with_name(f"{path.name}.data")


def _message(kind: str, **values: Any) -> Message:
    return Message(_SCHEMA, kind, **values)


def _node(node: OnnxNode) -> Message:
    return _message("NodeProto", op_type=node.op, name=node.outputs[0], input=node.inputs, output=node.outputs,
                    attribute=[_attribute(*each) for each in node.attributes.items()])


def _attribute(name: str, value: Attribute) -> Message:
    if isinstance(value, str):
        return _message("AttributeProto", name=name, s=value.encode(), type=_STRING)
    if isinstance(value, int):
        return _message("AttributeProto", name=name, i=value, type=_INT)
    if isinstance(value, float):
        return _message("AttributeProto", name=name, f=value, type=_FLOAT)
    values = list(value)
    if values and isinstance(values[0], str):
        return _message("AttributeProto", name=name, strings=[str(each).encode() for each in values], type=_STRINGS)
    if any(isinstance(each, float) for each in values):
        return _message("AttributeProto", name=name, floats=np.array(values, "<f4").tobytes(), type=_FLOATS)
    return _message("AttributeProto", name=name, ints=values, type=_INTS)


def _port(name: str, type_: TensorType) -> Message:
    dimensions = [_message("Dimension", dim_value=extent) for extent in type_.shape]
    tensor = _message("TensorInfo", elem_type=element_code(type_.dtype), shape=_message("Shape", dim=dimensions))
    return _message("ValueInfo", name=name, type=_message("TypeProto", tensor_type=tensor))
