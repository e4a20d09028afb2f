"""einsum: two tensors, their dimensions named by letters; letters missing from the result are summed over.

MIL states "nchw,nwhu->nchu" and "chw,whr->chr" (an extent of 1 repeats); any equation of two operands in which no
letter repeats within an operand is taken, letters of one operand alone that the result lacks included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.operands import Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.record_classes import dataclass

PARAMETERS = (Parameter("values", variadic=True), Parameter("equation", const=True, kind="string"))


@dataclass(frozen=True, slots=True)
class Equation:
    """Letters of both operands and the result, and the extent each letter has in the result."""

    terms: tuple[str, str]
    result: str
    extents: Mapping[str, int]


def _equation(arguments: Arguments) -> Equation:
    """The equation, checked against the operands' shapes. GraphError when it does not fit."""
    values, text = arguments.tensors("values", ("fp16", "fp32")), arguments.constant("equation")
    if len(values) != 2 or values[0].dtype != values[1].dtype:
        raise refusal("einsum", "values", "must be two tensors of one element type", [str(v.type) for v in values])
    if not isinstance(text, str):
        raise refusal("einsum", "equation", "must be a string", text)
    plain = text.replace(" ", "")
    sides, arrow, result = plain.partition("->")
    terms = tuple(sides.split(","))
    if not arrow or len(terms) != 2 or not all(term.isalpha() and term.isascii() for term in (*terms, result or "a")):
        raise refusal("einsum", "equation", "must be two terms of letters, '->' and the letters of the result", text)
    extents = _extents(terms, values, text)
    if len(set(result)) != len(result) or not set(result) <= extents.keys():
        raise refusal("einsum", "equation", "must have in its result letters of the operands, each once", text)
    return Equation((terms[0], terms[1]), result, extents)


def _extents(terms: Sequence[str], values: Sequence[Value], text: str) -> dict[str, int]:
    """The extent of each letter; one of 1 is broadcast. GraphError when the operands do not agree."""
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        if len(set(term)) != len(term) or len(term) != value.type.rank:
            raise refusal("einsum", "equation", "must name every dimension of an operand once, each by its own letter",
                          f"{term!r} for {value.type}")
        for letter, extent in zip(term, value.shape, strict=True):
            known = extents.get(letter, 1)
            if known != extent and 1 not in (known, extent):
                raise refusal("einsum", "values", f"must agree in dimension {letter!r} of {text!r}",
                              f"{known} and {extent}")
            extents[letter] = max(known, extent)
    return extents


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("einsum", PARAMETERS, operands)
    equation = _equation(arguments)
    shape = tuple(equation.extents[letter] for letter in equation.result)
    return (TensorType(arguments.tensors("values")[0].dtype, shape),)


def _reference(*, values: tuple[np.ndarray, ...], equation: str) -> tuple[np.ndarray, ...]:
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        for letter, extent in zip(term, value.shape, strict=True):
            extents[letter] = max(extents.get(letter, 1), extent)
    wide = [np.broadcast_to(value, [extents[letter] for letter in term])
            for term, value in zip(terms, values, strict=True)]
    return (np.asarray(np.einsum(equation, *wide)),)


def few_batch_letters(node: Node, limits: Limits) -> bool:
    """Products run on tensors of at most 5 dimensions: at most 3 letters may be in both operands and the result when
    one of them has an extent of 1 in one operand only."""
    equation = _equation(Arguments("einsum", PARAMETERS, node.operands))
    shared = _letters(equation)[0]
    return len(shared) <= 3 or not _repeats(node, equation, shared)


def _letters(equation: Equation) -> tuple[str, str, str, str]:
    """Letters of both operands and the result (batch), of both alone (summed), of the first, of the second."""
    first, second = equation.terms
    both = [letter for letter in first if letter in second]
    batch = "".join(letter for letter in equation.result if letter in both)
    summed = "".join(letter for letter in both if letter not in equation.result)
    left, right = ("".join(letter for letter in equation.result if letter in term and letter not in other)
                   for term, other in ((first, second), (second, first)))
    return batch, summed, left, right


def _repeats(node: Node, equation: Equation, batch: str) -> bool:
    values = Arguments("einsum", PARAMETERS, node.operands).tensors("values")
    return any(value.shape[term.index(letter)] != equation.extents[letter]
               for value, term in zip(values, equation.terms, strict=True) for letter in batch)


def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Sums of what one operand alone has, both turned to [batch, left, summed] and [batch, summed, right], a product,
    and the result turned to the order asked for. Turns and reshapes are mostly views. Without a summed letter the
    product is one of elements."""
    arguments = Arguments("einsum", PARAMETERS, node.operands)
    equation = _equation(arguments)
    batch, summed, left, right = _letters(equation)
    merged = not _repeats(node, equation, batch)
    operands = [_summed(rewriter, value, term, other, equation) for value, term, other in
                zip(arguments.tensors("values"), equation.terms, equation.terms[::-1], strict=True)]
    if not summed:
        return (_outer(rewriter, operands, equation),)
    operands = [_full(rewriter, value, term, summed, equation) for value, term in operands]
    shapes = ((batch, left, summed), (batch, summed, right))
    x, y = (_turned(rewriter, value, term, groups, merged)
            for (value, term), groups in zip(operands, shapes, strict=True))
    product = rewriter.single("matmul", x=x, y=y)
    made = batch + left + right
    result = rewriter.single("reshape", x=product, shape=[equation.extents[letter] for letter in made])
    return (rewriter.single("transpose", x=result, perm=[made.index(letter) for letter in equation.result]),)


Named = tuple[Value, str]
"""A tensor and the letters of its dimensions."""


def _summed(rewriter: Rewriter, value: Value, term: str, other: str, equation: Equation) -> Named:
    """The operand without the letters it alone has and the result lacks."""
    alone = [letter for letter in term if letter not in other and letter not in equation.result]
    if not alone:
        return value, term
    total = rewriter.single("reduce_sum", x=value, axes=[term.index(letter) for letter in alone], keep_dims=False)
    return total, "".join(letter for letter in term if letter not in alone)


def _outer(rewriter: Rewriter, operands: list[Named], equation: Equation) -> Value:
    """The product element by element of operands that share no summed letter."""
    turned = []
    for value, term in operands:
        order = [letter for letter in equation.result if letter in term]
        value = rewriter.single("transpose", x=value, perm=[term.index(letter) for letter in order])
        extents = dict(zip(order, value.shape, strict=True))
        turned.append(rewriter.single("reshape", x=value, shape=[extents.get(letter, 1) for letter in equation.result]))
    return rewriter.single("mul", x=turned[0], y=turned[1])


def _full(rewriter: Rewriter, value: Value, term: str, summed: str, equation: Equation) -> Named:
    """The operand with every summed letter at its full extent: what one operand holds once counts each time."""
    reps = [equation.extents[letter] // value.shape[i] if letter in summed else 1 for i, letter in enumerate(term)]
    return (value if set(reps) <= {1} else rewriter.single("tile", x=value, reps=reps)), term


def _turned(rewriter: Rewriter, value: Value, term: str, groups: tuple[str, str, str], merged: bool) -> Value:
    """The operand as [batch, rows, columns], the batch one dimension when `merged`."""
    order = "".join(groups)
    turned = rewriter.single("transpose", x=value, perm=[term.index(letter) for letter in order])
    extents = dict(zip(order, turned.shape, strict=True))
    batch, rows, columns = ([extents[letter] for letter in group] for group in groups)
    front = [prod(batch)] if merged else batch
    return rewriter.single("reshape", x=turned, shape=[*front, prod(rows), prod(columns)])


OPS = (Op("einsum", PARAMETERS, _infer, _reference, rules=(*ENGINE, few_batch_letters), decompose=_decompose,
          sums_products=True),)
