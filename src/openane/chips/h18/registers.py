"""H18 (A19): registers, as differences on H17.

Both tile DMA blocks gain two words before their addresses (which now take the data set that H17 had in the
configuration word), and memory formats have their numbers in another order, which is seen for fp16 alone. The shared
streams of the kernel DMA lie elsewhere; of them only the table's place is seen.
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h17 import registers as h17
from openane.chips.stream import RUNS, slots_block
from openane.chips.tables import S, U, enum, flag, uint, word
from openane.registers import Bank, Block, Register

POINTERS = {0x4D18: "RBase0", 0x4D30: "RBase1", 0x5110: "WBase", 0x5510: "KBase0", 0x5638: "TableBase",
            0x4D10: "FirstDataSet", 0x4D14: "SecondDataSet", 0x5108: "ResultDataSet"}
HEADER = h17.HEADER

COMMON = h17.COMMON.patched(word("ChCfg", 0x00, *(
    enum(f"{side}Fmt", low + 2, low, "uint8 int8 fp16", U, default="fp16")
    for side, low in (("In", 0), ("Second", 3), ("Out", 6)))))

SHARED_STREAMS = 0xE0   # from here on the kernel DMA's words are not where H17 has them
_TABLE = {"TableDMAConfig": 0x12C, "TableBfrSize": 0x130, "TableBase": 0x138, "TableBaseHi": 0x13C}
KERNEL_DMA = Block("KernelDMA", 0x5500, (
    *(r for r in h17.KERNEL_DMA.registers if r.offset < SHARED_STREAMS),
    Register("Reserved2", SHARED_STREAMS, count=19),
    *(replace(h17.KERNEL_DMA.register(name), offset=offset) for name, offset in _TABLE.items()),
    Register("Reserved3", 0x134), Register("Reserved4", 0x140, count=2),
    word("UserTag", 0x148, uint("Tag", 31, 0, U)),
), doc=h17.KERNEL_DMA.doc)

ADDED = 8   # bytes


def _shifted(block: Block, start: int, end: int, *added: Register) -> Block:
    """The block with its words from `start` to before `end` moved back, and what follows without a description."""
    kept = [r if r.offset < start else replace(r, offset=r.offset + ADDED) for r in block.registers if r.offset < end]
    return replace(block, registers=tuple(sorted((*kept, *added), key=lambda r: r.offset)))


MEMORY_FORMAT = (
    uint("FmtMode", 3, 0, U), uint("Interleave", 7, 4, U, "channels stored together"),
    enum("MemFmt", 11, 8, "uint8 int8 fp16", U), uint("Truncate", 15, 12, U))
"""The numbers that H13 has for fp16, one channel after another (1, 1, 2, 3), are 0x3211 in every record. Which of the
two ones is which is a guess: other formats rest on it."""
TILE_DMA_SRC = _shifted(
    h17.TILE_DMA_SRC, 0x10, 0x68, Register("DataSet", 0x10), Register("SecondDataSet", 0x14),
    word("Fmt", 0x70, *MEMORY_FORMAT), word("SecondFmt", 0x74, *MEMORY_FORMAT),
    Register("Reserved6", 0x78, count=51))
TILE_DMA_DST = _shifted(
    h17.TILE_DMA_DST, 0x08, 0x38, Register("DataSet", 0x08), Register("Reserved7", 0x0C),
    word("Fmt", 0x40, *MEMORY_FORMAT, uint("ZeroPad", 31, 28, S, "15 in every record")),
    Register("Reserved8", 0x44, count=9), word("UserTag", 0x68, uint("Tag", 31, 0, U)))
L2 = h17.L2.patched(Register("Reserved5", 0xA4), Register("TraceCfg", 0xA8))
PE = h17.PE
_MAC = h17.NE.register("MACCfg")
NE = h17.NE.patched(replace(_MAC, fields=(*_MAC.fields, flag("FewPixels", 27, S, "set in products of up to eight rows, "
                                                             "which do not write KernelCfg; no effect seen"))))
CACHE_DMA = h17.CACHE_DMA

HEADER_BANK = Bank((HEADER,))
STREAM_BANK = Bank((slots_block(POINTERS), KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST, CACHE_DMA,
                    RUNS))
