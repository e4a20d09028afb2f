"""quantize: numbers as 8-bit integers, clip(round(input / scale) + zero_point); and dequantize, the way back.

Scale and zero point are one number or one per position of `axis`. Halves round to even. On the engine both are chains
of elementwise operations on fp16, which holds every 8-bit integer: the quotient is rounded to fp16 before it is
rounded to an integer, so an input within 2^-11 of a half may end one unit off.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType, Value, numpy_type
from openane.ops.compressed import BYTES, FLOATS
from openane.ops.constexpr_affine_dequantize import along
from openane.ops.gradients import stopped
from openane.ops.operands import Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import MOVED
from openane.ops.spec import Op, Parameter

COMMON = (Parameter("input"), Parameter("scale", const=True, kind="own"),
          Parameter("zero_point", const=True, default=None, kind="own"),
          Parameter("axis", const=True, default=None, kind="int32"))
QUANTIZE = (*COMMON, Parameter("output_dtype", const=True, kind="string"))


def _vectors(arguments: Arguments, x: Value, scales: tuple[str, ...], points: tuple[str, ...]) -> Value:
    """The scale, once it and the zero point are known to fit the input. GraphError when they do not."""
    scale = arguments.tensor("scale", scales, (0, 1))
    shape: tuple[int, ...] = ()
    if scale.type.rank:
        if not arguments.given("axis") or not x.type.rank:
            raise refusal(arguments.op, "axis", "must be given when scale is a vector")
        shape = (x.shape[arguments.axis("axis", x.type.rank)],)
    elif arguments.given("axis"):
        raise refusal(arguments.op, "axis", "must be left out when scale is one number")
    if scale.shape != shape:
        raise refusal(arguments.op, "scale", f"must have shape {list(shape)}", scale.type)
    if not scale.array().all():
        raise refusal(arguments.op, "scale", "must not be 0")
    if arguments.given("zero_point") and arguments.tensor("zero_point", points).shape != shape:
        raise refusal(arguments.op, "zero_point", f"must have shape {list(shape)}")
    return scale


def _infer_quantize(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("quantize", QUANTIZE, operands)
    x, dtype = arguments.tensor("input", FLOATS), arguments.text("output_dtype", BYTES)
    _vectors(arguments, x, (x.dtype,), (dtype,))
    return (TensorType(dtype, x.shape),)


def _infer_dequantize(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("dequantize", COMMON, operands)
    x = arguments.tensor("input", BYTES)
    return (TensorType(_vectors(arguments, x, FLOATS, (x.dtype,)).dtype, x.shape),)


def _laid(values: np.ndarray | None, axis: np.ndarray | None, rank: int) -> np.ndarray:
    """A scalar or vector operand as a tensor that broadcasts, float32; 0 when left out."""
    if values is None or values.ndim == 0:
        return np.float32(0 if values is None else values) * np.ones((), np.float32)
    return along(values.astype(np.float32), 0 if axis is None else int(axis), rank)


def _quantize(*, input: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None, axis: np.ndarray | None,
              output_dtype: str) -> tuple[np.ndarray, ...]:
    dtype = numpy_type(output_dtype)
    limits = np.iinfo(dtype.str)
    whole = np.rint(input / _laid(scale, axis, input.ndim)) + _laid(zero_point, axis, input.ndim)
    return (np.clip(np.nan_to_num(whole), limits.min, limits.max).astype(dtype),)


def _dequantize(*, input: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None,
                axis: np.ndarray | None) -> tuple[np.ndarray, ...]:
    shift = input.astype(np.float32) - _laid(zero_point, axis, input.ndim)
    return (np.asarray(shift * _laid(scale, axis, input.ndim), np.float32),)


def _operand(node: Node, name: str, dtype: str) -> np.ndarray | None:
    """A scale or zero point in the element type of the arithmetic, laid along its axis; None for no shift at all."""
    value = node.get(name)
    if value is None or not value.array().any():
        return None
    axis = node.get("axis")
    laid = _laid(value.array(), None if axis is None else axis.array(), node["input"].type.rank)
    return laid.astype(numpy_type(dtype))


def _decompose_quantize(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Quotient, rounding, shift, limits, and a cast that then has nothing to cut off."""
    x, limits = node["input"], np.iinfo(numpy_type(node.output.dtype).str)
    kind = numpy_type(x.dtype).type
    y = rewriter.single("round", x=rewriter.single("real_div", x=x, y=_operand(node, "scale", x.dtype)))
    zero = _operand(node, "zero_point", x.dtype)
    y = y if zero is None else rewriter.single("add", x=y, y=zero)
    y = rewriter.single("clip", x=y, alpha=kind(limits.min), beta=kind(limits.max))
    return (rewriter.single("cast", x=y, dtype=node.output.dtype),)


def _decompose_dequantize(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """The integers as numbers, shifted, scaled."""
    dtype = node.output.dtype
    y, zero = rewriter.single("cast", x=node["input"], dtype=dtype), _operand(node, "zero_point", dtype)
    y = y if zero is None else rewriter.single("sub", x=y, y=zero)
    return (rewriter.single("mul", x=y, y=_operand(node, "scale", dtype)),)


OPS = (Op("quantize", QUANTIZE, _infer_quantize, _quantize, rules=MOVED, decompose=_decompose_quantize,
          gradient=stopped),
       Op("dequantize", COMMON, _infer_dequantize, _dequantize, rules=MOVED, decompose=_decompose_dequantize,
          gradient=stopped))
