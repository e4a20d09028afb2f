"""Copies: a tensor written elsewhere, through a function or as it is, and tensors laid out anew."""

from __future__ import annotations

from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.neural_ops import pass_through
from openane.compiler.recipes.planar_ops import repeat, repeats
from openane.engine import DType, Post
from openane.engine.table import Table
from openane.errors import GraphError
from openane.ops.lowering import Tensor


def copy(context: RecipeContext, source: Tensor, target: Tensor, post: Post | None = None,
         table: Table | None = None) -> None:
    """target = post(source), element by element, whatever the strides."""
    if source.shape != target.shape:
        raise GraphError(f"{context.label}: cannot copy shape {source.shape} to {target.shape}")
    widens = source.dtype is not DType.FLOAT16 and target.dtype is DType.FLOAT16
    if post is None and table is None and widens:
        context.elementwise(target, source)  # as Apple's casts of bool
    elif repeats(source):
        repeat(context, source, target, post, table)
    else:
        pass_through(context, source, target, post, table)


def copied(context: RecipeContext, tensor: Tensor) -> Tensor:
    """The tensor in fresh row-major scratch."""
    target = context.scratch(tensor.shape, None, tensor.dtype)
    context.copy(tensor, target)
    return target


def compact(context: RecipeContext, tensor: Tensor) -> Tensor:
    """The tensor itself when the engine can address it, else a copy."""
    return tensor if tensor.aligned else context.copied(tensor)


def with_last(context: RecipeContext, tensor: Tensor, axis: int) -> Tensor:
    """The tensor, or a transposed copy, in which `axis` can be reduced or read as a row."""
    if tensor.contiguous in (axis, None):
        return tensor
    order = (*(d for d in range(tensor.rank) if d != axis), axis)
    target = context.scratch(tensor.shape, order, tensor.dtype)
    context.copy(tensor, target)
    return target
