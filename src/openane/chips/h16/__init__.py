"""H16: the engine of A17 Pro and M4."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import DECODED, Facts, frames
from openane.chips.h15 import LIMITS as H15_LIMITS
from openane.chips.h15 import H15Reader
from openane.chips.h16.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format


class H16Reader(H15Reader):
    """Where H16 has the fields that H13 has elsewhere."""

    names: ClassVar = H15Reader.names | {
        **{f"Common.{side}Dim.{axis}": f"Common.{side}{long}.{axis}" for side in ("In", "Out")
           for axis, long in (("W", "Width"), ("H", "Height"))},
        **{f"Common.GroupConvCfg.{name}": f"Common.UnicastCfg.{name}"
           for name in ("UnicastEn", "UnicastCin", "ElemMultMode")},
        "Common.ConvCfg.OCGSize": "Common.NECfg.OCGSize"}


LIMITS = replace(H15_LIMITS, width=65536, height=65536, depth=65536, groups=65536)

CHIP = IndexedChip("h16", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H16Reader,
                   Facts(isa=17, subtype=7, chip="m4", tasks=frames(9),
                         operations=DECODED, unknown_868=4, limited=True), Arithmetic())

__all__ = ["CHIP", "LIMITS", "H16Reader"]
