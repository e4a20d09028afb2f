"""The neural engine's activation table: 33 knots with straight lines between them, as data.

`chips.table_format` says which bytes hold it, `simulator.lookup_table` evaluates it, `compiler` fits and writes it.
"""

from __future__ import annotations

from enum import IntEnum

from openane.record_classes import dataclass

KNOTS = 33


class TableKind(IntEnum):
    """How the input is mapped to a knot position p, and the knots' value to the result."""

    FROM_START = 0   # p = x * 2^n
    CENTRED = 1      # p = x * 2^n + 16
    TO_END = 2       # p = x * 2^n + 32
    FRACTION = 3     # x - trunc(x)
    INTEGER = 4      # trunc(x)
    SQRT = 5         # x = m * 4^k, m in [0.5, 2): T(m * 2^n) * 2^k
    RSQRT = 6        # T(m * 2^n) * 2^-k
    INVERSE = 7      # x = m * 2^e, m in [0.5, 1): T((m - 0.5) * 2^n) * 2^-e
    LOG2 = 9         # T((m - 0.5) * 2^n) + e
    EXP2 = 10        # q = floor(x): T((x - q) * 2^n) * 2^q


class Symmetry(IntEnum):
    """What happens to negative inputs."""

    NONE = 0
    ODD = 3       # work on |x|, negate the result where x < 0
    POSITIVE = 6  # no folding, 0 for every negative x; used where the low clip is 0 (sqrt, rsqrt, log2)


@dataclass(frozen=True, slots=True)
class Table:
    """The contents of an activation table; every number is an fp16 value."""

    low_clip: float
    high_clip: float
    low_value: float
    high_value: float
    knots: tuple[float, ...]
    low_slope: float = 0.0
    low_intercept: float = 0.0
    high_slope: float = 0.0
    high_intercept: float = 0.0
    exponent: int = 0
    kind: TableKind = TableKind.FROM_START
    symmetry: Symmetry = Symmetry.NONE
