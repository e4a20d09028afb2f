"""H14: the engine of A15 and M2."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import DECODED, Facts, frames
from openane.chips.h13.limits import LIMITS as H13_LIMITS
from openane.chips.h14.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, IndexedReader, indexed_format


class H14Reader(IndexedReader):
    """Where H14 has the fields that H13 has elsewhere."""

    names: ClassVar = {"Common.ConvCfg.OCGSize": "Common.OCG.OCGSize"}


_COEFFICIENTS = H13_LIMITS.coefficients
LIMITS = replace(H13_LIMITS, kernel_width=32, kernel_height=32, addresses=1 << 42,
                 coefficients=replace(_COEFFICIENTS, table_apart=True, sparse=replace(_COEFFICIENTS.sparse, values=16)),
                 assumed=("padding", "stride", "kernel_width", "kernel_height", "kernel_memory", "l2_size"))

CHIP = IndexedChip("h14", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), LIMITS, H14Reader,
                   Facts(isa=11, subtype=5, chip="m2", tasks=frames(8), operations=DECODED, unknown_868=3),
                   Arithmetic(crop_gain=True))

__all__ = ["CHIP", "LIMITS", "H14Reader"]
