"""Products on the engine: rows times constant weights, constant weights times columns, runtime times runtime."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import overload

import numpy as np

from openane.graph import Node, Value
from openane.ops.lowering import Lowering, Tensor

Matrices = Tensor | np.ndarray
"""Matrices [..., rows, columns]: computed by the program, or constant."""


def lower_rows(node: Node, lowering: Lowering, x: Value, weights: np.ndarray, bias: np.ndarray | None) -> None:
    """result = x [..., K] @ weights [K, N] + bias, with what follows fused.

    A flattened image is read as it lies: the product is a convolution whose kernel covers the image.
    """
    value, post, table = lowering.followers(node)
    rows, columns = prod(x.shape[:-1]), weights.shape[1]
    target = _matrix(lowering, lowering.result(value), (rows, columns))
    image = as_image(lowering.unshaped(x), rows, weights.shape[0])
    if image is not None and max(image.shape[2:]) <= min(lowering.limits.kernel_height, lowering.limits.kernel_width):
        kernels = np.ascontiguousarray(weights.T).reshape(columns, *image.shape[1:])
        shaped = Tensor(target.tensor.slot, target.tensor.offset, (rows, columns, 1, 1),
                        (*target.tensor.strides, 0, 0), target.tensor.space)
        lowering.convolution(shaped, image, kernels, bias, post=post, table=table)
    else:
        source = _matrix(lowering, lowering.read(x), (rows, weights.shape[0])).filled(lowering)
        lowering.product(target.tensor, source, weights, bias, post, table)
    target.settle(lowering)


def lower_columns(node: Node, lowering: Lowering, weights: np.ndarray, y: Value) -> None:
    """result = weights [M, K] @ y [..., K, N]: a 1x1 convolution with K channels over N pixels."""
    value, post, table = lowering.followers(node)
    batch, (reduction, columns) = prod(y.shape[:-2]), y.shape[-2:]
    source = _matrix(lowering, lowering.read(y), (batch, reduction, 1, columns)).filled(lowering)
    target = _matrix(lowering, lowering.result(value), (batch, weights.shape[0], 1, columns))
    lowering.convolution(target.tensor, source, weights[:, :, None, None], None, post=post, table=table)
    target.settle(lowering)


def lower_batches(node: Node, lowering: Lowering, x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> None:
    """result = x @ y, batch by batch; a rank-1 operand is a row (x) or a column (y). A constant operand's matrices
    become coefficients."""
    left = _matrices(lowering, x, (1, *x.shape), transpose_x)
    right = _matrices(lowering, y, (*y.shape, 1), transpose_y)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    target = _matrix(lowering, lowering.result(node.output), (*batch, left.shape[-2], right.shape[-1]))
    for index in np.ndindex(*batch):
        place = _at(target.tensor, index)
        a, b = (_at(_expanded(operand, batch), index) for operand in (left, right))
        if isinstance(b, np.ndarray):
            lowering.product(place, lowering.constant(a) if isinstance(a, np.ndarray) else a, b, None)
        elif isinstance(a, np.ndarray):
            lowering.convolution(_pixels(place), _pixels(b), a[:, :, None, None], None)
        else:
            lowering.runtime_product(place, a, b)
    target.settle(lowering)


def _matrices(lowering: Lowering, value: Value, promoted: tuple[int, ...], transposed: bool) -> Matrices:
    """An operand as [..., rows, columns]; `promoted` is the shape of one of rank 1."""
    operand: Matrices = value.array() if value.constant else lowering.read(value)
    if value.type.rank == 1:
        operand = _reshaped(operand, promoted)
    if not transposed:
        return operand
    rank = len(operand.shape)
    return operand.transpose((*range(rank - 2), rank - 1, rank - 2))


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
    for axis, position in enumerate(index):
        operand = operand.part(axis, position, 1)
    return replace(operand, shape=operand.shape[-2:], strides=operand.strides[-2:])


def _pixels(matrix: Tensor) -> Tensor:
    """[rows, columns] as an image [1, rows, 1, columns]."""
    return replace(matrix, shape=(1, matrix.shape[0], 1, matrix.shape[1]), strides=(0, matrix.strides[0], 0,
                                                                                    matrix.strides[1]))


def as_image(tensor: Tensor, rows: int, reduction: int) -> Tensor | None:
    """The tensor as [rows, C, H, W] with C * H * W = reduction when it is an image with more than one pixel."""
    if tensor.rank not in (3, 4) or not tensor.aligned:
        return None
    shape, strides = tensor.shape, tensor.strides
    if tensor.rank == 3:
        shape, strides = (1, *shape), (0, *strides)
    if shape[0] != rows or prod(shape[1:]) != reduction or shape[2] * shape[3] == 1:
        return None
    return Tensor(tensor.slot, tensor.offset, shape, strides, tensor.space)


class _Shaped:
    """A tensor under another shape: a view, or scratch that is filled before or settled after use."""

    def __init__(self, tensor: Tensor, original: Tensor) -> None:
        self.tensor, self.original = tensor, original

    @property
    def viewed(self) -> bool:
        return self.tensor.slot == self.original.slot

    def filled(self, lowering: Lowering) -> Tensor:
        """The elements of the original under the new shape."""
        if not self.viewed:
            lowering.reshape(self.original, self.tensor)
        return self.tensor

    def settle(self, lowering: Lowering) -> None:
        """Moves what was written under the new shape to the original."""
        if not self.viewed:
            lowering.reshape(self.tensor, self.original)


def _matrix(lowering: Lowering, tensor: Tensor, shape: tuple[int, ...]) -> _Shaped:
    seen = tensor.reshape(shape)
    return _Shaped(lowering.scratch(shape) if seen is None else seen, tensor)


