"""Weights of 8 bits in safetensors files, as real numbers: what Hugging Face's directories hold beside the integers.

    compressed-tensors    NAME.weight int8, NAME.weight_scale (one number, one for each row, or for each block of a
                          row), NAME.weight_zero_point where there is an offset
    bitsandbytes          NAME.weight int8 and NAME.SCB, the largest magnitude of each row, which 127 stands for

Activations of 8 bits that such a directory asks for are not rounded: they stay fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import numpy as np

from openane.errors import FormatError, UnsupportedError

LARGEST = 127
WEIGHT, SCALE, ZERO, ROWS = "weight", "weight_scale", "weight_zero_point", "SCB"
BESIDE = (SCALE, ZERO, ROWS, "weight_format", "weight_shape", "input_scale", "input_zero_point", "output_scale",
          "output_zero_point")
"""Last parts of the names of tensors that say how weights of 8 bits are meant."""
OTHERS = {"weight_packed": "weights packed into words (compressed-tensors)", "qweight": "weights of GPTQ or AWQ",
          "absmax": "weights of 4 bits (bitsandbytes)", "weight_scale_inv": "weights of fp8 in blocks",
          "g_idx": "weights whose columns are reordered (GPTQ)", "weight_g_idx": "weights whose columns are reordered"}
"""Last parts of the names of tensors of forms that are not read, and what they are."""
METHODS = "compressed-tensors of the format int-quantized, bitsandbytes with load_in_8bit"
REMEDY = "save the model with float weights (dequantize() of transformers), or import it from ONNX"


def require_readable(names: Iterable[str]) -> None:
    """UnsupportedError for tensors of a compressed form that is not read."""
    for name in names:
        last = name.rpartition(".")[2]
        if last in OTHERS:
            raise UnsupportedError(f"tensor {name!r}", f"{OTHERS[last]} are not read", limit=METHODS, remedy=REMEDY)


def is_readable(configuration: Any) -> bool:
    """Whether a quantization_config of a config.json asks for weights that are read: its tensors then say the rest."""
    if not isinstance(configuration, Mapping):
        return False
    method = configuration.get("quant_method")
    if method == "compressed-tensors":
        return configuration.get("format") == "int-quantized"
    return method == "bitsandbytes" and bool(configuration.get("load_in_8bit"))


def is_beside(name: str, known: Container[str]) -> bool:
    """Whether a tensor says how the weight of its layer is meant."""
    front, dot, last = name.rpartition(".")
    return last in BESIDE and f"{front}{dot}{WEIGHT}" in known


def scales_of(name: str, known: Container[str]) -> tuple[str, ...]:
    """The names of tensors that say what the int8 tensor `name` stands for, of those that are `known`."""
    front, dot, last = name.rpartition(".")
    if last != WEIGHT:
        return ()
    return tuple(found for part in (SCALE, ZERO, ROWS) if (found := f"{front}{dot}{part}") in known)


def real(name: str, integers: np.ndarray, beside: tuple[str, ...], read: Callable[[str], np.ndarray]) -> np.ndarray:
    """The float32 numbers that int8 `integers` stand for, by the tensors `beside` them. FormatError where these do not
    fit."""
    parts = {each.rpartition(".")[2]: read(each).astype(np.float32) for each in beside}
    if ROWS in parts:
        return np.asarray(integers * _spread(name, parts[ROWS] / np.float32(LARGEST), integers.shape), np.float32)
    if SCALE not in parts:
        raise FormatError(f"tensor {name!r}", expected=f"a {SCALE} beside it", found="none")
    centred = integers.astype(np.float32)
    if ZERO in parts:
        centred = centred - _spread(name, parts[ZERO], integers.shape)
    return np.asarray(centred * _spread(name, parts[SCALE], integers.shape), np.float32)


def _spread(name: str, scale: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A scale as one that multiplies a tensor of `shape`: for each row, or for each block of rows' columns."""
    if scale.size == 1:
        return scale.reshape(())
    blocks = scale.size // shape[0] if shape and scale.shape[0] == shape[0] else 0
    columns = int(np.prod(shape[1:]))
    if not blocks or columns % blocks:
        raise FormatError(f"tensor {name!r}", expected=f"a scale for each of {shape[0] if shape else 1} rows, or for "
                          "equal blocks of them", found=f"scales {list(scale.shape)}")
    return np.repeat(scale.reshape(-1, blocks), columns // blocks, axis=1).reshape(shape)
