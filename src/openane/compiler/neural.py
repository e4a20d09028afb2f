"""Neural-engine recipes: convolutions, copies, tables; the storage of coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from openane.compiler.packing import (
    CORE_BYTES,
    STREAMED_PIXELS,
    Packed,
    choose_lanes,
    pack_dense,
    pack_sparse,
    pack_table,
    task_channels,
)
from openane.compiler.walk import Role, access, legal, walk
from openane.engine import (
    Activation,
    Coefficients,
    Convolution,
    PassThrough,
    Post,
    Stream,
)
from openane.engine.coefficients import CORES
from openane.engine.table import Table
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor
from openane.program import CONSTANT_SLOT

if TYPE_CHECKING:
    from openane.compiler.lowering import Compiler

CHUNK = 32
"""Output channels are split at multiples of this, so that rows of a swapped result stay aligned."""


def coefficients(compiler: Compiler, packed: Packed, *, weights: bool, bias: bool, table: bool) -> Coefficients:
    """Stores the streams in the constant section."""
    base = compiler.constants.add(packed.data)
    streams = tuple(Stream(core, base + offset, size) for core, offset, size in packed.streams)
    return Coefficients(slot=CONSTANT_SLOT, streams=streams, lanes=packed.lanes, weights=weights, bias=bias,
                        table=table, packing=packed.packing)


def table_coefficients(compiler: Compiler, table: Table, channels: int) -> Coefficients:
    """A table alone, read by every core that has a channel."""
    packed = pack_table(table.to_bytes(), min(CORES, channels))
    return coefficients(compiler, packed, weights=False, bias=False, table=True)


def with_table(post: Post | None, table: Table | None) -> Post:
    """The post stage, its activation replaced by the table when there is one."""
    post = post or Post()
    return post if table is None else Post(bias=post.bias, scale=post.scale, activation=Activation.TABLE)


def pass_through(compiler: Compiler, source: Tensor, target: Tensor, post: Post | None, table: Table | None) -> None:
    """target = post(source) for operands the engine can address."""
    stage = with_table(post, table)
    operands = walk([source, target], [Role.NEURAL_SOURCE, Role.RESULT], compiler.limits, compiler.label)
    if operands is None:
        raise UnsupportedError(compiler.label, "a copy must be expressible by strides",
                               found=f"{source} to {target}")
    for read, write in operands:
        streams = None if table is None else table_coefficients(compiler, table, write.shape[1])
        compiler.emit(PassThrough(source=read, result=write, post=stage, coefficients=streams))


def convolution(compiler: Compiler, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                stride: Sequence[int] = (1, 1), padding: Sequence[int] = (0, 0), groups: int = 1,
                post: Post | None = None, table: Table | None = None) -> None:
    """target [N, Cout, Ho, Wo] = convolution of source [N, Cin, H, W]; see ops.lowering.Lowering."""
    source = source if _plain(source) else compiler.copied(source)
    final = target
    if not legal(access(target, (0, 1, None, 2, 3)), Role.RESULT):
        target = compiler.scratch(target.shape)
    kernel = (1, int(weights.shape[2]), int(weights.shape[3]))
    window = {"kernel": kernel, "stride": (1, *stride), "padding": (0, *padding), "post": with_table(post, table)}
    if groups == 1:
        _dense(compiler, target, source, weights, bias, table, window)
    elif groups == source.shape[1] == weights.shape[0]:
        _depthwise(compiler, target, source, weights, bias, table, window)
    else:
        _grouped(compiler, target, source, weights, bias, table, groups, window)
    if target is not final:
        compiler.copy(target, final)


def _pieces(extent: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, extent, size):
        yield start, min(size, extent - start)


def _plain(source: Tensor) -> bool:
    """Whether a [N, C, H, W] tensor can be read as it lies."""
    return legal(access(source, (0, 1, None, 2, 3)), Role.NEURAL_SOURCE) and (source.shape[3] == 1 or
                                                                               source.strides[3] == ELEMENT)


def _dense(compiler: Compiler, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
           table: Table | None, window: dict[str, object]) -> None:
    channels, rows = weights.shape[0], int(np.prod(weights.shape[1:]))
    streamed = rows == weights.shape[1] and target.shape[2] * target.shape[3] <= STREAMED_PIXELS
    lanes = choose_lanes(channels, source.shape[2], source.shape[3], rows, streamed)
    flat = weights.reshape(1, channels, rows)
    sparse = window["stride"] == (1, 2, 2)
    read = access(source, (0, 1, None, 2, 3))
    for start, stop in chunks(compiler, channels, rows, lanes, streamed):
        vector = None if bias is None else bias[start:stop]
        if sparse:
            packed = pack_sparse(weights[start:stop], vector, lanes, None if table is None else table.to_bytes())
        else:
            packed = pack_dense(flat[:, start:stop], None if vector is None else vector[None], lanes,
                                None if table is None else table.to_bytes())
        streams = coefficients(compiler, packed, weights=True, bias=bias is not None, table=table is not None)
        write = access(target.part(1, start, stop - start), (0, 1, None, 2, 3))
        compiler.emit(Convolution(source=read, result=write, coefficients=streams, shared=source.shape[0] > 1,
                                  **window))  # type: ignore[arg-type]


def _depthwise(compiler: Compiler, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
               table: Table | None, window: dict[str, object]) -> None:
    channels = weights.shape[0]
    packed = pack_dense(weights.reshape(1, channels, -1), None if bias is None else bias[None], 1,
                        None if table is None else table.to_bytes())
    streams = coefficients(compiler, packed, weights=True, bias=bias is not None, table=table is not None)
    for image in range(source.shape[0]):
        compiler.emit(Convolution(source=access(source.part(0, image, 1), (None, 1, None, 2, 3)),
                                  result=access(target.part(0, image, 1), (None, 1, None, 2, 3)),
                                  coefficients=streams, unicast=1, **window))  # type: ignore[arg-type]


def _grouped(compiler: Compiler, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
             table: Table | None, groups: int, window: dict[str, object]) -> None:
    channels = weights.shape[0] // groups
    lanes = choose_lanes(channels, source.shape[2], source.shape[3])
    flat = weights.reshape(groups, channels, -1)
    for start, count in spans(groups, compiler.limits.groups):
        packed = pack_dense(flat[start:start + count],
                            None if bias is None else bias.reshape(groups, channels)[start:start + count], lanes,
                            None if table is None else table.to_bytes())
        streams = coefficients(compiler, packed, weights=True, bias=bias is not None, table=table is not None)
        for image in range(source.shape[0]):
            read = _by_group(source.part(0, image, 1), groups).part(0, start, count)
            write = _by_group(target.part(0, image, 1), groups).part(0, start, count)
            compiler.emit(Convolution(source=access(read, (0, 1, None, 2, 3)), result=access(write, (0, 1, None, 2, 3)),
                                      coefficients=streams, **window))  # type: ignore[arg-type]


def _by_group(image: Tensor, groups: int) -> Tensor:
    """[1, C, H, W] as [groups, C / groups, H, W]."""
    _, channels, height, width = image.shape
    plane = image.strides[1]
    each = channels // groups
    return Tensor(image.slot, image.offset, (groups, each, height, width),
                  (plane * each, plane, image.strides[2], image.strides[3]), image.space)


def chunks(compiler: Compiler, channels: int, rows: int, lanes: int, streamed: bool) -> Iterator[tuple[int, int]]:
    """Ranges of output channels whose coefficients fit one operation, at multiples of CHUNK."""
    memory = compiler.limits.kernel_memory // CORES
    size = task_channels(channels, rows, lanes, memory if streamed else min(memory, CORE_BYTES))
    size = size if size == channels else -(-size // CHUNK) * CHUNK
    if min(size, channels) * (rows + 1) * ELEMENT > compiler.limits.kernel_memory:
        raise UnsupportedError(compiler.label, "the weights of 32 output channels must fit one operation",
                               limit=compiler.limits.kernel_memory, found=size * (rows + 1) * ELEMENT,
                               remedy="split the reduction into several operations and add the parts")
    for start in range(0, channels, size):
        yield start, min(channels, start + size)


def spans(extent: int, limit: int) -> Iterator[tuple[int, int]]:
    """(start, count) of pieces no larger than half the limit when the extent exceeds it."""
    yield from _pieces(extent, extent if extent <= limit else limit // 2)
