"""H17: the engine of A18 and M5."""

from __future__ import annotations

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import DECODED, Facts, frames
from openane.chips.h16 import LIMITS, H16Reader
from openane.chips.h17.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format

CHIP = IndexedChip("h17", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H16Reader,
                   Facts(isa=19, subtype=9, chip="m5", tasks=frames(9),
                         operations=DECODED, unknown_868=4, limited=True), Arithmetic(winograd=True))

__all__ = ["CHIP"]
