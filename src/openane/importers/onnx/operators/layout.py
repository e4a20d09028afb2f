"""ONNX operators that rearrange, repeat and surround elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import bounded, reshaped
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result, axes_of
from openane.rounding import ceil_div

PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "wrap"}


def _reshape(step: OnnxStep) -> Operand:
    x = step.value(0)
    return step.add("reshape", x=x, shape=reshaped(step, x.shape))


def _flatten(step: OnnxStep) -> Operand:
    x = step.value(0)
    axis = step.front(step.integer("axis", 1), x.type.rank, end=True)
    return step.add("reshape", x=x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))


def _squeeze(step: OnnxStep) -> Operand:
    return step.add("squeeze", x=step.value(0), axes=axes_of(step, 1, 13) or None)


def _unsqueeze(step: OnnxStep) -> Operand:
    x, axes = step.value(0), axes_of(step, 1, 13) or ()
    return step.add("expand_dims", x=x, axes=[step.front(axis, x.type.rank + len(axes)) for axis in axes])


def _transpose(step: OnnxStep) -> Operand:
    x = step.value(0)
    return step.add("transpose", x=x, perm=step.integers("perm", range(x.type.rank)[::-1]))


def _concat(step: OnnxStep) -> Operand:
    """Parts without elements vanish."""
    values = tuple(step.number(index) for index in range(len(step.inputs))
                   if 0 not in step.operand(index).shape)
    if not values:
        raise UnsupportedError(step.label, "tensors without elements cannot be computed", remedy="leave the node out")
    return values[0] if len(values) == 1 else step.add("concat", values=values, axis=step.integer("axis", 1))


def _parts(step: OnnxStep, extent: int) -> tuple[int, ...]:
    """The sizes of the parts of a Split node, equal ones where none are stated."""
    if step.version >= 13 and step.has(1):
        return step.integers_in(1, "split")
    if step.version < 13 and "split" in step.attributes:
        return step.integers("split")
    part = ceil_div(extent, len(step.outputs))
    return tuple(min(part, extent - part * index) for index in range(len(step.outputs)))


def _split(step: OnnxStep) -> Result:
    x = step.value(0)
    axis = step.front(step.integer("axis", 0), x.type.rank)
    extent, sizes = x.shape[axis], _parts(step, x.shape[axis])
    if len(sizes) != len(step.outputs):
        raise GraphError(f"{step.label}: {len(sizes)} parts for {len(step.outputs)} outputs")
    if min(sizes) < 0 or sum(sizes) != extent:
        raise GraphError(f"{step.label}: parts {list(sizes)} do not make the {extent} elements of axis {axis}")
    full = [size for size in sizes if size]
    made = iter(step.add_all("split", x=x, split_sizes=full, axis=axis) if len(full) > 1 else (x,))
    empty = np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1:]), np.float32)
    return tuple(next(made) if size else empty for size in sizes)


def _tile(step: OnnxStep) -> Operand:
    x = step.number(0)
    return repeated(step, x, step.integers_in(1, "repeats"))


def repeated(step: OnnxStep, x: Value, counts: Sequence[int]) -> Value:
    """x repeated along its dimensions, one count for each."""
    if len(counts) != x.type.rank:
        raise GraphError(f"{step.label}: {len(counts)} repeats for {x.type.rank} dimensions")
    return step.add("tile", x=x, reps=counts) if any(count != 1 for count in counts) else x


def _expand(step: OnnxStep) -> Operand:
    x = step.number(0)
    return expanded(step, x, np.broadcast_shapes(x.shape, bounded(step, step.integers_in(1, "shape"))))


def expanded(step: OnnxStep, x: Value, shape: Sequence[int]) -> Value:
    """x broadcast to `shape`."""
    missing = len(shape) - x.type.rank
    if missing:
        x = step.add("reshape", part="raised", x=x, shape=(*(1,) * missing, *x.shape))
    return repeated(step, x, [extent // old for extent, old in zip(shape, x.shape, strict=True)])


def _pad(step: OnnxStep) -> Operand:
    x = step.number(0)
    mode = step.text("mode", "constant")
    if mode not in PAD_MODES:
        raise step.refuse("mode", mode, f"one of {', '.join(PAD_MODES)}")
    pairs = _pad_pairs(step, x.type.rank)
    x = _cropped(step, x, pairs)
    pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if not any(map(any, pairs)):
        return x
    if mode == "wrap":
        return _wrapped(step, x, pairs)
    pad = [count for pair in pairs for count in pair]
    if mode != "constant":
        return step.add("pad", x=x, pad=pad, mode=PAD_MODES[mode])
    fill = step.operand(2) if step.version >= 11 and step.has(2) else np.array(step.real_attribute("value", 0.0))
    if isinstance(fill, Value):
        return _filled(step, x, pairs, step.number(2))
    return step.add("pad", x=x, pad=pad, mode="constant", constant_val=float(fill.reshape(())))


def _cropped(step: OnnxStep, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """x without what negative pads take away."""
    if min(min(pair) for pair in pairs) >= 0:
        return x
    begin = [max(-before, 0) for before, _ in pairs]
    end = [extent + min(after, 0) for extent, (_, after) in zip(x.shape, pairs, strict=True)]
    return step.add("slice_by_index", part="cropped", x=x, begin=begin, end=end)


def _filled(step: OnnxStep, x: Value, pairs: Sequence[tuple[int, int]], fill: Value) -> Operand:
    """Padding with a number computed at run time: picked by a constant mask."""
    pad = [count for pair in pairs for count in pair]
    wide = step.add("pad", part="wide", x=x, pad=pad, mode="constant", constant_val=0)
    bounded(step, wide.shape)
    inside = np.pad(np.ones(x.shape, np.bool_), pairs)
    scalar = step.add("reshape", part="fill", x=fill, shape=(1,) * x.type.rank)
    return step.add("select", cond=inside, a=wide, b=scalar)


def _wrapped(step: OnnxStep, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """x surrounded by itself, dimension by dimension."""
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            extent = x.shape[axis]
            bounded(step, (before + extent + after,))
            places = np.arange(-before, extent + after, dtype=np.int32) % extent
            x = step.add("gather", part=f"axis{axis}", x=x, indices=places, axis=axis)
    return x


def _pad_pairs(step: OnnxStep, rank: int) -> list[tuple[int, int]]:
    """(before, after) for every dimension of x."""
    axes = step.integers_in(3, "axes") if step.version >= 18 and step.has(3) else tuple(range(rank))
    pads = step.integers_in(1, "pads") if step.version >= 11 else step.integers("pads")
    pairs = [(0, 0)] * rank
    for axis, before, after in zip(axes, pads[:len(axes)], pads[len(axes):], strict=True):
        pairs[step.front(axis, rank)] = before, after
    return pairs


def _space_to_depth(step: OnnxStep) -> Operand:
    x, block, mode = step.number(0), step.integer("blocksize", 0), step.text("mode", "DCR")
    if mode == "DCR":
        return step.add("space_to_depth", x=x, block_size=block)
    if mode == "CRD":
        return step.add("pixel_unshuffle", x=x, downscale_factor=block)
    raise step.refuse("mode", mode, "one of DCR, CRD")


def _depth_to_space(step: OnnxStep) -> Operand:
    x, block, mode = step.number(0), step.integer("blocksize", 0), step.text("mode", "DCR")
    if mode == "DCR":
        return step.add("depth_to_space", x=x, block_size=block)
    if mode == "CRD":
        return step.add("pixel_shuffle", x=x, upscale_factor=block)
    raise step.refuse("mode", mode, "one of DCR, CRD")


def _triangle(step: OnnxStep) -> Operand:
    x = step.number(0)
    offset = int(step.number_in(1, "k")) if step.has(1) else 0
    ones = np.ones(bounded(step, x.shape[-2:]), np.bool_)
    kept = np.triu(ones, offset) if step.integer("upper", 1) else np.tril(ones, offset)
    return step.add("select", cond=kept, a=x, b=np.zeros((), np.float16 if x.dtype == "fp16" else np.int32))


OPERATORS: Mapping[str, Handler] = {
    "Concat": _concat, "DepthToSpace": _depth_to_space, "Expand": _expand, "Flatten": _flatten, "Pad": _pad,
    "Reshape": _reshape, "SpaceToDepth": _space_to_depth, "Split": _split, "Squeeze": _squeeze, "Tile": _tile,
    "Transpose": _transpose, "Trilu": _triangle, "Unsqueeze": _unsqueeze,
}
