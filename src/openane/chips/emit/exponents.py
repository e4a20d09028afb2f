"""Tasks whose table takes numbers apart into mantissa and exponent: roots, reciprocals and logarithms.

They log other events, and a convolution says that it has such a table. Neither has an effect on results. Which kind a
table is of stands in its bytes, so that emission is told what the program's constant sections hold.

Evidence: H13's records and programs of sqrt, log2, inv and softmax, and all records of H14 to H18. The table of a
natural logarithm, log2 that the next task scales, logs the events of any other (one program).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from openane.chips.table_format import table_kind
from openane.engine import Convolution, Elementwise, NeuralOperation, Operation
from openane.engine.table import TableKind
from openane.registers import Fields

Contents = Mapping[int, bytes | memoryview]
"""The constant bytes behind base-address slots."""

KINDS = frozenset((TableKind.SQRT, TableKind.RSQRT, TableKind.INVERSE, TableKind.LOG2))


def table_kinds(operations: Sequence[Operation], contents: Contents) -> list[TableKind | None]:
    """The kind of each task's table; None where it has none, or what its section holds is not known."""
    return [_kind(operation, contents) for operation in operations]


def exponent_tables(operations: Sequence[Operation], contents: Contents) -> list[bool]:
    """Whether each task has such a table, that of a natural logarithm apart."""
    kinds = table_kinds(operations, contents)
    natural = [kind is TableKind.LOG2 and _scales(after, before)
               for kind, before, after in zip(kinds, operations, operations[1:], strict=False)]
    return [kind in KINDS and not scaled for kind, scaled in zip_longest(kinds, natural, fillvalue=False)]


def exponent_fields(operation: Operation, taken_apart: bool) -> Fields:
    """Rule: what a convolution states that has such a table."""
    return {"Common.DPE.Category": 1} if taken_apart and isinstance(operation, Convolution) else {}


def _kind(operation: Operation, contents: Contents) -> TableKind | None:
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    table = None if coefficients is None else coefficients.table
    held = None if table is None else contents.get(table.slot)
    return None if table is None or held is None else table_kind(held, table.streams.start)


def _scales(after: Operation, before: Operation) -> bool:
    """Whether an operation does nothing but scale the result of the one before."""
    return (isinstance(after, Elementwise) and after.second is None
            and (after.first.space, after.first.slot, after.first.offset)
            == (before.result.space, before.result.slot, before.result.offset))


__all__ = ["Contents", "exponent_fields", "exponent_tables", "table_kinds"]
