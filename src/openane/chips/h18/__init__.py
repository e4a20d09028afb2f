"""H18: the engine of A19."""

from __future__ import annotations

from typing import Any

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import EMITTED, Facts, frames
from openane.chips.h16 import H16Reader, H16Writer
from openane.chips.h18.policy import POLICY
from openane.chips.h18.registers import HEADER_BANK, POINTERS, STREAM_BANK
from openane.chips.indexed import IndexedChip, indexed_format
from openane.errors import ProgramError
from openane.registers import Fields

FORMATS = {"TileDMASrc.Fmt": {}, "TileDMASrc.SecondFmt": {}, "TileDMADst.Fmt": {"ZeroPad": 15}}
"""Registers of memory formats, and what they state besides."""
AS_H17 = {"Interleave": 1, "MemFmt": "fp16", "FmtMode": 1, "Truncate": 3}
"""What H17 states of the one format that is described."""


class H18Reader(H16Reader):
    """Where H18 has the fields that H13 has elsewhere."""

    def get(self, name: str) -> Any:
        """A field's value: the one memory format that is described stores channels one after another."""
        register, _, field = name.rpartition(".")
        if register in FORMATS and field in AS_H17:
            self.refuse_unless(f"{register}.Format", "fp16")
            return AS_H17[field]
        return super().get(name)


class H18Writer(H16Writer):
    """States memory formats as `H18Reader` reads them."""

    def translated(self, given: Fields, neural: bool) -> Fields:
        """The one memory format that is described. ProgramError for others."""
        given = super().translated(given, neural)
        for register, besides in FORMATS.items():
            stated = {name: given.pop(name) for name in list(given) if name.rpartition(".")[0] == register}
            if not stated:
                continue
            if stated[f"{register}.MemFmt"] != "fp16" or stated[f"{register}.Interleave"] != 1:
                raise ProgramError("of H18's memory formats fp16 with channels one after another is described",
                                   register=register, field="Format")
            given |= {f"{register}.Format": "fp16", **{f"{register}.{name}": value for name, value in besides.items()}}
        return given


CHIP = IndexedChip("h18", indexed_format(HEADER_BANK, STREAM_BANK, POINTERS), POLICY, H18Reader, H18Writer,
                   Facts(isa=20, subtype=10, chip="m6", tasks=frames(9), operations=EMITTED,
                         compiled=True, unknown_868=4, limited=True), Arithmetic(winograd=True))

__all__ = ["CHIP", "H18Reader", "H18Writer"]
