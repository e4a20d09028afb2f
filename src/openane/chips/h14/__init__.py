"""H14: the engine of A15 and M2."""

from __future__ import annotations

from typing import ClassVar

from openane.chips.arithmetic import Arithmetic
from openane.chips.emit.apart import TABLE
from openane.chips.facts import BYTES, EMITTED, OLDER, SEVERAL_WEIGHTS, SHOWN_EARLY, Facts, frames
from openane.chips.frame_writer import FrameWriter
from openane.chips.h14.policy import POLICY
from openane.chips.h14.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, IndexedReader, indexed_format
from openane.chips.weight_forms import FORMS, LATE_FORMS


class H14Reader(IndexedReader):
    """Where H14 has the fields that H13 has elsewhere: the table is the last of four streams all cores share."""

    names: ClassVar = {"Common.ConvCfg.OCGSize": "Common.OCG.OCGSize",
                       "KernelDMA.TableDMAConfig.En": "KernelDMA.AuxDMAConfig[3].En",
                       "KernelDMA.TableBfrSize.Size": "KernelDMA.AuxBfrSize[3].Size"}


class H14Writer(FrameWriter):
    """What H14 writes otherwise than later generations."""

    def halves(self, name: str) -> tuple[str, ...]:
        """The table's address stands twice."""
        twice = ("KernelDMA.AuxBaseAddr[3].Addr",) if name == TABLE else ()
        return (*twice, *super().halves(name))


CHIP = IndexedChip("h14", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), POLICY, H14Reader, H14Writer,
                   Facts(isa=11, subtype=5, chip="m2", tasks=frames(8), operations=EMITTED,
                         compiled=True, unknown_868=3, task_events=1,
                         inferred=(OLDER, SEVERAL_WEIGHTS, BYTES),
                         shown=SHOWN_EARLY | {"product of channels"}, streamed=FORMS,
                         folded=LATE_FORMS - FORMS), Arithmetic(crop_gain=True))

__all__ = ["CHIP", "H14Reader", "H14Writer"]
