"""H15: the engine of A16 and M3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import DECODED, Facts, frames
from openane.chips.h14 import LIMITS as H14_LIMITS
from openane.chips.h14 import H14Reader
from openane.chips.h15.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format
from openane.chips.reader import STREAMED


class H15Reader(H14Reader):
    """Where H15 has the fields that H13 has elsewhere."""

    names: ClassVar = H14Reader.names | {
        "PE.BiasScale.Bias": "PE.Bias.Bias", "PE.BiasScale.Scale": "PE.Scale.Scale",
        "PE.PreScale.Epsilon": "PE.Epsilon.Epsilon"}
    table = ("KernelDMA.TableDMAConfig.En", "KernelDMA.TableBfrSize.Size")

    def get(self, name: str) -> Any:
        """A field's value: |x| is one of several conditions of the planar engine, none else of which is described."""
        if name == "PE.Cfg.Abs":
            self.refuse_unless("PE.Cfg.Condition", "none", "absolute")
            return int(super().get("PE.Cfg.Condition") == "absolute")
        return super().get(name)

    def second_from_memory(self) -> bool:
        """Whether the second operand comes from memory: it has a configuration word of its own."""
        return self.get("L2.SecondCfg.SourceType") in STREAMED


LIMITS = replace(H14_LIMITS, assumed=(*H14_LIMITS.assumed, "width", "height", "depth", "groups"))

CHIP = IndexedChip("h15", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H15Reader,
                   Facts(isa=8, subtype=6, chip="m3", tasks=frames(8), operations=DECODED, unknown_868=5), Arithmetic())

__all__ = ["CHIP", "LIMITS", "H15Reader"]
