"""Rows that a mask chooses: the positions NonZero finds, what is gathered and computed at them row by row, and where it
is put back or summed.

How many rows a mask chooses depends on the data. All rows are kept in place of the chosen ones, those too that the mask
leaves out: positions are those of all its elements, which are known, and what is put back or summed is chosen at the
end. That is the same where every operator between works on each row by itself (chosen_rules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.masks import FARTHEST
from openane.importers.onnx.chosen_rules import COUNTING, RULES, Marks, MaskRows, reduced_axes
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.nodes import StatedNode
from openane.importers.onnx.step import OnnxStep, Result, RunTimeOperandError
from openane.record_classes import dataclass

Run = Callable[[OnnxStep], Result]
_MOVED = frozenset(("Cast", "Flatten", "Identity", "Reshape", "Unsqueeze"))
"""Operators that leave the elements of a mask in their order."""
_SHAPED = frozenset(("Expand", "Reshape"))
_CARRIED = frozenset(("Cast", "Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"))
AGAIN = " in turn "
"""Between a mask's name and a number, where a loop makes it again."""
_EXTREMES = {"ReduceMax": -FARTHEST, "ReduceMin": FARTHEST}
_ENDING = frozenset(("ReduceMean", "ReduceSum", *_EXTREMES))


@dataclass(slots=True)
class RowsOfMasks:
    """The masks of a model that chooses rows by some. `marks` says of tensors, by name, where they have such rows;
    `masks` of tensors that are a mask in another shape, which; `values` are the masks, as truth values once one chose
    something; `users` the nodes that read a tensor."""

    users: dict[str, list[tuple[str, int, Sequence[str]]]]
    marks: dict[str, MaskRows] = field(default_factory=dict)
    masks: dict[str, MaskRows] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[StatedNode]) -> RowsOfMasks | None:
        """What is kept of a graph that has a NonZero; None for others."""
        if not any(node.kind == "NonZero" for node in nodes):
            return None
        users: dict[str, list[tuple[str, int, Sequence[str]]]] = {}
        for node in nodes:
            for place, name in enumerate(node.inputs):
                users.setdefault(name, []).append((node.kind, place, node.outputs))
        return cls(users)

    def unfixed(self, name: str, label: str) -> RunTimeOperandError | None:
        """The error where an output has rows that a mask chooses."""
        return self._needs_number(self.marks[name], label) if name in self.marks else None

    @staticmethod
    def _needs_number(mark: MaskRows, label: str) -> RunTimeOperandError:
        return RunTimeOperandError(label, "the number of rows that a mask chooses, where these are not computed each "
                                   "by itself, put back (ScatterND) or summed,", mark.mask.partition(AGAIN)[0])

    def result(self, step: OnnxStep, reads: Sequence[str], run: Run) -> Result:
        """What a node gives, all rows of those that are chosen."""
        for name in step.outputs:  # a turn of a loop names its results as the turn before
            self.marks.pop(name, None)
            self.masks.pop(name, None)
        marks = [self.marks.get(name) for name in step.input_names]
        if any(marks):
            return self._of_rows(step, marks, run)
        if not self.marks.keys().isdisjoint(reads):
            raise self._mixed(step, next(name for name in reads if name in self.marks))
        return self._without(step, run)

    def _of_rows(self, step: OnnxStep, marks: Marks, run: Run) -> Result:
        """What a node gives that is given rows, or their number."""
        if step.op == "Shape":
            return self._counted(step, marks, run)
        if self._counts(step, marks):
            return self._noted(step, next(mark for mark in marks if mark), run(step))
        ended = self._ended(step, marks, run)
        if ended is not None:
            return ended
        rule = RULES.get(step.op)
        if rule is None:
            raise self._mixed(step)
        made = self._whole(step, marks) or run(step)
        found = rule(step, marks, made[0] if isinstance(made, tuple) else made)
        if found is None:
            raise self._mixed(step)
        return self._noted(step, found, made)

    @staticmethod
    def _counts(step: OnnxStep, marks: Marks) -> bool:
        """Whether a node makes a shape of numbers of rows."""
        return step.op in COUNTING and all(mark is None or mark.axis is None for mark in marks) and \
            not any(isinstance(each, Value) for each in step.inputs)

    def _noted(self, step: OnnxStep, mark: MaskRows, made: Result) -> Result:
        self.marks.update(dict.fromkeys(filter(None, step.outputs), mark))
        return made

    def _mixed(self, step: OnnxStep, name: str = "") -> RunTimeOperandError:
        name = name or next(name for name in step.input_names if name in self.marks)
        return self._needs_number(self.marks[name], step.label)

    # Where rows begin

    def _without(self, step: OnnxStep, run: Run) -> Result:
        """A node that is given no rows: one that chooses some, counts a mask, or anything else."""
        source = step.inputs[0] if step.inputs else None
        if not isinstance(source, Value):
            return run(step)
        if step.op == "NonZero":
            mark = self._mask(step.input_names[0], source)
            bounded(step, (source.type.rank, source.type.elements))
            return self._noted(step, replace(mark, axis=1), np.indices(source.shape).reshape(source.type.rank, -1))
        if step.op == "ReduceSum" and step.input_names[0] in self.masks and self._shapes_alone(step.outputs[0]) and \
                reduced_axes(step) == tuple(range(source.type.rank)):
            mark = self.masks[step.input_names[0]]
            kept = (1,) * source.type.rank if step.integer("keepdims", 1) else ()
            return self._noted(step, mark, np.full(kept, source.type.elements, np.int64))
        made = run(step)
        self._follow(step, source, made)
        return made

    def _mask(self, name: str, value: Value) -> MaskRows:
        """The mask that a tensor is, in this shape or another."""
        if name not in self.masks:
            key = name if name not in self.values else f"{name}{AGAIN}{len(self.values)}"
            self.masks[name], self.values[key] = MaskRows(key), value
        return self.masks[name]

    def _follow(self, step: OnnxStep, source: Value, made: Result) -> None:
        """Notes a result that has the elements of a mask in their order, each once or some times."""
        name, result = step.input_names[0], step.outputs[0] if step.outputs else ""
        if not isinstance(made, Value) or (source.dtype != "bool" and name not in self.masks):
            return
        if step.op in _MOVED:
            self.masks[result] = self._mask(name, source)
        elif step.op == "Expand":
            rank, wide = made.type.rank, (1,) * (made.type.rank - source.type.rank) + source.shape
            grown = [axis for axis in range(rank) if wide[axis] != made.shape[axis]]
            if not grown or all(extent == 1 for extent in wide[grown[0]:]):
                mark = self._mask(name, source)
                times = made.type.elements // source.type.elements
                self.masks[result] = replace(mark, inner=mark.inner * times)

    def _shapes_alone(self, name: str) -> bool:
        """Whether a number of rows is used in shapes alone."""
        users = self.users.get(name, [])
        return bool(users) and all(
            (op in _SHAPED and place == 1) or op == "ConstantOfShape" or
            (op in _CARRIED and all(map(self._shapes_alone, outputs))) for op, place, outputs in users)

    def _counted(self, step: OnnxStep, marks: Marks, run: Run) -> Result:
        """A shape, which has the number of rows among its elements."""
        mark, made = marks[0], run(step)
        if mark is None or mark.axis is None:
            return made
        return self._noted(step, replace(mark, axis=None), made)

    def _whole(self, step: OnnxStep, marks: Marks) -> Value | None:
        """What is gathered at all positions of a mask: the tensor in another shape."""
        if step.op != "GatherND" or marks[0] is not None or not self._everywhere(step):
            return None
        x = step.number(0)
        return step.reshaped(x, (*step.operand(1).shape[:-1], *x.shape[step.operand(1).shape[-1]:]))

    # Where rows end

    def _everywhere(self, step: OnnxStep) -> bool:
        """Whether index vectors (input 1) are all positions along the first axes of the data (input 0), in order."""
        places, shape = step.operand(1), step.operand(0).shape
        if isinstance(places, Value) or places.ndim != 2:
            return False
        grid = shape[:places.shape[1]]
        return places.shape[0] == prod(grid) and np.array_equal(places, np.indices(grid).reshape(len(grid), -1).T)

    def _ended(self, step: OnnxStep, marks: Marks, run: Run) -> Result | None:
        """The result of a node at which rows end; None for others."""
        if step.op in ("ScatterND", "ScatterElements"):
            return self._put(step, marks, run)
        mark = marks[0]
        if step.op not in _ENDING or mark is None or mark.axis is None or isinstance(step.operand(0), np.ndarray):
            return None
        axes = reduced_axes(step)
        return self._reduced(step, mark, axes, run) if mark.axis in axes else None

    def _put(self, step: OnnxStep, marks: Marks, run: Run) -> Result:
        """Rows put where the mask chose them, or added at their positions."""
        data, places, updates = (*marks, None, None, None)[:3]
        if data is not None or places is None or updates is None or places != updates or places.axis is None:
            raise self._mixed(step)
        if step.op == "ScatterND" and step.text("reduction", "none") == "none" and self._everywhere(step):
            x, rows = step.number(0), step.number(2)
            cond = self._over(step, places, x.shape)
            if cond is not None:
                return step.add("select", cond=cond, a=step.reshaped(rows, x.shape, "rows"), b=x)
        reduction = step.text("reduction", "none")
        if reduction not in ("add", "none"):
            raise step.refuse("reduction", reduction, "none or add, where a mask chooses the rows")
        kept = self._kept(step, step.number(2), places, 0)
        if reduction == "add":
            return run(replace(step, inputs=[step.inputs[0], step.inputs[1], kept]))
        return self._replaced(step, places, kept, run)

    def _replaced(self, step: OnnxStep, mark: MaskRows, kept: Value, run: Run) -> Result:
        """Rows in place of what is at their positions, of which none is that of two chosen rows (ONNX leaves open what
        is kept of several): the sum of all there, where there is one."""
        attributes, data = {**step.attributes, "reduction": b"add"}, step.operand(0)
        zeros = np.zeros(data.shape, np.float16 if kept.dtype == "fp16" else np.int32)
        total = run(replace(step, name=f"{step.name}_total", attributes=attributes,
                            inputs=[zeros, step.inputs[1], kept]))
        if isinstance(data, np.ndarray) and not data.any():
            return total
        ones = step.builder.constant(np.ones(kept.shape, np.float16))
        often = run(replace(step, name=f"{step.name}_often", attributes=attributes, inputs=[
            np.zeros(data.shape, np.float16), step.inputs[1], self._kept(step, ones, mark, 0)]))
        hit = step.add("greater", part="hit", x=often, y=0.0)
        return step.add("select", cond=hit, a=total, b=step.number(0))

    def _over(self, step: OnnxStep, mark: MaskRows, shape: Sequence[int]) -> Value | None:
        """The mask over the first axes of a shape; None where it does not end at one of them."""
        count = self.values[mark.mask].type.elements
        front = next((axis for axis in range(len(shape) + 1) if prod(shape[:axis]) == count), None)
        if front is None:
            return None
        return step.reshaped(self._condition(step, mark), (*shape[:front], *(1,) * (len(shape) - front)), "mask")

    def _condition(self, step: OnnxStep, mark: MaskRows) -> Value:
        """A mask as truth values, which are made once."""
        mask = self.values[mark.mask]
        if mask.dtype != "bool":
            mask = step.add("not_equal", part="chosen", x=step.widened(mask), y=0)
            self.values[mark.mask] = mask
        return mask

    def _kept(self, step: OnnxStep, rows: Value, mark: MaskRows, otherwise: float) -> Value:
        """Rows, with one number in place of those that the mask leaves out."""
        axis, shape, mask = mark.axis or 0, rows.shape, self._condition(step, mark)
        apart = (*shape[:axis], mask.type.elements, mark.inner, *shape[axis + 1:]) if mark.inner > 1 else shape
        cond = step.reshaped(mask, tuple(mask.type.elements if place == axis else 1 for place in range(len(apart))),
                             "chosen")
        kinds: dict[str, Any] = {"bool": np.bool_, "fp16": np.float16, "int32": np.int32}
        number = step.builder.constant(np.full((), otherwise, kinds[rows.dtype]))
        kept = step.add("select", part="kept", cond=cond, a=step.reshaped(rows, apart, "apart"), b=number)
        return step.reshaped(kept, shape, "together")

    def _reduced(self, step: OnnxStep, mark: MaskRows, axes: Sequence[int], run: Run) -> Result:
        """The sum or mean of chosen rows, or the largest or smallest of their elements."""
        rows = step.number(0)
        kept = self._kept(step, rows, mark, _EXTREMES.get(step.op, 0))
        if step.op != "ReduceMean":
            return run(replace(step, inputs=[kept, *step.inputs[1:]]))
        total = step.add("reduce_sum", part="total", x=kept, axes=list(axes), keep_dims=True)
        marks = step.cast(self._condition(step, mark), "fp16", "marks")
        flat = step.reshaped(marks, (marks.type.elements,), "flat")
        count = step.add("reduce_sum", part="count", x=flat, axes=[0], keep_dims=True)
        others = mark.inner * prod(rows.shape[axis] for axis in axes if axis != mark.axis)
        if others > 1:
            count = step.add("mul", part="numbers", x=count, y=float(others))
        mean = step.add("real_div", part="mean", x=total, y=count)
        shape = [1 if axis in axes else extent for axis, extent in enumerate(rows.shape)] \
            if step.integer("keepdims", 1) else [extent for axis, extent in enumerate(rows.shape) if axis not in axes]
        return step.reshaped(mean, shape)

