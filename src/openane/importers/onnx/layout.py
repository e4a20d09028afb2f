"""ONNX operators that rearrange elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from openane.importers.onnx.fold import reshaped
from openane.importers.onnx.step import Handler, Operand, Step, axes_of, axis_of


def _reshape(step: Step) -> Operand:
    x = step.value(0)
    return step.add("reshape", x=x, shape=reshaped(step, x.shape))


def _flatten(step: Step) -> Operand:
    x = step.value(0)
    axis = axis_of(step, step.integer("axis", 1), x.type.rank, end=True)
    return step.add("reshape", x=x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))


def _squeeze(step: Step) -> Operand:
    return step.add("squeeze", x=step.value(0), axes=axes_of(step, 1, 13) or None)


def _unsqueeze(step: Step) -> Operand:
    x, axes = step.value(0), axes_of(step, 1, 13) or ()
    return step.add("expand_dims", x=x, axes=[axis_of(step, axis, x.type.rank + len(axes)) for axis in axes])


def _transpose(step: Step) -> Operand:
    x = step.value(0)
    return step.add("transpose", x=x, perm=step.integers("perm", range(x.type.rank)[::-1]))


def _concat(step: Step) -> Operand:
    values = tuple(step.value(index) for index in range(len(step.inputs)))
    if len(values) == 1:
        return values[0]
    return step.add("concat", values=values, axis=step.integer("axis", 1))


def _pad(step: Step) -> Operand:
    x = step.value(0)
    mode = step.text("mode", "constant")
    if mode != "constant":
        raise step.refuse("mode", mode, "constant padding with zeros")
    fill = _fill(step)
    if fill:
        raise step.refuse("constant_value", fill, "constant padding with zeros")
    pairs = _pad_pairs(step, x.type.rank)
    if min(min(pair) for pair in pairs) < 0:
        raise step.refuse("pads", [list(pair) for pair in pairs], "pads of 0 or more; crop with Slice instead")
    if not any(map(any, pairs)):
        return x
    return step.add("pad", x=x, pad=[count for pair in pairs for count in pair], mode="constant", constant_val=0.0)


def _fill(step: Step) -> float:
    if step.version < 11:
        return step.number("value", 0.0)
    return step.number_in(2, "constant_value") if step.has(2) else 0.0


def _pad_pairs(step: Step, rank: int) -> list[tuple[int, int]]:
    """(before, after) for every dimension of x."""
    axes = step.integers_in(3, "axes") if step.version >= 18 and step.has(3) else tuple(range(rank))
    pads = step.integers_in(1, "pads") if step.version >= 11 else step.integers("pads")
    pairs = [(0, 0)] * rank
    for axis, before, after in zip(axes, pads[:len(axes)], pads[len(axes):], strict=True):
        pairs[axis_of(step, axis, rank)] = before, after
    return pairs


OPERATORS: Mapping[str, Handler] = {
    "Concat": _concat, "Flatten": _flatten, "Pad": _pad, "Reshape": _reshape, "Squeeze": _squeeze,
    "Transpose": _transpose, "Unsqueeze": _unsqueeze,
}
