"""H40: H13's registers at other addresses, header words in another order, fields counted from the other end."""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h13 import registers as h13
from openane.chips.tables import rearranged
from openane.registers import Bank, Block, Register

WORDS = ("Next", "Control", "Task", "KernelBases", "Exceptions", "LogEvents", "NextPointer", "DebugExceptions", "Bases",
         "DebugLogEvents")
"""The header's words in order; the one that only some tasks have stays last."""
BASES = {"KernelDMA": 0x5000, "Common": 0xA000, "TileDMASrc": 0x0, "L2": 0x1E000, "PE": 0x2000, "NE": 0x11000,
         "TileDMADst": 0x400}


def upside_down(register: Register) -> Register:
    """The register with its fields counted from the other end of the word."""
    return replace(register, fields=tuple(replace(f, low=32 - f.low - f.width) for f in register.fields))


HEADER = replace(h13.HEADER, registers=(
    *(replace(upside_down(h13.HEADER.register(name)), offset=4 * place) for place, name in enumerate(WORDS)),
    h13.HEADER.register("Dependency")))


def block(given: Block) -> Block:
    """A block at its new base, the fields of its registers upside down."""
    turned = replace(given, registers=tuple(map(upside_down, given.registers)))
    return rearranged(turned, BASES[given.name])


STREAM_BANK = Bank(tuple(map(block, h13.STREAM_BANK.blocks)))
