"""H18: the engine of A19."""

from __future__ import annotations

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import CARRIED, EMITTED, GUESSED_BYTES, SEVERAL_WEIGHTS, SHOWN, Facts, frames
from openane.chips.h16 import H16Reader, H16Writer
from openane.chips.h18.policy import POLICY
from openane.chips.h18.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format
from openane.chips.weight_forms import LATE_FORMS
from openane.registers import Fields


class H18Writer(H16Writer):
    """States how rows in memory are filled up."""

    def translated(self, given: Fields, neural: bool) -> Fields:
        """Both ends of a row are filled in one field."""
        given = super().translated(given, neural)
        ends = [given.pop(f"TileDMADst.Fmt.ZeroPad{end}", 0) for end in ("First", "Last")]
        return given | {"TileDMADst.Fmt.ZeroPad": 15} if any(ends) else given


CHIP = IndexedChip("h18", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), POLICY, H16Reader, H18Writer,
                   Facts(isa=20, subtype=10, chip="m6", tasks=frames(9), operations=EMITTED,
                         compiled=True, unknown_868=4, limited=True,
                         inferred=(CARRIED, SEVERAL_WEIGHTS, GUESSED_BYTES),
                         shown=SHOWN, streamed=LATE_FORMS), Arithmetic(winograd=True))

__all__ = ["CHIP", "H18Writer"]
