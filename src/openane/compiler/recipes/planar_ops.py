"""Planar-engine recipes: elementwise arithmetic with broadcasting, gain-offset vectors, pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from openane.chips import Limits
from openane.compiler.loops.assign import OperandRole, access, assign, row_cut
from openane.compiler.loops.split import split_operands
from openane.compiler.recipes import data_movement
from openane.compiler.recipes.context import RecipeContext
from openane.engine import (
    Access,
    Activation,
    Binary,
    Elementwise,
    GainOffset,
    Post,
    Space,
)
from openane.engine.table import Table
from openane.errors import UnsupportedError
from openane.ops.lowering import Tensor

L2_SHARE = 8
"""A broadcast operand kept in L2 takes at most 1/8 of it."""


def elementwise(context: RecipeContext, target: Tensor, first: Tensor, second: Tensor | None = None,
                function: Binary = Binary.ADD, **settings: float | bool) -> None:
    """target = function(first, second) with numpy broadcasting; any strides."""
    operands = [first.expand(target.shape)] + ([] if second is None else [second.expand(target.shape)])
    operands = [t if t.aligned else context.copied(t) for t in operands]
    if not target.aligned:
        whole = context.scratch(target.shape, None, target.dtype)
        elementwise(context, whole, first, second, function, **settings)
        context.copy(whole, target)
        return
    if len(operands) == 2 and all(repeats(t) for t in operands):
        operands[0] = _materialised(context, operands[0])
    _elementwise(context, target, operands, function, settings)


def _elementwise(context: RecipeContext, target: Tensor, operands: list[Tensor], function: Binary,
                 settings: dict[str, Any]) -> None:
    roles = [OperandRole.PLANAR_SOURCE] * len(operands)
    operations = split_operands([*operands, target], [*roles, OperandRole.RESULT], context.limits, context.label) \
        if _expressible(operands) else None
    if operations is None:
        axis = _split_axis(context, operands)
        if axis is not None:
            half = target.shape[axis] // 2
            cut = row_cut(context.limits)
            if half > cut:  # a row is cut where both parts start aligned
                half = half // cut * cut
            for start, count in ((0, half), (half, target.shape[axis] - half)):
                _elementwise(context, target.part(axis, start, count),
                             [t.part(axis, start, count) for t in operands], function, settings)
            return
        operands = _prepared(context, operands, target)
        operations = split_operands([*operands, target], [*roles, OperandRole.RESULT], context.limits, context.label)
    if operations is None:
        raise UnsupportedError(context.label, "operands must be expressible by strides", found=f"{operands}")
    for accesses in operations:
        second = accesses[1] if len(operands) == 2 else None
        context.emit(Elementwise(first=accesses[0], second=second, result=accesses[-1], function=function,
                                 **settings))


def repeat(context: RecipeContext, source: Tensor, target: Tensor, post: Post | None, table: Table | None) -> None:
    """target = post(source) for a source that is broadcast: all but a ReLU works on its own elements."""
    clamp = post == Post(activation=Activation.RELU)
    if not clamp and (post is not None or table is not None):
        core = _core(source)
        small = context.scratch(core.shape)
        context.copy(core, small, post, table)
        source = small.expand(source.shape)
    if not data_movement.repeat(context, source, target, clamp):
        elementwise(context, target, source, relu=clamp)


def repeats(tensor: Tensor) -> bool:
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
        if not repeats(t) and t.contiguous is not None:
            return t.contiguous
    return target.contiguous


def _resident_size(tensor: Tensor, lead: int | None, limits: Limits) -> int:
    core = _core(tensor)
    last = lead if lead is not None and core.shape[lead] > 1 else None
    row = limits.l2_row(core.element * (1 if last is None else core.shape[last]))
    return row * core.elements // (1 if last is None else core.shape[last])


def _split_axis(context: RecipeContext, operands: list[Tensor]) -> int | None:
    """The dimension to halve when a broadcast operand is too large for L2, or None."""
    for t in operands:
        if repeats(t) and _resident_size(t, None, context.limits) > context.limits.l2_size // L2_SHARE:
            core = _core(t)
            candidates = [d for d in range(t.rank) if core.shape[d] > 1 and d != t.contiguous]
            least = 2 * row_cut(context.limits)
            candidates = candidates or [d for d in range(t.rank) if core.shape[d] >= least]
            whole = [d for d in candidates if not _cuts_rows(operands, d, row_cut(context.limits))]
            return max(whole or candidates, key=lambda d: core.shape[d], default=None)
    return None


def _cuts_rows(operands: list[Tensor], axis: int, cut: int) -> bool:
    """Whether halving a dimension leaves an operand whose rows begin where none may: `cut` elements are aligned."""
    half = operands[0].shape[axis] // 2
    return half % cut > 0 and half < cut and any(t.contiguous == axis and not repeats(t) for t in operands)


def _prepared(context: RecipeContext, operands: list[Tensor], target: Tensor) -> list[Tensor]:
    """Operands that agree on the row dimension: broadcast ones in L2, others copied to scratch where they differ."""
    lead = _leader(operands, target)
    ready = []
    for t in operands:
        if repeats(t):
            core = _core(t)
            last = lead if lead is not None and core.shape[lead] > 1 else None
            small = context.temporary(core.shape, _order(core.shape, last), Space.L2, t.dtype)
            context.copy(core, small)
            ready.append(small.expand(t.shape))
        elif t.contiguous != lead and t.elements > 1:
            moved = context.scratch(t.shape, _order(t.shape, lead), t.dtype)
            context.copy(t, moved)
            ready.append(moved)
        else:
            ready.append(t)
    return ready


def _materialised(context: RecipeContext, tensor: Tensor) -> Tensor:
    """A broadcast operand written out in full."""
    full = context.scratch(tensor.shape, None, tensor.dtype)
    _elementwise(context, full, [tensor], Binary.ADD, {})
    return full


def gain_offset(context: RecipeContext, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
                relu: bool = False) -> None:
    """target = (source + offset) * gain, one pair per position of `axis`: vectors in L2 as two rows.

    Where `axis` runs along rows the vectors would have to lie along W, which no sample shows: two broadcast
    operations instead.
    """
    roles = [OperandRole.PLANAR_SOURCE, OperandRole.RESULT]
    pair = [source, target] if source.aligned and target.aligned else []
    dims = assign(pair, roles, context.limits, channel=axis) if pair and source.contiguous != axis else None
    if dims is None:
        _two_steps(context, target, source, axis, offset, gain, relu)
        return
    rows = context.constant(np.stack([offset, gain]))
    vectors = context.temporary(rows.shape, (0, 1), Space.L2)
    context.copy(rows, vectors)
    first = access(source, dims)
    second = Access(space=Space.L2, slot=vectors.slot, shape=(first.shape[0], first.shape[1], 1, 2, 1),
                    strides=(0, vectors.strides[1], 0, vectors.strides[0], 0))
    context.emit(GainOffset(first=first, second=second, result=access(target, dims), relu=relu))


def _two_steps(context: RecipeContext, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
               relu: bool) -> None:
    shape = tuple(len(offset) if d == axis else 1 for d in range(source.rank))
    adds, multiplies = bool(np.any(offset != 0)), bool(np.any(gain != 1))
    if adds:
        step = context.scratch(target.shape) if multiplies else target
        elementwise(context, step, source, context.constant(offset.reshape(shape)), relu=relu and not multiplies)
        source = step
    if multiplies or not adds:
        elementwise(context, target, source, context.constant(gain.reshape(shape)), Binary.MULTIPLY, relu=relu)
