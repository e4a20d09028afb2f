"""ONNX operators on quantised numbers. Integers are fp16 on the engine: exact from -2048 to 2048."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.dtypes import INPUT_NAMES, NAMES
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.model import stated_type
from openane.importers.onnx.operators import matrices, windows
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result
from openane.ops.halves import LARGEST

RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1)}
FINE_RANGES = {"uint16": (0, 65535), "int16": (-32768, 32767)}
KNOWN_RANGES = {**RANGES, **FINE_RANGES}
"""What constants may be quantised to."""
HELD_IN = {name: INPUT_NAMES[name] for name in KNOWN_RANGES}
"""The type that holds what is quantised."""
LARGEST_SUM = 2.0 ** 14
"""Half of what the neural engine's accumulator holds."""
MEASURED = 128.0
"""What a scale that would be measured is taken to be where its numbers stay unrounded: a power of two, so that weights
of 8 bits divided by it are exact and small."""


def _spread(step: OnnxStep, operand: Operand, shape: tuple[int, ...]) -> Operand:
    """A scale or zero point of a tensor of `shape`: one number, one for each place along `axis`, or one for each block
    of it."""
    rank = len(shape)
    if operand.shape in ((), (1,)):
        return _reshaped(step, operand, (1,) * rank)
    axis = step.front(step.integer("axis", 1), rank)
    block = step.integer("block_size", 0)
    if not block:
        return _reshaped(step, operand, tuple(-1 if place == axis else 1 for place in range(rank)))
    if len(operand.shape) != rank or operand.shape[axis] * block < shape[axis]:
        raise GraphError(f"{step.label}: {list(operand.shape)} blocks of {block} do not fit {list(shape)}")
    places = np.arange(*bounded(step, (shape[axis],)), dtype=np.int32) // block
    if isinstance(operand, np.ndarray):
        return operand.take(places, axis)
    return step.add("gather", part="blocks", x=operand, indices=places, axis=axis)


def _reshaped(step: OnnxStep, operand: Operand, shape: tuple[int, ...]) -> Operand:
    if isinstance(operand, np.ndarray):
        return operand.reshape(shape)
    return step.add("reshape", part="shaped", x=operand, shape=shape)


def _real(step: OnnxStep, operand: Operand, index: int) -> Value:
    """An operand in fp16."""
    if isinstance(operand, np.ndarray):
        return step.constants.value(step.half(operand, index), f"{step.name}_{index}")
    return step.cast(operand, "fp16")


def dequantized(step: OnnxStep, index: int) -> Operand:
    """(x - zero point) * scale for the three inputs from `index` on; constants at once, in their precision; numbers
    that were not quantised after all as they are."""
    x = step.operand(index)
    if isinstance(x, Value) and x.dtype == "fp16" and step.unrounded:  # and not a small type that fp16 holds
        return x
    scale = _spread(step, step.operand(index + 1), x.shape)
    zero = _spread(step, step.operand(index + 2), x.shape) if step.has(index + 2) else None
    if not any(isinstance(operand, Value) for operand in (x, scale, zero)):
        assert isinstance(x, np.ndarray)
        assert isinstance(scale, np.ndarray)
        bounded(step, np.broadcast_shapes(x.shape, scale.shape))
        centred = x.astype(np.float32) - (zero.astype(np.float32) if isinstance(zero, np.ndarray) else np.float32(0))
        return step.constants.in_detail(np.asarray(centred * scale.astype(np.float32), np.float32))
    value = _real(step, x, index)
    if zero is not None and (isinstance(zero, Value) or zero.any()):
        value = step.add("sub", part="centred", x=value, y=_real(step, zero, index + 2))
    factor = step.rounded(scale, index + 1) if isinstance(scale, np.ndarray) else _real(step, scale, index + 1)
    return step.add("mul", x=value, y=factor)


def _dequantize(step: OnnxStep) -> Operand:
    return dequantized(step, 0)


def _target(step: OnnxStep, index: int, ranges: Mapping[str, tuple[int, int]] = RANGES) -> str:
    """The element type a quantisation makes: that of its zero point, of `output_dtype`, or uint8."""
    code = step.integer("output_dtype", 0)
    if code:
        name = NAMES.get(code, f"type {code}")
    elif step.has(index):
        zero = step.operand(index)
        name = stated_type(zero) if isinstance(zero, np.ndarray) else zero.dtype
    else:
        name = "uint8"
    if name not in ranges:
        raise UnsupportedError(step.label, "unsupported element type of the result", limit=", ".join(ranges),
                               found="floating point of 8 bits" if name.startswith("float") else name,
                               remedy="quantise to int8 or uint8: fp16 holds those exactly; 16 bits must be "
                                      "dequantised again")
    return name


def quantized(step: OnnxStep, value: Value, index: int) -> Value:
    """round(value / scale) + zero point, within the type, for scale and zero point from input `index` on."""
    name = _target(step, index + 1)
    scale = _spread(step, step.operand(index), value.shape)
    if isinstance(scale, Value):
        units = step.add("real_div", part="units", x=value, y=scale)
    else:
        units = step.add("mul", part="units", x=value, y=step.rounded(1 / scale.astype(np.float64), index))
    return _held(step, units, index + 1, name)


def _held(step: OnnxStep, units: Value, index: int, name: str) -> Value:
    """Whole units plus the zero point of input `index`, within the type `name`."""
    rounded = step.add("round", part="rounded", x=units)
    if step.has(index):
        zero = _spread(step, step.operand(index), units.shape)
        rounded = step.add("add", part="moved", x=rounded, y=_real(step, zero, index))
    low, high = RANGES[name]
    return step.cast(step.add("clip", part="held", x=rounded, alpha=float(low), beta=float(high)), HELD_IN[name])


def _quantize(step: OnnxStep) -> Operand:
    x, scale = step.operand(0), step.operand(1)
    zero = step.operand(2) if step.has(2) else np.zeros((), np.uint8)
    if isinstance(x, np.ndarray) and isinstance(scale, np.ndarray) and isinstance(zero, np.ndarray):
        return _quantized_constant(step, x, scale, zero)
    return _within(step) if step.unrounded else quantized(step, step.real(0), 1)


def _quantized_constant(step: OnnxStep, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The steps of a constant, as fp32 gives them."""
    name = _target(step, 2, KNOWN_RANGES)
    scale, zero = (_known_spread(step, each, x.shape) for each in (scale, zero))
    bounded(step, np.broadcast_shapes(x.shape, scale.shape))
    with np.errstate(all="ignore"):
        whole = np.rint(x.astype(np.float32) / scale.astype(np.float32)) + zero.astype(np.float32)
    held = np.clip(np.nan_to_num(whole), *KNOWN_RANGES[name])
    return np.asarray(held.astype(np.int32).astype(HELD_IN[name]))


def _known_spread(step: OnnxStep, operand: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    spread = _spread(step, operand, shape)
    assert isinstance(spread, np.ndarray), "constants stay constants"
    return spread


def _within(step: OnnxStep) -> Operand:
    """x within the range that 16 bits have for it, unrounded: fp16 has coarser steps than these."""
    x, name = step.real(0), _target(step, 2, FINE_RANGES)
    scale = step.array(1, "the scale of a quantisation").astype(np.float64)
    zero = step.array(2, "the zero point of a quantisation").astype(np.float64) if step.has(2) else np.zeros(())
    low, high = (np.clip((bound - zero) * scale, -LARGEST, LARGEST) for bound in FINE_RANGES[name])
    if low.size == 1:
        return step.add("clip", x=x, alpha=float(low.min()), beta=float(high.max()))
    least, most = (_real(step, _spread(step, bound, x.shape), 1) for bound in (low, high))
    return step.add("minimum", x=step.add("maximum", part="above", x=x, y=least), y=most)


def _centred(step: OnnxStep, index: int, zero: int, axis: int | None) -> Value:
    """Integers minus their zero point, in fp16; a vector of zero points lies along `axis`."""
    value = step.real(index)
    if not step.has(zero):
        return value
    point = step.real(zero)
    if axis is not None and point.type.elements > 1 and point.type.rank == 1:
        shape = [-1 if place == axis else 1 for place in range(value.type.rank)]
        point = step.add("reshape", part="points", x=point, shape=shape)
    elif point.type.elements == 1:
        point = step.add("reshape", part="point", x=point, shape=(1,) * value.type.rank)
    return step.add("sub", part="centred", x=value, y=point)


def _dynamically_quantized(step: OnnxStep) -> Result:
    """x as it is, with a scale that its products (_relative) are divided by; see importers.onnx.dynamic."""
    return step.real(0), np.array(MEASURED, np.float32), np.zeros((), np.float32)


def _is_relative(step: OnnxStep) -> bool:
    """Whether input 0 is a tensor that was not quantised after all."""
    return isinstance(x := step.operand(0), Value) and x.dtype == "fp16"


def _relative_weights(step: OnnxStep, axis: int) -> Operand:
    """Weights without their zero point, divided by the scale x is taken to have."""
    weight, zero = step.operand(1), step.operand(3) if step.has(3) else None
    if isinstance(weight, Value) or isinstance(zero, Value):
        return step.add("mul", part="weights", x=_centred(step, 1, 3, axis), y=1 / MEASURED)
    whole = weight.astype(np.float32)
    if zero is not None:
        whole = whole - zero.astype(np.float32).reshape([-1 if place == axis else 1 for place in range(whole.ndim)]
                                                        if zero.size > 1 else ())
    return np.asarray(whole / np.float32(MEASURED))


def _relative(step: OnnxStep, product: Handler, axis: int) -> Operand:
    """The product of numbers that were not rounded to their scale, in fp16 too."""
    made = product(replace(step, inputs=(step.operand(0), _relative_weights(step, axis)),
                           input_names=step.input_names[:2]))
    assert isinstance(made, Value)
    return made


def _matmul_integer(step: OnnxStep) -> Operand:
    if _is_relative(step):
        return _relative(step, matrices.OPERATORS["MatMul"], len(step.operand(1).shape) - 1)
    rank = len(step.operand(0).shape)
    x, y = _centred(step, 0, 2, rank - 2), _centred(step, 1, 3, len(step.operand(1).shape) - 1)
    return step.cast(step.add("matmul", part="product", x=x, y=y), "int32")


def _conv_integer(step: OnnxStep) -> Operand:
    if _is_relative(step):
        return _relative(step, windows.OPERATORS["Conv"], 0)
    x, weight = _centred(step, 0, 2, None), _centred(step, 1, 3, 0)
    product = windows.OPERATORS["Conv"](replace(step, inputs=(x, weight), input_names=step.input_names[:2]))
    assert isinstance(product, Value)
    return step.cast(product, "int32")


def _quantized_matmul(step: OnnxStep) -> Operand:
    """A layer of real numbers where the right side is known, whose sums count whole steps (ops.whole_sums)."""
    known = all(isinstance(step.operand(index), np.ndarray) for index in range(3, 6) if step.has(index))
    if not known or any(np.prod(step.operand(index).shape) > 1 for index in (1, 6)):
        return _product_of_integers(step)
    x = _real(step, dequantized(step, 0), 0)
    weight = dequantized(replace(step, attributes={"axis": len(step.operand(3).shape) - 1}), 3)
    product = matrices.OPERATORS["MatMul"](replace(step, inputs=(x, weight), input_names=[step.input_names[0],
                                                                                         step.input_names[3]]))
    assert isinstance(product, Value)
    return quantized(step, product, 6)


def _product_of_integers(step: OnnxStep) -> Operand:
    """Integers multiplied, and the product of the scales once behind: integers are exact, real numbers round. Halves of
    the right side keep sums below what the engine adds up."""
    rank = len(step.operand(0).shape)
    x, y = _centred(step, 0, 2, rank - 2), _centred(step, 3, 5, len(step.operand(3).shape) - 1)
    count = max(int(np.ceil(np.log2(255 * 255 * x.shape[-1] / LARGEST_SUM))), 0)
    halved = step.add("mul", part="halved", x=y, y=2.0 ** -count) if count else y
    scales = [step.array(index, "the scale of a quantisation").astype(np.float64) for index in (1, 4, 6)]
    left = scales[0].reshape(-1, 1) if scales[0].size > 1 else scales[0].reshape(())
    right = scales[1].reshape(-1) if scales[1].size > 1 else scales[1].reshape(())
    factor = step.rounded(left * right / scales[2].reshape(()) * 2.0 ** count, 1)
    units = step.add("mul", part="units", x=step.add("matmul", part="product", x=x, y=halved), y=factor)
    return _held(step, units, 7, _target(step, 7))


def _real_bias(step: OnnxStep) -> tuple[np.ndarray, ...]:
    """The bias of a quantised convolution, if it has one: it counts in units of both scales."""
    if not step.has(8):
        return ()
    units = [step.array(index, "the scale of a quantisation").astype(np.float64).reshape(-1) for index in (1, 4)]
    return ((step.array(8, "the bias of a quantised convolution") * units[0] * units[1]).astype(np.float32),)


def _quantized_conv(step: OnnxStep) -> Operand:
    x = _real(step, dequantized(step, 0), 0)
    weight = dequantized(replace(step, attributes={"axis": 0}), 3)
    product = windows.OPERATORS["Conv"](replace(step, inputs=(x, weight, *_real_bias(step)),
                                                input_names=[step.input_names[place] for place in (0, 3, 8)
                                                             if step.has(place)]))
    assert isinstance(product, Value)
    return quantized(step, product, 6)


OPERATORS: Mapping[str, Handler] = {
    "ConvInteger": _conv_integer, "DequantizeLinear": _dequantize, "DynamicQuantizeLinear": _dynamically_quantized,
    "MatMulInteger": _matmul_integer, "QLinearConv": _quantized_conv, "QLinearMatMul": _quantized_matmul,
    "QuantizeLinear": _quantize,
}
