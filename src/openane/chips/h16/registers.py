"""H16 (A17 Pro, M4): registers, as differences on H15.

Extents have a register each, the header a ninth word, L2 an operand of indices; the tile DMA gains compression and
texture registers. SEEN is what a record of Apple's compiler shows, INFERRED what public register maps name.
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h15 import registers as h15
from openane.chips.stream import RUNS, slots_block
from openane.chips.tables import S, U, bytes16, enum, flag, uint, without, word
from openane.registers import Bank, Block, Register

POINTERS = h15.POINTERS

HEADER = Block("Header", 0x0, (
    *(r for r in h15.HEADER.registers if r.offset < 0x18),
    word("LiveOuts", 0x18, uint("LiveOuts", 23, 0, U)),
    word("Flags", 0x1C, uint("LiveOuts", 31, 0, S, "not 0 where a later task reads what this one leaves in L2")),
    replace(h15.HEADER.register("Control"), offset=0x20), replace(h15.HEADER.register("Dependency"), offset=0x24),
), doc=h15.HEADER.doc)


def _extent(name: str, offset: int, field: str, default: int | None = None) -> Register:
    return word(name, offset, uint(field, 16, 0, S, f"{default} where it is not written" if default else "",
                                   default=default))


_CFG = h15.COMMON.register("Cfg")
_GROUPS = {f.name: f for f in h15.COMMON.register("GroupConvCfg").fields}
_PATCH = h15.COMMON.register("PETile")
COMMON = Block("Common", 0x0, (
    replace(h15.COMMON.register("ChCfg"), offset=0x00),
    _extent("InWidth", 0x04, "W", 256), _extent("InHeight", 0x08, "H"), _extent("Cin", 0x0C, "C", 16),
    _extent("InDepth", 0x10, "D", 1), _extent("OutWidth", 0x14, "W", 256), _extent("OutHeight", 0x18, "H"),
    _extent("Cout", 0x1C, "C", 16), _extent("OutDepth", 0x20, "D", 1),
    word("GroupConvCfg", 0x24, uint("NumGroups", 16, 0, S, _GROUPS["NumGroups"].doc, default=1)),
    replace(h15.COMMON.register("ConvCfg"), offset=0x28), replace(h15.COMMON.register("ConvCfg3d"), offset=0x2C),
    word("UnicastCfg", 0x30, _GROUPS["UnicastEn"], _GROUPS["ElemMultMode"], _GROUPS["UnicastCin"]),
    word("TileCfg", 0x34, uint("TileHeight", 16, 0, S, "rows per tile; no effect on the result")),
    word("TileOverlap", 0x38, uint("Overlap", 20, 16, U), uint("PadTop", 25, 21, U), uint("PadBottom", 30, 26, U)),
    word("Cfg", 0x3C, *(f for f in _CFG.fields if f.name in (
        "SmallSourceMode", "TaskType", "ShPref", "ShMin", "ShMax", "ActiveNE", "ContextSwitchIn", "NEResultSwap",
        "FillLowerNE")),
         uint("ReluType", 27, 24, U)),
    word("NECfg", 0x40, h15.COMMON.register("OCG").fields[0], flag("FatTileEnable", 3, U),
         uint("WUStackLog2", 5, 4, U)),
    word("PETile", 0x44, _PATCH.fields[0], uint("HeightLog2", 8, 4, S)),
    word("Broadcast", 0x48, *h15.COMMON.register("Broadcast").fields, flag("IndexTranspose", 14, U),
         flag("IndexBroadcast", 15, U), uint("PrimarySource", 18, 16, U), uint("ActiveNE", 21, 19, U)),
    replace(h15.COMMON.register("TaskInfo"), offset=0x4C), replace(h15.COMMON.register("DPE"), offset=0x50),
    Register("Reserved", 0x54, count=2),
), doc=h15.COMMON.doc)

KERNEL_DMA = h15.KERNEL_DMA


def _metadata(prefix: str, address: int, config: int) -> tuple[Register, ...]:
    return (word(f"{prefix}MetaDataAddr", address, uint("Addr", 31, 0, U)),
            word(f"{prefix}MetaDataAddrHi", address + 4, uint("Addr", 31, 0, U, shift=32)),
            word(f"{prefix}MetaDataConfig", config, uint("Config", 31, 7, U)),
            word(f"{prefix}MetaDataConfig2", config + 4, uint("Config", 31, 7, U)),
            word(f"{prefix}MetaDataSize", config + 8, uint("Size", 31, 7, U)))


def compressed(name: str, offset: int) -> Register:
    """How an operand in memory is compressed."""
    return word(name, offset, flag("CompressedEnable", 0, U), flag("MacroblockSize", 2, U),
                uint("PackingFormat", 9, 4, U), flag("LossyEnable", 13, U), uint("UserTag", 31, 24, U))


def _compression(prefix: str, offset: int) -> tuple[Register, ...]:
    return (compressed(f"{prefix}CompressedInfo", offset),
            word(f"{prefix}CompressedSize", offset + 4, uint("Size", 31, 0, U)),
            word(f"{prefix}CompressedSizeHi", offset + 8, uint("Size", 31, 0, U, shift=32)),
            word(f"{prefix}CropOffset", offset + 12, uint("Y", 15, 0, U), uint("X", 31, 16, U)))


def _pair(name: str, offset: int) -> Register:
    return word(name, offset, uint("Low", 15, 0, U), uint("High", 31, 16, U))


def _ring(name: str, offset: int) -> Register:
    return word(name, offset, uint("WrapNumBlocks", 11, 0, U), uint("WrapLen", 31, 12, U))


TILE_DMA_SRC = without(h15.TILE_DMA_SRC, "Reserved2", "Reserved3", "Reserved").patched(
    *_metadata("", 0x40, 0x50), *_metadata("Second", 0x48, 0x5C), Register("Reserved", 0x70, count=2),
    *_compression("", 0x78), *_compression("Second", 0x88), Register("Reserved2", 0x98, count=8),
    _ring("WrapDynamic", 0xB8), _ring("SecondWrapDynamic", 0xBC),
    word("DependencyOffset", 0xC0, uint("Offset", 31, 0, U)),
    word("SecondDependencyOffset", 0xC4, uint("Offset", 31, 0, U)),
    word("TextureConfig", 0xC8, enum("Mode", 2, 0, "off gather bilinear bicubic nearest", U), uint("Norm1", 5, 3, U),
         uint("Norm2", 8, 6, U), flag("BackgroundEn", 22, U), flag("DepthValSel", 23, U), uint("WrapParam", 28, 24, U)),
    word("TextureIndexPermute", 0xCC, uint("Permute0", 8, 6, U), uint("Permute1", 14, 12, U)),
    word("TextureSourcePermute", 0xD0, uint("Permute", 2, 0, U), uint("SecondPermute", 14, 12, U),
         uint("IndexPermute", 18, 16, U), flag("PreserveFraction", 22, U), uint("WrapParam", 28, 24, U)),
    word("TextureBackground", 0xD4, uint("Value", 15, 0, U)),
    *(_pair(name, offset) for name, offset in (
        ("TextureExtMax1", 0xD8), ("TextureExtMax2", 0xDC), ("TextureExtMax3", 0xE0), ("TextureCropBatchSplit1", 0xE4),
        ("TextureCropDepth1", 0xE8), ("TextureCropBatchSplit2", 0xEC))),
    Register("Reserved3", 0xF0, count=2), word("Ephemeral", 0xF8, flag("Enable", 0, U)),
    Register("Reserved4", 0xFC, count=2), word("TextureCropCoefficient", 0x104, uint("Value", 31, 0, U)),
    Register("Reserved5", 0x108, count=15))

_SOURCE = h15.L2.register("SourceCfg")
L2 = Block("L2", 0x4100, (
    h15.L2.register("L2Cfg"), _SOURCE, h15.L2.register("SecondCfg"),
    replace(_SOURCE, name="IndexCfg", offset=0x0C, evidence=U, doc="an operand of indices",
            fields=tuple(replace(f, evidence=U) for f in _SOURCE.fields)),
    *h15.operand("Source", 0x10), *h15.operand("Second", 0x24),
    *(bytes16(f"Index{name}", 0x38 + 4 * i, field, "", U) for i, (name, field) in enumerate(
        (("Base", "Addr"), ("ChannelStride", "Stride"), ("DepthStride", "Stride"), ("GroupStride", "Stride")))),
    replace(h15.L2.register("ResultCfg"), offset=0x48), *h15.operand("Result", 0x4C),
    Register("Reserved", 0x60), _ring("WrapCfg", 0x64), _ring("SourceWrapStart", 0x68), _ring("SecondWrapStart", 0x6C),
    Register("Reserved2", 0x70), word("ResultWrap", 0x74, uint("Index", 15, 0, U), uint("StartOffset", 31, 16, U)),
    Register("Reserved3", 0x78, count=5),
    word("IndexMode", 0x8C, uint("MaxIndex", 15, 0, U), uint("Mode", 18, 16, U), uint("Broadcast", 25, 24, U),
         flag("Transpose", 26, U)),
    Register("SourceAddrWrap", 0x90), Register("SecondAddrWrap", 0x94), Register("Reserved4", 0x98),
    word("ResultWrapAddr", 0x9C, uint("Addr", 11, 0, U), uint("Offset", 26, 16, U)),
    word("SourceOffset", 0xA0, uint("X", 5, 0, U), uint("Y", 12, 8, U)),
), doc=h15.L2.doc)

PE = h15.PE

_KERNEL = h15.NE.register("KernelCfg")
_MAC = {f.name: f for f in h15.NE.register("MACCfg").fields}
NE = h15.NE.patched(
    word("KernelCfg", 0x00, *_KERNEL.fields, flag("SparseBinary", 15, U), uint("BlockSize", 23, 21, U),
         flag("AsymQuantEn", 24, U), doc=_KERNEL.doc),
    word("MACCfg", 0x04, *(_MAC[n] for n in ("OpMode", "NoKernel", "BiasRow", "PostScaleMode", "NonlinearMode", "En")),
         flag("PassEn", 5, U), replace(_MAC["MatrixBiasEn"], low=6), uint("BinaryPoint", 13, 8, S, "no effect on fp16"),
         flag("MaxPoolEn", 19, U), uint("ArgSel", 23, 21, U), flag("DoubleInt8En", 26, U)),
    word("QuantZeroPoint", 0x2C, uint("ZeroPoint", 7, 0, U)))

TILE_DMA_DST = without(h15.TILE_DMA_DST, "Reserved2", "Reserved3").patched(
    word("InternalCfg", 0x20, uint("Bits", 15, 0, U), flag("Flag1", 16, U), flag("Flag2", 17, U), flag("Flag3", 18, U)),
    Register("Reserved2", 0x24), word("MetaDataAddr", 0x28, uint("Addr", 31, 0, U)),
    word("MetaDataAddrHi", 0x2C, uint("Addr", 31, 0, U, shift=32)),
    word("FormatMode", 0x30, uint("FormatMode", 1, 0, U), uint("MetaDataSize", 31, 7, U)), Register("Reserved3", 0x34),
    Register("Reserved4", 0x3C), compressed("CompressedInfo", 0x40), Register("Reserved5", 0x44),
    word("CompressedSize", 0x48, uint("Size", 31, 0, U)),
    word("CompressedSizeHi", 0x4C, uint("Size", 31, 0, U, shift=32)), Register("PixelOffset", 0x50))

CACHE_DMA = h15.CACHE_DMA

HEADER_BANK = Bank((HEADER,))
STREAM_BANK = Bank((slots_block(POINTERS), KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST, CACHE_DMA,
                    RUNS))
