"""H15: the engine of A16 and M3."""

from __future__ import annotations

from typing import Any, ClassVar

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import BYTES, CARRIED, EMITTED, SEVERAL_WEIGHTS, SHOWN, Facts, frames
from openane.chips.frame_writer import FrameWriter
from openane.chips.h14 import H14Reader
from openane.chips.h15.policy import POLICY
from openane.chips.h15.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format
from openane.chips.reader import STREAMED
from openane.chips.weight_forms import LATE_FORMS
from openane.registers import Fields


class H15Reader(H14Reader):
    """Where H15 has the fields that H13 has elsewhere."""

    names: ClassVar = {
        "Common.ConvCfg.OCGSize": "Common.OCG.OCGSize",
        "PE.BiasScale.Bias": "PE.Bias.Bias", "PE.BiasScale.Scale": "PE.Scale.Scale",
        "PE.PreScale.Epsilon": "PE.Epsilon.Epsilon"}

    def get(self, name: str) -> Any:
        """A field's value: |x| is one of several conditions of the planar engine, none else of which is described."""
        if name == "PE.Cfg.Abs":
            self.refuse_unless("PE.Cfg.Condition", "none", "absolute")
            return int(super().get("PE.Cfg.Condition") == "absolute")
        return super().get(name)

    def second_from_memory(self) -> bool:
        """Whether the second operand comes from memory: it has a configuration word of its own."""
        return self.get("L2.SecondCfg.SourceType") in STREAMED


class H15Writer(FrameWriter):
    """Says of |x| and of a second operand from memory what `H15Reader` reads."""

    unused: ClassVar = frozenset(("Common.Cfg.Sources", "L2.SourceCfg.SecondDMA"))

    def translated(self, given: Fields, neural: bool) -> Fields:
        """|x| is a condition."""
        if not given.pop("PE.Cfg.Abs", 0):
            return given
        return given | {"PE.Cfg.Condition": "absolute"}


CHIP = IndexedChip("h15", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), POLICY, H15Reader, H15Writer,
                   Facts(isa=8, subtype=6, chip="m3", tasks=frames(8), operations=EMITTED,
                         compiled=True, unknown_868=5,
                         inferred=(CARRIED, SEVERAL_WEIGHTS, BYTES),
                         shown=SHOWN | {"product of channels"}, streamed=LATE_FORMS), Arithmetic())

__all__ = ["CHIP", "H15Reader", "H15Writer"]
