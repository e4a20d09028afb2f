"""H17 (A18, M5): registers, as differences on H16: some blocks are longer, and the engine bit of TaskInfo moved.

Public register maps name the added words only by their place, and give other places to strides and addresses than the
records of Apple's compiler, which write them where H16 has them; the records are followed.
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h16 import registers as h16
from openane.chips.stream import RUNS, slots_block
from openane.chips.tables import S, U, flag, uint, word
from openane.registers import Bank, Register

POINTERS = h16.POINTERS
HEADER = h16.HEADER

_TASK = h16.COMMON.register("TaskInfo")
COMMON = h16.COMMON.patched(replace(_TASK, fields=(
    *(f for f in _TASK.fields if f.name in ("TaskID", "TaskQ")),
    replace(next(f for f in _TASK.fields if f.name == "NEEn"), low=21), uint("TaskNID", 27, 22, U))))

KERNEL_DMA = h16.KERNEL_DMA.patched(Register("Reserved2", 0x120, count=8),
                                    word("UserTag", 0x140, uint("Tag", 31, 0, U)))
TILE_DMA_SRC = h16.TILE_DMA_SRC
L2 = h16.L2.patched(Register("TraceCfg", 0xA4))
PE = h16.PE.patched(Register("ExtraCfg", 0x3C))
_KERNEL = h16.NE.register("KernelCfg")
_ZEROS = flag("DetectZeros", 28, S, "set in products; no effect seen")
NE = h16.NE.patched(replace(_KERNEL, fields=(*_KERNEL.fields, _ZEROS)), Register("ExtraCfg", 0x30))
TILE_DMA_DST = h16.TILE_DMA_DST.patched(Register("Reserved6", 0x54), word("UserTag", 0x58, uint("Tag", 31, 0, U)))
CACHE_DMA = h16.CACHE_DMA.patched(Register("Reserved2", 0x30), word("PrefetchRate", 0x34, uint("Rate", 31, 0, U)))

HEADER_BANK = Bank((HEADER,))
STREAM_BANK = Bank((slots_block(POINTERS), KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST, CACHE_DMA,
                    RUNS))
