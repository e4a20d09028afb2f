"""Products on the engine: rows times constant weights, constant weights times columns, runtime times runtime."""

from __future__ import annotations

from math import prod

import numpy as np

from openane.graph import Node, Value
from openane.ops.lowering import Lowering, Tensor


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


def lower_runtime(node: Node, lowering: Lowering, x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> None:
    """result = x @ y with both known only at run time, batch by batch; rank-1 operands are a row or a column."""
    left, right = lowering.read(x), lowering.read(y)
    left = left.expand((1, *left.shape)) if left.rank == 1 else left
    right = _column(right) if right.rank == 1 else right
    left, right = (_swapped(t) if flag else t for t, flag in ((left, transpose_x), (right, transpose_y)))
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (t.expand((*batch, *t.shape[-2:])) for t in (left, right))
    target = _matrix(lowering, lowering.result(node.output), (*batch, left.shape[-2], right.shape[-1]))
    for index in np.ndindex(*batch):
        lowering.runtime_product(*(_at(t, index) for t in (target.tensor, left, right)))
    target.settle(lowering)


def _column(tensor: Tensor) -> Tensor:
    return Tensor(tensor.slot, tensor.offset, (*tensor.shape, 1), (*tensor.strides, 0), tensor.space)


def _swapped(tensor: Tensor) -> Tensor:
    return tensor.transpose((*range(tensor.rank - 2), tensor.rank - 1, tensor.rank - 2))


def _at(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    """The matrix at a batch index."""
    for axis, position in enumerate(index):
        tensor = tensor.part(axis, position, 1)
    return Tensor(tensor.slot, tensor.offset, tensor.shape[-2:], tensor.strides[-2:], tensor.space)


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


