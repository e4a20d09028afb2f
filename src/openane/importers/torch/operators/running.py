"""PyTorch operators over one axis in order: products and extremes of all elements up to each, medians, places in sorted
lists, counts of intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Value
from openane.importers.composites import running
from openane.importers.torch.step import Handler, Result, TorchStep
from openane.ops.halves import LARGEST

MOST_COUNTED = 2048
"""What fp16 counts without a gap."""


def _product(step: TorchStep) -> Result:
    """The product along one axis, or of all elements."""
    x = step.matched(step.value("self"), step.kind)
    axes = [step.axis("dim", x.type.rank)] if step.given("dim") else list(range(x.type.rank))
    return step.reshaped(step.add("reduce_prod", x=x, axes=axes, keep_dims=True), step.shape)


def _running(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        x = step.number("self")
        return running(step, x, step.axis("dim", x.type.rank), lambda a, b, part: step.add(op, part=part, x=a, y=b))
    return handler


def _running_exponentials(step: TorchStep) -> Result:
    """The logarithm of the sum of all exponentials up to each: of two, the larger and how much the other adds."""
    def together(a: Value, b: Value, part: str) -> Value:
        apart = step.add("abs", part=f"apart_{part}", x=step.add("sub", part=f"less_{part}", x=a, y=b))
        more = step.add("softplus", part=f"more_{part}", x=step.add("mul", part=f"below_{part}", x=apart, y=-1.0))
        return step.add("add", part=part, x=step.add("maximum", part=f"larger_{part}", x=a, y=b), y=more)

    x = step.number("self")
    return running(step, x, step.axis("dim", x.type.rank), together)


def _running_extreme(op: str) -> Handler:
    """Extremes of all elements up to each, and where each is: the last place that has it, as PyTorch says."""
    def handler(step: TorchStep) -> Result:
        x = step.value("self")
        axis = step.axis("dim", x.type.rank)
        found = running(step, x, axis, lambda a, b, part: step.add(op, part=part, x=a, y=b))
        extent = x.shape[axis]
        if extent > MOST_COUNTED:
            return found, None
        places = np.arange(extent, dtype=np.float16).reshape([extent if at == axis else 1 for at in range(x.type.rank)])
        here = step.add("equal", part="here", x=x, y=found)
        marked = step.add("select", part="marked", cond=here, a=places, b=np.float16(0))
        last = running(step, marked, axis, lambda a, b, part: step.add("maximum", part=f"place_{part}", x=a, y=b))
        return found, step.cast(last, "int32", "places")
    return handler


def _at_rank(step: TorchStep, rank: int, x: Value, axis: int) -> tuple[Value, Value]:
    """The element with so many others before it in order (and its position), sorted from the nearer end."""
    count = x.shape[axis]
    ascending = rank < count - rank
    wanted = rank + 1 if ascending else count - rank
    found = step.add_all("topk", part="sorted", x=x, k=wanted, axis=axis, ascending=ascending)
    begin = [wanted - 1 if at == axis else 0 for at in range(x.type.rank)]
    end = [wanted if at == axis else extent for at, extent in enumerate(x.shape)]
    taken = [step.reshaped(step.add("slice_by_index", part="taken", x=each, begin=begin, end=end), step.shape)
             for each in found]
    return taken[0], taken[1]


def _median(step: TorchStep) -> Result:
    """The lower of the two in the middle; of all elements where no axis is stated."""
    x = step.value("self")
    if step.given("dim"):
        axis = step.axis("dim", x.type.rank)
        return _at_rank(step, (x.shape[axis] - 1) // 2, x, axis)
    flat = step.reshaped(x, (x.type.elements,), "flat")
    return _at_rank(step, (x.type.elements - 1) // 2, flat, 0)[0]


def _smallest_but(step: TorchStep) -> Result:
    x = step.value("self")
    return _at_rank(step, int(step.argument("k")) - 1, x, step.axis("dim", x.type.rank, -1))


def _most_frequent(step: TorchStep) -> Result:
    """The smallest of the elements that an axis has most often. Where it is no two versions of PyTorch agree upon."""
    x = step.value("self")
    rank, axis = x.type.rank, step.axis("dim", x.type.rank, -1)
    extent = x.shape[axis]
    if extent > MOST_COUNTED:
        raise step.refuse("self", f"{extent} elements on an axis", f"at most {MOST_COUNTED}, which fp16 counts")
    if x.dtype == "bool":
        raise step.refuse("self", "bool", "real or whole numbers")
    last = x if axis == rank - 1 else step.add("transpose", part="last", x=x, perm=[
        *(at for at in range(rank) if at != axis), axis])
    column, row = (step.reshaped(last, (*last.shape[:-1], *shape), part)
                   for part, shape in (("column", (extent, 1)), ("row", (1, extent))))
    alike = step.cast(step.add("equal", part="alike", x=column, y=row), "fp16", "one")
    counts = step.add("reduce_sum", part="counts", x=alike, axes=[-1], keep_dims=False)
    most = step.add("reduce_max", part="most", x=counts, axes=[-1], keep_dims=True)
    numbers = last if x.dtype == "fp16" else step.cast(last, "fp16", "numbers")
    chosen = step.add("select", part="chosen", cond=step.add("equal", part="frequent", x=counts, y=most), a=numbers,
                      b=np.float16(LARGEST))
    found = step.add("reduce_min", part="smallest", x=chosen, axes=[-1], keep_dims=True)
    return step.reshaped(step.matched(found, step.kind), step.shape), None


def _places_in_order(step: TorchStep) -> Result:
    """Where numbers belong in a sorted list: how many of the list are below them (with `right`, not above them)."""
    if step.given("sorter"):
        raise step.refuse("sorter", "given", "a list that is sorted already")
    right = bool(step.argument("right", False)) or step.argument("side") == "right"
    listed = step.value("sorted_sequence" if step.given("sorted_sequence") else "boundaries")
    x = step.value("self")
    if listed.shape[-1] > MOST_COUNTED:
        raise step.refuse("sorted_sequence", f"{listed.shape[-1]} numbers", f"at most {MOST_COUNTED}")
    column = step.reshaped(x, (*x.shape, 1), "column")
    rows = listed if listed.type.rank == 1 else \
        step.reshaped(listed, (*listed.shape[:-1], *(1,) * (x.type.rank - listed.type.rank + 1), listed.shape[-1]),
                      "rows")
    before = step.add("greater_equal" if right else "greater", part="before", x=column, y=rows)
    count = step.add("reduce_sum", part="count", x=step.cast(before, "fp16", "one"), axes=[-1], keep_dims=False)
    return step.cast(step.reshaped(count, step.shape), "int32", "place")


def _histogram(step: TorchStep) -> Result:
    """How many elements lie between the edges of equal intervals, the last edge among the last of them."""
    x, bins = step.value("self"), int(step.argument("bins", 100))
    low, high = (float(step.argument(name, 0)) for name in ("min", "max"))
    if low >= high:
        raise step.refuse("min, max", [low, high], "numbers of which min is the smaller: intervals are constant")
    if x.type.elements > MOST_COUNTED:
        raise step.refuse("self", f"{x.type.elements} elements", f"at most {MOST_COUNTED}, which fp16 counts")
    column = step.reshaped(x, (x.type.elements, 1), "column")
    edges = np.linspace(low, high, bins + 1)
    edges[-1] = np.nextafter(np.float16(high), np.float16(np.inf))
    above = step.add("greater_equal", part="above", x=column, y=edges.astype(np.float16))
    counts = step.add("reduce_sum", part="counts", x=step.cast(above, "fp16", "one"), axes=[0], keep_dims=False)
    from_each, from_next = (step.add("slice_by_index", part=part, x=counts, begin=[begin], end=[begin + bins])
                            for part, begin in (("from_each", 0), ("from_next", 1)))
    return step.add("sub", x=from_each, y=from_next)


OPERATORS: Mapping[str, Handler] = {
    "cummax": _running_extreme("maximum"), "cummin": _running_extreme("minimum"), "cumprod": _running("mul"),
    "histc": _histogram, "kthvalue": _smallest_but, "logcumsumexp": _running_exponentials, "median": _median,
    "mode": _most_frequent,
    "prod": _product, "searchsorted": _places_in_order,
}
