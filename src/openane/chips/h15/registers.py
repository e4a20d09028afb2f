"""H15 (A16, M3): registers, as differences on H14.

Every block but Common lies at a new base. The second operand has its own L2 configuration word, the planar engine's
numbers are single-precision patterns of which 19 bits count, kernel DMA streams lie in groups of four words, and a
cache DMA block is added. What H14's compiler put into the data-set fields now comes from a slot, through run heads.

SEEN is what a record of Apple's compiler shows to do what H13's words do for the same program.
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h14 import registers as h14
from openane.chips.stream import RUNS, slots_block
from openane.chips.tables import S, U, bytes16, bytes64, enum, flag, rearranged, single, uint, without, word
from openane.registers import Bank, Block, Evidence, Register

HEADER = h14.HEADER.patched(
    word("LogEvents", 0x08, *h14.HEADER.register("LogEvents").fields,
         uint("High", 31, 24, S, "3, from H16 on 4, on the last task; what it does is not known")),
    word("Control", 0x1C, *h14.HEADER.register("Control").fields, flag("Last", 3, S, "last task of the program")))

POINTERS = {0x4D10: "RBase0", 0x4D28: "RBase1", 0x5108: "WBase", 0x5510: "KBase0", 0x55E8: "BiasBase",
            0x55F8: "PostScaleBase", 0x5608: "PaletteBase", 0x5618: "TableBase", 0x4D00: "FirstDataSet",
            0x4D04: "SecondDataSet", 0x5100: "ResultDataSet"}


def _group(name: str, offset: int, evidence: Evidence, doc: str) -> tuple[Register, ...]:
    """Four words of a stream that all cores share: configuration, size, address."""
    config = replace(h14.stream_config(f"{name}DMAConfig", offset, 1, doc), evidence=evidence)
    return (config, word(f"{name}BfrSize", offset + 4, uint("Size", 31, 6, evidence, shift=6)),
            bytes64(f"{name}Base", offset + 8, "Addr", "", evidence),
            h14.high(f"{name}BaseHi", offset + 12))


KERNEL_DMA = Block("KernelDMA", 0x5500, (
    h14.KERNEL_DMA.register("Control"), h14.KERNEL_DMA.register("AlignedCoeffSizePerCh"),
    word("Prefetch", 0x08, flag("EarlyTermEn", 0, U), flag("StopOnError", 1, U), uint("PrefetchRate", 31, 16, U)),
    Register("Reserved", 0x0C),
    replace(h14.KERNEL_DMA.register("CoeffSection"), offset=0x10), h14.high("CoeffSectionHi", 0x14),
    replace(h14.KERNEL_DMA.register("KernelGroupStride"), offset=0x18),
    replace(h14.KERNEL_DMA.register("KernelOCGStride"), offset=0x1C, evidence=U),
    *(replace(h14.KERNEL_DMA.register(name), offset=offset)
      for name, offset in (("CoeffDMAConfig", 0x20), ("CoeffBaseAddr", 0x60), ("CoeffBfrSize", 0xA0))),
    *_group("Bias", 0xE0, U, "biases"), *_group("PostScale", 0xF0, U, "post scales"),
    *_group("Palette", 0x100, U, "palette"), *_group("Table", 0x110, S, "the activation table"),
), doc=h14.KERNEL_DMA.doc)

COMMON = h14.COMMON

TILE_DMA_SRC = without(h14.TILE_DMA_SRC, "Spare", "Reserved3", "PixelOffset").patched(
    *(word(name, offset, *h14.hints(name, offset).fields, uint("WrapCfg", 10, 8, U), uint("WrapStatic", 31, 16, U))
      for name, offset in (("CacheHints", 0x08), ("SecondCacheHints", 0x0C))),
    h14.source_config("SecondDMAConfig", 0x04, "En: the second operand comes from memory"),
    Register("Reserved2", 0x58, count=4), Register("Reserved3", 0x70, count=41))
TILE_DMA_SRC = rearranged(TILE_DMA_SRC, 0x4D00, Fmt=0x68, SecondFmt=0x6C).patched(Register("Reserved", 0x40, count=6))

_SOURCE = h14.L2.register("SourceCfg")
_SOURCE = replace(_SOURCE, fields=tuple(f for f in _SOURCE.fields if f.name != "SecondDMA"))
L2_STRIDES = ("Base", "ChannelStride", "RowStride", "DepthStride", "GroupStride")


def operand(prefix: str, offset: int, evidence: Evidence = S) -> tuple[Register, ...]:
    """Base and strides of an operand in L2."""
    return tuple(bytes16(f"{prefix}{name}", offset + 4 * i, "Addr" if name == "Base" else "Stride", "", evidence)
                 for i, name in enumerate(L2_STRIDES))


L2 = Block("L2", 0x4100, (
    h14.L2.register("L2Cfg"), _SOURCE,
    replace(_SOURCE, name="SecondCfg", offset=0x08, doc="the second operand's; resident where there is none"),
    *operand("Source", 0x0C), *operand("Second", 0x20),
    replace(h14.L2.register("ResultCfg"), offset=0x34), *operand("Result", 0x38),
    Register("Reserved", 0x4C, count=11),
), doc=h14.L2.doc)

PE_SEEN = ("PoolMode", "OpMode", "SecondEn", "SubtractSecond")  # the last in a record of H16
PE_NUMBERS = ("Bias", "Scale", "Epsilon", "PreScale", "FinalScale")
PE = Block("PE", 0x4500, (
    word("Cfg", 0x00, *(replace(f, evidence=S if f.name in PE_SEEN else U)
                        for f in h14.PE.register("Cfg").fields if f.name != "Abs"),
         enum("Condition", 8, 6, "none less greater not_equal equal less_equal greater_equal absolute", S,
              "what is done to the sum of the operands; records of H17 and H18 show the last, public maps name all")),
    *(word(name, 4 + 4 * i, single(name, S if name in ("Bias", "Scale") else U, "the upper 19 bits count",
                                   0.0 if name in ("Bias", "Epsilon") else 1.0)) for i, name in enumerate(PE_NUMBERS)),
    Register("LUT", 0x18, count=8, doc="parameters of a piecewise linear function (inferred)"),
    replace(h14.QUANT, offset=0x38),
), doc=h14.PE.doc)

NE = rearranged(h14.NE, 0x4900).patched(
    word("RcasConfig", 0x14, uint("KeyMask", 7, 0, U), uint("CmpBit", 10, 8, U), uint("Axis", 13, 12, U),
         uint("SenseBit", 19, 16, U), flag("Mode", 20, U)),
    word("RoundModeCfg", 0x18, uint("Mode", 1, 0, U), uint("IntBits", 8, 4, U)),
    Register("SRSeed", 0x1C, (uint("Seed", 31, 0, U),), count=4))

TILE_DMA_DST = rearranged(without(h14.TILE_DMA_DST, "Marker"), 0x5100, Fmt=0x38).patched(
    Register("Reserved2", 0x20, count=6), Register("Reserved3", 0x3C, count=6))

CACHE_DMA = Block("CacheDMA", 0x5900, (
    word("Control", 0x00, flag("Flush", 0, U), flag("Enable", 1, U), uint("TaskSync", 3, 2, U),
         uint("EarlyTerm", 8, 4, U)),
    word("Prefetch", 0x04, uint("Low", 15, 0, S, "160 in every record"),
         uint("High", 31, 16, S, "160 in every record")),
    word("Prefetch2", 0x08, uint("Sieve", 13, 0, S, default=0xE0),
         uint("UserTag", 23, 16, S, "the task's number")),
    Register("Reserved", 0x0C, count=3),
    word("DataSet", 0x18, uint("IdAndSize", 29, 7, U)),
    word("Footprint", 0x1C, uint("Limit", 27, 17, U)),
    word("EarlyTerm12", 0x20, uint("First", 15, 0, U), uint("Second", 31, 16, U)),
    word("Flush", 0x24, uint("Argument", 15, 0, U)),
    word("EarlyTerm34", 0x28, uint("Third", 7, 0, U), uint("Fourth", 23, 16, S, "127 in every record")),
    word("Backoff", 0x2C, flag("Enable", 0, S), uint("Delay", 7, 4, U), uint("Min", 15, 8, S),
         uint("High", 31, 16, S, "0x2001 in every record")),
), doc="Cache DMA and telemetry: nothing that decides a result")

HEADER_BANK = Bank((HEADER,))
STREAM_BANK = Bank((slots_block(POINTERS), KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST, CACHE_DMA,
                    RUNS))
