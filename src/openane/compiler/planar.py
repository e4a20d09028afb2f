"""Planar-engine recipes: elementwise arithmetic with broadcasting, gain-offset vectors, reductions, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openane.compiler.walk import MAXIMUM_OPERATIONS, Role, access, assign, legal, merged, walk
from openane.engine import (
    Access,
    Binary,
    Elementwise,
    GainOffset,
    Pool,
    Pooling,
    Reduce,
    Reduction,
    Space,
)
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor

if TYPE_CHECKING:
    from openane.compiler.lowering import Compiler

L2_SHARE = 8
"""A broadcast operand kept in L2 takes at most 1/8 of it."""


def elementwise(compiler: Compiler, target: Tensor, first: Tensor, second: Tensor | None, function: Binary,
                settings: dict[str, Any]) -> None:
    """target = function(first, second) with numpy broadcasting; any strides."""
    operands = [first.expand(target.shape)] + ([] if second is None else [second.expand(target.shape)])
    operands = [t if t.aligned else compiler.copied(t) for t in operands]
    if not target.aligned:
        whole = compiler.scratch(target.shape)
        elementwise(compiler, whole, first, second, function, settings)
        compiler.copy(whole, target)
        return
    if len(operands) == 2 and all(_repeats(t) for t in operands):
        operands[0] = _materialised(compiler, operands[0])
    _elementwise(compiler, target, operands, function, settings)


def _elementwise(compiler: Compiler, target: Tensor, operands: list[Tensor], function: Binary,
                 settings: dict[str, Any]) -> None:
    roles = [Role.PLANAR_SOURCE] * len(operands)
    operations = walk([*operands, target], [*roles, Role.RESULT], compiler.limits, compiler.label) \
        if _expressible(operands) else None
    if operations is None:
        axis = _split_axis(compiler, operands)
        if axis is not None:
            half = target.shape[axis] // 2
            for start, count in ((0, half), (half, target.shape[axis] - half)):
                _elementwise(compiler, target.part(axis, start, count),
                             [t.part(axis, start, count) for t in operands], function, settings)
            return
        operands = _prepared(compiler, operands, target)
        operations = walk([*operands, target], [*roles, Role.RESULT], compiler.limits, compiler.label)
    if operations is None:
        raise UnsupportedError(compiler.label, "operands must be expressible by strides", found=f"{operands}")
    for accesses in operations:
        second = accesses[1] if len(operands) == 2 else None
        compiler.emit(Elementwise(first=accesses[0], second=second, result=accesses[-1], function=function,
                                  **settings))


def _repeats(tensor: Tensor) -> bool:
    """Whether the tensor is broadcast along some dimension."""
    return any(extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.strides, strict=True))


def _expressible(operands: list[Tensor]) -> bool:
    """Cheap refusal: repeats from memory are possible along one dimension at most."""
    for t in operands:
        repeats = sum(e > 1 and s == 0 for e, s in zip(t.shape, t.strides, strict=True))
        if t.space is Space.MEMORY and repeats > 1:
            return False
        if repeats and t.space is Space.MEMORY and t.strides[0] != 0:
            return False
    return True


def _core(tensor: Tensor) -> Tensor:
    """The tensor with its repeated dimensions at extent 1."""
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        if extent > 1 and stride == 0:
            tensor = tensor.part(axis, 0, 1)
    return tensor


def _order(shape: tuple[int, ...], last: int | None) -> tuple[int, ...]:
    """Row-major order of dimensions with `last` moved to the end; -1 at the end when there is none."""
    axes = tuple(range(len(shape)))
    return (*axes, -1) if last is None else (*(d for d in axes if d != last), last)


def _leader(operands: list[Tensor], target: Tensor) -> int | None:
    """The dimension rows run along: that of an operand that is not broadcast, else the target's."""
    for t in operands:
        if not _repeats(t) and t.contiguous is not None:
            return t.contiguous
    return target.contiguous


def _resident_size(tensor: Tensor, lead: int | None) -> int:
    core = _core(tensor)
    last = lead if lead is not None and core.shape[lead] > 1 else None
    row = 16 if last is None else -(-core.shape[last] * ELEMENT // 16) * 16
    return row * core.elements // (1 if last is None else core.shape[last])


def _split_axis(compiler: Compiler, operands: list[Tensor]) -> int | None:
    """The dimension to halve when a broadcast operand is too large for L2, or None."""
    for t in operands:
        if _repeats(t) and _resident_size(t, None) > compiler.limits.l2_size // L2_SHARE:
            core = _core(t)
            candidates = [d for d in range(t.rank) if core.shape[d] > 1 and d != t.contiguous]
            candidates = candidates or [d for d in range(t.rank) if core.shape[d] >= 128]
            return max(candidates, key=lambda d: core.shape[d], default=None)
    return None


def _prepared(compiler: Compiler, operands: list[Tensor], target: Tensor) -> list[Tensor]:
    """Operands that agree on the row dimension: broadcast ones in L2, others copied to scratch where they differ."""
    lead = _leader(operands, target)
    ready = []
    for t in operands:
        if _repeats(t):
            core = _core(t)
            last = lead if lead is not None and core.shape[lead] > 1 else None
            small = compiler.temporary(core.shape, _order(core.shape, last), Space.L2)
            compiler.copy(core, small)
            ready.append(small.expand(t.shape))
        elif t.contiguous != lead and t.elements > 1:
            moved = compiler.scratch(t.shape, _order(t.shape, lead))
            compiler.copy(t, moved)
            ready.append(moved)
        else:
            ready.append(t)
    return ready


def _materialised(compiler: Compiler, tensor: Tensor) -> Tensor:
    """A broadcast operand written out in full."""
    full = compiler.scratch(tensor.shape)
    _elementwise(compiler, full, [tensor], Binary.ADD, {})
    return full


def gain_offset(compiler: Compiler, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
                relu: bool) -> None:
    """target = (source + offset) * gain, one pair per position of `axis`: vectors in L2 as two rows.

    Where `axis` runs along rows the vectors would have to lie along W, which no sample shows: two broadcast
    operations instead.
    """
    roles = [Role.PLANAR_SOURCE, Role.RESULT]
    pair = [source, target] if source.aligned and target.aligned else []
    dims = assign(pair, roles, compiler.limits, channel=axis) if pair and source.contiguous != axis else None
    if dims is None:
        _two_steps(compiler, target, source, axis, offset, gain, relu)
        return
    rows = compiler.constant(np.stack([offset, gain]))
    vectors = compiler.temporary(rows.shape, (0, 1), Space.L2)
    compiler.copy(rows, vectors)
    first = access(source, dims)
    second = Access(space=Space.L2, slot=vectors.slot, shape=(first.shape[0], first.shape[1], 1, 2, 1),
                    strides=(0, vectors.strides[1], 0, vectors.strides[0], 0))
    compiler.emit(GainOffset(first=first, second=second, result=access(target, dims), relu=relu))


def _two_steps(compiler: Compiler, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
               relu: bool) -> None:
    shape = tuple(len(offset) if d == axis else 1 for d in range(source.rank))
    adds, multiplies = bool(np.any(offset != 0)), bool(np.any(gain != 1))
    if adds:
        step = compiler.scratch(target.shape) if multiplies else target
        elementwise(compiler, step, source, compiler.constant(offset.reshape(shape)), Binary.ADD,
                    {} if multiplies else {"relu": relu})
        source = step
    if multiplies or not adds:
        elementwise(compiler, target, source, compiler.constant(gain.reshape(shape)), Binary.MULTIPLY,
                    {"relu": relu})


@dataclass(frozen=True, slots=True)
class Folding:
    """What a reduction does to each element, how it folds them, and what closes it (fields of engine.Reduction)."""

    kind: Reduce
    pre_scale: float
    square: bool
    closing: dict[str, Any]


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
    if row is not None and row not in inner:
        if not inner:
            _identity_reduction(compiler, target, source, folding)
            return
        source = compiler.with_last(source, max(inner, key=lambda d: source.shape[d]))
    row = source.contiguous
    kept = [d for d in range(source.rank) if d not in inner and source.shape[d] > 1]
    inner.sort(key=lambda d: (d == row, d))
    _reduce(compiler, target, source, inner, kept, folding)


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
    plane = target.contiguous if target.contiguous is not None else rank - 1
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
    """One dimension at a time, innermost first; what closes the reduction is applied at the end."""
    last = inner[-1]
    if len(inner) == 1:
        raise UnsupportedError(compiler.label, "a reduced dimension must fit a width field",
                               limit=compiler.limits.width, found=source.shape[last],
                               remedy="reduce a reshaped tensor in two steps")
    shape = tuple(1 if d == last else e for d, e in enumerate(source.shape))
    partial = compiler.scratch(shape)
    reduce(compiler, partial, source, [last], Folding(folding.kind, folding.pre_scale, folding.square, {}))
    reduce(compiler, target, partial, inner[:-1], Folding(folding.kind, 1.0, False, folding.closing))


def pool(compiler: Compiler, target: Tensor, source: Tensor, kind: Pool, kernel: Sequence[int], stride: Sequence[int],
         padding: Sequence[int], final_scale: float) -> None:
    """Windowed pooling of [N, C, H, W] tensors."""
    dims = (0, 1, None, 2, 3)
    if not legal(access(source, dims), Role.NEURAL_SOURCE):
        source = compiler.copied(source)
    final = target
    if not legal(access(target, dims), Role.RESULT):
        target = compiler.scratch(target.shape)
    compiler.emit(Pooling(first=access(source, dims), result=access(target, dims), pool=kind,
                          kernel=(kernel[0], kernel[1]), stride=(stride[0], stride[1]),
                          padding=(padding[0], padding[1]), final_scale=final_scale))
    if target is not final:
        compiler.copy(target, final)

