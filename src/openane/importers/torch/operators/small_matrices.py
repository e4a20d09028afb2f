"""PyTorch's linear algebra of small matrices that are computed: determinants, inverses and solutions by cofactors. Of
larger ones sums of products that cancel would leave no digits of fp16."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep

LARGEST = 3
"""Rows of a matrix."""
Rows = list[list[Value]]


def _entries(step: TorchStep, name: str) -> tuple[Value, Rows]:
    """A batch of matrices and their elements, each a value [batch]. UnsupportedError for large ones."""
    x = step.number(name)
    size = x.shape[-1]
    if x.shape[-2] != size or size > LARGEST:
        raise step.refuse(name, f"matrices of {x.shape[-2]} x {size}",
                          f"at most {LARGEST} x {LARGEST}: larger ones lose all digits in fp16; solve them on the host")
    batch = prod(x.shape[:-2])
    flat = step.reshaped(x, (batch, size * size), f"{name}_flat")
    if size == 1:
        return x, [[step.reshaped(flat, (batch,), "only")]]
    parts = step.add_all("split", part=f"{name}_entry", x=flat, num_splits=size * size, axis=1)
    entries = [step.reshaped(part, (batch,), f"{name}_number") for part in parts]
    return x, [entries[row * size:(row + 1) * size] for row in range(size)]


def _minor(step: TorchStep, rows: Rows) -> Value:
    """The determinant, by the first row."""
    if len(rows) == 1:
        return rows[0][0]
    total: Value | None = None
    for column, first in enumerate(rows[0]):
        rest = [[*row[:column], *row[column + 1:]] for row in rows[1:]]
        term = step.add("mul", part="term", x=first, y=_minor(step, rest))
        total = term if total is None else step.add("sub" if column % 2 else "add", part="sum", x=total, y=term)
    assert total is not None
    return total


def _determinant(step: TorchStep) -> Result:
    return step.reshaped(_minor(step, _entries(step, "A")[1]), step.shape)


def _inverted(step: TorchStep) -> Value:
    """The cofactors, transposed, by the determinant."""
    x, rows = _entries(step, "A")
    size, whole = len(rows), _minor(step, rows)
    found = []
    for row in range(size):
        for column in range(size):
            rest = [[each for at, each in enumerate(line) if at != row]
                    for other, line in enumerate(rows) if other != column]
            part = _minor(step, rest) if rest else step.builder.constant(np.ones(whole.shape, np.float16))
            signed = step.add("mul", part="signed", x=part, y=-1.0) if (row + column) % 2 else part
            found.append(step.add("real_div", part="entry", x=signed, y=whole))
    return step.reshaped(step.add("stack", part="entries", values=tuple(found), axis=1), x.shape, "inverse")


def _inverse(step: TorchStep) -> Result:
    return _inverted(step)


def _solution(step: TorchStep) -> Result:
    """The inverse times B, or B times the inverse where not `left`."""
    inverse, given = _inverted(step), step.number("B")
    vector = given.type.rank == inverse.type.rank - 1
    right = step.reshaped(given, (*given.shape, 1), "column") if vector else given
    pair = (inverse, right) if step.argument("left", True) else (right, inverse)
    return step.reshaped(step.add("matmul", part="product", x=pair[0], y=pair[1]), step.shape)


OPERATORS: Mapping[str, Handler] = {"linalg_det": _determinant, "linalg_inv": _inverse, "linalg_solve": _solution}
