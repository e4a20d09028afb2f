"""StableHLO operations that move elements: shapes, orders, parts, padding; and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.composites import part_of
from openane.importers.stablehlo.step import Handler, Result, StableStep, StableTensor
from openane.importers.stablehlo.values import Dense


def _constant(step: StableStep) -> Result:
    found = step.attribute("value")
    if not isinstance(found, Dense):
        raise UnsupportedError(step.label, "a constant is written out", found=str(found)[:40],
                               remedy="keep its numbers in the text")
    step.shared.budget.read(found.array)
    return StableTensor(found.array, found.type)


def _iota(step: StableStep) -> Result:
    """The position along one axis."""
    axis = step.front(step.integer("dim", "iota_dimension"), len(step.shape))
    step.take(step.shape[axis:axis + 1])
    return np.arange(step.shape[axis]).astype(step.type.dtype).reshape(
        [extent if at == axis else 1 for at, extent in enumerate(step.shape)])


def _reshaped(step: StableStep, x: StableTensor, shape: Sequence[int]) -> np.ndarray | Value:
    """What is held of a tensor in another shape, which came about as it did."""
    if isinstance(x.held, np.ndarray):
        return x.held.reshape(shape)
    made = step.reshaped(x.held, shape)
    if x.held.name in step.shared.origins:
        step.shared.origins.setdefault(made.name, step.shared.origins[x.held.name])
    return made


def _broadcast(step: StableStep) -> Result:
    """Nothing is repeated here: the shape is what the tensor stands for."""
    x, axes = step.operand(0), step.integers("dims", "broadcast_dimensions")
    if len(axes) != len(x.shape) or any(not 0 <= axis < len(step.shape) for axis in axes) or \
            len(set(axes)) != len(axes) or \
            any(x.shape[at] not in (1, step.shape[axis]) for at, axis in enumerate(axes)):
        raise GraphError(f"{step.label}: dims {list(axes)} do not place {list(x.shape)} in {list(step.shape)}")
    order = tuple(np.argsort(axes).tolist())
    held = x.held.transpose(order) if isinstance(x.held, np.ndarray) else step.permuted(x.held, order, "ordered")
    shape = [1] * len(step.shape)
    for at, axis in enumerate(sorted(axes)):
        shape[axis] = held.shape[at]
    return _reshaped(step, StableTensor(held, x.type), shape)


def _reshape(step: StableStep) -> Result:
    x = step.operand(0)
    if np.prod(x.held.shape) == 1:
        return _reshaped(step, x, (1,) * len(step.shape))
    if isinstance(x.held, np.ndarray):
        return step.repeated(x).reshape(step.shape)
    return _reshaped(step, StableTensor(step.as_value(x), x.type), step.shape)


def _transpose(step: StableStep) -> Result:
    x, order = step.operand(0), step.integers("dims", "permutation")
    if sorted(order) != list(range(len(x.shape))):
        raise GraphError(f"{step.label}: dims must name each of {len(x.shape)} axes once, found {list(order)}")
    return step.in_order(x, order)


def _reverse(step: StableStep) -> Result:
    x, axes = step.operand(0), step.integers("dims", "dimensions")
    if isinstance(x.held, np.ndarray):
        return np.flip(x.held, axes)
    return step.add("reverse", x=x.held, axes=axes) if axes else x


def _ranges(step: StableStep) -> list[list[int]]:
    """Begin, end and step of every axis."""
    rank = len(step.operand(0).shape)
    if "" in step.statement.attributes:
        found = [(each if isinstance(each, list) else [each]) for each in step.statement.numbers]
        found = [[*each, 1] if len(each) == 2 else each for each in found]
    else:
        names = ("start_indices", "limit_indices", "strides")
        found = [list(each) for each in zip(*(step.integers(name) for name in names), strict=True)]
    if len(found) != rank or any(len(each) != 3 for each in found):
        raise GraphError(f"{step.label}: a slice states begin, end and step of each of {rank} axes")
    return found


def _cut(step: StableStep, x: StableTensor, ranges: Sequence[Sequence[int]], part: str = "") -> np.ndarray | Value:
    """Every step-th element from begin to end of each axis."""
    for (begin, end, by), extent in zip(ranges, x.shape, strict=True):
        if not 0 <= begin <= end <= extent or by < 1:
            raise GraphError(f"{step.label}: {begin}:{end}:{by} is outside an axis of {extent}")
    kept = [(0, 1, 1) if held == 1 and end > begin else (begin, end, by)
            for (begin, end, by), held in zip(ranges, x.held.shape, strict=True)]
    if isinstance(x.held, np.ndarray):
        return x.held[tuple(slice(*each) for each in kept)]
    begins, ends, steps = zip(*kept, strict=True) if kept else ((), (), ())
    if all(each == (0, extent, 1) for each, extent in zip(kept, x.held.shape, strict=True)):
        return x.held
    return step.add("slice_by_index", part, x=x.held, begin=begins, end=ends, stride=steps)


def _slice(step: StableStep) -> Result:
    return _cut(step, step.operand(0), _ranges(step))


def _starts(step: StableStep, first: int, sizes: Sequence[int]) -> list[int]:
    """Where a part of these sizes begins, by the operands from `first` on; moved to where it lies inside."""
    found = [int(step.array(first + at, "where it begins").reshape(())) for at in range(len(sizes))]
    return [min(max(begin, 0), extent - size) for begin, extent, size in
            zip(found, step.operand(0).shape, sizes, strict=True)]


def _dynamic_slice(step: StableStep) -> Result:
    sizes = step.integers("sizes", "slice_sizes")
    return _cut(step, step.operand(0), [(begin, begin + size, 1) for begin, size in
                                        zip(_starts(step, 1, sizes), sizes, strict=True)])


def _dynamic_update(step: StableStep) -> Result:
    begins = _starts(step, 2, step.operand(1).shape)
    ends = [begin + size for begin, size in zip(begins, step.operand(1).shape, strict=True)]
    if step.known:
        made = step.array(0, "x").copy()
        made[tuple(map(slice, begins, ends))] = step.array(1, "update")
        return made
    joined = _written_throughout(step, begins)
    return joined if joined is not None else \
        step.add("slice_update", x=step.value(0), update=step.value(1), begin=begins, end=ends)


def _written_throughout(step: StableStep, begins: Sequence[int]) -> Value | None:
    """The parts of an axis side by side where all of it is written, one update after the other, as loops write their
    results; None where something is left of what was there before."""
    x, update = step.operands[:2]
    axes = [axis for axis, (part, whole) in enumerate(zip(update.shape, x.shape, strict=True)) if part != whole]
    if len(axes) != 1:
        return None
    axis, size = axes[0], update.shape[axes[0]]
    parts = {begins[axis]: update}
    while len(parts) * size < x.shape[axis]:
        earlier = step.origin(x, "dynamic_update_slice")
        if earlier is None or earlier[1].shape != update.shape:
            break
        parts.setdefault(int(np.asarray(earlier[2 + axis].held).reshape(())), earlier[1])
        x = earlier[0]
    if sorted(parts) != list(range(0, step.shape[axis], size)):
        return None
    values = tuple(step.as_value(step.as_stated(parts[begin]), far=True) for begin in sorted(parts))
    return values[0] if len(values) == 1 else step.add("concat", values=values, axis=axis)


def _concatenate(step: StableStep) -> Result:
    axis = step.front(step.integer("dim", "dimension"), len(step.shape))
    if step.known:
        step.take(step.shape)
        return np.concatenate([step.repeated(each) for each in step.operands], axis)
    parts = [step.as_value(each, far=True) for each in step.operands if each.shape[axis]]
    return parts[0] if len(parts) == 1 else step.add("concat", values=tuple(parts), axis=axis)


def _pad(step: StableStep) -> Result:
    """Elements in front and behind, fewer where there are less than none."""
    x, filling = step.operand(0), step.operand(1).number
    low, high, interior = (step.integers(name, f"edge_padding_{name}", f"{name}_padding")
                           for name in ("low", "high", "interior"))
    if not len(low) == len(high) == len(interior) == len(x.shape):
        raise GraphError(f"{step.label}: low, high and interior must have {len(x.shape)} numbers each")
    if min(interior, default=0) < 0:
        raise GraphError(f"{step.label}: interior must not be negative, found {list(interior)}")
    if filling is None:
        raise step.refuse("operand 1", "computed", "a constant")
    x = _apart(step, x, interior, filling)
    taken = [(max(0, -before), extent - max(0, -after), 1)
             for extent, before, after in zip(x.shape, low, high, strict=True)]
    added = [(max(0, before), max(0, after)) for before, after in zip(low, high, strict=True)]
    if isinstance(x.held, np.ndarray):
        step.take(step.shape)
        kept = step.repeated(x)[tuple(slice(*each) for each in taken)]
        return np.pad(kept, added, constant_values=np.asarray(filling, kept.dtype))
    inner = _cut(step, StableTensor(step.as_value(x), x.type), taken, "inner")
    if not any(map(any, added)):
        return inner
    return step.add("pad", x=inner, pad=[count for pair in added for count in pair], mode="constant",
                    constant_val=_filling(step, filling))


def _filling(step: StableStep, number: float) -> float:
    return float(step.converted(np.array(number), far=True)) if step.kind == "float" else number


def _apart(step: StableStep, x: StableTensor, interior: Sequence[int], filling: float) -> StableTensor:
    """x with numbers between the elements of each axis."""
    for axis, count in enumerate(interior):
        if not count or x.shape[axis] < 2:
            continue
        shape = list(x.shape)
        shape[axis] = shape[axis] * (1 + count) - count
        kind = x.type._replace(shape=tuple(shape))
        if isinstance(x.held, np.ndarray):
            step.take(shape)
            made = np.full(shape, filling, x.type.dtype)
            made[tuple(slice(None, None, 1 + count if at == axis else 1) for at in range(len(shape)))] = \
                step.repeated(x)
            x = StableTensor(made, kind)
            continue
        value = step.as_value(x)
        single = step.reshaped(value, [*value.shape[:axis + 1], 1, *value.shape[axis + 1:]], "single")
        behind = [0] * (2 * single.type.rank)
        behind[2 * axis + 3] = count
        wide = step.add("pad", "between", x=single, pad=behind, mode="constant", constant_val=_filling(step, filling))
        flat = step.reshaped(wide, [*value.shape[:axis], value.shape[axis] * (1 + count), *value.shape[axis + 1:]],
                             "apart")
        x = StableTensor(part_of(step, flat, axis, 0, shape[axis], "kept"), kind)
    return x


OPERATORS: Mapping[str, Handler] = {
    "broadcast_in_dim": _broadcast, "concatenate": _concatenate, "constant": _constant, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update, "iota": _iota, "pad": _pad, "reshape": _reshape, "reverse": _reverse,
    "slice": _slice, "transpose": _transpose,
}
