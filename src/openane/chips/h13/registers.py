"""H13 (A14, M1): every register a task descriptor writes, field by field.

A task descriptor is a header of ten words (eleven when its coefficients come from an earlier task), then runs of
register writes: a run header word (count less one in [31:26], byte address in [25:0]) and that many words. Blocks, in
stream order: KernelDMA, Common, TileDMASrc, L2, PE, NE, TileDMADst. Strides and addresses are bytes.

Evidence: PROVED means Apple-made programs give the right result only with this meaning (executed here), SEEN that
every sample agrees with it, INFERRED that no sample decides it.
"""

from __future__ import annotations

from openane.registers import Bank, Block, Evidence, Field, Register, Value

P, S, U = Evidence.PROVED, Evidence.SEEN, Evidence.INFERRED


def _uint(name: str, high: int, low: int, evidence: Evidence = S, doc: str = "", *, minus: int = 0, shift: int = 0,
          default: Value | None = None) -> Field:
    return Field(name, low, high - low + 1, minus=minus, shift=shift, default=default, evidence=evidence, doc=doc)


def _flag(name: str, bit: int, evidence: Evidence = S, doc: str = "", *, default: Value | None = None) -> Field:
    return Field(name, bit, 1, default=default, evidence=evidence, doc=doc)


def _enum(name: str, high: int, low: int, names: str, evidence: Evidence = S, doc: str = "",
          default: str | None = None) -> Field:
    """An enum from "zero one . three": names in order of their numbers, a dot where a number has no meaning."""
    values = {n: i for i, n in enumerate(names.split()) if n != "."}
    return Field(name, low, high - low + 1, "enum", values=values, default=default, evidence=evidence, doc=doc)


def _half(name: str, low: int, evidence: Evidence = P, doc: str = "", default: float = 0.0) -> Field:
    return Field(name, low, 16, "fp16", default=default, evidence=evidence, doc=doc)


def _bytes64(name: str, offset: int, field: str = "Stride", doc: str = "") -> Register:
    """A memory address or stride: bits 31:6, multiples of 64 bytes."""
    return Register(name, offset, (_uint(field, 31, 6, P, shift=6),), evidence=P, doc=doc)


def _bytes16(name: str, offset: int, field: str = "Stride", doc: str = "") -> Register:
    """An L2 address or stride: bits 20:4, multiples of 16 bytes."""
    return Register(name, offset, (_uint(field, 20, 4, P, shift=4),), evidence=P, doc=doc)


def _base(name: str, low: int, evidence: Evidence = P) -> tuple[Field, Field]:
    """A base-address slot and its enable bit."""
    return _uint(name, low + 4, low, evidence), _flag(f"{name}En", low + 5, evidence)


HEADER = Block("Header", 0x0, (
    Register("Task", 0x00, (
        _uint("TID", 15, 0, P, "position in the program, from 0"),
        _uint("NID", 23, 16, S, "network identifier; the driver sets it at submission"),
        _flag("LNID", 24, P, "set on every task but the first"),
        _flag("EON", 25, P, "last task of the program"))),
    Register("Next", 0x04, (
        _uint("ExeCycles", 15, 0, S, "the compiler's estimate; no effect"),
        _uint("NextSize", 24, 16, P, "words in the next task less one; 0 on the last"))),
    Register("LogEvents", 0x08, (_uint("Events", 23, 0, S, "what the firmware logs; no effect"),)),
    Register("Exceptions", 0x0C, (_uint("Events", 23, 0, S),)),
    Register("DebugLogEvents", 0x10, (_uint("Events", 23, 0, S),)),
    Register("DebugExceptions", 0x14, (_uint("Events", 23, 0, S),)),
    Register("Control", 0x18, (
        _flag("DisallowAbort", 8), _flag("TDSkip", 9), _flag("KPC", 10), _flag("SPL", 11), _flag("TSR", 12),
        _flag("SPC", 13), _flag("DPC", 14), _flag("TSE", 15), _uint("NextPriority", 21, 16),
        _flag("TDE", 24, S, "the eleventh header word is present"),
        _flag("SrcLoc", 28, P, "the source side uses memory DMA"),
        _flag("DstLoc", 29, P, "the destination side uses memory DMA"),
        _flag("TQDis", 31))),
    Register("NextPointer", 0x1C, (_uint("Offset", 31, 0, P, "bytes from the start of the text; 0 ends the chain"),)),
    Register("Bases", 0x20, (
        *_base("RBase0", 0), *_base("RBase1", 6), *_base("WBase", 12), *_base("TBase", 18, S),
        _uint("ENE", 27, 24, S, "0 for a planar task, else ActiveNE + 1"))),
    Register("KernelBases", 0x24, (
        *_base("KBase0", 0), *_base("KBase1", 6, S), *_base("KBase2", 12, S), *_base("KBase3", 18, S))),
    Register("Dependency", 0x28, (_uint("DTID", 15, 0, S, "task that wrote the coefficients this one reads"),)),
), doc="Task header: identity, chain, base-address slots")

RUN_HEADER = Register("Run", 0, (
    _uint("Address", 25, 0, P, "byte address of the first register of the run"),
    _uint("Count", 31, 26, P, "words in the run", minus=1)), doc="The word before each run of register writes")

_COEFF_CONFIG = (
    _flag("En", 0, P), _uint("CrH", 5, 4), _uint("CacheHint", 9, 6, S, default=2),
    _flag("PrefetchParticipateEn", 27))

KERNEL_DMA = Block("KernelDMA", 0x1F800, (
    Register("Control", 0x00, (
        _flag("Sparse", 5, S, "streams are zero-skipping"), _flag("Kernels", 6, S, "the task reads coefficients"))),
    Register("Control1", 0x04),
    Register("CoeffDMAConfig", 0x08, _COEFF_CONFIG, count=16, doc="one stream per core"),
    Register("CoeffBaseAddr", 0x48, (_uint("Addr", 31, 6, P, "relative to KBase0", shift=6),), count=16),
    Register("CoeffBfrSize", 0x88, (_uint("Size", 31, 6, P, shift=6, default=0x40),), count=16),
    Register("AuxDMAConfig", 0xC8, _COEFF_CONFIG, count=4, doc="never enabled in any sample"),
    Register("AuxBaseAddr", 0xD8, (_uint("Addr", 31, 6, S, shift=6),), count=4),
    Register("AuxBfrSize", 0xE8, (_uint("Size", 31, 6, S, shift=6, default=0x40),), count=4),
), doc="Kernel DMA: the coefficient streams of the 16 cores")


def _dimensions(name: str, offset: int) -> Register:
    return Register(name, offset, (_uint("W", 14, 0, P), _uint("H", 30, 16, P)), evidence=P)


def _format(name: str, high: int, low: int) -> Field:
    return _enum(name, high, low, "uint8 int8 fp16", S, default="fp16")


_BROADCAST = tuple(_flag(f"{operand}Broadcast{axis}", bit + shift, evidence)
                   for operand, shift in (("First", 0), ("Second", 4))
                   for axis, bit, evidence in (("W", 0, P), ("H", 1, P), ("D", 2, P), ("C", 3, P)))

COMMON = Block("Common", 0x0, (
    _dimensions("InDim", 0x00),
    Register("InDepth", 0x04, (_uint("D", 14, 0, P),)),
    Register("ChCfg", 0x08, (_format("InFmt", 1, 0), _enum("SecondFmt", 3, 2, "uint8 int8 fp16", S,
                                                           "fp16 when a second operand is present"),
                             _format("OutFmt", 5, 4))),
    Register("Cin", 0x0C, (_uint("C", 16, 0, P, "channels per group"),)),
    Register("Cout", 0x10, (_uint("C", 16, 0, P, "channels per group"),)),
    _dimensions("OutDim", 0x14),
    Register("OutDepth", 0x18, (_uint("D", 14, 0, P),)),
    Register("ConvCfg", 0x1C, (
        _uint("Kw", 4, 0, P), _uint("Kh", 9, 5, P), _uint("OCGSize", 12, 10, P, "log2 of the coefficient lanes"),
        _uint("Sx", 14, 13, P), _uint("Sy", 16, 15, P), _uint("Px", 21, 17, P, "zeros left of the first element"),
        _uint("Py", 26, 22, P, "zeros above the first row"),
        _uint("Ox", 29, 28, S, default=1), _uint("Oy", 31, 30, S, default=1))),
    Register("ConvCfg3d", 0x20, (
        _uint("Kd", 4, 0, S, default=1), _uint("Sz", 7, 6, S, default=1), _uint("Pz", 12, 8, U),
        _uint("Oz", 14, 13, S, default=1))),
    Register("GroupConvCfg", 0x24, (
        _uint("NumGroups", 12, 0, P, "groups of a convolution, or the batch"),
        _flag("UnicastEn", 14, P, "output channel o reads only UnicastCin input channels"),
        _flag("ElemMultMode", 15, U), _uint("UnicastCin", 31, 16, P))),
    Register("TileCfg", 0x28, (_uint("TileHeight", 15, 0, S, "rows per tile; no effect on the result"),)),
    Register("PETile", 0x2C, (
        _uint("WidthLog2", 3, 0, S, "planar tasks only"), _uint("HeightLog2", 6, 4, S))),
    Register("Broadcast", 0x30, (
        *_BROADCAST, _flag("FirstSwap", 8, U, "first operand stored with C and W swapped"),
        _flag("SecondSwap", 9, P, "second operand stored with C and W swapped"),
        _flag("ResultSwap", 10, P, "planar result written with C and W swapped"))),
    Register("Cfg", 0x34, (
        _uint("Sources", 1, 0, S, "planar: 3 both operands streamed, 1 or 2 one of them resident"),
        _flag("SmallSourceMode", 2),
        _enum("TaskType", 6, 4, ". pool unary binary gain_offset reduce binary_reduce", P,
              "planar engine mode; unary with a window larger than 1x1 is inferred to pool"),
        _uint("ShPref", 10, 8), _uint("ShMin", 14, 12), _uint("ShMax", 18, 16), _uint("ActiveNE", 21, 19),
        _flag("ContextSwitchIn", 22), _flag("ContextSwitchOut", 24), _flag("AccDoubleBufEn", 26),
        _flag("NEResultSwap", 28, P, "neural-engine result written with C and W swapped"))),
    Register("TaskInfo", 0x38, (
        _uint("TaskID", 15, 0, S), _uint("TaskQ", 19, 16, S),
        _flag("NEEn", 20, P, "a neural-engine task"), _uint("TaskNID", 27, 21, S))),
    Register("DPE", 0x3C, (_uint("Category", 3, 0, S, "1 on inverse tables; no effect seen"),)),
), doc="Dimensions, window, groups, engine and mode")


def _source_config(name: str, offset: int, doc: str) -> Register:
    return Register(name, offset, (
        _flag("En", 0, P), _uint("CacheHint", 7, 4, S, default=8), _uint("CacheHintReuse", 11, 8, S),
        _uint("CacheHintNoReuse", 15, 12, S), _uint("DependencyMode", 19, 16, S)), evidence=P, doc=doc)


def _memory_format(name: str, offset: int, *extra: Field) -> Register:
    return Register(name, offset, (
        _uint("FmtMode", 1, 0, S, "1 for fp16, 0 for 8-bit and idle"), _uint("Truncate", 5, 4, S), _flag("Shift", 8),
        _enum("MemFmt", 13, 12, "uint8 int8 fp16", S, default="fp16"), _uint("OffsetCh", 18, 16, S),
        *extra, _uint("Interleave", 27, 24, P, "channels stored together", default=1),
        _uint("CmpVec", 31, 28, S)), evidence=P)


TILE_DMA_SRC = Block("TileDMASrc", 0x13800, (
    _source_config("DMAConfig", 0x00, "En: any operand comes from memory"),
    _source_config("SecondDMAConfig", 0x04, "En is never set"),
    _bytes64("BaseAddr", 0x08, "Addr", "first operand, relative to RBase0"),
    _bytes64("RowStride", 0x0C), _bytes64("PlaneStride", 0x10), _bytes64("DepthStride", 0x14),
    _bytes64("GroupStride", 0x18),
    _bytes64("SecondBaseAddr", 0x1C, "Addr", "second operand, relative to RBase1"),
    _bytes64("SecondRowStride", 0x20), _bytes64("SecondPlaneStride", 0x24), _bytes64("SecondDepthStride", 0x28),
    _bytes64("SecondGroupStride", 0x2C),
    Register("Reserved", 0x30, count=2),
    _memory_format("Fmt", 0x38),
    Register("SecondFmt", 0x3C, (
        _uint("FmtMode", 1, 0, S), _uint("Truncate", 5, 4, S), _flag("Shift", 8),
        _enum("MemFmt", 13, 12, "uint8 int8 fp16", S), _uint("OffsetCh", 18, 16, S))),
    Register("Fmt2", 0x40, (_uint("Mode", 8, 8, S, "set by newer compilers; no effect seen"),)),
    Register("Reserved2", 0x44, count=3),
    Register("PixelOffset", 0x50, (_uint("Offset", 15, 0, S),), count=4),
    Register("Reserved3", 0x60, count=4),
), doc="Tile DMA, source side: both operands from memory")


def _l2_config(name: str, offset: int, types: str) -> Register:
    type_name, mode = ("SourceType", "Dependent") if name == "SourceCfg" else ("ResultType", "L2BfrMode")
    extra = (_flag("SecondDMA", 24, P, "the second operand comes from memory"),) if name == "SourceCfg" else ()
    return Register(name, offset, (
        _enum(type_name, 1, 0, types, P), _uint(mode, 3, 2, S),
        _flag("AliasConvSrc", 4), _flag("AliasConvRslt", 5), _uint("DMAFmt", 7, 6, S, "1 fp16, 0 8-bit"),
        _uint("DMAInterleave", 11, 8, S), _uint("DMACmpVec", 15, 12), _uint("DMAOffsetCh", 18, 16),
        _flag("AliasPlanarSrc", 20), _flag("AliasPlanarRslt", 22), *extra), evidence=P)


L2 = Block("L2", 0x4800, (
    Register("L2Cfg", 0x00, (
        _flag("InputReLU", 0, S, "clamp the first operand at zero as it is read"),
        _enum("PaddingMode", 2, 1, "zero . minus_infinity", S, "what lies outside a window"),
        _flag("SecondInputReLU", 4, P, "clamp the second operand at zero as it is read"))),
    _l2_config("SourceCfg", 0x04, "resident keep stream chain"),
    _bytes16("SourceBase", 0x08, "Addr"), _bytes16("SourceChannelStride", 0x0C), _bytes16("SourceRowStride", 0x10),
    _bytes16("SourceDepthStride", 0x14), _bytes16("SourceGroupStride", 0x18),
    _bytes16("SecondBase", 0x1C, "Addr"), _bytes16("SecondChannelStride", 0x20), _bytes16("SecondRowStride", 0x24),
    _bytes16("SecondDepthStride", 0x28), _bytes16("SecondGroupStride", 0x2C),
    _l2_config("ResultCfg", 0x30, "resident keep stream chain"),
    _bytes16("ResultBase", 0x34, "Addr"), _bytes16("ResultChannelStride", 0x38), _bytes16("ResultRowStride", 0x3C),
    _bytes16("ResultDepthStride", 0x40), _bytes16("ResultGroupStride", 0x44),
), doc="L2 scratchpad: where operands and result lie in it, and which pass through memory")

PE = Block("PE", 0x8800, (
    Register("Cfg", 0x00, (
        _enum("PoolMode", 1, 0, "sum average max min", P,
              "reductions: sum, max; windows (inferred): average, max, min"),
        _enum("OpMode", 4, 2, "add mul max min square_sum", P), _flag("ReluEn", 5, P), _flag("Abs", 6, P),
        _enum("Root", 13, 12, "none reciprocal rsqrt", P), _flag("NegateFirst", 16, P),
        _flag("SubtractSecond", 18, P), _flag("SecondEn", 19, P))),
    Register("BiasScale", 0x04, (_half("Bias", 0), _half("Scale", 16, default=1.0))),
    Register("PreScale", 0x08, (
        _half("Epsilon", 0, doc="added to a reduction after FinalScale"),
        _half("PreScale", 16, doc="multiplies the first operand", default=1.0))),
    Register("FinalScale", 0x0C, (
        Field("FinalScale", 0, 32, "fp32", default=1.0, evidence=P, doc="multiplies a reduction"),)),
), doc="Planar engine: elementwise, reductions, pooling")

NE = Block("NE", 0xC800, (
    Register("KernelCfg", 0x00, (
        _enum("KernelFmt", 1, 0, "uint8 int8 fp16", S), _flag("PalettizedEn", 2), _uint("PalettizeBits", 7, 4, S),
        _flag("SparseFmt", 8, P, "zero-skipping streams"), _flag("GroupKernelReuse", 10, U),
        _flag("NextPlanar", 12, S, "planar task followed by a planar task"),
        _flag("PreviousPlanar", 14, S, "planar task after a planar task"),
        _flag("RuntimeKernel", 16, P, "coefficients come from a buffer"))),
    Register("MACCfg", 0x04, (
        _enum("OpMode", 2, 0, "multiply_accumulate . . max pass_through", P),
        _flag("NoKernel", 3, P, "no coefficients: weights of one"), _flag("BiasRow", 4, P, "biases in the streams"),
        _flag("MatrixBiasEn", 7, U), _uint("BinaryPoint", 12, 9, S, "no effect on fp16"), _flag("PostScaleMode", 14, U),
        _enum("NonlinearMode", 17, 16, "none relu table", P),
        _flag("En", 20, S, "always set; clearing it corrupts tables"))),
    Register("MatrixVectorBias", 0x08, (_half("Bias", 0, U),)),
    Register("AccBias", 0x0C, (_half("AccBias", 0, P, "added before scale and table"), _uint("Shift", 20, 16, U))),
    Register("PostScale", 0x10, (_half("PostScale", 0, P, "multiplies the accumulator"), _uint("Shift", 20, 16, U))),
), doc="Neural engine: coefficients format, accumulation, post stage")

TILE_DMA_DST = Block("TileDMADst", 0x17800, (
    Register("DMAConfig", 0x00, (
        _flag("En", 0, P), _uint("CacheHint", 7, 4, S), _uint("CacheHintReuse", 11, 8, S),
        _uint("Dependency", 23, 16, U, "set by older compilers where the result replaces scratch that was just read"),
        _flag("L2BfrMode", 26, S, "set for streamed results; no effect seen"))),
    _bytes64("BaseAddr", 0x04, "Addr", "relative to WBase"),
    _bytes64("RowStride", 0x08), _bytes64("PlaneStride", 0x0C), _bytes64("DepthStride", 0x10),
    _bytes64("GroupStride", 0x14),
    _memory_format("Fmt", 0x18, _flag("ZeroPadLast", 20), _flag("ZeroPadFirst", 21), _flag("CmpVecFill", 22)),
), doc="Tile DMA, destination side")

HEADER_BANK = Bank((HEADER,))
STREAM_BANK = Bank((KERNEL_DMA, COMMON, TILE_DMA_SRC, L2, PE, NE, TILE_DMA_DST))
