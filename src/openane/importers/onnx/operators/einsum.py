"""ONNX Einsum: diagonals, sums and matrix products of two operands at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_letters

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor whose dimensions have letters, each its own."""

    value: Value
    letters: str

    def extent(self, letter: str) -> int:
        """The extent of a dimension."""
        return self.value.shape[self.letters.index(letter)]


def _single(letters: str, dots: str) -> str:
    """The letters that stand once, but for those of an ellipsis."""
    return "".join(sorted(letter for letter in set(letters) - set(dots) if letters.count(letter) == 1))


def _parsed(step: OnnxStep, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Letters of every operand and of the result; an ellipsis takes letters the equation leaves over, last ones
    last."""
    text = step.text("equation", "").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise GraphError(f"{step.label}: equation {text!r} has {len(terms)} terms for {len(ranks)} inputs")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    widest = max((count for term, count in zip(terms, hidden, strict=True) if "..." in term), default=0)
    dots = _parted(ascii_letters, text)[1][:max(widest, 0)]
    found = []
    for term, rank, count in zip(terms, ranks, hidden, strict=True):
        letters = term.replace("...", dots[len(dots) - count:] if count > 0 else "")
        if len(letters) != rank or set(letters) - set(ascii_letters):
            raise GraphError(f"{step.label}: term {term!r} of equation {text!r} does not fit {rank} dimensions")
        found.append(letters)
    result = right.replace("...", dots) if arrow else dots + _single("".join(found), dots)
    if len(set(result)) != len(result) or set(result) - set("".join(found)):
        raise GraphError(f"{step.label}: the result of equation {text!r} must have letters of the terms, each once")
    return found, result


def _diagonal(step: OnnxStep, value: Value, letters: str) -> Term:
    """Repeated letters reduced to one: everything off the diagonal is left out of a sum."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            if value.shape[first] != value.shape[second]:
                raise GraphError(f"{step.label}: letter {letter!r} stands for {value.shape[first]} and "
                                 f"{value.shape[second]}")
            shape = [extent if place in (first, second) else 1 for place, extent in enumerate(value.shape)]
            mask = np.eye(*bounded(step, (shape[first], shape[second])), dtype=np.bool_).reshape(shape)
            kept = step.add("select", part="diagonal", cond=mask, a=value, b=np.float16(0))
            value = step.add("reduce_sum", part="diagonal", x=kept, axes=[second], keep_dims=False)
            letters = letters[:second] + letters[second + 1:]
    return Term(value, letters)


def _summed(step: OnnxStep, term: Term, needed: str) -> Term:
    """Without the letters nobody needs any more."""
    axes = [place for place, letter in enumerate(term.letters) if letter not in needed]
    if not axes:
        return term
    value = step.add("reduce_sum", part="sum", x=term.value, axes=axes, keep_dims=False)
    return Term(value, "".join(letter for letter in term.letters if letter in needed))


def _arranged(step: OnnxStep, term: Term, groups: Sequence[str]) -> Value:
    """The term with the letters of each group merged into one dimension."""
    order = [term.letters.index(letter) for group in groups for letter in group]
    value = term.value
    if order != sorted(order):
        value = step.add("transpose", part="turned", x=value, perm=order)
    shape = [prod(term.extent(letter) for letter in group) for group in groups]
    return value if list(value.shape) == shape else step.add("reshape", part="merged", x=value, shape=shape)


def _parted(letters: str, others: str) -> tuple[str, str]:
    """The letters that are among the others, and those that are not."""
    return tuple("".join(letter for letter in letters if (letter in others) is known)  # type: ignore[return-value]
                 for known in (True, False))


def _multiplied(step: OnnxStep, first: Term, second: Term, needed: str) -> Term:
    """The product of two terms, summed over the letters nobody else needs."""
    first = _summed(step, first, needed + second.letters)
    second = _summed(step, second, needed + first.letters)
    shared, rows = _parted(first.letters, second.letters)
    columns = _parted(second.letters, first.letters)[1]
    for letter in shared:
        if first.extent(letter) != second.extent(letter) and 1 not in (first.extent(letter), second.extent(letter)):
            raise GraphError(f"{step.label}: letter {letter!r} stands for {first.extent(letter)} and "
                             f"{second.extent(letter)}")
    batch, inner = _parted(shared, needed)
    left, right = _arranged(step, first, (batch, rows, inner)), _arranged(step, second, (batch, inner, columns))
    product = step.add("matmul", part="product", x=left, y=right)
    extents = {letter: max(term.extent(letter) for term in (first, second) if letter in term.letters)
               for letter in batch + rows + columns}
    shape = [extents[letter] for letter in batch + rows + columns]
    return Term(step.add("reshape", part="product", x=product, shape=shape), batch + rows + columns)


def _einsum(step: OnnxStep) -> Operand:
    values = [step.real(index) for index in range(len(step.inputs))]
    letters, result = _parsed(step, [value.type.rank for value in values])
    terms = [_diagonal(step, value, each) for value, each in zip(values, letters, strict=True)]
    total = terms[0]
    for number, term in enumerate(terms[1:], start=1):
        needed = result + "".join(other.letters for other in terms[number + 1:])
        total = _multiplied(step, total, term, needed)
    total = _summed(step, total, result)
    order = [total.letters.index(letter) for letter in result]
    return total.value if order == sorted(order) else step.add("transpose", x=total.value, perm=order)


OPERATORS: Mapping[str, Handler] = {"Einsum": _einsum}
