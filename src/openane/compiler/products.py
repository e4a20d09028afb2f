"""Matrix products: with constant weights as 1x1 convolutions over rows as pixels, and between two tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from openane.compiler.memory import Block, Kind
from openane.compiler.neural import chunks, coefficients, spans, with_table
from openane.compiler.packing import STREAMED_PIXELS, pack_dense, product_lanes
from openane.compiler.walk import Role, access, legal
from openane.engine import Access, Coefficients, Convolution, Elementwise, MatrixProduct, Post, Space, Stream
from openane.engine.coefficients import CORES, left_over_lanes
from openane.engine.table import Table
from openane.ops.lowering import ELEMENT, Tensor

if TYPE_CHECKING:
    from openane.compiler.lowering import Compiler

RUNTIME_LANE_CAP = 8
"""Lanes of coefficients computed at run time: a power of two up to 15, which the copy that writes them can state."""


def product(compiler: Compiler, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
            post: Post | None = None, table: Table | None = None) -> None:
    """target [M, N] = source [M, K] @ weights [K, N] + bias: a 1x1 convolution over rows as pixels.

    The source is transposed first (K channels of M contiguous elements), in L2 when it takes at most a quarter of it.
    """
    rows, reduction = source.shape
    columns = weights.shape[1]
    pixels = source
    if not legal(access(source, (None, 1, None, None, 0)), Role.NEURAL_SOURCE):
        pixels = _transposed(compiler, source if source.aligned else compiler.copied(source))
    final = target
    if not legal(access(target, (None, 1, None, None, 0)), Role.RESULT):
        target = compiler.scratch(target.shape)
    lanes = product_lanes(rows, reduction, columns)
    matrix = np.ascontiguousarray(weights.T)[None]
    for start, stop in chunks(compiler, columns, reduction, lanes, rows <= STREAMED_PIXELS):
        packed = pack_dense(matrix[:, start:stop], None if bias is None else bias[None, start:stop], lanes,
                            None if table is None else table.to_bytes())
        streams = coefficients(compiler, packed, weights=True, bias=bias is not None, table=table is not None)
        for first, count in spans(rows, compiler.limits.width):
            read = pixels.part(0, first, count)
            write = target.part(1, start, stop - start).part(0, first, count)
            compiler.emit(Convolution(source=access(read, (None, 1, None, None, 0)),
                                      result=access(write, (None, 1, None, None, 0)), coefficients=streams,
                                      post=with_table(post, table)))
    if target is not final:
        compiler.copy(target, final)


def runtime_product(compiler: Compiler, target: Tensor, left: Tensor, right: Tensor) -> None:
    """target [M, N] = left [M, K] @ right [K, N], the rows of `left` being coefficients.

    One row per core can be read as it lies; for L rows per core a planar copy first writes them interleaved by L,
    which is the coefficient packing of L lanes (both seen in Apple's products of 16 and of 64 rows).
    """
    if not legal(access(left, (None, 0, None, None, 1)), Role.NEURAL_SOURCE):
        left = compiler.copied(left)
    if not legal(access(right, (None, 0, None, None, 1)), Role.NEURAL_SOURCE):
        right = compiler.copied(right)
    shares = list(_row_shares(left.shape[0]))
    final = target
    if not all(legal(access(target.part(0, start, count), (None, 0, None, None, 1)), Role.RESULT)
               for start, count, _ in shares):
        target = compiler.scratch(target.shape)
    for start, count, lanes in shares:
        compiler.emit(MatrixProduct(
            source=access(right, (None, 0, None, None, 1)),
            result=access(target.part(0, start, count), (None, 0, None, None, 1)),
            coefficients=_runtime_coefficients(compiler, left.part(0, start, count), lanes)))
    if target is not final:
        compiler.copy(target, final)


def _row_shares(rows: int) -> Iterator[tuple[int, int, int]]:
    """(start, count, lanes) of the products that together make `rows` rows, each filling its cores."""
    start = 0
    while start < rows:
        lanes = min(RUNTIME_LANE_CAP, left_over_lanes(rows - start))
        count = min(rows - start, CORES * lanes)
        yield start, count, lanes
        start += count


def _runtime_coefficients(compiler: Compiler, rows: Tensor, lanes: int) -> Coefficients:
    """Rows [count, K] of a tensor as coefficients of `lanes` rows per core; count fills its cores."""
    count, reduction = rows.shape
    size = -(-reduction * lanes * ELEMENT // 64) * 64
    slot, offset, step = rows.slot, rows.offset, rows.strides[0]
    if lanes > 1:
        slot, offset, step = compiler.blocks.add(Block(count // lanes * size, Kind.SCRATCH)), 0, size
        packed = Access(slot=slot, shape=(1, count, 1, 1, reduction), strides=(0, size, 0, 0, lanes * ELEMENT),
                        interleave=lanes)
        compiler.emit(Elementwise(first=access(rows, (None, 0, None, None, 1)), result=packed))
    streams = tuple(Stream(core, offset + core * step, size) for core in range(count // lanes))
    return Coefficients(slot=slot, streams=streams, lanes=lanes, runtime=True)


def _transposed(compiler: Compiler, source: Tensor) -> Tensor:
    rows, reduction = source.shape
    row = -(-rows * ELEMENT // 16) * 16
    small = reduction * row <= compiler.limits.l2_size // 4
    pixels = compiler.temporary((rows, reduction), (1, 0), Space.L2 if small else Space.MEMORY)
    compiler.copy(source, pixels)
    return pixels
