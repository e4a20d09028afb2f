"""Reductions over any axes: the engine reduces D, H and W of each (N, C); a row that is kept is turned first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openane.compiler.neural import table_coefficients
from openane.compiler.walk import MAXIMUM_OPERATIONS, Role, access, assign, legal, merged
from openane.engine import Access, Activation, Binary, ChannelMaximum, Convolution, Post, Reduce, Reduction, Root
from openane.engine.table import Table
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor

if TYPE_CHECKING:
    from openane.compiler.lowering import Compiler


@dataclass(frozen=True, slots=True)
class Folding:
    """What a reduction does to each element, how it folds them, and what closes it (fields of engine.Reduction)."""

    kind: Reduce
    pre_scale: float
    square: bool
    closing: dict[str, Any]

    @property
    def plain_maximum(self) -> bool:
        """Whether it is a maximum and nothing else."""
        idle = {"final_scale": 1.0, "epsilon": 0.0, "root": Root.NONE}
        return self.kind is Reduce.MAXIMUM and self.pre_scale == 1.0 and not self.square and \
            all(idle[name] == value for name, value in self.closing.items())


def reduce(compiler: Compiler, target: Tensor, source: Tensor, axes: Sequence[int], folding: Folding) -> None:
    """Reduces `axes` of source; target has extent 1 there. See ops.lowering.Lowering."""
    source = source if source.aligned else compiler.copied(source)
    if not target.aligned:
        whole = compiler.scratch(target.shape)
        reduce(compiler, whole, source, axes, folding)
        compiler.copy(whole, target)
        return
    inner = [d for d in axes if source.shape[d] > 1]
    row = source.contiguous
    if folding.plain_maximum and len(inner) == 1 and inner[0] != row and _channel_maximum(compiler, target, source,
                                                                                        inner[0]):
        return
    if row is not None and row not in inner:
        if not inner:
            _identity_reduction(compiler, target, source, folding)
            return
        source = compiler.with_last(source, max(inner, key=lambda d: source.shape[d]))
    row = source.contiguous
    kept = [d for d in range(source.rank) if d not in inner and source.shape[d] > 1]
    inner.sort(key=lambda d: (d == row, d))
    _reduce(compiler, target, source, inner, kept, folding)


def _channel_maximum(compiler: Compiler, target: Tensor, source: Tensor, axis: int) -> bool:
    """A maximum over planes is one neural-engine operation that leaves rows as they lie; False where strides or
    field widths rule it out."""
    operands = _by_channel(compiler, target, source, axis)
    if operands is None:
        return False
    compiler.emit(ChannelMaximum(source=operands[0], result=operands[1], channels=source.shape[axis]))
    return True


def sum_planes(compiler: Compiler, target: Tensor, source: Tensor, axis: int, table: Table) -> bool:
    """target = table(sum over `axis`) by a convolution with weights of one, as Apple's softmax does; False where
    strides or field widths rule it out."""
    operands = _by_channel(compiler, target, source, axis)
    if operands is None:
        return False
    read, write = operands
    streams = table_coefficients(compiler, table, 1)
    compiler.emit(Convolution(source=read, result=write, unicast=source.shape[axis], shared=read.shape[0] > 1,
                              coefficients=streams, post=Post(activation=Activation.TABLE)))
    return True


def _by_channel(compiler: Compiler, target: Tensor, source: Tensor, axis: int) -> tuple[Access, Access] | None:
    """Operands whose C walks `axis` (one element of it in the target), or None."""
    if source.shape[axis] > compiler.limits.channels or not (source.aligned and target.aligned):
        return None
    first = source.part(axis, 0, 1)
    dims = assign([first, target], [Role.NEURAL_SOURCE, Role.RESULT], compiler.limits, channel=axis)
    read = None if dims is None else access(source, dims)
    if dims is None or read is None or not legal(read, Role.NEURAL_SOURCE):
        return None
    return read, access(target, dims)


def _identity_reduction(compiler: Compiler, target: Tensor, source: Tensor, folding: Folding) -> None:
    """Reducing extents of 1: cells, so that no row runs along a kept dimension."""
    cells = compiler.scratch(source.shape, (*range(source.rank), -1))
    compiler.copy(source, cells)
    kept = [d for d in range(source.rank) if source.shape[d] > 1]
    _reduce(compiler, target, cells, [], kept, folding)


def _reduce(compiler: Compiler, target: Tensor, source: Tensor, inner: list[int], kept: list[int],
            folding: Folding) -> None:
    limits = compiler.limits
    walked = Tensor(source.slot, source.offset, tuple(source.shape[d] for d in inner),
                    tuple(source.strides[d] for d in inner), source.space)
    (folded,) = merged([walked], limits.width)
    loops = list(zip(folded.shape, folded.strides, strict=True))
    if loops and loops[-1][1] != ELEMENT:
        loops.append((1, 0))
    if len(loops) > 3 or any(extent > limits.width for extent, _ in loops):
        _reduce_in_steps(compiler, target, source, inner, folding)
        return
    loops = [(1, 0)] * (3 - len(loops)) + loops
    outer = [Tensor(t.slot, t.offset, tuple(t.shape[d] for d in kept), tuple(t.strides[d] for d in kept), t.space)
             for t in (source, target)]
    for read, write in _kept_loops(compiler, *outer):
        shape = (*read.shape[:2], *(extent for extent, _ in loops))
        strides = (*read.strides[:2], *(stride for _, stride in loops))
        first = Access(space=read.space, slot=read.slot, offset=read.offset, shape=shape,  # type: ignore[arg-type]
                       strides=strides)  # type: ignore[arg-type]
        compiler.emit(Reduction(first=first, second=first if folding.square else None, result=write,
                                reduce=folding.kind, function=Binary.MULTIPLY if folding.square else Binary.ADD,
                                pre_scale=folding.pre_scale, **folding.closing))


def _kept_loops(compiler: Compiler, source: Tensor, target: Tensor) -> list[tuple[Access, Access]]:
    """N and C of the operations that together visit the dimensions kept: C walks the target's rows if it has any."""
    if source.rank > 2:
        source, target = merged([source, target], min(compiler.limits.groups, compiler.limits.channels))
    rank = source.rank
    if rank > 2:
        axis = min((d for d in range(rank) if d != target.contiguous), key=lambda d: source.shape[d])
        count = source.shape[axis]
        if count > MAXIMUM_OPERATIONS:
            raise UnsupportedError(compiler.label, "a reduction keeps too many separate dimensions",
                                   limit=MAXIMUM_OPERATIONS, found=count)
        pieces = []
        for i in range(count):
            pieces += _kept_loops(compiler, _dropped(source, axis, i), _dropped(target, axis, i))
        return pieces
    plane = target.contiguous if target.contiguous is not None else 0
    dims = (next((d for d in range(rank) if d != plane), None), plane if rank else None, None, None, None)
    limit = (compiler.limits.groups, compiler.limits.channels)
    for d, bound in zip(dims[:2], limit, strict=True):
        if d is not None and source.shape[d] > bound:
            half = source.shape[d] // 2 // 32 * 32
            return [p for start, count in ((0, half), (half, source.shape[d] - half))
                    for p in _kept_loops(compiler, source.part(d, start, count), target.part(d, start, count))]
    return [(access(source, dims), access(target, dims))]


def _dropped(tensor: Tensor, axis: int, index: int) -> Tensor:
    part = tensor.part(axis, index, 1)
    keep = [d for d in range(part.rank) if d != axis]
    return Tensor(part.slot, part.offset, tuple(part.shape[d] for d in keep), tuple(part.strides[d] for d in keep),
                  part.space)


def _reduce_in_steps(compiler: Compiler, target: Tensor, source: Tensor, inner: list[int],
                     folding: Folding) -> None:
    """Partial results first, along one dimension, then the rest; what closes the reduction is applied at the end,
    the scale of a sum at the start, where it keeps partial sums small."""
    first, last = _two_stages(folding)
    axis = inner[-1]
    width = compiler.limits.width
    pieces = -(-source.shape[axis] // width)
    shape = tuple(pieces if d == axis else extent for d, extent in enumerate(source.shape))
    partial = compiler.scratch(shape, (*range(len(shape)), -1))
    for piece in range(pieces):
        start = piece * width
        read = source.part(axis, start, min(width, source.shape[axis] - start))
        reduce(compiler, partial.part(axis, piece, 1), read, [axis], first)
    reduce(compiler, target, partial, inner if pieces > 1 else inner[:-1], last)


def _two_stages(folding: Folding) -> tuple[Folding, Folding]:
    closing = dict(folding.closing)
    scale = closing.pop("final_scale", 1.0) if folding.kind is Reduce.SUM else 1.0
    return (Folding(folding.kind, folding.pre_scale, folding.square, {"final_scale": scale}),
            Folding(folding.kind, 1.0, False, closing))
