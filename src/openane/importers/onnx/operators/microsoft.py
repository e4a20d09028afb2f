"""Operators of onnxruntime's own domain, com.microsoft, which its optimiser and its quantiser write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.composites import swish
from openane.importers.onnx.model import stated_type
from openane.importers.onnx.operators import indexing, matrices, norms, quantized, recurrent, windows
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result

ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}


def dequantised(step: OnnxStep, weights: int, scale: int, zero: int, axis: int) -> np.ndarray:
    """Constant weights as real numbers, float32; scale and zero point are one number, or one along `axis`."""
    whole = step.array(weights, "quantised weights").astype(np.float32)
    parts = [step.array(index, what).astype(np.float32) if step.has(index) else np.zeros(1, np.float32)
             for index, what in ((scale, "the scale of weights"), (zero, "the zero point of weights"))]
    shape = [-1 if place == axis else 1 for place in range(whole.ndim)]
    factor, centre = (part.reshape(()) if part.size == 1 else part.reshape(shape) for part in parts)
    return np.asarray((whole - centre) * factor, np.float32)


def _given(step: OnnxStep, inputs: Sequence[Operand | None], **changes: object) -> OnnxStep:
    """The step with other inputs."""
    return replace(step, inputs=inputs, input_names=[step.name] * len(inputs), **changes)  # type: ignore[arg-type]


def _optional(step: OnnxStep, index: int) -> Operand | None:
    return step.operand(index) if step.has(index) else None


def _quantised_lstm(step: OnnxStep) -> Result:
    """An LSTM whose weights [directions, features, gates] are integers with scales per direction, or per gate too."""
    weights = []
    for index, scale in ((1, 8), (2, 10)):
        whole = step.array(index, "quantised weights")
        parts = [step.array(place, "scales and zero points of weights").astype(np.float32)
                 for place in (scale, scale + 1)]
        factor, centre = (part.reshape(len(whole), 1, -1) if part.size > 1 else part.reshape(1, 1, 1)
                          for part in parts)
        weights.append(((whole.astype(np.float32) - centre) * factor).transpose(0, 2, 1))
    inputs = [_optional(step, 0), *weights, *(_optional(step, index) for index in range(3, 8))]
    return recurrent.OPERATORS["LSTM"](_given(step, inputs, op="LSTM", version=14))


def _quantised_product(step: OnnxStep) -> Operand:
    """x times quantised weights (inputs 1, 2, 3), plus input 4."""
    product = matrices.OPERATORS["MatMul"](_given(step, [step.real(0), dequantised(step, 1, 2, 3, 1)], op="MatMul"))
    assert isinstance(product, Value)
    return step.add("add", part="biased", x=product, y=step.value(4)) if step.has(4) else product


def _block_quantised_product(step: OnnxStep) -> Operand:
    """x times weights [outputs, blocks, bytes] of 2, 4 or 8 bits, low bits first, a scale and a zero point for each
    block of an output's row (inputs 2 and 3), plus input 5."""
    bits, rows, length = (step.integer(name, default) for name, default in (("bits", 4), ("N", 0), ("K", 0)))
    packed = step.array(1, "quantised weights")
    if bits not in (2, 4, 8) or packed.ndim != 3 or len(packed) != rows or step.has(4):
        raise step.refuse("bits", bits, "2, 4 or 8, weights [N, blocks, bytes], and no order of columns (g_idx)")
    blocks = packed.shape[1]
    whole = _bits(packed.reshape(rows, -1), bits).reshape(rows, blocks, -1).astype(np.float32)
    scales = step.array(2, "the scales of weights").astype(np.float32).reshape(rows, blocks, 1)
    centred = whole - _block_zeros(step, bits, rows, blocks)
    weight = (centred * scales).reshape(rows, -1)[:, :length]
    product = matrices.OPERATORS["MatMul"](_given(step, [step.real(0), np.ascontiguousarray(weight.T)], op="MatMul"))
    assert isinstance(product, Value)
    return step.add("add", part="biased", x=product, y=step.real(5)) if step.has(5) else product


def _block_zeros(step: OnnxStep, bits: int, rows: int, blocks: int) -> np.ndarray:
    """The zero point of every block: the middle of the range unless stated, packed like weights or as numbers."""
    if not step.has(3):
        return np.full((1, 1, 1), 2 ** (bits - 1), np.float32)
    zeros = step.array(3, "the zero points of weights")
    found = _bits(zeros.reshape(rows, -1), bits)[:, :blocks] if zeros.dtype == np.uint8 else zeros
    return np.asarray(found.reshape(rows, blocks, 1), np.float32)


def _bits(packed: np.ndarray, bits: int) -> np.ndarray:
    """Rows of bytes as rows of numbers of 2, 4 or 8 bits, low bits first."""
    single = np.unpackbits(packed, axis=-1, bitorder="little").reshape(len(packed), -1, bits)
    return np.packbits(single, axis=-1, bitorder="little")[..., 0]


def _block_quantised_rows(step: OnnxStep) -> Operand:
    """Rows of a table of 4 or 8 bits with a scale, and a zero point (inputs 2 and 3), for each block of an axis. Bytes
    of 4 bits hold two numbers, low bits first, from the middle of their range on unless a zero point is stated."""
    table, scales = step.array(0, "a quantised table"), step.array(2, "the scales of a table")
    zeros = step.array(3, "the zero points of a table") if step.has(3) else None
    if stated_type(table) == "uint8":
        bits = step.integer("bits", 4)
        if bits not in (4, 8) or step.front(step.integer("quantize_axis", 1), table.ndim) != table.ndim - 1:
            raise step.refuse("bits", bits, "4 or 8, in blocks of the last axis")
        table = _unpacked(table, bits)
        zeros = np.full(scales.shape, 2 ** (bits - 1), np.uint8) if zeros is None else _unpacked(zeros, bits)
        zeros = zeros[..., :scales.shape[-1]]
    parts = [table, scales, *(() if zeros is None else (zeros,))]
    rows = quantized.dequantized(_given(step, parts, attributes={
        "axis": step.integer("quantize_axis", 1), "block_size": step.integer("block_size", 128)}), 0)
    return indexing.OPERATORS["Gather"](_given(step, [rows, step.operand(1)], op="Gather", attributes={
        "axis": step.integer("gather_axis", 0)}))  # type: ignore[return-value]


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Bytes along the last axis as numbers of 4 or 8 bits."""
    return _bits(packed.reshape(-1, packed.shape[-1]), bits).reshape(*packed.shape[:-1], -1)


def _fused_product(step: OnnxStep) -> Operand:
    """alpha * A' * B', ' exchanging the last two dimensions."""
    if step.integer("transBatchA", 0) or step.integer("transBatchB", 0):
        raise step.refuse("transBatchA", 1, "0: exchange the dimensions with a Transpose before it")
    product = step.add("matmul", part="product", x=step.value(0), y=step.value(1),
                       transpose_x=bool(step.integer("transA", 0)), transpose_y=bool(step.integer("transB", 0)))
    alpha = step.real_attribute("alpha", 1.0)
    return product if alpha == 1 else step.add("mul", x=product, y=alpha)


def _gelu(mode: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        x = step.real(0)
        x = step.add("add", part="biased", x=x, y=step.real(1)) if step.has(1) else x
        return step.add("gelu", x=x, mode=mode)
    return handler


def _quick_gelu(step: OnnxStep) -> Operand:
    return swish(step, step.real(0), step.real_attribute("alpha", 1.702))


def _sum(step: OnnxStep, bias: int) -> Value:
    """The input plus what skipped layers, plus a bias."""
    total = step.add("add", part="sum", x=step.real(0), y=step.real(1))
    return step.add("add", part="sum_biased", x=total, y=step.real(bias)) if step.has(bias) else total


def _skip_layer_norm(step: OnnxStep) -> Result:
    """Layer norm of x + skip + bias, and that sum."""
    total = _sum(step, 4)
    inner = _given(step, [total, step.operand(2), _optional(step, 3)], op="LayerNormalization",
                   attributes={"axis": -1, "epsilon": step.real_attribute("epsilon", 1e-5)}, outputs=step.outputs[:1])
    normal = norms.OPERATORS["LayerNormalization"](inner)
    first = normal[0] if isinstance(normal, tuple) else normal
    return _with_sum(step, first, total)


def _skip_root_mean_square(step: OnnxStep) -> Result:
    """The same with a norm that subtracts no mean."""
    total = _sum(step, 3)
    return _with_sum(step, _normal(step, total, step.operand(2)), total)


def _with_sum(step: OnnxStep, first: Operand, total: Value) -> Result:
    if any(step.uses(index) for index in (1, 2)):
        raise UnsupportedError(step.label, "mean and deviation are not computed apart", found="output 1 or 2",
                               remedy="leave those outputs unused")
    return (first, total, total, total)


def _normal(step: OnnxStep, x: Value, scale: Operand) -> Operand:
    inner = _given(step, [x, scale], op="RMSNormalization", attributes={
        "axis": -1, "epsilon": step.real_attribute("epsilon", 1e-5)}, outputs=step.outputs[:1])
    made = norms.OPERATORS["RMSNormalization"](inner)
    assert not isinstance(made, tuple)
    return made


def _root_mean_square(step: OnnxStep) -> Operand:
    return _normal(step, step.real(0), step.operand(1))


def _fused_conv(step: OnnxStep) -> Operand:
    """A convolution, the sum with input 3, an activation."""
    made = windows.OPERATORS["Conv"](_given(step, [step.operand(0), step.operand(1), _optional(step, 2)], op="Conv"))
    assert isinstance(made, Value)
    made = step.add("add", part="sum", x=made, y=step.value(3)) if step.has(3) else made
    name = step.text("activation", "")
    if not name:
        return made
    if name not in ACTIVATIONS:
        raise step.refuse("activation", name, f"one of {', '.join(ACTIVATIONS)}")
    return step.add(ACTIVATIONS[name], x=made)


DOMAIN = "com.microsoft"
OPERATORS: Mapping[str, Handler] = {"SimplifiedLayerNormalization": _root_mean_square} | {
    f"{DOMAIN}:{name}": handler for name, handler in {
        "BiasGelu": _gelu("EXACT"), "DequantizeLinear": quantized.OPERATORS["DequantizeLinear"],
        "DynamicQuantizeLSTM": _quantised_lstm,
        "DynamicQuantizeMatMul": _quantised_product, "FastGelu": _gelu("TANH_APPROXIMATION"), "FusedConv": _fused_conv,
        "FusedMatMul": _fused_product, "GatherBlockQuantized": _block_quantised_rows, "Gelu": _gelu("EXACT"),
        "MatMulNBits": _block_quantised_product,
        "QuantizeLinear": quantized.OPERATORS["QuantizeLinear"],
        "QuickGelu": _quick_gelu,
        "SimplifiedLayerNormalization": _root_mean_square, "SkipLayerNormalization": _skip_layer_norm,
        "SkipSimplifiedLayerNormalization": _skip_root_mean_square}.items()}
"""Handlers by domain and operator; onnxruntime writes the norm without a mean into the standard domain too."""
