"""The weights of a compressed model as safetensors: int8 with scales beside them, as compressed-tensors names them.

    NAME          int8, in the model's own dimensions
    NAME_scale    float32: a number for each channel (or block of inputs), 1 in every other dimension
    NAME_zero_point  int8, of the scale's shape, in the form that has offsets

A weight is NAME, less NAME_zero_point where there is one, times NAME_scale; both are repeated along each dimension up
to NAME's extent. Other constants stand as they are. The file's metadata say so: `format` "int-quantized", and `layers`,
the names of the compressed weights.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.errors import FormatError, UnsupportedError
from openane.formats.files import write_atomically
from openane.graph import Value
from openane.ops import get_op
from openane.ops.spec import OperationEvidence
from openane.quantization.api import LayerReport, Quantized
from openane.version import pip_line

FORMS = (WeightForm.INT8, WeightForm.INT8_BLOCKS, WeightForm.INT8_OFFSETS)


def write_safetensors(quantized: Quantized, path: Path) -> None:
    """Writes the constants of a compressed model. UnsupportedError for other forms than int8, and with the pip line
    where the library is missing; FormatError when it cannot be written."""
    other = next((form for form in quantized.forms if form not in FORMS), None)
    if other is not None:
        raise UnsupportedError("safetensors", f"no convention says how weights of the form {other} are named",
                               limit=" or ".join(FORMS), found=other, remedy="write a .mlpackage or a .mil")
    try:
        from safetensors import numpy as library
    except ImportError:
        raise UnsupportedError("writing safetensors", "needs the safetensors package", remedy=pip_line("llm")) from None
    tensors, names = _tensors(quantized)
    try:
        write_atomically(path, library.save(tensors, {"format": "int-quantized", "layers": ",".join(names)}))
    except OSError as error:
        raise FormatError(f"{path} cannot be written: {error.strerror or error}") from None


def _tensors(quantized: Quantized) -> tuple[dict[str, np.ndarray], list[str]]:
    """Arrays by name, and the names of those that are compressed."""
    tensors: dict[str, np.ndarray] = {}
    stored = {id(layer.weight): layer for layer in quantized.layers if layer.stored is not None}
    made = {layer.weight.name: _parts(layer) for layer in stored.values() if layer.weight is not None}
    for name, (data, scale, offset) in made.items():
        tensors |= {name: np.ascontiguousarray(data), f"{name}_scale": np.ascontiguousarray(scale, np.float32)}
        if offset is not None:
            tensors[f"{name}_zero_point"] = np.ascontiguousarray(offset)
    for value in _constants(quantized):
        if value.name not in tensors:
            tensors[value.name] = np.ascontiguousarray(value.array())
    return tensors, list(made)


def _constants(quantized: Quantized) -> list[Value]:
    """Float tensors that no compressed weight is made of."""
    nodes = [node for node in quantized.graph.nodes if get_op(node.op).evidence is not OperationEvidence.FOLDED]
    return [value for node in nodes for value in node.values()
            if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f" and value.type.rank]


def _parts(layer: LayerReport) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Integers, scales of their rank, and offsets where there are some."""
    assert layer.stored is not None
    operands = layer.stored.operation.operands
    if layer.form is not WeightForm.INT8:
        return operands["data"][1], operands["scale"][1], operands["offset"][1] if "offset" in operands else None
    data, axis = operands["quantized_data"][1], int(operands["axis"][1])
    return data, operands["scale"][1].reshape([-1 if place == axis else 1 for place in range(data.ndim)]), None
