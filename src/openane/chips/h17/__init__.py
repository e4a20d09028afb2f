"""H17: the engine of A18 and M5."""

from __future__ import annotations

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import BYTES, CARRIED, EMITTED, SEVERAL_WEIGHTS, SHOWN, Facts, frames
from openane.chips.h16 import H16Reader, H16Writer
from openane.chips.h17.policy import POLICY
from openane.chips.h17.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format
from openane.chips.weight_forms import LATE_FORMS

CHIP = IndexedChip("h17", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), POLICY, H16Reader, H16Writer,
                   Facts(isa=19, subtype=9, chip="m5", tasks=frames(9), operations=EMITTED,
                         compiled=True, unknown_868=4, limited=True,
                         inferred=(CARRIED, SEVERAL_WEIGHTS, BYTES),
                         shown=SHOWN | {"product of channels"}, streamed=LATE_FORMS), Arithmetic(winograd=True))

__all__ = ["CHIP"]
