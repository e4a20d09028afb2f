"""The bytes of an activation table.

Layout (proved by executing Apple-made tables): halfwords 0, 1 clip low and high; 2, 3 results outside; 4..36 33 knots;
37, 38 slope and intercept below; 39, 40 above; 41 signed exponent n, knots lie 2^-n apart; 42 the mode: bits 3:0 the
kind, bits 7:5 the symmetry; zeros up to the table's size.
"""

from __future__ import annotations

import struct

from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.registers import Evidence, Field, Register

MODE = Register("Mode", 84, (Field("Kind", 0, 4, evidence=Evidence.PROVED),
                             Field("Symmetry", 5, 3, evidence=Evidence.PROVED)), doc="halfword 42 of a table")


def table_kind(data: bytes | memoryview, start: int) -> TableKind | None:
    """The kind of the table at byte `start`; None where none that is described lies there."""
    word = int.from_bytes(data[start + MODE.offset:start + MODE.offset + 2], "little")
    try:
        return TableKind(int(MODE.decode(word)[0]["Kind"]))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class TableFormat:
    """Activation tables of `size` bytes."""

    size: int

    def pack(self, table: Table) -> bytes:
        """The bytes the engine reads. ProgramError when a number of knots or range is wrong."""
        if len(table.knots) != KNOTS:
            raise ProgramError(f"a table has {KNOTS} knots, not {len(table.knots)}")
        halves = (table.low_clip, table.high_clip, table.low_value, table.high_value, *table.knots, table.low_slope,
                  table.low_intercept, table.high_slope, table.high_intercept)
        try:
            packed = struct.pack("<41eh", *halves, table.exponent)
        except (OverflowError, struct.error) as error:
            raise ProgramError(f"a table entry does not fit fp16: {error}") from None
        mode = MODE.encode({"Kind": int(table.kind), "Symmetry": int(table.symmetry)})
        return (packed + struct.pack("<H", mode)).ljust(self.size, b"\0")

    def unpack(self, data: bytes) -> Table:
        """Reads the bytes of a table. ProgramError on a mode that is not described."""
        if len(data) != self.size:
            raise ProgramError(f"a table has {self.size} bytes, not {len(data)}")
        low, high, low_value, high_value, *halves = struct.unpack_from("<41e", data)
        exponent, word = struct.unpack_from("<hH", data, 82)
        mode, rest = MODE.decode(word)
        try:
            kind, symmetry = TableKind(int(mode["Kind"])), Symmetry(int(mode["Symmetry"]))
        except ValueError:
            raise ProgramError(f"table mode 0x{word:x} is not described") from None
        if rest:
            raise ProgramError(f"table mode 0x{word:x} has bits without a description: 0x{rest:x}")
        a, b, c, d = halves[KNOTS:]
        return Table(low, high, low_value, high_value, tuple(halves[:KNOTS]), a, b, c, d, exponent, kind, symmetry)
