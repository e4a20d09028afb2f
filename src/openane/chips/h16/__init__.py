"""H16: the engine of A17 Pro and M4."""

from __future__ import annotations

from typing import ClassVar

from openane.chips.arithmetic import Arithmetic
from openane.chips.emit.live import LIVE_OUTS
from openane.chips.facts import BYTES, CARRIED, EMITTED, SEVERAL_WEIGHTS, SHOWN, Facts, frames
from openane.chips.h15 import H15Reader, H15Writer
from openane.chips.h16.policy import POLICY
from openane.chips.h16.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format
from openane.chips.weight_forms import LATE_FORMS


class H16Reader(H15Reader):
    """Where H16 has the fields that H13 has elsewhere."""

    names: ClassVar = H15Reader.names | {
        **{f"Common.{side}Dim.{axis}": f"Common.{side}{long}.{axis}" for side in ("In", "Out")
           for axis, long in (("W", "Width"), ("H", "Height"))},
        **{f"Common.GroupConvCfg.{name}": f"Common.UnicastCfg.{name}"
           for name in ("UnicastEn", "UnicastCin", "ElemMultMode")},
        "Common.ConvCfg.OCGSize": "Common.NECfg.OCGSize"}


class H16Writer(H15Writer):
    """What is live in L2 stands in the header's eighth word."""

    names: ClassVar = {LIVE_OUTS: "Header.Flags.LiveOuts"}


CHIP = IndexedChip("h16", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), POLICY, H16Reader, H16Writer,
                   Facts(isa=17, subtype=7, chip="m4", tasks=frames(9), operations=EMITTED,
                         compiled=True, unknown_868=4, limited=True,
                         inferred=(CARRIED, SEVERAL_WEIGHTS, BYTES),
                         shown=SHOWN | {"product of channels"}, streamed=LATE_FORMS), Arithmetic())

__all__ = ["CHIP", "H16Reader", "H16Writer"]
