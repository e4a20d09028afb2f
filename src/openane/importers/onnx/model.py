"""ONNX files: the protobuf read with the onnx package, tensors and attributes as numpy and Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.importers.files import mapped, open_file, read_file
from openane.importers.onnx.nodes import Proto, StatedNode, nodes_of
from openane.importers.onnx.package import messages, package
from openane.importers.onnx.storage import Storage, is_stored, slimmed

_PLAIN = {1: "f", 2: "i", 3: "s"}
_LISTS = {6: "floats", 7: "ints", 8: "strings"}
_NUMBERS = "fiub"
"""Kinds of numbers that numpy itself has."""
_TENSOR, _GRAPH = 4, 5
"""The field that holds an attribute's value, by the number of its type in AttributeProto.AttributeType."""


def read_model(source: str | Path | bytes | Proto) -> Proto:
    """The ModelProto of a file, of its bytes, or itself, with all its weights. FormatError when it is none; weights
    kept beside a file are read too."""
    onnx = messages()
    if isinstance(source, onnx.ModelProto):
        return _checked(source)[0]
    model, _ = _checked(_parse(onnx, source if isinstance(source, bytes) else read_file(Path(source), "model")))
    if isinstance(source, str | Path):
        _load_external(model, Path(source).parent)
    return model


@contextmanager
def opened(source: str | Path | bytes | Proto) -> Iterator[tuple[Proto, list[StatedNode], Storage]]:
    """The ModelProto of a file, of its bytes, or itself, its nodes, and where the data of its tensors is read from:
    large ones stay in the file, which is open until the end. FormatError when it is no model, UnsupportedError when it
    is larger than this machine's memory."""
    onnx = messages()
    if isinstance(source, onnx.ModelProto):
        yield *_checked(source), Storage()
    elif isinstance(source, bytes):
        with BytesIO(source) as stream:
            yield *_checked(_parse_slim(onnx, source)), Storage(stream, len(source))
    else:
        path = Path(source)
        with open_file(path, "model") as (stream, size):
            with mapped(stream, size) as view:
                checked = _checked(_parse_slim(onnx, view))
            yield *checked, Storage(stream, size, str(path.parent))


def _parse_slim(onnx: Any, data: bytes | memoryview) -> Proto:
    """The model of its bytes, data of large tensors left out; what our reader does not follow the package judges."""
    try:
        slim = slimmed(memoryview(data))
    except FormatError:
        slim = bytes(data)
    return _parse(onnx, slim)


def _checked(model: Proto) -> tuple[Proto, list[StatedNode]]:
    """The model and its nodes. FormatError where it has no graph, or a name in it is no text."""
    if not model.HasField("graph"):
        raise FormatError("not an ONNX model", expected="a ModelProto with a graph", found="none")
    nodes = nodes_of(model.graph)
    _check_names(model, nodes)
    return model, nodes


def _parse(onnx: Any, data: bytes) -> Proto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # the protobuf runtime's own kinds
        raise FormatError(f"not an ONNX model: {error}") from None
    return model


def _check_names(model: Proto, nodes: Sequence[StatedNode]) -> None:
    """FormatError for names that are not UTF-8: the protobuf runtime hands those out as bytes."""
    names = [entry.domain for entry in model.opset_import]
    _take_names(model.graph, nodes, names)
    for name in () if set(map(type, names)) <= {str} else names:
        if not isinstance(name, str):
            raise FormatError("a name in the model is not UTF-8", expected="text", found=repr(name[:40]))


def _take_names(graph: Proto, nodes: Sequence[StatedNode], names: list[str | bytes]) -> None:
    """Adds every name in a graph, which has these nodes, and the graphs inside."""
    names += [tensor.name for tensor in graph.initializer]
    for port in (*graph.input, *graph.output):
        names += (port.name, *(dim.dim_param for dim in port.type.tensor_type.shape.dim))
    for node in nodes:
        names += node.kind, node.name, node.domain, *node.inputs, *node.outputs
        for attribute in node.attributes:
            names.append(attribute.name)
            if attribute.HasField("g"):
                _take_names(attribute.g, nodes_of(attribute.g), names)


def _load_external(model: Proto, folder: Path) -> None:
    if not any(map(is_stored, model.graph.initializer)):
        return
    try:
        package().external_data_helper.load_external_data_for_model(model, str(folder))
    except Exception as error:  # missing files, paths outside the folder, ranges outside the file
        raise FormatError(f"weights kept beside the model cannot be read: {error}") from None


def tensor_array(tensor: Proto, label: str, storage: Storage) -> np.ndarray:
    """A TensorProto as an array, bf16 as float32. FormatError when its data does not fill its shape."""
    shape = tuple(tensor.dims[:])
    try:
        array = storage.array(tensor, shape, label)
    except AneError:
        raise
    except Exception as error:  # onnx raises several kinds for malformed tensors
        raise FormatError(f"{label}: malformed tensor: {error}") from None
    if array.shape != shape:
        raise FormatError(f"{label}: malformed tensor", expected=f"shape {list(shape)}", found=list(array.shape))
    return array if array.dtype.kind in _NUMBERS else numpy_array(array, label)


STATED = "stated"
"""What an array in 8 bits says of its element type's name, where the model has it in fewer."""


def stated_type(array: np.ndarray) -> str:
    """The name of an array's element type in the model."""
    stated = array.dtype.metadata
    return array.dtype.name if stated is None else str(stated.get(STATED, array.dtype.name))


def numpy_array(array: np.ndarray, label: str) -> np.ndarray:
    """An array in a type numpy itself has: small integers in 8 bits, bf16 and fp8 as float32."""
    if array.dtype.kind in _NUMBERS:
        return array
    name = array.dtype.name
    if name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(np.dtype(np.int8 if name.startswith("int") else np.uint8, metadata={STATED: name}))
    if name.startswith(("bfloat", "float")):
        return array.astype(np.float32)
    raise UnsupportedError(label, "tensor elements must be numbers numpy has", found=f"type {name}",
                           remedy="dequantise the model, or cast the tensor to fp32")


def attribute_values(node: StatedNode, label: str, storage: Storage) -> dict[str, Any]:
    """Attributes of a node by name: int, float, bytes, tuples of them, arrays for tensors."""
    table: dict[str, Any] = {}
    for attribute in node.attributes:
        kind, name = attribute.type, attribute.name
        if kind in _PLAIN:
            table[name] = getattr(attribute, _PLAIN[kind])
        elif kind in _LISTS:
            table[name] = tuple(getattr(attribute, _LISTS[kind])[:])
        elif kind == _TENSOR:
            table[name] = tensor_array(attribute.t, f"{label}, attribute {name!r}", storage)
        elif kind == _GRAPH:
            table[name] = attribute.g
        else:
            raise GraphError(f"{label}: attribute {name!r} has no readable type ({kind})")
    return table
