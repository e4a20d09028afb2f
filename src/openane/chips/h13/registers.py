"""H13 (A14, M1): every register a task descriptor writes, field by field.

A task descriptor is a header of ten words (eleven when its coefficients come from an earlier task), then runs of
register writes (chips/runs.py says how they begin). Blocks, in stream order: KernelDMA, Common, TileDMASrc, L2, PE, NE,
TileDMADst. Strides and addresses are bytes.

Evidence: PROVED means Apple-made programs give the right result only with this meaning (executed here), SEEN that
every sample agrees with it, INFERRED that no sample decides it.
"""

from __future__ import annotations

from openane.chips.tables import P, S, U, bytes16, bytes64, enum, flag, half, slot, uint
from openane.registers import Bank, Block, Field, Register

HEADER = Block("Header", 0x0, (
    Register("Task", 0x00, (
        uint("TID", 15, 0, P, "position in the program, from 0"),
        uint("NID", 23, 16, S, "network identifier; the driver sets it at submission"),
        flag("LNID", 24, P, "set on every task but the first"),
        flag("EON", 25, P, "last task of the program"))),
    Register("Next", 0x04, (
        uint("ExeCycles", 15, 0, S, "the compiler's estimate in microseconds; no effect"),
        uint("NextSize", 24, 16, P, "words in the next task less one; 0 on the last"))),
    Register("LogEvents", 0x08, (uint("Events", 23, 0, S, "what the firmware logs; no effect"),)),
    Register("Exceptions", 0x0C, (uint("Events", 23, 0, S),)),
    Register("DebugLogEvents", 0x10, (uint("Events", 23, 0, S),)),
    Register("DebugExceptions", 0x14, (uint("Events", 23, 0, S),)),
    Register("Control", 0x18, (
        flag("DisallowAbort", 8, S, "a later planar task reads a planar result from L2"), flag("TDSkip", 9),
        flag("KPC", 10), flag("SPL", 11, S, "a part of the program begins"), flag("TSR", 12, S, "a part ends"),
        flag("SPC", 13, S, "the first operand is in L2, though stated as memory"),
        flag("DPC", 14, S, "the result stays in L2, though stated as memory"), flag("TSE", 15, S, "a part ends"),
        uint("NextPriority", 21, 16),
        flag("TDE", 24, S, "the eleventh header word is present"),
        flag("SrcLoc", 28, P, "the source side uses memory DMA"),
        flag("DstLoc", 29, P, "the destination side uses memory DMA"),
        flag("TQDis", 31))),
    Register("NextPointer", 0x1C, (uint("Offset", 31, 0, P, "bytes from the start of the text; 0 ends the chain"),)),
    Register("Bases", 0x20, (
        *slot("RBase0", 0), *slot("RBase1", 6), *slot("WBase", 12), *slot("TBase", 18, S),
        uint("ENE", 27, 24, S, "0 for a planar task, else ActiveNE + 1"))),
    Register("KernelBases", 0x24, (
        *slot("KBase0", 0), *slot("KBase1", 6, S), *slot("KBase2", 12, S), *slot("KBase3", 18, S))),
    Register("Dependency", 0x28, (uint("DTID", 15, 0, S, "task that wrote the coefficients this one reads"),)),
), doc="Task header: identity, chain, base-address slots")

_COEFF_CONFIG = (
    flag("En", 0, P), uint("CrH", 5, 4), uint("CacheHint", 9, 6, S, default=2),
    flag("PrefetchParticipateEn", 27))

KERNEL_DMA = Block("KernelDMA", 0x1F800, (
    Register("Control", 0x00, (
        flag("Sparse", 5, S, "streams are zero-skipping"), flag("Kernels", 6, S, "the task reads coefficients"))),
    Register("Control1", 0x04),
    Register("CoeffDMAConfig", 0x08, _COEFF_CONFIG, count=16, doc="one stream per core"),
    Register("CoeffBaseAddr", 0x48, (uint("Addr", 31, 6, P, "relative to KBase0", shift=6),), count=16),
    Register("CoeffBfrSize", 0x88, (uint("Size", 31, 6, P, shift=6, default=0x40),), count=16),
    Register("AuxDMAConfig", 0xC8, _COEFF_CONFIG, count=4, doc="never enabled in any sample"),
    Register("AuxBaseAddr", 0xD8, (uint("Addr", 31, 6, S, shift=6),), count=4),
    Register("AuxBfrSize", 0xE8, (uint("Size", 31, 6, S, shift=6, default=0x40),), count=4),
), doc="Kernel DMA: the coefficient streams of the 16 cores")


def _dimensions(name: str, offset: int) -> Register:
    return Register(name, offset, (uint("W", 14, 0, P), uint("H", 30, 16, P)), evidence=P)


def _format(name: str, high: int, low: int) -> Field:
    return enum(name, high, low, "uint8 int8 fp16", S, default="fp16")


_BROADCAST = tuple(flag(f"{operand}Broadcast{axis}", bit + shift, evidence)
                   for operand, shift in (("First", 0), ("Second", 4))
                   for axis, bit, evidence in (("W", 0, P), ("H", 1, P), ("D", 2, P), ("C", 3, P)))

COMMON = Block("Common", 0x0, (
    _dimensions("InDim", 0x00),
    Register("InDepth", 0x04, (uint("D", 14, 0, P),)),
    Register("ChCfg", 0x08, (_format("InFmt", 1, 0), enum("SecondFmt", 3, 2, "uint8 int8 fp16", S,
                                                           "fp16 when a second operand is present"),
                             _format("OutFmt", 5, 4))),
    Register("Cin", 0x0C, (uint("C", 16, 0, P, "channels per group"),)),
    Register("Cout", 0x10, (uint("C", 16, 0, P, "channels per group"),)),
    _dimensions("OutDim", 0x14),
    Register("OutDepth", 0x18, (uint("D", 14, 0, P),)),
    Register("ConvCfg", 0x1C, (
        uint("Kw", 4, 0, P), uint("Kh", 9, 5, P), uint("OCGSize", 12, 10, P, "log2 of the coefficient lanes"),
        uint("Sx", 14, 13, P), uint("Sy", 16, 15, P), uint("Px", 21, 17, P, "zeros left of the first element"),
        uint("Py", 26, 22, P, "zeros above the first row"),
        uint("Ox", 29, 28, S, default=1), uint("Oy", 31, 30, S, default=1))),
    Register("ConvCfg3d", 0x20, (
        uint("Kd", 4, 0, S, default=1), uint("Sz", 7, 6, S, default=1), uint("Pz", 12, 8, U),
        uint("Oz", 14, 13, S, default=1))),
    Register("GroupConvCfg", 0x24, (
        uint("NumGroups", 12, 0, P, "groups of a convolution, or the batch"),
        flag("UnicastEn", 14, P, "output channel o reads only UnicastCin input channels"),
        flag("ElemMultMode", 15, P, "channels are multiplied in pairs"), uint("UnicastCin", 31, 16, P))),
    Register("TileCfg", 0x28, (uint("TileHeight", 15, 0, S, "rows per tile; no effect on the result"),)),
    Register("PETile", 0x2C, (
        uint("WidthLog2", 3, 0, S, "planar tasks only"), uint("HeightLog2", 6, 4, S))),
    Register("Broadcast", 0x30, (
        *_BROADCAST, flag("FirstSwap", 8, U, "first operand stored with C and W swapped"),
        flag("SecondSwap", 9, P, "second operand stored with C and W swapped"),
        flag("ResultSwap", 10, P, "planar result written with C and W swapped"))),
    Register("Cfg", 0x34, (
        uint("Sources", 1, 0, S, "planar: 3 both operands streamed, 1 or 2 one of them resident"),
        flag("SmallSourceMode", 2, S, "results of at most 8x8"),
        enum("TaskType", 6, 4, ". pool unary binary gain_offset reduce binary_reduce", P,
              "planar engine mode; unary with a window larger than 1x1 is inferred to pool"),
        uint("ShPref", 10, 8, S, "log2 of the rows of a neural-engine patch: preferred"),
        uint("ShMin", 14, 12, S, "fewest"), uint("ShMax", 18, 16, S, "most"),
        uint("ActiveNE", 21, 19, S, "log2 of the cores at work"),
        flag("ContextSwitchIn", 22), flag("ContextSwitchOut", 24), flag("AccDoubleBufEn", 26),
        flag("NEResultSwap", 28, P, "neural-engine result written with C and W swapped"))),
    Register("TaskInfo", 0x38, (
        uint("TaskID", 15, 0, S), uint("TaskQ", 19, 16, S),
        flag("NEEn", 20, P, "a neural-engine task"), uint("TaskNID", 27, 21, S))),
    Register("DPE", 0x3C, (uint("Category", 3, 0, S, "1 on inverse tables; no effect seen"),)),
), doc="Dimensions, window, groups, engine and mode")


def _source_config(name: str, offset: int, doc: str) -> Register:
    return Register(name, offset, (
        flag("En", 0, P), uint("CacheHint", 7, 4, S, default=8), uint("CacheHintReuse", 11, 8, S),
        uint("CacheHintNoReuse", 15, 12, S), uint("DependencyMode", 19, 16, S)), evidence=P, doc=doc)


def _memory_format(name: str, offset: int, *extra: Field) -> Register:
    return Register(name, offset, (
        uint("FmtMode", 1, 0, S, "1 for fp16, 0 for 8-bit and idle"), uint("Truncate", 5, 4, S), flag("Shift", 8),
        enum("MemFmt", 13, 12, "uint8 int8 fp16", S, default="fp16"), uint("OffsetCh", 18, 16, S),
        *extra, uint("Interleave", 27, 24, P, "channels stored together", default=1),
        uint("CmpVec", 31, 28, S)), evidence=P)


TILE_DMA_SRC = Block("TileDMASrc", 0x13800, (
    _source_config("DMAConfig", 0x00, "En: any operand comes from memory"),
    _source_config("SecondDMAConfig", 0x04, "En is never set"),
    bytes64("BaseAddr", 0x08, "Addr", "first operand, relative to RBase0"),
    bytes64("RowStride", 0x0C), bytes64("PlaneStride", 0x10), bytes64("DepthStride", 0x14),
    bytes64("GroupStride", 0x18),
    bytes64("SecondBaseAddr", 0x1C, "Addr", "second operand, relative to RBase1"),
    bytes64("SecondRowStride", 0x20), bytes64("SecondPlaneStride", 0x24), bytes64("SecondDepthStride", 0x28),
    bytes64("SecondGroupStride", 0x2C),
    Register("Reserved", 0x30, count=2),
    _memory_format("Fmt", 0x38),
    Register("SecondFmt", 0x3C, (
        uint("FmtMode", 1, 0, S), uint("Truncate", 5, 4, S), flag("Shift", 8),
        enum("MemFmt", 13, 12, "uint8 int8 fp16", S), uint("OffsetCh", 18, 16, S))),
    Register("Fmt2", 0x40, (uint("Mode", 8, 8, S, "set by newer compilers; no effect seen"),)),
    Register("Reserved2", 0x44, count=3),
    Register("PixelOffset", 0x50, (uint("Offset", 15, 0, S),), count=4),
    Register("Reserved3", 0x60, count=4),
), doc="Tile DMA, source side: both operands from memory")


def _l2_config(name: str, offset: int, types: str) -> Register:
    type_name, mode = ("SourceType", "Dependent") if name == "SourceCfg" else ("ResultType", "L2BfrMode")
    doc = ("follows the task before patch by patch: 1 a neural-engine task, 2 a planar one" if mode == "Dependent"
           else "2 for a result that goes out through a ring")
    extra = (flag("SecondDMA", 24, P, "the second operand comes from memory"),) if name == "SourceCfg" else ()
    return Register(name, offset, (
        enum(type_name, 1, 0, types, P), uint(mode, 3, 2, S, doc),
        flag("AliasConvSrc", 4, S, "waits for bytes an earlier neural-engine task reads"),
        flag("AliasConvRslt", 5, S, "waits for the result of an earlier neural-engine task"),
        uint("DMAFmt", 7, 6, S, "1 fp16, 0 8-bit or a source that is in L2"),
        uint("DMAInterleave", 11, 8, S), uint("DMACmpVec", 15, 12), uint("DMAOffsetCh", 18, 16),
        flag("AliasPlanarSrc", 20, S, "waits for bytes an earlier planar task reads"),
        flag("AliasPlanarRslt", 22, S, "waits for the result of an earlier planar task"), *extra), evidence=P)


L2 = Block("L2", 0x4800, (
    Register("L2Cfg", 0x00, (
        flag("InputReLU", 0, S, "clamp the first operand at zero as it is read"),
        enum("PaddingMode", 2, 1, "zero . minus_infinity", S, "what lies outside a window"),
        flag("SecondInputReLU", 4, P, "clamp the second operand at zero as it is read"))),
    _l2_config("SourceCfg", 0x04, "resident keep stream chain"),
    bytes16("SourceBase", 0x08, "Addr"), bytes16("SourceChannelStride", 0x0C), bytes16("SourceRowStride", 0x10),
    bytes16("SourceDepthStride", 0x14), bytes16("SourceGroupStride", 0x18),
    bytes16("SecondBase", 0x1C, "Addr"), bytes16("SecondChannelStride", 0x20), bytes16("SecondRowStride", 0x24),
    bytes16("SecondDepthStride", 0x28), bytes16("SecondGroupStride", 0x2C),
    _l2_config("ResultCfg", 0x30, "resident keep stream chain"),
    bytes16("ResultBase", 0x34, "Addr"), bytes16("ResultChannelStride", 0x38), bytes16("ResultRowStride", 0x3C),
    bytes16("ResultDepthStride", 0x40), bytes16("ResultGroupStride", 0x44),
), doc="L2 scratchpad: where operands and result lie in it, and which pass through memory")

PE = Block("PE", 0x8800, (
    Register("Cfg", 0x00, (
        enum("PoolMode", 1, 0, "sum average max min", P,
              "reductions: sum, max; windows (inferred): average, max, min"),
        enum("OpMode", 4, 2, "add mul max min square_sum", P), flag("ReluEn", 5, P), flag("Abs", 6, P),
        enum("Root", 13, 12, "none reciprocal rsqrt", P), flag("NegateFirst", 16, P),
        flag("SubtractSecond", 18, P), flag("SecondEn", 19, P))),
    Register("BiasScale", 0x04, (half("Bias", 0), half("Scale", 16, default=1.0))),
    Register("PreScale", 0x08, (
        half("Epsilon", 0, doc="added to a reduction after FinalScale"),
        half("PreScale", 16, doc="multiplies the first operand", default=1.0))),
    Register("FinalScale", 0x0C, (
        Field("FinalScale", 0, 32, "fp32", default=1.0, evidence=P, doc="multiplies a reduction"),)),
), doc="Planar engine: elementwise, reductions, pooling")

NE = Block("NE", 0xC800, (
    Register("KernelCfg", 0x00, (
        enum("KernelFmt", 1, 0, "uint8 int8 fp16", S), flag("PalettizedEn", 2), uint("PalettizeBits", 7, 4, S),
        flag("SparseFmt", 8, P, "zero-skipping streams"), flag("GroupKernelReuse", 10, U),
        flag("NextPlanar", 12, S, "planar task followed by a planar task"),
        flag("PreviousPlanar", 14, S, "planar task after a planar task"),
        flag("RuntimeKernel", 16, P, "coefficients come from a buffer"))),
    Register("MACCfg", 0x04, (
        enum("OpMode", 2, 0, "multiply_accumulate . product max pass_through", P),
        flag("NoKernel", 3, P, "no coefficients: weights of one"), flag("BiasRow", 4, P, "biases in the streams"),
        flag("MatrixBiasEn", 7, U), uint("BinaryPoint", 12, 9, S, "no effect on fp16"), flag("PostScaleMode", 14, U),
        enum("NonlinearMode", 17, 16, "none relu table", P),
        flag("En", 20, S, "always set; clearing it corrupts tables"))),
    Register("MatrixVectorBias", 0x08, (half("Bias", 0, U),)),
    Register("AccBias", 0x0C, (half("AccBias", 0, P, "added before scale and table"), uint("Shift", 20, 16, U))),
    Register("PostScale", 0x10, (half("PostScale", 0, P, "multiplies the accumulator"), uint("Shift", 20, 16, U))),
), doc="Neural engine: coefficients format, accumulation, post stage")

TILE_DMA_DST = Block("TileDMADst", 0x17800, (
    Register("DMAConfig", 0x00, (
        flag("En", 0, P), uint("CacheHint", 7, 4, S), uint("CacheHintReuse", 11, 8, S),
        uint("Dependency", 23, 16, U, "set by older compilers where the result replaces scratch that was just read"),
        flag("L2BfrMode", 26, S, "set for streamed results; no effect seen"))),
    bytes64("BaseAddr", 0x04, "Addr", "relative to WBase"),
    bytes64("RowStride", 0x08), bytes64("PlaneStride", 0x0C), bytes64("DepthStride", 0x10),
    bytes64("GroupStride", 0x14),
    _memory_format("Fmt", 0x18, flag("ZeroPadLast", 20), flag("ZeroPadFirst", 21), flag("CmpVecFill", 22)),
), doc="Tile DMA, destination side")

STREAM_BANK = Bank((KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST))
