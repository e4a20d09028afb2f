"""Products on the engine: rows times constant weights, constant weights times columns, runtime times runtime."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import overload

import numpy as np

from openane.graph import Node, Value
from openane.ops.lowering import Lowering, Tensor
from openane.ops.shaped import read_as, written_as

Matrices = Tensor | np.ndarray
"""Matrices [..., rows, columns]: computed by the program, or constant."""


def lower_rows(node: Node, lowering: Lowering, x: Value, weights: np.ndarray, bias: np.ndarray | None,
               transposed: bool = False) -> None:
    """result = x [..., K] @ weights [K, N] + bias, with what follows fused; `transposed`: x is one matrix [K, M].

    A flattened image is read as it lies: the product is a convolution whose kernel covers the image.
    """
    value, post, table = lowering.followers(node)
    reduction, columns = weights.shape
    rows = prod(x.shape) // reduction
    if transposed:
        matrix = read_as(lowering, lowering.read(x), (reduction, rows))
        lowering.rows_product(value, matrix.transpose((1, 0)), weights, bias, post, table)
        return
    seen = lowering.unshaped(x)
    image = as_image(seen, rows, reduction)
    if image is not None and max(image.shape[2:]) <= min(lowering.limits.kernel_height, lowering.limits.kernel_width):
        kernels = weights.T.reshape(columns, *image.shape[1:])
        with written_as(lowering, lowering.result(value), (rows, columns)) as target:
            pixels = target.seen(target.offset, (rows, columns, 1, 1), (*target.strides, 0, 0))
            lowering.convolution(pixels, image, kernels, bias, post=post, table=table)
        return
    source = seen if _pixels_of(seen, rows, reduction) else read_as(lowering, lowering.read(x), (rows, reduction))
    lowering.rows_product(value, source, weights, bias, post, table)


def lower_columns(node: Node, lowering: Lowering, weights: np.ndarray, y: Value) -> None:
    """result = weights [M, K] @ y [..., K, N]: a 1x1 convolution with K channels over N pixels."""
    value, post, table = lowering.followers(node)
    batch, (reduction, columns) = prod(y.shape[:-2]), y.shape[-2:]
    source = read_as(lowering, lowering.read(y), (batch, reduction, 1, columns))
    with written_as(lowering, lowering.result(value), (batch, weights.shape[0], 1, columns)) as target:
        lowering.convolution(target, source, weights[:, :, None, None], None, post=post, table=table)


def lower_batches(node: Node, lowering: Lowering, x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> None:
    """result = x @ y, batch by batch; a rank-1 operand is a row (x) or a column (y). A constant operand's matrices
    become coefficients."""
    left = _matrices(lowering, x, (1, *x.shape), transpose_x)
    right = _matrices(lowering, y, (*y.shape, 1), transpose_y)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    value, post, table = lowering.followers(node, tables=x.constant or y.constant)
    a, b = (_expanded(operand, batch) for operand in (left, right))
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        lowering.runtime_product(value, a, b, post)
        return
    with written_as(lowering, lowering.result(value), (*batch, left.shape[-2], right.shape[-1])) as target:
        for index in reversed(list(np.ndindex(*batch))):
            place, first, second = _at(target, index), _at(a, index), _at(b, index)
            if isinstance(second, np.ndarray):
                rows = lowering.constant(first) if isinstance(first, np.ndarray) else first
                lowering.product(place, rows, second, None, post, table)
            else:
                assert isinstance(first, np.ndarray), "one operand is constant"
                lowering.product(place.transpose((1, 0)), second.transpose((1, 0)), first.T, None, post, table)


def _pixels_of(tensor: Tensor, rows: int, reduction: int) -> bool:
    """Whether a tensor is [H, W, K] with W contiguous: rows laid out as pixels, as a product leaves them."""
    return tensor.rank == 3 and tensor.shape[2] == reduction and tensor.shape[0] * tensor.shape[1] == rows \
        and tensor.shape[0] > 1 and tensor.aligned and tensor.contiguous == 1


def _matrices(lowering: Lowering, value: Value, promoted: tuple[int, ...], transposed: bool) -> Matrices:
    """An operand as [..., rows, columns]; `promoted` is the shape of one of rank 1."""
    operand: Matrices = value.array() if value.constant else _apart(lowering, lowering.read(value))
    if value.type.rank == 1:
        operand = _reshaped(operand, promoted)
    if not transposed:
        return operand
    rank = len(operand.shape)
    return operand.transpose((*range(rank - 2), rank - 1, rank - 2))


def _apart(lowering: Lowering, tensor: Tensor) -> Tensor:
    """The tensor, or a row-major copy where batches lie next to each other in a row: no operand starts inside one."""
    row = tensor.contiguous
    if row is None or row >= tensor.rank - 2:
        return tensor
    whole = lowering.scratch(tensor.shape)
    lowering.copy(tensor, whole)
    return whole


def _reshaped(vector: Matrices, shape: tuple[int, ...]) -> Matrices:
    if isinstance(vector, np.ndarray):
        return vector.reshape(shape)
    return replace(vector, shape=shape, strides=tuple(0 if extent == 1 else vector.strides[0] for extent in shape))


def _expanded(operand: Matrices, batch: tuple[int, ...]) -> Matrices:
    shape = (*batch, *operand.shape[-2:])
    return np.broadcast_to(operand, shape) if isinstance(operand, np.ndarray) else operand.expand(shape)


@overload
def _at(operand: Tensor, index: tuple[int, ...]) -> Tensor: ...
@overload
def _at(operand: Matrices, index: tuple[int, ...]) -> Matrices: ...
def _at(operand: Matrices, index: tuple[int, ...]) -> Matrices:
    """The matrix at a batch index."""
    if isinstance(operand, np.ndarray):
        return np.ascontiguousarray(operand[index])
    for position in index:
        operand = operand.at(0, position)
    return operand


def as_image(tensor: Tensor, rows: int, reduction: int) -> Tensor | None:
    """The tensor as [rows, C, H, W] with C * H * W = reduction when it is an image with more than one pixel."""
    if tensor.rank not in (3, 4) or not tensor.aligned:
        return None
    shape, strides = tensor.shape, tensor.strides
    if tensor.rank == 3:
        shape, strides = (1, *shape), (0, *strides)
    if shape[0] != rows or prod(shape[1:]) != reduction or shape[2] * shape[3] == 1:
        return None
    return tensor.seen(tensor.offset, shape, strides)
