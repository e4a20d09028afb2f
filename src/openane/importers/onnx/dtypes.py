"""ONNX element types by number (TensorProto.DataType): names in MIL's spelling and numpy types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import numpy_type

NAMES: Mapping[int, str] = {
    1: "fp32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "fp16", 11: "fp64", 12: "uint32", 13: "uint64", 16: "bf16",
}

ENGINE_NAMES: Mapping[str, str] = {
    "fp32": "fp16", "fp64": "fp16", "bf16": "fp16", "fp16": "fp16", "int64": "int32", "int32": "int32", "bool": "bool",
    "uint8": "uint8", "int8": "int8", "uint16": "uint16", "int16": "int16",
}
"""Model dtype to the dtype of the graph."""


def dtype_name(code: int, label: str) -> str:
    """MIL's name of element type `code`. UnsupportedError naming `label` when the graph has no counterpart."""
    name = NAMES.get(code)
    if name is None or name not in ENGINE_NAMES:
        raise UnsupportedError(label, "unsupported element type", limit=", ".join(ENGINE_NAMES),
                               found=name or f"type {code}", remedy="cast it to fp32 before export")
    return name


def numpy_dtype(code: int, label: str) -> np.dtype[np.generic]:
    """The numpy type of element type `code`; bf16 is held as float32."""
    name = dtype_name(code, label)
    return np.dtype(np.float32) if name == "bf16" else numpy_type(name)
