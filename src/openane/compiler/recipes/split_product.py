"""Products whose reduction is longer than one operation can take: partial products, each rounded to fp16, added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openane.compiler.loops.assign import row_cut, streamed_channels
from openane.compiler.loops.split import ranges
from openane.compiler.recipes.context import RecipeContext
from openane.engine import Post
from openane.engine.table import Table
from openane.ops.lowering import Tensor


def reduction_parts(context: RecipeContext, reduction: int, pixels: int) -> list[tuple[int, int]]:
    """(start, count) of the parts of a product's reduction, which are channels of `pixels` columns: one part where one
    row of a tile fits half of L2."""
    limits = context.chip.limits
    return list(ranges(reduction, streamed_channels(limits, pixels, 1), row_cut(limits)))


def summed(context: RecipeContext, target: Tensor, parts: Sequence[Callable[[Tensor], None]], post: Post | None,
           table: Table | None = None) -> None:
    """target = post(sum of what the parts make)."""
    total: Tensor | None = None
    for number, make in enumerate(parts):
        made = context.scratch(target.shape)
        make(made)
        if total is not None:
            plain = number == len(parts) - 1 and post is None and table is None
            place = target if plain else context.scratch(target.shape)
            context.elementwise(place, total, made)
            made = place
        total = made
    if total is not None and (post is not None or table is not None):
        context.copy(total, target, post, table)
