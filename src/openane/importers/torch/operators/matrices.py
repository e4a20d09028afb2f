"""PyTorch matrix products and attention. A constant right-hand matrix makes a product a `linear` layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod, sqrt
from string import ascii_letters
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.composites import diagonal
from openane.importers.masks import FARTHEST
from openane.importers.torch.operators.reductions import norm_of_order
from openane.importers.torch.step import Handler, Result, TorchStep, to_array

LARGEST_RANK = 5
"""Of what a `linear` layer takes."""


def _product(step: TorchStep) -> Result:
    return _multiplied(step, step.argument("self"), step.argument("other" if step.given("other") else "mat2"))


def _multiplied(step: TorchStep, first: Any, second: Any, part: str = "") -> Value:
    """first @ second, vectors as PyTorch reads them."""
    x = step.as_value(first, "self")
    if not isinstance(second, Value) and second.dim() == 2:
        weight = np.ascontiguousarray(to_array(second, step.label).T)
        if x.type.rank <= LARGEST_RANK:
            return step.add("linear", part=part, x=x, weight=weight)
        rows = step.reshaped(x, (prod(x.shape[:-1]), x.shape[-1]), "rows")
        return step.reshaped(step.add("linear", part="product", x=rows, weight=weight), step.shape)
    y = step.as_value(second, "other")
    if x.type.rank > 1 and y.type.rank > 1:
        return step.add("matmul", part=part, x=x, y=y)
    row = step.reshaped(x, (1, *x.shape) if x.type.rank == 1 else x.shape, "row")
    column = step.reshaped(y, (*y.shape, 1) if y.type.rank == 1 else y.shape, "column")
    return step.reshaped(step.add("matmul", part="product", x=row, y=column), step.shape)


def _linear(step: TorchStep) -> Result:
    x, weight, bias = step.argument("input"), step.argument("weight"), step.argument("bias")
    if isinstance(weight, Value) or isinstance(bias, Value):
        rows = step.value("weight")
        product = step.add("matmul", part="product", x=step.as_value(x, "input"), y=rows, transpose_y=True)
        return product if bias is None else step.add("add", x=product, y=step.value("bias"))
    rows = step.as_value(x, "input")
    if rows.type.rank > LARGEST_RANK:
        rows = step.reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), "rows")
    product = step.add("linear", part="product" if rows is not x else "", x=rows, weight=step.rounded("weight"),
                       bias=step.rounded("bias"))
    return step.reshaped(product, step.shape)


def _added_product(first: str, second: str) -> Handler:
    """beta * self + alpha * first @ second."""
    def handler(step: TorchStep) -> Result:
        beta, alpha = step.argument("beta", 1), step.argument("alpha", 1)
        right, bias = step.argument(second), step.argument("self")
        known = not isinstance(right, Value) and right.dim() == 2 and not isinstance(bias, Value)
        if known and bias.shape == right.shape[1:]:
            rows, offset = to_array(right * alpha, step.label), to_array(bias * beta, step.label)
            return step.add("linear", x=step.value(first), weight=np.ascontiguousarray(rows.T), bias=offset)
        product = _multiplied(step, step.argument(first), right, "product")
        scaled = product if alpha == 1 else step.add("mul", part="scaled", x=product, y=float(alpha))
        if not beta:
            return scaled
        bias = step.value("self")
        if beta != 1:
            bias = step.add("mul", part="offset", x=bias, y=float(beta))
        return step.add("add", x=scaled, y=bias)
    return handler


def _einsum(step: TorchStep) -> Result:
    values = tuple(step.as_value(found, "tensors") for found in step.argument("tensors"))
    equation = _spelt(str(step.argument("equation")).replace(" ", ""), [value.type.rank for value in values])
    given, result = equation.split("->")
    straight = [_straight(step, value, term) for value, term in zip(values, given.split(","), strict=True)]
    values, terms = tuple(value for value, _ in straight), [term for _, term in straight]
    found = values[0]
    for number, value in enumerate(values[1:], start=1):  # from left to right, keeping what is needed later
        later = {*result, *"".join(terms[number + 1:])}
        kept = "".join(dict.fromkeys(each for each in terms[0] + terms[number] if each in later))
        last = number == len(values) - 1
        into = result if last else kept
        found = step.add("einsum", part="" if last else f"with{number}", values=(found, value),
                         equation=f"{terms[0]},{terms[number]}->{into}")
        terms[0] = into
    return _arranged(step, found, terms[0], result)


def _straight(step: TorchStep, x: Value, letters: str) -> tuple[Value, str]:
    """The diagonals over letters that occur more than once, and the letters that are left."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            rest = "".join(each for at, each in enumerate(letters) if at not in (first, second))
            x, letters = diagonal(step, x, (first, second), x.shape[first]), rest + letter
    return x, letters


def _arranged(step: TorchStep, x: Value, letters: str, result: str) -> Value:
    """x summed over the letters the result has not, in its order."""
    axes = [i for i, letter in enumerate(letters) if letter not in result]
    kept = [letter for letter in letters if letter in result]
    if axes:
        x = step.add("reduce_sum", part="summed", x=x, axes=axes, keep_dims=False)
    return x if kept == list(result) else step.add("transpose", x=x, perm=[kept.index(letter) for letter in result])


def _spelt(equation: str, ranks: Sequence[int]) -> str:
    """The equation with letters for an ellipsis, and the letters of the result where they are left out."""
    terms, _, result = equation.partition("->")
    free = [letter for letter in ascii_letters if letter not in equation]
    given = terms.split(",")
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(given, ranks, strict=True)]
    most = max((width for term, width in zip(given, widths, strict=True) if "..." in term), default=0)
    spelt = ",".join(term.replace("...", "".join(free[most - width:most]))
                     for term, width in zip(given, widths, strict=True))
    if "->" not in equation:
        letters = terms.replace(",", "").replace(".", "")
        result = "..." * ("..." in terms) + "".join(sorted(each for each in letters if letters.count(each) == 1))
    return f"{spelt}->{result.replace('...', ''.join(free[:most]))}"


def _attention(step: TorchStep) -> Result:
    """softmax(query @ key^T * scale + mask) @ value; MIL's scale is that of the width."""
    if step.argument("dropout_p", 0.0):
        raise step.refuse("dropout_p", step.argument("dropout_p"), "0: export the model for inference (model.eval())")
    query, key, value = (step.value(name) for name in ("query", "key", "value"))
    key, value = (_for_every_head(step, each, query, name) for each, name in ((key, "key"), (value, "value")))
    width = query.shape[-1]
    scale = float(step.argument("scale", 1 / sqrt(width))) * sqrt(width)
    if abs(scale - 1) > 1e-6:
        query = step.add("mul", part="scaled", x=query, y=scale)
    mask: Value | None = None
    if step.argument("is_causal", False):
        if step.given("attn_mask"):
            raise GraphError(f"{step.label}: is_causal and attn_mask exclude each other")
        mask = step.builder.constant(np.tril(step.filled((query.shape[-2], key.shape[-2]), 1, np.bool_)))
    elif step.given("attn_mask"):
        mask = step.value("attn_mask", FARTHEST)
    return step.add("scaled_dot_product_attention", query=query, key=key, value=value, attn_mask=mask)


def _for_every_head(step: TorchStep, x: Value, query: Value, name: str) -> Value:
    """Keys or values with the heads of the query: every one repeated for the group of heads that share it, leading
    dimensions of 1 spread."""
    heads = query.shape[-3] if query.type.rank > 2 else 1
    wanted = (*query.shape[:-2], *x.shape[-2:])
    if x.shape == wanted:
        return x
    if x.type.rank > 2 and x.shape[-3] not in (1, heads) and step.argument("enable_gqa", False):
        grouped = step.reshaped(x, (prod(x.shape[:-2]), 1, *x.shape[-2:]), f"{name}_groups")
        repeated = step.add("tile", part=f"{name}_repeated", x=grouped, reps=[1, heads // x.shape[-3], 1, 1])
        x = step.reshaped(repeated, (*x.shape[:-3], heads, *x.shape[-2:]), f"{name}_heads")
    return step.spread(x, wanted, f"{name}_spread")


MOST_DIFFERENCES = 1 << 22
"""Of all rows from all others: beyond it distances are made of products."""


def _distances(step: TorchStep) -> Result:
    """How far every row of x1 is from every row of x2: the lengths of their differences, in which no digits cancel."""
    first, second, order = step.value("x1"), step.value("x2"), float(step.argument("p", 2.0))
    if order == 2.0 and prod(step.shape) * first.shape[-1] > MOST_DIFFERENCES:
        return _distances_of_products(step, first, second)
    left, right = (step.add("expand_dims", part=f"rows{axis}", x=x, axes=[axis]) for x, axis in
                   ((first, -2), (second, -3)))
    return norm_of_order(step, step.add("sub", part="differences", x=left, y=right), order, [-1])


def _distances_of_products(step: TorchStep, first: Value, second: Value) -> Value:
    """The root of x1^2 - 2 x1 x2 + x2^2."""
    squares = [step.add("reduce_sum_square", part=f"squares{number}", x=x, axes=[-1], keep_dims=True)
               for number, x in enumerate((first, second))]
    across = step.add("transpose", part="across", x=squares[1],
                      perm=[*range(second.type.rank - 2), second.type.rank - 1, second.type.rank - 2])
    products = step.add("matmul", part="products", x=first, y=second, transpose_y=True)
    both = step.add("add", part="both", x=squares[0], y=across)
    apart = step.add("sub", part="apart", x=both, y=step.add("mul", part="twice", x=products, y=2.0))
    return step.add("sqrt", x=step.add("relu", part="above", x=apart))


def _pair_distances(step: TorchStep) -> Result:
    """How far every row is from every one behind it."""
    x, order = step.value("self"), float(step.argument("p", 2.0))
    first, second = (step.add("gather", part=part, x=x, indices=places.astype(np.int32), axis=0)
                     for part, places in zip(("first", "second"), np.triu_indices(x.shape[0], 1), strict=True))
    return norm_of_order(step, step.add("sub", part="differences", x=first, y=second), order, [-1])


def _bilinear(step: TorchStep) -> Result:
    """x1 W x2 + b for every matrix of W: a layer gives the rows that x2 is multiplied with."""
    first, second = step.value("input1"), step.value("input2")
    weight = to_array(step.constant("weight", "the weight"), step.label)
    results, inner, outer = weight.shape
    lines = prod(first.shape[:-1])
    turned = np.ascontiguousarray(weight.transpose(0, 2, 1).reshape(results * outer, inner))
    rows = step.add("linear", part="rows", x=step.reshaped(first, (lines, inner), "first"), weight=turned)
    along = step.reshaped(rows, (lines, results, outer), "along")
    column = step.reshaped(second, (lines, outer, 1), "second")
    product = step.reshaped(step.add("matmul", part="product", x=along, y=column), step.shape)
    bias = step.half("bias")
    return product if bias is None else step.add("add", x=product, y=bias)


OPERATORS: Mapping[str, Handler] = {
    "_cdist_forward": _distances, "addmm": _added_product("mat1", "mat2"),
    "_pdist_forward": _pair_distances, "baddbmm": _added_product("batch1", "batch2"), "bilinear": _bilinear,
    "bmm": _product,
    "einsum": _einsum, "linear": _linear, "matmul": _product, "mm": _product,
    "scaled_dot_product_attention": _attention,
}
