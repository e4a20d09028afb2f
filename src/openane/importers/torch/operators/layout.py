"""PyTorch operators that rearrange elements: shapes, axes, slices, joining, padding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.composites import diagonal
from openane.importers.masks import FARTHEST, nearer
from openane.importers.torch.step import Handler, Result, TorchStep


def _reshape(step: TorchStep) -> Result:
    return step.reshaped(step.value("self"), step.shape)


def _permute(step: TorchStep) -> Result:
    x = step.value("self")
    return step.add("transpose", x=x, perm=[axis % x.type.rank for axis in step.integers("dims")])


def _transpose(step: TorchStep) -> Result:
    x = step.value("self")
    order = list(range(x.type.rank))
    first, second = step.axis("dim0", x.type.rank), step.axis("dim1", x.type.rank)
    order[first], order[second] = second, first
    return step.add("transpose", x=x, perm=order)


def _matrix_transpose(step: TorchStep) -> Result:
    x = step.value("self")
    return x if x.type.rank < 2 else step.add("transpose", x=x, perm=[1, 0])


def _repeat(step: TorchStep) -> Result:
    return step.spread(step.value("self"), step.shape, "")


def _cat(step: TorchStep) -> Result:
    values = _several(step)
    return values[0] if len(values) == 1 else step.add("concat", values=values, axis=step.axis("dim", len(step.shape)))


def _stack(step: TorchStep) -> Result:
    return step.add("stack", values=_several(step), axis=step.axis("dim", len(step.shape)))


def _several(step: TorchStep) -> tuple[Value, ...]:
    """The tensors of a list, those of no elements left out."""
    return tuple(step.matched(step.as_value(found, "tensors", FARTHEST), step.kind)
                 for found in step.argument("tensors") if isinstance(found, Value) or found.numel())


def _split(step: TorchStep) -> Result:
    x = step.value("self")
    axis = step.axis("dim", x.type.rank)
    sizes = list(step.integers("split_sizes" if step.given("split_sizes") else "split_size"))
    if not step.given("split_sizes") and len(sizes) == 1:
        whole, rest = divmod(x.shape[axis], sizes[0])
        sizes = sizes * whole + ([rest] if rest else [])
    filled = [size for size in sizes if size]  # parts of no elements are known without looking
    parts = iter((x,) if len(filled) == 1 else step.add_all("split", x=x, split_sizes=filled, axis=axis))
    return tuple(next(parts) if size else None for size in sizes)


def _unbind(step: TorchStep) -> Result:
    x = step.value("self")
    axis = step.axis("dim", x.type.rank)
    return tuple(_selected(step, x, axis, index) for index in range(x.shape[axis]))


def _select(step: TorchStep) -> Result:
    x = step.value("self")
    axis = step.axis("dim", x.type.rank)
    return _selected(step, x, axis, int(step.argument("index")) % x.shape[axis])


def _selected(step: TorchStep, x: Value, axis: int, index: int) -> Value:
    """One element of an axis, which goes."""
    begin = [index if d == axis else 0 for d in range(x.type.rank)]
    end = [index + 1 if d == axis else extent for d, extent in enumerate(x.shape)]
    return step.add("slice_by_index", x=x, begin=begin, end=end, squeeze_mask=[d == axis for d in range(x.type.rank)])


def _slice(step: TorchStep) -> Result:
    x = step.value("self")
    axis, stride = step.axis("dim", x.type.rank), int(step.argument("step", 1))
    first, last, _ = slice(step.argument("start"), step.argument("end"), stride).indices(x.shape[axis])
    if (first, last, stride) == (0, x.shape[axis], 1):
        return x
    rank = range(x.type.rank)
    return step.add("slice_by_index", x=x, begin=[first if d == axis else 0 for d in rank],
                    end=[last if d == axis else x.shape[d] for d in rank],
                    stride=[stride if d == axis else 1 for d in rank])


def _unfold(step: TorchStep) -> Result:
    """Windows of an axis, whose elements become the last axis."""
    x, size, stride = step.value("self"), int(step.argument("size")), int(step.argument("step"))
    axis = int(step.argument("dimension")) % x.type.rank
    count = step.shape[axis]
    if stride == size:
        begin, end = [0] * x.type.rank, [count * size if d == axis else extent for d, extent in enumerate(x.shape)]
        whole = x if tuple(end) == x.shape else step.add("slice_by_index", part="whole", x=x, begin=begin, end=end)
    else:
        places = np.arange(count, dtype=np.int32)[:, None] * stride + np.arange(size, dtype=np.int32)
        whole = step.add("gather", part="windows", x=x, indices=places.reshape(-1), axis=axis)
    split = step.reshaped(whole, (*x.shape[:axis], count, size, *x.shape[axis + 1:]), "apart")
    order = [*(d for d in range(x.type.rank + 1) if d != axis + 1), axis + 1]
    return split if axis == x.type.rank - 1 else step.add("transpose", x=split, perm=order)


def _pad(mode: str) -> Handler:
    """Pairs of counts, the last axis first."""
    def handler(step: TorchStep) -> Result:
        x = step.value("self")
        given = step.integers("pad" if step.given("pad") else "padding")
        pairs = [given[i:i + 2] for i in range(0, len(given), 2)][::-1]
        pairs = [(0, 0)] * (x.type.rank - len(pairs)) + pairs
        if min(given, default=0) < 0:
            x = step.add("slice_by_index", part="cropped", x=x, begin=[max(0, -before) for before, _ in pairs],
                         end=[extent + min(0, behind) for extent, (_, behind) in zip(x.shape, pairs, strict=True)])
        counts = [max(0, count) for pair in pairs for count in pair]
        if not any(counts):
            return x
        value = float(np.clip(step.argument("value", 0), -FARTHEST, FARTHEST))
        if x.dtype != "fp16" and mode == "constant":
            return _padded(step, x, counts, value)
        return step.add("pad", x=x, pad=counts, mode=mode, constant_val=value)
    return handler


def _padded(step: TorchStep, x: Value, counts: list[int], value: float) -> Value:
    """Whole numbers and booleans with constants joined before and behind: `pad` is of floating point."""
    dtype = {"int32": np.int32, "bool": np.bool_}[x.dtype]
    for axis in range(x.type.rank):
        shapes = [[count if d == axis else extent for d, extent in enumerate(x.shape)]
                  for count in counts[2 * axis:2 * axis + 2]]
        sides: list[np.ndarray] = [step.filled(shape, value, dtype) for shape in shapes]
        before, behind = (() if not side.size else (step.builder.constant(side),) for side in sides)
        if before or behind:
            x = step.add("concat", part=f"padded{axis}", values=(*before, x, *behind), axis=axis)
    return x


def _flip(step: TorchStep) -> Result:
    x = step.value("self")
    return step.add("reverse", x=x, axes=[axis % x.type.rank for axis in step.integers("dims")])


def _roll(step: TorchStep) -> Result:
    """The last elements of each axis put in front."""
    x, axes = step.value("self"), step.integers("dims")
    if not axes:  # all elements in a row
        x, axes = step.reshaped(x, (x.type.elements,), "row"), (0,)
    for axis, shift in zip(axes, step.integers("shifts"), strict=True):
        extent = x.shape[axis]
        count = shift % extent
        if count:
            axis %= x.type.rank
            ends = step.add_all("split", part="ends", x=x, split_sizes=[extent - count, count], axis=axis)
            x = step.add("concat", part="rolled", values=ends[::-1], axis=axis)
    return step.reshaped(x, step.shape)


def _diagonal(step: TorchStep) -> Result:
    """Elements whose positions on two axes differ by `offset`, as the last axis."""
    x = step.value("self")
    axes = step.axis("dim1", x.type.rank), step.axis("dim2", x.type.rank, 1)
    return diagonal(step, x, axes, step.shape[-1], int(step.argument("offset", 0)))


def _pixel_shuffle(step: TorchStep) -> Result:
    return step.add("pixel_shuffle", x=step.value("self"), upscale_factor=int(step.argument("upscale_factor")))


def _pixel_unshuffle(step: TorchStep) -> Result:
    return step.add("pixel_unshuffle", x=step.value("self"), downscale_factor=int(step.argument("downscale_factor")))


def _filled(number: float) -> Handler:
    """A constant in the shape of the result, whatever self holds."""
    def handler(step: TorchStep) -> Result:
        dtype = {"float": np.float16, "int": np.int32, "bool": np.bool_}[step.kind]
        value = step.argument("fill_value", number)
        if step.kind == "float":
            value = float(nearer(np.array(value, np.float64), FARTHEST))
        return step.builder.constant(step.filled(step.shape, value, dtype))
    return handler


def _scalar(step: TorchStep) -> Result:
    raise UnsupportedError(step.label, "a number computed at run time cannot decide anything in Python",
                           remedy="keep it a tensor")


OPERATORS: Mapping[str, Handler] = {
    **dict.fromkeys(("_unsafe_view", "flatten", "reshape", "squeeze", "unflatten", "unsqueeze", "view", "view_copy"),
                    _reshape),
    **dict.fromkeys(("reflection_pad1d", "reflection_pad2d"), _pad("reflect")),
    **dict.fromkeys(("replication_pad1d", "replication_pad2d"), _pad("replicate")),
    "_local_scalar_dense": _scalar, "cat": _cat, "constant_pad_nd": _pad("constant"), "diagonal": _diagonal,
    "expand": _repeat, "flip": _flip,
    "full_like": _filled(0), "item": _scalar, "ones_like": _filled(1), "permute": _permute,
    "pixel_shuffle": _pixel_shuffle, "pixel_unshuffle": _pixel_unshuffle, "repeat": _repeat, "roll": _roll,
    "select": _select, "slice": _slice, "split": _split, "split_with_sizes": _split, "stack": _stack,
    "t": _matrix_transpose, "transpose": _transpose, "unbind": _unbind, "unfold": _unfold,
    "zeros_like": _filled(0),
}
