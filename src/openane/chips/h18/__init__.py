"""H18: the engine of A19."""

from __future__ import annotations

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import Facts, frames
from openane.chips.h16 import LIMITS, H16Reader
from openane.chips.h18.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format

CHIP = IndexedChip("h18", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H16Reader,
                   Facts(isa=20, subtype=10, tasks=frames(9), unknown_868=4, limited=True,
                         operations="refused: how memory formats are stated is not known"),
                   Arithmetic(winograd=True))

__all__ = ["CHIP"]
