"""The same elementwise operation with its loops in another order, so that its result can be written in another
layout."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from openane.chips import Limits
from openane.compiler.loops.assign import OperandRole, legal
from openane.engine import Access, Convolution, Elementwise, GainOffset, Operation, PassThrough, Post
from openane.engine.access import CHANNELS, WIDTH


def packing_copy(operation: Operation) -> Access | None:
    """What an operation reads that does nothing but write it interleaved, as coefficients; None for others."""
    if isinstance(operation, Elementwise):
        plain = operation == Elementwise(first=operation.first, result=operation.result)
        read = operation.first
    elif isinstance(operation, PassThrough):
        plain = operation.post == Post() and operation.coefficients is None and not operation.input_relu
        read = operation.source
    else:
        return None
    return read if plain and operation.result.interleave > 1 and read.copy is None and read.interleave == 1 else None


def written_as(maker: Operation, read: Access, result: Access, limits: Limits) -> Operation | None:
    """`maker` writing to `result` what a copy from `read` to it would, or None where that cannot be.

    Apple's softmax writes its last product so, as the coefficients of the product that follows. That products with
    constant weights do it too follows from the number of tasks in Apple's transformer blocks: none are left for copies.
    """
    order = _order(maker.result, read)
    if order is None or maker.result.dtype is not read.dtype or maker.result.copy is not None:
        return None
    if isinstance(maker, Convolution | PassThrough):
        return _written_by_neural(maker, order, result)
    if not isinstance(maker, Elementwise | GainOffset) or result.packed != CHANNELS \
            or (isinstance(maker, GainOffset) and order != tuple(range(5))):
        return None
    first = _turned(maker.first, order)
    second = None if maker.second is None else _turned(maker.second, order)
    walks = all(legal(replace(access, copy=None), OperandRole.PLANAR_SOURCE, limits) for access in (first, second)
                if access is not None)
    return replace(maker, first=first, second=second, result=result) if walks else None


def _written_by_neural(maker: Convolution | PassThrough, order: tuple[int, ...], result: Access) -> Operation | None:
    """The neural engine's loops are what they are: the result's are put in their order."""
    back = tuple(order.index(axis) for axis in range(5))
    if back[CHANNELS] not in (CHANNELS, WIDTH) or back[WIDTH] not in (CHANNELS, WIDTH):
        return None
    packed = order[result.packed]
    n, c, d, h, w = (result.strides[axis] for axis in back)
    return replace(maker, result=replace(result, shape=maker.result.shape, strides=(n, c, d, h, w), packed=packed))


def _order(made: Access, read: Access) -> tuple[int, ...] | None:
    """For each loop of `read` the loop of `made` that walks the same elements; None where they differ."""
    if (made.slot, made.offset) != (read.slot, read.offset):
        return None
    loops, found = list(zip(made.shape, made.strides, strict=True)), list(zip(read.shape, read.strides, strict=True))
    if Counter(loops) != Counter(found):
        return None
    places = {loop: iter([axis for axis in range(5) if loops[axis] == loop]) for loop in found}
    return tuple(next(places[loop]) for loop in found)


def _turned(access: Access, order: tuple[int, ...]) -> Access:
    if order == tuple(range(5)):
        return access
    copy = None if access.copy is None else _turned(access.copy, order)
    n, c, d, h, w = order
    shape, strides = access.shape, access.strides
    return replace(access, shape=(shape[n], shape[c], shape[d], shape[h], shape[w]), copy=copy,
                   strides=(strides[n], strides[c], strides[d], strides[h], strides[w]))
