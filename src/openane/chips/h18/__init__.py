"""H18: the engine of A19."""

from __future__ import annotations

from typing import Any

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import DECODED, Facts, frames
from openane.chips.h16 import LIMITS, H16Reader
from openane.chips.h18.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format


class H18Reader(H16Reader):
    """Where H18 has the fields that H13 has elsewhere."""

    def get(self, name: str) -> Any:
        """A field's value: the one memory format that is described stores channels one after another."""
        register, _, field = name.rpartition(".")
        if field == "Interleave":
            self.refuse_unless(f"{register}.Format", "fp16")
            return 1
        return super().get(name)


CHIP = IndexedChip("h18", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H18Reader,
                   Facts(isa=20, subtype=10, chip="m6", tasks=frames(9),
                         unknown_868=4, limited=True, operations=DECODED), Arithmetic(winograd=True))

__all__ = ["CHIP", "H18Reader"]
