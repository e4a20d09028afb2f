"""PyTorch's embedding bags: rows of a table looked up, and those of each bag made one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep, as_numpy

_MADE_ONE = ("reduce_sum", "reduce_mean", "reduce_max")
"""What becomes of the rows of a bag, by the number PyTorch has for it."""


def _bag(step: TorchStep) -> Result:
    """The first result of _embedding_bag: rows of `weight` at `indices` [elements], the bags beginning at `offsets`."""
    indices = step.value("indices")
    count = indices.shape[0]
    begins = as_numpy(step.constant("offsets", "where bags begin")).tolist()
    ends = [*begins[1:], count]
    if step.argument("include_last_offset"):
        begins, ends = begins[:-1], ends[:-1]
    if int(step.argument("padding_idx", -1)) >= 0:
        raise step.refuse("padding_idx", step.argument("padding_idx"), "a row of zeros in its place")
    op = _MADE_ONE[int(step.argument("mode", 0))]
    rows = step.add("gather", part="rows", x=step.value("weight"), indices=indices, axis=0)
    if step.given("per_sample_weights"):
        weights = step.reshaped(step.value("per_sample_weights"), (count, 1), "weights")
        rows = step.add("mul", part="weighted", x=rows, y=weights)
    sizes = {end - begin for begin, end in zip(begins, ends, strict=True)}
    if len(sizes) == 1 and 0 not in sizes and begins[0] == 0 and ends[-1] == count:
        whole = step.reshaped(rows, (len(begins), sizes.pop(), rows.shape[1]), "bags")
        result = step.add(op, x=whole, axes=[1], keep_dims=False)
    else:
        parts = [_one(step, op, rows, begin, end) for begin, end in zip(begins, ends, strict=True)]
        result = parts[0] if len(parts) == 1 else step.add("concat", values=tuple(parts), axis=0)
    return result, None, None, None


def _one(step: TorchStep, op: str, rows: Value, begin: int, end: int) -> Value:
    """The row of one bag; zeros where it is empty."""
    if begin >= end:
        return step.builder.constant(np.zeros((1, rows.shape[1]), np.float16))
    part = step.add("slice_by_index", part="bag", x=rows, begin=[begin, 0], end=[end, rows.shape[1]])
    return step.add(op, part="row", x=part, axes=[0], keep_dims=True)


OPERATORS: Mapping[str, Handler] = dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _bag)
