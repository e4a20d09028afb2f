"""PyTorch's operators on quantised numbers: those of its export quantisation (`quantized_decomposed`), of torchao, and
the rounding that training for it simulates (`fake_quantize`). Integers are fp16 on the engine: exact to 2048.

Those of more than 8 bits stay unrounded, as their steps are finer than those of fp16.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.graph import RoundedArray, Value
from openane.importers.step import rounded
from openane.importers.torch.step import Handler, Result, TorchStep, Unrounded, as_numpy
from openane.ops.halves import LARGEST

HELD_IN = {"uint8": (0, 255), "int8": (-128, 127)}
"""Types that hold what is quantised, and their ranges."""
BLOCKS = "one scale for the tensor, or one for each place along dimensions"


def _numbers(step: TorchStep, *names: str) -> np.ndarray:
    """A scale, zero point or bound by the first of its names that the operator has; 0 where it is absent."""
    name = next((name for name in names if name in step.arguments), names[0])
    found = step.constant(name, f"{name} of a quantisation")
    if hasattr(found, "detach"):
        return as_numpy(found).astype(np.float64)
    return np.asarray(0 if found is None else found, np.float64)


def _laid(step: TorchStep, numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers for a tensor of `shape`: one, one for each place along `axis`, or one for each of torchao's blocks."""
    rank = len(shape)
    if numbers.size == 1:
        return numbers.reshape((1,) * rank)
    if step.given("block_size"):
        counts = tuple(extent // block for extent, block in zip(shape, step.integers("block_size"), strict=True))
        if prod(counts) != numbers.size or any(count not in (1, extent)
                                               for count, extent in zip(counts, shape, strict=True)):
            raise step.refuse("block_size", list(step.integers("block_size")), BLOCKS)
        return numbers.reshape(counts)
    if step.given("axis"):
        axis = step.axis("axis", rank)
        return numbers.reshape(tuple(-1 if place == axis else 1 for place in range(rank)))
    return numbers


def _number(step: TorchStep) -> Value:
    found = step.value("input" if "input" in step.arguments else "self")
    return step.cast(found, "fp16")


def _scale_and_zero(step: TorchStep, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return (_laid(step, _numbers(step, "scale", "scales"), shape),
            _laid(step, _numbers(step, "zero_point", "zero_points"), shape))


def _quantize(step: TorchStep) -> Result:
    """round(x / scale) + zero point within the bounds, as integers; unrounded within what they stand for where 8 bits
    are too few."""
    x = _number(step)
    scale, zero = _scale_and_zero(step, x.shape)
    low, high = (float(_numbers(step, name)) for name in ("quant_min", "quant_max"))
    held = next((name for name, (least, most) in HELD_IN.items() if least <= low and high <= most), None)
    if held is None:
        return Unrounded(_within(step, x, (low - zero) * scale, (high - zero) * scale), None)
    units = step.add("mul", part="units", x=x, y=rounded(1 / scale, f"{step.label}: the reciprocal of a scale"))
    whole = step.add("round", part="rounded", x=units)
    if zero.any():
        whole = step.add("add", part="moved", x=whole, y=zero.astype(np.float16))
    return step.cast(step.add("clip", part="held", x=whole, alpha=low, beta=high), held)


def _within(step: TorchStep, x: Value, low: np.ndarray, high: np.ndarray) -> Value:
    least, most = (np.clip(bound, -LARGEST, LARGEST) for bound in (low, high))
    if least.size == 1:
        return step.add("clip", x=x, alpha=float(least.min()), beta=float(most.max()))
    return step.add("minimum", x=step.add("maximum", part="above", x=x, y=least.astype(np.float16)),
                    y=most.astype(np.float16))


def _dequantize(step: TorchStep) -> Result:
    """(x - zero point) * scale."""
    x = _number(step)
    return _real(step, x, *_scale_and_zero(step, x.shape))


def _real(step: TorchStep, x: Value, scale: np.ndarray, zero: np.ndarray) -> Value:
    if zero.any():
        x = step.add("sub", part="centred", x=x, y=zero.astype(np.float16))
    factor: RoundedArray = rounded(scale, f"{step.label}: a scale")
    return step.add("mul", x=x, y=factor)


def _simulated(step: TorchStep) -> Result:
    """Quantised and dequantised again."""
    found = _quantize(step)
    if isinstance(found, Unrounded):
        return found.value
    return _real(step, step.cast(found, "fp16", "again"), *_scale_and_zero(step, found.shape))


def _same_type(step: TorchStep) -> Result:
    return step.number("input")


def _product(step: TorchStep) -> Result:
    """A product of integers, which fp16 holds as far as range passes see to it."""
    x, y = (step.cast(step.value(name), "fp16", name) for name in ("self", "mat2"))
    return step.add("matmul", x=x, y=y)


_KINDS = ("per_tensor", "per_channel", "per_token")
QUANTIZE = (*(f"quantized_decomposed::quantize_{kind}" for kind in _KINDS), "torchao::quantize_affine")
DEQUANTIZE = (*(f"quantized_decomposed::dequantize_{kind}" for kind in _KINDS), "torchao::dequantize_affine")
_SIMULATING = ("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine",
               "quantized_decomposed::fake_quant_per_channel")

OPERATORS: Mapping[str, Handler] = {
    **dict.fromkeys(QUANTIZE, _quantize), **dict.fromkeys(DEQUANTIZE, _dequantize),
    **dict.fromkeys(_SIMULATING, _simulated),
    "quantized_decomposed::convert_element_type": _same_type, "_int_mm": _product}
