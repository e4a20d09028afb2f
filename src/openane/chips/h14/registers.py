"""H14 (A15, M2): registers, as differences on H13.

The engine's blocks are H13's at other bases; what changed is where memory addresses and slots are stated, the kernel
DMA, and a register for the coefficient lanes that moves the second half of Common by a word. A register that a task
does not write holds the default stated here: tasks leave out what is at its default and what has no effect.

Evidence: SEEN means that a record of Apple's compiler shows the field doing what the same program's H13 words do,
INFERRED that only public register maps (or a neighbour) name it.
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h13 import registers as h13
from openane.chips.stream import RUNS, slots_block
from openane.chips.tables import S, U, at_most, bytes64, enum, flag, rearranged, uint, without, word
from openane.registers import Bank, Block, Register, Value

HEADER = Block("Header", 0x0, (
    word("Task", 0x00, uint("TID", 15, 0, S, "position in the program, from 0"),
         uint("TaskSize", 26, 16, S, "words of the task; 0 in a frame without a task")),
    word("Cycles", 0x04, uint("ExeCycles", 16, 0, S, "the compiler's estimate")),
    *(r for r in at_most(h13.HEADER, S).registers if 0x08 <= r.offset <= 0x14),
    word("LiveOuts", 0x18, uint("LiveOuts", 31, 0, S, "not 0 where a later task reads what this one leaves in L2")),
    word("Control", 0x1C, flag("TSR", 0, S, "set in every task"),
         flag("TDE", 1, S, "the ninth header word is present"),
         uint("ENE", 18, 16, S, "0 for a planar task, else ActiveNE + 1")),
    word("Dependency", 0x20, uint("DTID", 15, 0, S, "task that wrote the coefficients this one reads")),
), doc="Task header: identity, size")

POINTERS = {0x1110: "RBase0", 0x1128: "RBase1", 0x1508: "WBase", 0x1908: "KBase0", 0x19F4: "TableOffset",
            0x1A00: "TableBase"}
"""Address registers whose run heads name a slot."""


def high(name: str, offset: int) -> Register:
    """The upper half of a memory address."""
    return word(name, offset, uint("Addr", 9, 0, S, "bits 41:32 of the address", shift=32))


def stream_config(name: str, offset: int, count: int, doc: str) -> Register:
    """Configuration words of coefficient streams."""
    return Register(name, offset, (
        flag("En", 0, S), uint("CrH", 3, 2, U), uint("CacheHint", 7, 4, S, default=2), uint("DataSetId", 15, 8, S),
        uint("UserTag", 23, 16, S, "the task's number")), count=count, doc=doc)


def _sizes(name: str, offset: int, count: int) -> Register:
    return Register(name, offset, (uint("Size", 31, 6, S, shift=6),), count=count)


KERNEL_DMA = Block("KernelDMA", 0x1900, (
    word("Control", 0x00, flag("GroupKernelReuse", 4, U),
         flag("Sparse", 5, S, "streams are zero-skipping; 16 values share a mask, where H13 has 8 to one"),
         flag("Kernels", 6, S, "the task reads coefficients or a table"),
         flag("Last", 7, S, "last task of the program"),
         flag("KernelsToo", 9, S, "set together with Kernels; what it does is not known"),
         uint("Tag", 23, 16, S, "the task's number plus one, where it reads any")),
    word("AlignedCoeffSizePerCh", 0x04, uint("Size", 27, 0, U)),
    bytes64("CoeffSection", 0x08, "Addr", "what the streams' addresses are relative to", S),
    high("CoeffSectionHi", 0x0C),
    word("KernelGroupStride", 0x10, uint("Stride", 31, 6, U, shift=6)),
    word("KernelOCGStride", 0x14, uint("Stride", 31, 6, S, "written by products with a runtime operand", shift=6)),
    stream_config("CoeffDMAConfig", 0x18, 16, "one stream per core"),
    Register("CoeffBaseAddr", 0x58, (uint("Addr", 31, 6, S, "relative to CoeffSection", shift=6),), count=16),
    _sizes("CoeffBfrSize", 0x98, 16),
    stream_config("AuxDMAConfig", 0xD8, 4, "bias, post scale, palette (inferred); the last is the table"),
    Register("AuxBaseAddr", 0xE8, (uint("Addr", 31, 6, S, shift=6),), count=4),
    Register("Reserved", 0xF8, count=2),
    bytes64("TableBase", 0x100, "Addr", "the activation table", S),
    high("TableBaseHi", 0x104),
    _sizes("AuxBfrSize", 0x108, 4),
), doc="Kernel DMA: the coefficient streams of the 16 cores, and the table")

DEPTHS = tuple(word(name, offset, uint("D", 14, 0, S, default=1)) for name, offset in (("InDepth", 4),
                                                                                     ("OutDepth", 0x18)))
CHANNELS = tuple(word(name, offset, uint("C", 16, 0, S, "16 where it is not written", default=16))
                 for name, offset in (("Cin", 0x0C), ("Cout", 0x10)))
CHANNEL_FORMATS = word("ChCfg", 0x08, *(enum(f"{side}Fmt", low + 1, low, "uint8 int8 fp16", S, default="fp16")
                                        for side, low in (("In", 0), ("Second", 2), ("Out", 4))))
WINDOW = word("ConvCfg", 0x20, *(
    uint(name, top, low, S, doc, default=default) for name, top, low, doc, default in (
        ("Kw", 5, 0, "", 1), ("Kh", 11, 6, "", 1), ("Sx", 14, 13, "", 1), ("Sy", 16, 15, "", 1),
        ("Px", 21, 17, "zeros left of the first element", None), ("Py", 26, 22, "zeros above the first row", None),
        ("Ox", 29, 28, "", 1), ("Oy", 31, 30, "", 1))))
WINDOW_3D = at_most(h13.COMMON, U).register("ConvCfg3d")
GROUPS = word("GroupConvCfg", 0x28, uint("NumGroups", 12, 0, S, "groups of a convolution, or the batch", default=1),
              flag("UnicastEn", 14, S, "output channel o reads only UnicastCin input channels"),
              flag("ElemMultMode", 15, S, "channels are multiplied in pairs"), uint("UnicastCin", 31, 16, S, default=1))
LANES = uint("OCGSize", 2, 0, S, "log2 of the coefficient lanes", default=3)

_CFG = at_most(h13.COMMON, S).register("Cfg")
_FILL = flag("FillLowerNE", 29, S, "set on copies that swap C and W in several lanes and on products with runtime "
                                   "coefficients; no effect seen")
COMMON = rearranged(at_most(h13.COMMON, S), 0x0, ConvCfg3d=0x24, GroupConvCfg=0x28, TileCfg=0x2C, PETile=0x30,
                    Broadcast=0x34, Cfg=0x38, TaskInfo=0x3C, DPE=0x40).patched(
    *DEPTHS, *CHANNELS, CHANNEL_FORMATS, word("OCG", 0x1C, LANES), WINDOW,
    replace(_CFG, offset=0x38, fields=(*_CFG.fields, _FILL)), replace(WINDOW_3D, offset=0x24), GROUPS,
    Register("Spare", 0x44, count=2))


def source_config(name: str, offset: int, doc: str = "") -> Register:
    """Configuration of one operand's memory DMA."""
    return word(name, offset, flag("En", 0, S), uint("CrH", 3, 2, U), uint("CacheHint", 7, 4, S),
                uint("DataSetId", 15, 8, S), uint("UserTag", 23, 16, S, "the task's number"),
                uint("DependencyInterval", 27, 24, U), uint("DependencyMode", 31, 28, S), doc=doc)


def hints(name: str, offset: int) -> Register:
    """The other two cache hints of an operand."""
    return word(name, offset, uint("CacheHintReuse", 3, 0, S), uint("CacheHintNoReuse", 7, 4, S))


_SOURCES = at_most(h13.TILE_DMA_SRC, S)
TILE_DMA_SRC = rearranged(
    _SOURCES, 0x1100, BaseAddr=0x10, RowStride=0x18, PlaneStride=0x1C, DepthStride=0x20,
    GroupStride=0x24, SecondBaseAddr=0x28, SecondRowStride=0x30, SecondPlaneStride=0x34, SecondDepthStride=0x38,
    SecondGroupStride=0x3C, Fmt=0x50, Reserved2=0x58, PixelOffset=0x68, Reserved3=0x78).patched(
    source_config("DMAConfig", 0x00, "En: the first operand comes from memory"),
    source_config("SecondDMAConfig", 0x04, "En is never set: L2.SourceCfg says whether the second operand does"),
    hints("CacheHints", 0x08), hints("SecondCacheHints", 0x0C), high("BaseAddrHi", 0x14),
    high("SecondBaseAddrHi", 0x2C),
    Register("Reserved", 0x40, count=4), replace(_SOURCES.register("Fmt"), name="SecondFmt", offset=0x54),
    Register("Reserved2", 0x58, count=4), Register("Reserved3", 0x78, count=21), Register("Spare", 0xCC, count=2))
TILE_DMA_SRC = without(TILE_DMA_SRC, "Fmt2")


def wrap(name: str, offset: int) -> Register:
    """Ring geometry of an operand in L2."""
    return word(name, offset, uint("WrapNumBlocks", 11, 0, U), uint("WrapLen", 31, 12, U))


_COMPRESSION = uint("Compression", 26, 25, U)


def _with_defaults(register: Register, **defaults: Value) -> Register:
    """A register whose fields hold other numbers than 0 where a task does not write it."""
    return replace(register, fields=tuple(replace(f, default=defaults.get(f.name, f.default)) for f in register.fields))


def _operand_config(register: Register) -> Register:
    """An operand's configuration in L2: H13's with a field for compression; channels lie one by one by default."""
    return _with_defaults(replace(register, fields=(*register.fields, _COMPRESSION)), DMAInterleave=1)


_L2 = rearranged(at_most(h13.L2, S), 0x500)
L2 = _L2.patched(
    _operand_config(_L2.register("SourceCfg")), _operand_config(_L2.register("ResultCfg")), wrap("WrapCfg", 0x48),
    wrap("SourceWrapStart", 0x4C), wrap("SecondWrapStart", 0x50), Register("Reserved", 0x54),
    word("ResultWrapIndex", 0x58, uint("WrapIndex", 15, 0, U)),
    word("ResultWrapStart", 0x5C, uint("StartOffset", 15, 0, U)), Register("Reserved2", 0x60))

QUANT = word("Quant", 0x10, uint("FirstInputOffset", 7, 0, U), uint("SecondInputOffset", 15, 8, U),
             uint("OutputZeroPoint", 23, 16, U))
PE = rearranged(at_most(h13.PE, S), 0x900).patched(QUANT)

_NE = rearranged(at_most(h13.NE, S), 0xD00)
NE = _NE.patched(replace(_with_defaults(_NE.register("KernelCfg"), KernelFmt="fp16", PalettizeBits=8),
                         doc="RuntimeKernel: also set where a task reads a table"))

TILE_DMA_DST = rearranged(at_most(h13.TILE_DMA_DST, S), 0x1500, BaseAddr=0x08, RowStride=0x10, PlaneStride=0x14,
                          DepthStride=0x18, GroupStride=0x1C, Fmt=0x20).patched(
    word("DMAConfig", 0x00, flag("En", 0, S), uint("CrH", 3, 2, U), uint("CacheHint", 7, 4, S),
         uint("DataSetId", 15, 8, S), uint("UserTag", 23, 16, S, "the task's number"),
         flag("L2BfrMode", 24, S, "set for streamed results"), flag("BypassEOW", 25, U)),
    Register("Reserved", 0x04), high("BaseAddrHi", 0x0C),
    word("Marker", 0x24, uint("Value", 31, 0, S, "0xdead, written once or twice so that no task, padded to "
                                            "16 bytes, ends at a multiple of 64")))

HEADER_BANK = Bank((HEADER,))
STREAM_BANK = Bank((slots_block(POINTERS), KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST, RUNS))
