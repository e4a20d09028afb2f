"""Operations that multiply by weights, as those see them who fold into weights, or want none to be constants."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from openane.graph import Node, RoundedArray, RoundedConstant, TensorType, Value, mil_type, numpy_type
from openane.ops.half_bits import to_half
from openane.ops.halves import SMALLEST
from openane.ops.operands import Arguments, refusal
from openane.ops.rewriter import Rewriter


def constant(name: str, array: np.ndarray, like: Value) -> Value:
    """A constant of the element type of `like`; numbers beyond it become infinite."""
    with np.errstate(over="ignore"):
        data = np.asarray(array).astype(numpy_type(like.dtype), copy=False)
    return Value(name, TensorType(mil_type(data.dtype), data.shape), data)


def numbers(value: Value) -> np.ndarray:
    """A constant's numbers, in all digits the model states."""
    return value.digits() if isinstance(value, RoundedConstant) else value.array()


def scale_of(arguments: Arguments) -> float:
    """The scale of a norm, 1 where none is given; GraphError for one that is no power of two."""
    scale = arguments.number("scale") if arguments.given("scale") else 1.0
    if not (scale > 0 and math.frexp(scale)[0] == 0.5):
        raise refusal(arguments.op, "scale", "must be a power of two", scale)
    return scale


def kept_from_zero(epsilon: float) -> RoundedArray:
    """What keeps a norm from dividing by 0: in fp16 no less than its smallest number, and in all its digits, which
    count where tensors are held times a power of two."""
    half = np.array(max(epsilon, SMALLEST)).astype(np.float16)
    return RoundedArray(half, np.array(epsilon, np.float32))


def rounded(name: str, array: np.ndarray, like: Value, digits: bool = False) -> Value:
    """A constant of the element type of `like`, which keeps the digits that are rounded away where `like` does, or with
    `digits`."""
    dtype = numpy_type(like.dtype)
    data = to_half(array) if dtype == np.float16 else np.asarray(array, dtype)
    made = Value(name, TensorType(mil_type(dtype), data.shape), data)
    return RoundedConstant(name, made.type, data, stated=array) if digits or isinstance(like, RoundedConstant) else made


def as_it_is(node: Node, name: str) -> Node | None:
    """A node that has its weight and bias, where they are constants."""
    weight, bias = node.get("weight"), node.get("bias")
    fixed = weight is not None and weight.constant and (bias is None or bias.constant)
    return node if fixed else None


def channels_first(weight: np.ndarray, channels: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """A weight [channels, ...], and the shape of a vector of channels beside it."""
    return weight, (-1, *(1,) * (weight.ndim - 1))


def bias_behind(node: Node) -> tuple[Node, ...]:
    """A node whose channels are the second dimension without its constant bias, and the sum with that."""
    bias, result = node["bias"], node.output
    plain = replace(result, name=f"{result.name}_without_bias")
    shape = (1, bias.type.elements, *(1,) * (len(result.shape) - 2))
    vector = Value(f"{result.name}_bias", TensorType(bias.dtype, shape), bias.array().reshape(shape))
    operands = {key: operand for key, operand in node.operands.items() if key != "bias"}
    return (replace(node, operands=operands, outputs=(plain,), name=plain.name),
            Node("add", {"x": plain, "y": vector}, node.outputs, node.name, node.source))


def without(node: Node, rewriter: Rewriter, names: Collection[str]) -> Value:
    """The node without some operands."""
    kept: dict[str, Any] = {name: operand for name, operand in node.operands.items() if name not in names}
    return rewriter.single(node.op, **kept)


def by_channel(rewriter: Rewriter, function: str, x: Value, vector: Value | None) -> Value:
    """x [N, C, ...] combined with one number per channel, if there is any."""
    if vector is None:
        return x
    shape = [x.shape[1], *(1,) * (x.type.rank - 2)]
    return rewriter.single(function, x=x, y=rewriter.single("reshape", x=vector, shape=shape))


def normalised_alone(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """A normalisation of channels without its gain and offset, then these."""
    result = without(node, rewriter, ("gamma", "beta"))
    scaled = by_channel(rewriter, "mul", result, node.get("gamma"))
    return (by_channel(rewriter, "add", scaled, node.get("beta")),)
