"""Tensors under another shape: a view where strides express it, else a copy through scratch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from openane.ops.lowering import Lowering, Tensor


def read_as(lowering: Lowering, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The elements of a tensor in row-major order under `shape`."""
    seen = tensor.reshape(shape)
    if seen is None:
        seen = lowering.scratch(shape, None, tensor.dtype)
        lowering.reshape(tensor, seen)
    return seen


@contextmanager
def written_as(lowering: Lowering, tensor: Tensor, shape: Sequence[int]) -> Iterator[Tensor]:
    """Where to write, under `shape`, what is to become `tensor` in row-major order; it is moved there when the block
    ends, unless it is a view of it."""
    seen = tensor.reshape(shape)
    target = lowering.scratch(shape, None, tensor.dtype) if seen is None else seen
    yield target
    if seen is None:
        lowering.reshape(target, tensor)
