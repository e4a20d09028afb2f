"""Blocks of pixels and channels or images into each other: depth_to_space, space_to_depth, pixel_shuffle,
pixel_unshuffle, space_to_batch, batch_to_space.

All are of [N, C, H, W]. depth_to_space counts a channel as (row in block, column in block, channel of the result),
pixel_shuffle as (channel of the result, row in block, column in block).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.digits import Factors, rearranged
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering
from openane.ops.movement import place_for, select
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.pad import widened
from openane.ops.rules import MOVED
from openane.ops.slice import as_operands
from openane.ops.spec import Movement, Op, Parameter, Upstream
from openane.record_classes import dataclass

FACTOR = {"depth_to_space": "block_size", "space_to_depth": "block_size", "pixel_shuffle": "upscale_factor",
          "pixel_unshuffle": "downscale_factor"}
MARGIN = {"space_to_batch": "paddings", "batch_to_space": "crops"}
PARAMETERS = {
    **{name: (Parameter("x"), Parameter(factor, const=True, kind="index")) for name, factor in FACTOR.items()},
    **{name: (Parameter("x"), Parameter("block_shape", const=True, kind="int32"),
              Parameter(margin, const=True, kind="int32")) for name, margin in MARGIN.items()},
}


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Zeros added around H and W, how every dimension is split, which pieces make the dimensions of the result, and
    what is cut off its H and W. Pairs are (before, after)."""

    factors: Factors
    order: tuple[tuple[int, ...], ...]
    added: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    removed: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))

    def merged(self) -> tuple[int, ...]:
        """The shape before anything is cut off."""
        pieces = list(chain(*self.factors))
        return tuple(prod(pieces[i] for i in group) for group in self.order)

    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        n, c, h, w = self.merged()
        (top, bottom), (left, right) = self.removed
        return n, c, h - top - bottom, w - left - right


def shuffle(name: str, operands: Mapping[str, Operand]) -> Shuffle:
    """What the node does. GraphError when blocks do not divide x."""
    arguments = Arguments(name, PARAMETERS[name], operands)
    x = arguments.tensor("x", ELEMENTS, (4, 4))
    return _by_factor(arguments, x) if name in FACTOR else _by_batch(arguments, x)


def _by_factor(arguments: Arguments, x: Value) -> Shuffle:
    name, (n, c, h, w) = arguments.op, x.shape
    block = arguments.integer(FACTOR[name], 1, 1 << 15)
    if name in ("depth_to_space", "pixel_shuffle"):
        if c % (block * block):
            raise refusal(name, FACTOR[name], f"squared must divide the {c} channels of x", block)
        deep = c // (block * block)
        if name == "depth_to_space":
            return Shuffle(((n,), (block, block, deep), (h,), (w,)), ((0,), (3,), (4, 1), (5, 2)))
        return Shuffle(((n,), (deep, block, block), (h,), (w,)), ((0,), (1,), (4, 2), (5, 3)))
    if h % block or w % block:
        raise refusal(name, FACTOR[name], f"must divide the height and width of x, {h} and {w}", block)
    factors = ((n,), (c,), (h // block, block), (w // block, block))
    channel = (3, 5, 1) if name == "space_to_depth" else (1, 3, 5)
    return Shuffle(factors, ((0,), channel, (2,), (4,)))


def _by_batch(arguments: Arguments, x: Value) -> Shuffle:
    name, (n, c, h, w) = arguments.op, x.shape
    tall, wide = arguments.integers("block_shape", count=2, minimum=1) or (1, 1)
    data = arguments.constant(MARGIN[name])
    if not isinstance(data, np.ndarray) or data.shape != (2, 2) or (data < 0).any():
        raise refusal(name, MARGIN[name], "must hold (before, after) for height and width, none negative", data)
    margin = tuple((int(before), int(after)) for before, after in data)
    if name == "batch_to_space":
        if n % (tall * wide):
            raise refusal(name, "block_shape", f"must have a product that divides the batch of {n}", [tall, wide])
        found = Shuffle(((tall, wide, n // (tall * wide)), (c,), (h,), (w,)), ((2,), (3,), (4, 0), (5, 1)),
                        removed=margin)
        if min(found.shape()) < 1:
            raise refusal(name, "crops", f"must leave at least one element of {list(found.merged())}", data.tolist())
        return found
    high, long = h + sum(margin[0]), w + sum(margin[1])
    if high % tall or long % wide:
        raise refusal(name, "block_shape", f"must divide the padded height and width, {high} and {long}", [tall, wide])
    return Shuffle(((n,), (c,), (high // tall, tall), (long // wide, wide)), ((3, 5, 0), (1,), (2,), (4,)),
                   added=margin)


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    x = operands["x"]
    assert isinstance(x, Value)
    return (TensorType(x.dtype, shuffle(name, operands).shape()),)


def _reference(*, name: str, x: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    plan = shuffle(name, as_operands(x, settings))
    x = np.pad(x, ((0, 0), (0, 0), *plan.added))
    moved = x.reshape(tuple(chain(*plan.factors))).transpose(tuple(chain(*plan.order))).reshape(plan.merged())
    (top, _), (left, _) = plan.removed
    _, _, h, w = plan.shape()
    return (moved[:, :, top:top + h, left:left + w],)


def _lower(node: Node, lowering: Lowering) -> None:
    plan = shuffle(node.op, node.operands)
    source = lowering.native(node["x"])
    if any(chain(*plan.added)):
        source = widened(lowering, source, ((0, 0), (0, 0), *plan.added))
    shape = plan.merged()
    if shape == node.output.shape:
        rearranged(lowering, source, plan.factors, plan.order, place_for(lowering, node.output, source, shape))
        return
    whole = lowering.scratch(shape, None, source.dtype)
    rearranged(lowering, source, plan.factors, plan.order, lambda: whole)
    (top, _), (left, _) = plan.removed
    _, _, h, w = plan.shape()
    select(lowering, node.output, whole, {2: np.arange(top, top + h), 3: np.arange(left, left + w)})


INVERSE = {"depth_to_space": "space_to_depth", "pixel_shuffle": "pixel_unshuffle", "space_to_batch": "batch_to_space"}
INVERSE |= {second: first for first, second in INVERSE.items()}


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The inverse operation, with the same block; what was cut off is added as zeros and the other way round."""
    inverse = INVERSE[node.op]
    names = [parameter.name for parameter in PARAMETERS[node.op][1:]]
    others = [parameter.name for parameter in PARAMETERS[inverse][1:]]
    settings: dict[str, Any] = {other: node[name] for name, other in zip(names, others, strict=True)}
    return {"x": backward.single(inverse, x=only(upstream), **settings)}


MOVES = {"batch_to_space": Movement.PART, "space_to_batch": Movement.MIX}  # elements are cut off, zeros put around
OPS = tuple(Op(name, parameters, partial(_infer, name=name), partial(_reference, name=name), rules=MOVED, lower=_lower,
               gradient=_gradient, moves=MOVES.get(name, Movement.ORDER))
            for name, parameters in PARAMETERS.items())
