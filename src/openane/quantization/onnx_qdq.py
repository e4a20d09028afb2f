"""ONNX models with weights of 8 bits: initialisers of int8 and a DequantizeLinear for each, everything else untouched.

Palettes and zeros left out have no operator of ONNX: only int8 can be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.errors import FormatError, UnsupportedError
from openane.formats.files import write_atomically
from openane.importers.onnx.model import read_model
from openane.importers.onnx.package import package
from openane.quantization.api import LayerReport, Quantized
from openane.quantization.forms import store

OPSET = 13
"""The first whose DequantizeLinear has a scale for each place along an axis."""
LARGEST_FILE = 1 << 31
"""Bytes a protobuf message can have: larger models keep their weights beside the file."""
RECURRENT = ("LSTM", "GRU", "RNN")
"""Operators whose weights begin with a dimension of directions."""
Proto = Any
"""A protobuf message of the onnx package, which states no types."""


def write_qdq(source: str | Path | bytes, quantized: Quantized, path: str | Path) -> tuple[str, ...]:
    """Writes the ONNX model of file or bytes `source`, of which `quantized` was made, with the same layers in int8. The
    names of layers that keep their weights because these are no constants of the model. Numbers are rounded as those
    of `quantized` where the tensor holds the layer's weight, in any order of its dimensions, and the layer's bias
    stayed as it is (quantize(..., biases=False)); to the nearest elsewhere.

    UnsupportedError for other forms than int8 and for operator sets before 13; FormatError when it cannot be written.
    """
    other = next((form for form in quantized.forms if form is not WeightForm.INT8), None)
    if other is not None:
        raise refused(other)
    model = read_model(source if isinstance(source, bytes) else Path(source))
    version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if version < OPSET:
        raise UnsupportedError("ONNX QDQ", "scales for each channel need operator set 13", limit=f"{OPSET} or later",
                               found=version, remedy="convert the model first: onnx.version_converter.convert_version("
                               f"model, {OPSET})")
    return _write(model, quantized, Path(path))


def refused(form: str) -> UnsupportedError:
    """The error for a form that ONNX has no operator for."""
    return UnsupportedError("ONNX QDQ", f"ONNX has no operator that gives back weights of the form {form}",
                            limit=WeightForm.INT8, found=form, remedy="--form int8, or write a .mlpackage or a .mil")


def _write(model: Proto, quantized: Quantized, path: Path) -> tuple[str, ...]:
    onnx = package()
    tensors = {tensor.name: tensor for tensor in model.graph.initializer} | _constants(onnx, model.graph)
    chosen, left = _chosen(model.graph, quantized, tensors)
    axes = {name: axis for name, (axis, _) in chosen.items()}
    made = [node for name, (axis, layer) in chosen.items() for node in _stored(onnx, model, tensors[name], axis, layer)]
    rest = [node for node in model.graph.node if node.op_type != "Constant" or node.output[0] not in axes]
    del model.graph.node[:]
    model.graph.node.extend([*made, *rest])
    _drop(model.graph, axes)
    try:
        if model.ByteSize() < LARGEST_FILE:
            write_atomically(path, model.SerializeToString())
        else:
            onnx.save(model, str(path), save_as_external_data=True, location=f"{path.name}.data")
    except OSError as error:
        raise FormatError(f"{path} cannot be written: {error.strerror or error}") from None
    return left


def _constants(onnx: Any, graph: Proto) -> dict[str, Proto]:
    """The tensors that Constant nodes of a graph hold, called as what these make."""
    found = {}
    for node in graph.node:
        held = [attribute.t for attribute in node.attribute if attribute.name == "value"]
        if node.op_type == "Constant" and held:
            found[node.output[0]] = onnx.TensorProto()
            found[node.output[0]].CopyFrom(held[0])
            found[node.output[0]].name = node.output[0]
    return found


def _chosen(graph: Proto, quantized: Quantized, tensors: Mapping[str, Proto]
            ) -> tuple[dict[str, tuple[int, LayerReport]], tuple[str, ...]]:
    """The tensors that are weights of compressed layers, with their dimension of channels and the layer; and the names
    of layers whose weight is none of them."""
    nodes = {label(node, position): node for position, node in enumerate(graph.node)}
    axes: dict[str, tuple[int, LayerReport]] = {}
    left: list[str] = []
    for layer in quantized.layers:
        if layer.form is None:
            continue
        found = dict(_weights(nodes.get(layer.source), tensors, int(np.prod(layer.shape))))
        free = {name: (axis, layer) for name, axis in found.items() if name not in axes}
        axes |= dict(list(free.items())[:1])
        left += [] if found else [layer.name]
    return axes, tuple(left)


def label(node: Proto, position: int) -> str:
    """How the importer calls a node, which is the source of what it makes of it."""
    return f"ONNX {node.op_type} {node.name!r}" if node.name else f"ONNX {node.op_type} (node {position})"


def _drop(graph: Proto, names: Mapping[str, int]) -> None:
    """Takes initialisers, and inputs of their names, out of a graph."""
    for field in (graph.initializer, graph.input):
        kept = [each for each in field if each.name not in names]
        del field[:]
        field.extend(kept)


def _weights(node: Proto | None, tensors: Mapping[str, Proto], elements: int) -> Iterator[tuple[str, int]]:
    """The tensors of so many elements that a node reads (a recurrent one: in each direction), and their dimension of
    channels."""
    for place, name in enumerate(node.input if node is not None else ()):
        dims = tuple(tensors[name].dims) if name in tensors else ()
        recurrent = node.op_type in RECURRENT and len(dims) == 3  # type: ignore[union-attr]
        if len(dims) > 1 and int(np.prod(dims[1:] if recurrent else dims)) == elements:
            yield name, _axis(node, place, len(dims)) % len(dims)


def _axis(node: Proto, place: int, rank: int) -> int:
    """The dimension of a node's input that counts output channels, or rows of a table."""
    stated = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type == "ConvTranspose":
        return 1
    if node.op_type == "Gather":
        return int(stated.get("axis", 0))
    if node.op_type == "Gemm":
        return int(bool(stated.get("transA"))) if place == 0 else int(not stated.get("transB"))
    if node.op_type == "MatMul":
        return rank - 2 if place == 0 else rank - 1
    return 1 if rank == 3 and node.op_type in RECURRENT else 0


def _rounded(array: np.ndarray, axis: int, layer: LayerReport) -> tuple[np.ndarray, np.ndarray]:
    """A tensor in int8 and its scales: those of the layer where it is the layer's weight, its dimensions in any order,
    the nearest elsewhere."""
    if layer.weight is not None and layer.stored is not None and layer.stored.bias is None:
        held, operands = layer.weight.array(), layer.stored.operation.operands
        for order in permutations(range(array.ndim)):
            turned = array.transpose(order)
            if turned.shape == held.shape and np.array_equal(turned.astype(held.dtype), held) \
                    and order[int(operands["axis"][1])] == axis:
                return operands["quantized_data"][1].transpose(np.argsort(order)), operands["scale"][1]
    operands = store(WeightForm.INT8, np.asarray(array, np.float32), axis).operation.operands
    return operands["quantized_data"][1], operands["scale"][1]


def _stored(onnx: Any, model: Proto, tensor: Proto, axis: int, layer: LayerReport) -> list[Proto]:
    """Adds the initialisers of a weight in int8; the nodes that make the weight of them."""
    array = onnx.numpy_helper.to_array(tensor)
    name = tensor.name
    integers, scale = _rounded(array, axis, layer)
    scale = scale.astype(np.float32)
    for suffix, data in (("quantized", integers), ("scale", scale),
                         ("zero_point", np.zeros(scale.shape, np.int8))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(data), f"{name}_{suffix}"))
    single = array.dtype == np.float32
    result = name if single else f"{name}_dequantized"
    nodes = [onnx.helper.make_node("DequantizeLinear", [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"],
                                   [result], name=f"{name}_DequantizeLinear", axis=axis)]
    if not single:
        nodes.append(onnx.helper.make_node("Cast", [result], [name], name=f"{name}_Cast", to=tensor.data_type))
    return nodes
