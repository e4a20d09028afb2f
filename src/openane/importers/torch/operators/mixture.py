"""PyTorch's mixtures of experts: every expert is computed for every token, and the chosen one kept.

That is exact. It costs as much as all experts do, where PyTorch computes those that were chosen; the engine's programs
cannot depend on data.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Value
from openane.importers.torch.step import EXPERTS, ExpertNumbers, Handler, Result, TorchStep, to_array

WIDEST = 8192
"""Channels a product of several experts at once may have."""


def _chosen(step: TorchStep, numbers: Value, first: int, count: int) -> Value:
    """1 where a token's expert is one of `count` experts from `first` on, as [tokens, count]."""
    column = step.reshaped(numbers, (numbers.type.elements, 1), "column")
    wanted = np.arange(first, first + count, dtype=np.int32).reshape(1, count)
    return step.cast(step.add("equal", part=f"same{first}", x=column, y=wanted), "fp16", f"chosen{first}")


def _grouped_product(step: TorchStep) -> Result:
    """rows [tokens, K] by matrices [experts, K, N]: the product with the matrix of every token's expert."""
    rows, given = (step.arguments[name] for name in list(step.arguments)[:2])
    ends = next(each for each in step.arguments.values() if isinstance(each, ExpertNumbers))
    x = step.as_value(rows, "rows")
    if isinstance(given, Value):
        raise step.refuse("weight", "computed matrices", "matrices that are parameters")
    matrices = to_array(given, step.label)
    experts, _, width = matrices.shape
    together = max(1, min(experts, WIDEST // width))
    total: Value | None = None
    for first in range(0, experts, together):
        part = matrices[first:first + together]
        weight = np.ascontiguousarray(np.moveaxis(part, 2, 1).reshape(len(part) * width, -1))
        product = step.add("linear", part=f"all{first}", x=x, weight=weight)
        apart = step.reshaped(product, (x.shape[0], len(part), width), f"apart{first}")
        hits = step.reshaped(_chosen(step, ends.value, first, len(part)), (x.shape[0], len(part), 1), f"hits{first}")
        kept = step.add("mul", part=f"kept{first}", x=apart, y=hits)
        found = step.add("reduce_sum", part=f"found{first}", x=kept, axes=[1], keep_dims=False)
        total = found if total is None else step.add("add", part=f"sum{first}", x=total, y=found)
    assert total is not None
    return total


def _row_of_expert(step: TorchStep) -> Result:
    """Rows of a table by the number of every token's expert: a product with ones at those numbers."""
    lists = step.argument("indices")
    if len(lists) != 1:
        raise step.refuse("indices", f"{len(lists)} lists", "one list")
    table = step.value("self")
    rows = step.reshaped(table, (table.shape[0], table.type.elements // table.shape[0]), "table")
    hits = _chosen(step, lists[0].value, 0, table.shape[0])
    return step.reshaped(step.add("matmul", part="rows", x=hits, y=rows), step.shape)


OPERATORS: Mapping[str, Handler] = {
    EXPERTS + "_grouped_mm": _grouped_product, EXPERTS + "index": _row_of_expert,
    EXPERTS + "transformers::grouped_mm_fallback": _grouped_product,
}
