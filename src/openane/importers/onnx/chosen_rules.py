"""Where rows that a mask chooses lie in what an ONNX operator makes of them.

All rows are kept in place of the chosen ones (see chosen.py), which is the same where every operator works on each row
by itself. A rule takes what an operator was given and made, and says along which axis the rows lie then; it has no
answer where they are mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from operator import mul

from openane.importers.onnx.fold import slices
from openane.importers.onnx.step import OnnxStep, Operand, axes_of
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class MaskRows:
    """Rows of a tensor along an axis, `inner` of them one behind the other for each element of the tensor `mask`; with
    `axis` None an array that has their number among its elements."""

    mask: str
    inner: int = 1
    axis: int | None = None


Marks = Sequence[MaskRows | None]
Rule = Callable[[OnnxStep, Marks, Operand], MaskRows | None]


def _shape(step: OnnxStep, index: int) -> tuple[int, ...]:
    return step.operand(index).shape


def _same(marks: Marks) -> MaskRows | None:
    """The mask that all marks are of, and how many rows it has for each element."""
    found = {(mark.mask, mark.inner) for mark in marks if mark is not None}
    return MaskRows(*found.pop()) if len(found) == 1 else None


def _together(step: OnnxStep, marks: Marks) -> tuple[MaskRows, int] | None:
    """The mask that all marks are of, and where its rows lie, counted from the last axis, where that is the same in all
    operands that have some."""
    same = _same(marks)
    behind = {len(_shape(step, place)) - mark.axis for place, mark in enumerate(marks)
              if mark is not None and mark.axis is not None}
    return (same, behind.pop()) if same is not None and len(behind) == 1 else None


def by_element(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Rows keep their place, counted from the last axis; what else is given is the same for all."""
    found, shapes = _together(step, marks), [each.shape if each is not None else () for each in step.inputs]
    if found is None or any(mark is None and len(shape) >= found[1] and shape[-found[1]] != 1
                            for shape, mark in zip(shapes, marks, strict=True)):
        return None
    return replace(found[0], axis=len(result.shape) - found[1])


def _alone(marks: Marks, given: int = 0) -> tuple[MaskRows, int] | None:
    """The mark of operand `given`, where no other has one."""
    mark = marks[given] if given < len(marks) else None
    if mark is None or mark.axis is None or any(each is not None for place, each in enumerate(marks) if place != given):
        return None
    return mark, mark.axis


def _gemm(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found = _alone(marks)
    wide = step.has(2) and len(_shape(step, 2)) == 2 and _shape(step, 2)[0] != 1
    return found[0] if found and found[1] == 0 and not wide and not step.integer("transA", 0) else None


def _matmul(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Rows of the first factor, or products of their own."""
    shapes = [_shape(step, 0), _shape(step, 1)]
    if min(map(len, shapes)) < 2:
        return None
    found = _alone(marks)
    if found and len(shapes[0]) - found[1] == 2:
        return replace(found[0], axis=len(result.shape) - 2)
    several = by_element(step, marks, result)
    return several if several and several.axis is not None and len(result.shape) - several.axis > 2 else None


def _first(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Layers that take a batch: each of it by itself."""
    found = _alone(marks)
    return found[0] if found and found[1] == 0 else None


def _transpose(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found = _alone(marks)
    order = step.integers("perm", range(len(result.shape))[::-1])
    return replace(found[0], axis=order.index(found[1])) if found else None


def _unsqueeze(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found, rank = _alone(marks), len(result.shape)
    new = {axis % rank for axis in axes_of(step, 1, 13) or ()}
    old = [axis for axis in range(rank) if axis not in new]
    return replace(found[0], axis=old[found[1]]) if found else None


def _squeeze(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found, shape = _alone(marks), _shape(step, 0)
    if not found:
        return None
    stated = axes_of(step, 1, 13)
    gone = {axis % len(shape) for axis in stated} if stated is not None else \
        {axis for axis, extent in enumerate(shape) if extent == 1}
    return None if found[1] in gone else replace(found[0], axis=found[1] - sum(axis < found[1] for axis in gone))


def _reshape(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Rows stay together; those of some elements each may become rows, and the other way round."""
    mark, same = marks[0], _same(marks)
    if mark is None or mark.axis is None or same is None:
        return None
    old, new = _shape(step, 0), result.shape
    before, count = prod(old[:mark.axis]), old[mark.axis]
    for axis, front in enumerate(accumulate(new, mul, initial=1)):
        if axis == len(new) or front > before:
            return None
        if front == before and (new[axis] != 1 or count == 1):
            inner = _inner(mark.inner, count, old[mark.axis + 1:], new[axis:])
            return None if inner is None else replace(same, inner=inner, axis=axis)
    return None


def _inner(inner: int, count: int, behind: Sequence[int], new: Sequence[int]) -> int | None:
    """How many rows an element has behind a reshape of [count, *behind] to `new`."""
    if new[0] == count:
        return inner
    if new[0] > count:
        more = new[0] // count
        return inner * more if new[0] % count == 0 and more in accumulate(behind, mul) else None
    fewer = count // new[0]
    whole = count % new[0] == 0 and inner % fewer == 0 and fewer in accumulate(new[1:], mul)
    return inner // fewer if whole else None


def _expand(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Rows spread over more axes, or what is the same for every row."""
    mark, same, shape = marks[0], _same(marks), _shape(step, 0)
    if same is None:
        return None
    if mark is not None and mark.axis is not None:
        axis = mark.axis + len(result.shape) - len(shape)
        return replace(same, axis=axis) if result.shape[axis] == shape[mark.axis] else None
    wide = (1,) * (len(result.shape) - len(shape)) + shape
    new = [axis for axis, (old, extent) in enumerate(zip(wide, result.shape, strict=True)) if old != extent]
    stated = step.operand(1)
    lone = [axis for axis in range(stated.shape[0] if len(stated.shape) == 1 else 0) if axis in new]
    return replace(same, axis=lone[0]) if len(lone) == 1 and len(new) == 1 else None


def _all_besides(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """All operands have rows, which stay where they are, as the operator works along another axis."""
    found = _together(step, marks) if all(mark is not None and mark.axis is not None for mark in marks) else None
    if found is None:
        return None
    axis = len(result.shape) - found[1]
    return replace(found[0], axis=axis) if axis != step.front(step.integer("axis", 0), len(result.shape)) else None


def _besides(step: OnnxStep, marks: Marks, result: Operand, axis: int) -> MaskRows | None:
    """Rows stay where they are, as the operator works along another axis."""
    found = _alone(marks)
    return found[0] if found and found[1] != axis % len(_shape(step, 0)) else None


def _split(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    return _besides(step, marks, result, step.integer("axis", 0))


def _along(default: int) -> Rule:
    def rule(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
        return _besides(step, marks, result, step.integer("axis", default))
    return rule


def _softmax(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Before opset 13 everything from the axis on is one row."""
    return _along(-1)(step, marks, result) if step.version >= 13 else _from(step, marks, step.integer("axis", 1))


def _from(step: OnnxStep, marks: Marks, axis: int) -> MaskRows | None:
    found, rank = _alone(marks), len(_shape(step, 0))
    return found[0] if found and found[1] < axis % rank else None


def _normalisation(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Everything from the axis on is normalised together."""
    return _from(step, marks, step.integer("axis", -1))


def _arg(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found, axis = _besides(step, marks, result, step.integer("axis", 0)), step.integer("axis", 0)
    return _without(found, [axis], len(_shape(step, 0)), bool(step.integer("keepdims", 1)))


def _without(mark: MaskRows | None, axes: Sequence[int], rank: int, kept: bool) -> MaskRows | None:
    if mark is None or mark.axis is None or kept:
        return mark
    place = mark.axis
    return replace(mark, axis=place - sum(axis % rank < place for axis in axes))


def reduced_axes(step: OnnxStep) -> tuple[int, ...]:
    """The axes a reduction works along, from the front."""
    rank = len(_shape(step, 0))
    stated = axes_of(step, 1, 13 if step.op == "ReduceSum" else 18)
    if not stated:
        return () if step.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(axis % rank for axis in stated)


def _reduce(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found, axes = _alone(marks), reduced_axes(step)
    if not found or found[1] in axes:
        return None
    return _without(found[0], axes, len(_shape(step, 0)), bool(step.integer("keepdims", 1)))


def _slice(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Other axes are cut; rows are all kept where an end beyond them, or their number, is stated."""
    mark, same = marks[0], _same(marks)
    if mark is None or mark.axis is None or same is None:
        return None
    kept = slices(step, _shape(step, 0))[mark.axis]
    whole = kept.step in (None, 1) and result.shape[mark.axis] == _shape(step, 0)[mark.axis]
    return mark if whole else None


def _gather(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    """Elements of a table for each row, or some of every row."""
    data, indices = marks[0], marks[1]
    axis = step.front(step.integer("axis", 0), len(_shape(step, 0)))
    if data is None and indices is not None and indices.axis is not None:
        return replace(indices, axis=axis + indices.axis)
    if data is None or indices is not None or data.axis in (None, axis):
        return None
    place = data.axis or 0
    return data if place < axis else replace(data, axis=place - 1 + len(_shape(step, 1)))


def _gather_nd(step: OnnxStep, marks: Marks, result: Operand) -> MaskRows | None:
    found = _alone(marks, 1)
    return found[0] if found and found[1] < len(_shape(step, 1)) - 1 and not step.integer("batch_dims", 0) else None


_ELEMENTWISE = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Dropout", "Elu", "Equal", "Erf",
    "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN",
    "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu",
    "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
    "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor")
_LAYERS = ("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool",
           "GroupNormalization", "InstanceNormalization", "MaxPool")
_REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
               "ReduceProd", "ReduceSum", "ReduceSumSquare")

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, by_element), **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(_LAYERS, _first),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _softmax),
    **dict.fromkeys(("LpNormalization", "TopK"), _along(-1)),
    "ArgMax": _arg, "ArgMin": _arg, "Concat": _all_besides, "Expand": _expand, "Flatten": _reshape, "Gather": _gather,
    "GatherElements": _all_besides, "GatherND": _gather_nd, "Gemm": _gemm, "LayerNormalization": _normalisation,
    "MatMul": _matmul, "RMSNormalization": _normalisation, "Reshape": _reshape, "Slice": _slice, "Split": _split,
    "Squeeze": _squeeze, "Transpose": _transpose, "Unsqueeze": _unsqueeze}
"""Operators whose results for a row are of nothing but that row."""
COUNTING = frozenset(("Add", "Cast", "Concat", "Equal", "Gather", "Identity", "Mul", "Reshape", "Slice", "Squeeze",
                      "Unsqueeze", "Where"))
"""Operators that make a shape of numbers of rows, where all they are given is known."""
