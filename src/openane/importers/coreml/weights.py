"""Weights of neural network models: floats, halves, and numbers of 1 to 8 bits with scales or a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.formats.protobuf import Message


def weight_array(weights: Message, shape: Sequence[int], label: str, axis: int = 0) -> np.ndarray:
    """The array of `shape` a WeightParams message holds, fp32 or fp16; scales of quantised weights run along
    `axis`. FormatError when its size does not fit, UnsupportedError for weights that are quantised at run time."""
    count = _count(shape, label)
    kind = weights.which("floatValue", "float16Value", "rawValue", "int8RawValue")
    if kind == "rawValue":
        return _quantised(weights, count, shape, label, axis)
    if kind == "int8RawValue":
        raise UnsupportedError(label, "weights quantised together with their activations are not read",
                               found=kind, remedy="quantise the weights alone")
    dtype = np.dtype("<f2" if kind == "float16Value" else "<f4")
    data = getattr(weights, kind) if kind else b""
    if len(data) != count * dtype.itemsize:
        raise FormatError(f"{label}: weights do not fill {list(shape)}", expected=f"{count * dtype.itemsize} bytes",
                          found=len(data))
    return np.frombuffer(data, dtype).reshape(shape)


def _count(shape: Sequence[int], label: str) -> int:
    count = 1
    for extent in shape:
        if extent < 1:
            raise FormatError(f"{label}: not a shape of weights", expected="extents of 1 or more", found=list(shape))
        count *= extent
    return count


def _quantised(weights: Message, count: int, shape: Sequence[int], label: str, axis: int) -> np.ndarray:
    form, data = weights.quantization, weights.rawValue
    bits = form.numberOfBits
    if not 1 <= bits <= 8 or len(data) != (count * bits + 7) // 8:
        raise FormatError(f"{label}: quantised weights do not fill {list(shape)}",
                          expected=f"{(count * bits + 7) // 8} bytes of 1 to 8 bits each",
                          found=f"{len(data)} bytes of {bits} bits each")
    single = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits).reshape(count, bits)
    numbers = np.packbits(np.pad(single, ((0, 0), (8 - bits, 0))), axis=1)[:, 0].reshape(shape)
    if "lookupTableQuantization" in form:
        table = np.frombuffer(form.lookupTableQuantization.floatValue, "<f4")
        if table.size != 2**bits:
            raise FormatError(f"{label}: table of quantised weights", expected=f"{2**bits} entries", found=table.size)
        return table[numbers]
    scale, bias = (np.frombuffer(each, "<f4") for each in (form.linearQuantization.scale, form.linearQuantization.bias))
    bias = bias if bias.size else np.zeros(1, np.float32)
    for each in (scale, bias):
        if each.size not in (1, shape[axis]):
            raise FormatError(f"{label}: scales of quantised weights", expected=f"1 or {shape[axis]}", found=each.size)
    along = [-1 if each == axis else 1 for each in range(len(shape))]
    return np.asarray(numbers * scale.reshape(along) + bias.reshape(along), np.float32)
