"""The neural engine's 128-byte activation table: 64 halfwords, as data.

Layout (facts, proved by executing Apple-made tables): halfwords 0, 1 clip low and high; 2, 3 results outside; 4..36
33 knots; 37, 38 slope and intercept below; 39, 40 above; 41 signed exponent n, knots lie 2^-n apart; 42 the mode:
bits 3:0 the kind, bits 7:5 the symmetry. `simulator.lookup_table` evaluates it, `compiler` fits and writes it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from openane.errors import ProgramError
from openane.registers import Evidence, Field, Register

KNOTS = 33
BYTES = 128
MODE = Register("Mode", 84, (Field("Kind", 0, 4, evidence=Evidence.PROVED),
                             Field("Symmetry", 5, 3, evidence=Evidence.PROVED)), doc="halfword 42 of a table")


class Kind(IntEnum):
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
    kind: Kind = Kind.FROM_START
    symmetry: Symmetry = Symmetry.NONE

    def to_bytes(self) -> bytes:
        """The 128 bytes the engine reads. ProgramError when a number of knots or range is wrong."""
        if len(self.knots) != KNOTS:
            raise ProgramError(f"a table has {KNOTS} knots, not {len(self.knots)}")
        halves = (self.low_clip, self.high_clip, self.low_value, self.high_value, *self.knots, self.low_slope,
                  self.low_intercept, self.high_slope, self.high_intercept)
        try:
            packed = struct.pack("<41eh", *halves, self.exponent)
        except (OverflowError, struct.error) as error:
            raise ProgramError(f"a table entry does not fit fp16: {error}") from None
        mode = MODE.encode({"Kind": int(self.kind), "Symmetry": int(self.symmetry)})
        return (packed + struct.pack("<H", mode)).ljust(BYTES, b"\0")

    @staticmethod
    def from_bytes(data: bytes) -> Table:
        """Reads 128 bytes. ProgramError on a mode that is not described."""
        if len(data) != BYTES:
            raise ProgramError(f"a table has {BYTES} bytes, not {len(data)}")
        low, high, low_value, high_value, *halves = struct.unpack_from("<41e", data)
        exponent, word = struct.unpack_from("<hH", data, 82)
        mode, rest = MODE.decode(word)
        try:
            kind, symmetry = Kind(int(mode["Kind"])), Symmetry(int(mode["Symmetry"]))
        except ValueError:
            raise ProgramError(f"table mode 0x{word:x} is not described") from None
        if rest:
            raise ProgramError(f"table mode 0x{word:x} has bits without a description: 0x{rest:x}")
        a, b, c, d = halves[KNOTS:]
        return Table(low, high, low_value, high_value, tuple(halves[:KNOTS]), a, b, c, d, exponent, kind, symmetry)
