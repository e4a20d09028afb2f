"""PyTorch's scatter_reduce and index_reduce: elements at one position summed, averaged, multiplied, or the largest or
smallest of them; and masked_scatter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Value
from openane.importers.masks import FARTHEST
from openane.importers.torch.operators.indexing import hits_of, moved_last
from openane.importers.torch.operators.running import MOST_COUNTED
from openane.importers.torch.step import Handler, Result, TorchStep

_REDUCTIONS = {"sum": ("reduce_sum", "add", 0.0), "mean": ("reduce_sum", "add", 0.0),
               "amax": ("reduce_max", "maximum", -FARTHEST), "amin": ("reduce_min", "minimum", FARTHEST),
               "prod": ("reduce_prod", "mul", 1.0)}
"""What reduces what is written to one position, what joins it with what was there, and what changes neither."""


def _scatter_reduce(step: TorchStep) -> Result:
    x, index = step.number("self", FARTHEST), step.value("index")
    return _reduced(step, x, index, step.number("src", FARTHEST))


def _index_reduce(step: TorchStep) -> Result:
    """The same index for every slice of an axis."""
    x, source = (step.number(name, FARTHEST) for name in ("self", "source"))
    axis = step.axis("dim", len(step.shape))
    index = step.value("index")
    row = step.reshaped(index, [index.type.elements if at == axis else 1 for at in range(x.type.rank)], "row")
    return _reduced(step, x, step.spread(row, source.shape, "index"), source)


def _reduced(step: TorchStep, x: Value, index: Value, source: Value) -> Value:
    axis, how = step.axis("dim", len(step.shape)), str(step.argument("reduce"))
    if how not in _REDUCTIONS or step.kind != "float":
        raise step.refuse("reduce", f"{how} of {step.kind}", f"one of {', '.join(_REDUCTIONS)} of floating point")
    if not index.shape or any(at != axis and index.shape[at] != extent for at, extent in enumerate(x.shape)):
        raise step.refuse("index", list(index.shape), f"the shape of self {list(x.shape)}, axis {axis} apart")
    if source.shape != index.shape:
        source = step.add("slice_by_index", part="part", x=source, begin=[0] * len(index.shape), end=list(index.shape))
    op, join, neutral = _REDUCTIONS[how]
    hits = hits_of(step, moved_last(step, index, axis, "index"), x.shape[axis])
    turned = moved_last(step, source, axis, "source")
    column = step.reshaped(turned, (*turned.shape, 1), "values")
    named = step.add("greater", part="named", x=hits, y=0.5)
    written = step.add("select", part="written", cond=named, a=column, b=np.float16(neutral))
    counts = _over(step, "reduce_sum", hits, axis, "counts")
    found = _over(step, op, written, axis, "found")
    if step.argument("include_self", True):
        joined = step.add(join, part="joined", x=x, y=found)
        divisor = step.add("add", part="divisor", x=counts, y=1.0)
        return step.add("real_div", x=joined, y=divisor) if how == "mean" else joined
    if how == "mean":
        found = step.add("real_div", part="mean", x=found, y=step.add("maximum", part="divisor", x=counts, y=1.0))
    return step.add("select", cond=step.add("greater", part="taken", x=counts, y=0.5), a=found, b=x)


def _over(step: TorchStep, op: str, value: Value, axis: int, part: str) -> Value:
    """What is known of every index and position reduced over the indices; the positions become the axis again."""
    rank = value.type.rank - 1
    reduced = step.add(op, part=f"{part}_last", x=value, axes=[rank - 1], keep_dims=False)
    back = np.argsort([*(at for at in range(rank) if at != axis), axis]).tolist()
    return reduced if axis == rank - 1 else step.add("transpose", part=part, x=reduced, perm=back)


def _masked_scatter(step: TorchStep) -> Result:
    """self, and where a mask holds the elements of `source` in order: each is the one with as many before it as the
    mask holds places before."""
    x = step.number("self")
    if x.type.elements > MOST_COUNTED:
        raise step.refuse("self", f"{x.type.elements} elements", f"at most {MOST_COUNTED}, which fp16 counts")
    mask = step.spread(step.value("mask"), step.shape, "mask")
    source = step.matched(step.value("source"), step.kind)
    count = x.type.elements
    flat = step.cast(step.reshaped(mask, (count,), "places"), "fp16", "one")
    upto = step.add("cumsum", part="upto", x=flat, axis=0)
    before = step.add("maximum", part="before", x=step.add("sub", part="less", x=upto, y=1.0), y=0.0)
    rows = step.reshaped(source, (source.type.elements,), "source_row")
    taken = step.add("gather", part="taken", x=rows, indices=step.cast(before, "int32", "position"), axis=0)
    return step.add("select", cond=mask, a=step.reshaped(taken, step.shape, "taken_shape"),
                    b=step.spread(x, step.shape, "self"))


OPERATORS: Mapping[str, Handler] = {
    "index_reduce": _index_reduce, "masked_scatter": _masked_scatter, "scatter_reduce": _scatter_reduce,
}
