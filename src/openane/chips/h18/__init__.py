"""H18: the engine of A19."""

from __future__ import annotations

from openane.chips.h16 import LIMITS, H16Reader
from openane.chips.h18.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format

CHIP = IndexedChip("h18", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H16Reader)

__all__ = ["CHIP"]
