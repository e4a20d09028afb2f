"""Graphs written as ONNX models, so that other runtimes can run them.

An operation is the ONNX operator of its name where there is one, else a composition of several, in this order: what a
module of this folder says (`WRITERS`), what the operation itself is made of (`ops.spec.Op.decompose`, `expand`). What
depends on constants and shapes alone becomes a constant. The protobuf is written by `formats.protobuf`: no other
library is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph, Node, TensorType, Value, numpy_type
from openane.graph.budget import Budget
from openane.graph.states import without_states
from openane.importers.onnx.dtypes import INPUT_NAMES
from openane.importers.onnx.writing import elements, images, layout, places, recurrent, sums, windows
from openane.importers.onnx.writing.document import LARGEST, OPSET, Document, data_file, write_files
from openane.importers.onnx.writing.outgoing import OutgoingModel, element_code, outgoing, refusal
from openane.ops import get_op
from openane.ops.fill import without_data
from openane.ops.rewriter import Rewriter
from openane.ops.work import node_work

WRITERS: Mapping[str, elements.Writer] = {
    **elements.WRITERS, **images.WRITERS, **layout.WRITERS, **places.WRITERS, **recurrent.WRITERS, **sums.WRITERS,
    **windows.WRITERS}
"""What writes each operation."""
STORED = frozenset(["constexpr_affine_dequantize"])
"""Operations on constants that are written as they are, since that is smaller than what they make."""
_PORTS = ("fp16", "fp32", "fp64", "int32", "int64", "bool", "uint8", "int8", "uint16", "int16", "uint32", "uint64")
"""Types a port may have been declared with."""


def write_onnx(graph: Graph, path: str | Path, *, wide: bool = False, largest: int = LARGEST) -> Path:
    """Writes `graph` as the ONNX model `path`, of opset 20; returns the path.

    Ports have the types the graph's model declared (`metadata["dtype:PORT"]`), those in between are the graph's: fp16
    where the engine computes. With `wide` real numbers are fp32 throughout, constants in all digits the model states. A
    state becomes an input, and an output NAME_next where it is written. Constants of more than `largest` bytes together
    lie in PATH.data beside the model.

    UnsupportedError for what ONNX cannot say, naming the operation, and for constants beyond what the graph may make of
    itself (graph.budget); OSError when files cannot be written.
    """
    target = Path(path)
    model, inputs, outputs = to_onnx(graph, wide=wide)
    document = Document(model.tensors, data_file(target).name, largest)
    write_files(target, document.model(graph.name, model.nodes, inputs, outputs), document.beside)
    return target


def to_onnx(graph: Graph, *, wide: bool = False) -> tuple[OutgoingModel, dict[str, TensorType], dict[str, TensorType]]:
    """The nodes and constants of `graph`, and the types of inputs and outputs by name."""
    plain = without_states(graph).graph
    model = OutgoingModel(wide, Budget.of(plain))
    names = [value.name for value in (*plain.inputs, *plain.outputs)]
    if len(set(names)) != len(names):
        raise GraphError(f"ONNX: inputs and outputs must have distinct names; found {', '.join(names)}")
    model.taken.update(names)
    inputs = {value.name: _declared(graph, value, model) for value in plain.inputs}
    for value in plain.inputs:
        declared = inputs[value.name].dtype
        model.names[id(value)] = _converted(model, value.name, declared, model.dtype(value.dtype))
    for node in plain.nodes:
        _write(model, node)
    outputs = {value.name: _declared(graph, value, model) for value in plain.outputs}
    final = dict[str, str]()
    for value in plain.outputs:
        tensor = _converted(model, model.read(value), model.dtype(value.dtype), outputs[value.name].dtype)
        if tensor in final or tensor in inputs or tensor in model.tensors:
            model.add("Identity", [tensor], [value.name])
        else:
            final[tensor] = value.name
    model.rename(final)
    return model, inputs, outputs


def _declared(graph: Graph, value: Value, model: OutgoingModel) -> TensorType:
    """A port's type: the one its model declared where the graph's stands for that."""
    stated = graph.metadata.get(f"dtype:{value.name}", "")
    known = stated in _PORTS and INPUT_NAMES.get(stated) == value.dtype
    return TensorType(model.dtype(stated if known else value.dtype), value.shape)


def _converted(model: OutgoingModel, tensor: str, dtype: str, wanted: str) -> str:
    """A tensor in another element type; itself where it has that."""
    if dtype == wanted:
        return tensor
    made = model.unique(f"{tensor}_{wanted}")
    model.add("Cast", [tensor], [made], to=element_code(wanted))
    return made


def _write(model: OutgoingModel, node: Node) -> None:
    """Writes a node: as a constant, by its writer, or as the operations it is made of."""
    op = get_op(node.op)
    if op.shape_only or (all(value.constant for value in node.values()) and node.op not in STORED):
        size = sum(value.type.elements * numpy_type(value.dtype).itemsize for value in node.outputs)
        model.budget.take(node.label, size, node_work(node))
        for value, array in zip(node.outputs, without_data(node), strict=True):
            model.names[id(value)] = model.constant(_wide(array, model), value.name)
        return
    writer = WRITERS.get(node.op)
    if writer is not None:
        made = writer(outgoing(node, model))
        for value, name in zip(node.outputs, [made] if isinstance(made, str) else made, strict=True):
            model.names[id(value)] = name
        return
    for part in _parts(node):
        _write(model, part)


def _wide(array: np.ndarray, model: OutgoingModel) -> np.ndarray:
    return array.astype(np.float32) if model.wide and array.dtype == np.float16 else array


def _parts(node: Node) -> tuple[Node, ...]:
    """The operations a node is made of. UnsupportedError where it is made of none."""
    op = get_op(node.op)
    rewriter = Rewriter(node, set())
    made = op.decompose(node, rewriter) if op.decompose else op.expand(node, rewriter) if op.expand else None
    if made is None:
        near = get_close_matches(node.op, WRITERS, n=3, cutoff=0.7)
        raise refusal(node, "no ONNX operators express this operation", node.op,
                      f"nearest: {', '.join(near)}" if near else "other operations, or another format")
    return rewriter.instead(made)


__all__ = ["OPSET", "STORED", "WRITERS", "to_onnx", "write_onnx"]
