"""ONNX element types by number (TensorProto.DataType): names in MIL's spelling and numpy types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import numpy_type

NAMES: Mapping[int, str] = {
    1: "fp32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "fp16", 11: "fp64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bf16",
    17: "fp8e4m3fn", 18: "fp8e4m3fnuz", 19: "fp8e5m2", 20: "fp8e5m2fnuz", 21: "uint4", 22: "int4", 23: "fp4e2m1",
    24: "fp8e8m0", 25: "uint2", 26: "int2",
}

ENGINE_NAMES: Mapping[str, str] = {
    "fp32": "fp16", "fp64": "fp16", "bf16": "fp16", "fp16": "fp16", "int64": "int32", "int32": "int32",
    "uint64": "int32", "uint32": "int32", "bool": "bool", "uint8": "uint8", "int8": "int8", "uint16": "uint16",
    "int16": "int16",
}
"""Model dtype to the dtype of the graph."""

INPUT_NAMES: Mapping[str, str] = {
    **ENGINE_NAMES, "int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8", "fp8e4m3fn": "fp16",
    "fp8e4m3fnuz": "fp16", "fp8e5m2": "fp16", "fp8e5m2fnuz": "fp16", "fp4e2m1": "fp16",
}
"""The same for inputs and weights: fp16 and the integers of 8 bits hold every number of smaller types."""

SMALL_INTEGERS = ("int8", "uint8", "int16", "uint16")
"""Types of ports that are computed with as int32."""


def dtype_name(code: int, label: str, known: Mapping[str, str] = ENGINE_NAMES) -> str:
    """MIL's name of element type `code`, one of `known`. UnsupportedError naming `label` when it is none."""
    name = NAMES.get(code)
    if name is None or name not in known:
        raise UnsupportedError(label, "unsupported element type", limit=", ".join(known),
                               found=name or f"type {code}", remedy="cast it to fp32 before export")
    return name


def numpy_dtype(code: int, label: str) -> np.dtype[np.generic]:
    """The numpy type of element type `code`; bf16 is held as float32."""
    name = dtype_name(code, label)
    return np.dtype(np.float32) if name == "bf16" else numpy_type(name)
