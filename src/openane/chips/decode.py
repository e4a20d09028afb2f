"""Task fields to engine operation, for every generation whose fields are known; modes without a described meaning are
refused by name.

Fields are asked for by their H13 names; the `Reader` of a generation says where it has them.
"""

from __future__ import annotations

from typing import Any

from openane.chips.chip import NamedSlots
from openane.chips.reader import STREAMED, Reader
from openane.engine import (
    Access,
    Activation,
    Binary,
    ChannelMaximum,
    ChannelProduct,
    Coefficients,
    Convolution,
    DType,
    Elementwise,
    GainOffset,
    MatrixProduct,
    Operation,
    Packing,
    PassThrough,
    Pool,
    Pooling,
    Post,
    Reduce,
    Reduction,
    Root,
    Space,
)
from openane.engine.access import CHANNELS, WIDTH, Shape
from openane.errors import ProgramError


def decode_operation(reader: Reader) -> Operation:
    """The engine operation of a task. ProgramError names the first field whose mode is not described."""
    if reader.get("Common.TaskInfo.NEEn"):
        return _neural(reader)
    if reader.get("Common.Cfg.TaskType"):
        return _planar(reader)
    raise ProgramError("the task selects neither engine", register="Common.TaskInfo", field="NEEn")


MEMORY_REGISTERS = ("L2.SourceCfg", "TileDMADst.DMAConfig")
"""The registers `decode_slots` looks at for H13, beside the header."""


def decode_slots(reader: Reader) -> NamedSlots:
    """Base-address slots a task reads, writes and takes coefficients from, by its enables."""
    reads = set()
    if reader.get("L2.SourceCfg.SourceType") in STREAMED:
        reads.add(reader.slot("RBase0"))
    if reader.second_from_memory():
        reads.add(reader.slot("RBase1"))
    writes = {reader.slot("WBase")} if reader.get("TileDMADst.DMAConfig.En") else set()
    named = reads, writes, reader.kernel_slots()
    return NamedSlots(*(frozenset(slot for slot in slots if slot is not None) for slots in named))


def _dtype(reader: Reader, name: str) -> DType:
    return DType(reader.get(name) or "uint8")


def _interleave(reader: Reader, name: str) -> int:
    """Channels stored together; columns where C and W are swapped."""
    return int(reader.get(f"{name}.Interleave")) or 1


def _swap(strides: Shape, swapped: bool, element: int) -> Shape:
    """With C and W swapped, what is stored as channel stride steps W, and channels are adjacent elements."""
    n, c, d, h, w = strides
    return (n, element, d, h, c) if swapped else strides


def _masked(strides: Shape, broadcast: tuple[bool, bool, bool, bool]) -> Shape:
    """Strides with 0 where C, D, H, W are broadcast."""
    masked = [0 if hidden else stride for stride, hidden in zip(strides[1:], broadcast, strict=True)]
    return (strides[0], *masked)  # type: ignore[return-value]


def _l2_strides(reader: Reader, prefix: str, element: int) -> Shape:
    n, c, d, h = (int(reader.get(f"L2.{prefix}{axis}Stride.Stride")) for axis in ("Group", "Channel", "Depth", "Row"))
    return (n, c, d, h, element)


def _memory_strides(reader: Reader, prefix: str, element: int) -> Shape:
    n, c, d, h = (int(reader.get(f"{prefix}{axis}Stride.Stride")) for axis in ("Group", "Plane", "Depth", "Row"))
    return (n, c, d, h, element)


def _l2(reader: Reader, prefix: str, shape: Shape, strides: Shape, dtype: DType) -> Access:
    return Access(space=Space.L2, offset=int(reader.get(f"L2.{prefix}Base.Addr")), shape=shape, strides=strides,
                  dtype=dtype)


def _input_shape(reader: Reader) -> Shape:
    return (int(reader.get("Common.GroupConvCfg.NumGroups")), int(reader.get("Common.Cin.C")),
            int(reader.get("Common.InDepth.D")), int(reader.get("Common.InDim.H")), int(reader.get("Common.InDim.W")))


def _first(reader: Reader) -> Access:
    """The first (or only) operand: from L2, streamed from memory, kept in L2 on the way, or chained."""
    shape = _input_shape(reader)
    dtype = _dtype(reader, "Common.ChCfg.InFmt")
    kind = reader.get("L2.SourceCfg.SourceType")
    hidden = _broadcast(reader, "First")
    swapped = bool(reader.get("Common.Broadcast.FirstSwap"))

    def strided(strides: Shape) -> Shape:
        return _masked(_swap(strides, swapped, dtype.size), hidden)

    if kind == "chain":
        return Access(space=Space.CHAIN, shape=shape, dtype=dtype)
    resident = _l2_strides(reader, "Source", dtype.size)
    if kind == "resident":
        return _l2(reader, "Source", shape, strided(resident), dtype)
    copy = None
    if kind == "keep":
        stored = (shape[0], *(1 if h else e for e, h in zip(shape[1:], hidden, strict=True)))
        copy = _l2(reader, "Source", stored, _swap(resident, swapped, dtype.size), dtype)  # type: ignore[arg-type]
    interleave = _interleave(reader, "TileDMASrc.Fmt")
    if swapped and interleave > 1:
        raise ProgramError(f"interleave {interleave} with C and W swapped is not described for a source",
                           register="TileDMASrc.Fmt", field="Interleave")
    memory = _memory_strides(reader, "TileDMASrc.", dtype.size * interleave)
    return Access(slot=reader.required_slot("RBase0"), offset=reader.offset("TileDMASrc.BaseAddr"), shape=shape,
                  strides=strided(memory), dtype=dtype, interleave=interleave, copy=copy)


def _broadcast(reader: Reader, operand: str) -> tuple[bool, bool, bool, bool]:
    c, d, h, w = (bool(reader.get(f"Common.Broadcast.{operand}Broadcast{axis}")) for axis in "CDHW")
    return c, d, h, w


def _second(reader: Reader, vectors: bool) -> Access:
    """The second operand; for gain-offset vectors two rows of one value per channel."""
    n, c, d, h, w = _input_shape(reader)
    shape = (n, c, 1, 2, 1) if vectors else (n, c, d, h, w)
    dtype = _dtype(reader, "Common.ChCfg.SecondFmt")
    hidden = _broadcast(reader, "Second")
    if vectors:
        hidden = (hidden[0], False, False, False)
    swapped = bool(reader.get("Common.Broadcast.SecondSwap"))
    if reader.second_from_memory():
        strides = _memory_strides(reader, "TileDMASrc.Second", dtype.size)
        return Access(slot=reader.required_slot("RBase1"), offset=reader.offset("TileDMASrc.SecondBaseAddr"),
                      shape=shape, strides=_masked(_swap(strides, swapped, dtype.size), hidden), dtype=dtype)
    strides = _masked(_swap(_l2_strides(reader, "Second", dtype.size), swapped, dtype.size), hidden)
    return _l2(reader, "Second", shape, strides, dtype)


def _result(reader: Reader, shape: Shape, swapped: bool) -> Access:
    dtype = _dtype(reader, "Common.ChCfg.OutFmt")
    kind = reader.get("L2.ResultCfg.ResultType")
    if (kind in STREAMED) != bool(reader.get("TileDMADst.DMAConfig.En")):
        raise ProgramError(f"ResultType is {kind} but the destination DMA enable says otherwise",
                           register="TileDMADst.DMAConfig", field="En")
    if kind == "chain":
        return Access(space=Space.CHAIN, shape=shape, dtype=dtype)
    resident = _swap(_l2_strides(reader, "Result", dtype.size), swapped, dtype.size)
    if kind == "resident":
        return _l2(reader, "Result", shape, resident, dtype)
    copy = _l2(reader, "Result", shape, resident, dtype) if kind == "keep" else None
    interleave = _interleave(reader, "TileDMADst.Fmt")
    element = dtype.size * interleave
    memory = _memory_strides(reader, "TileDMADst.", element)
    return Access(slot=reader.required_slot("WBase"), offset=reader.offset("TileDMADst.BaseAddr"), shape=shape,
                  strides=_swap(memory, swapped, element), dtype=dtype, interleave=interleave,
                  packed=WIDTH if swapped and interleave > 1 else CHANNELS, copy=copy)


def _neural(reader: Reader) -> Operation:
    for name in ("NE.MatrixVectorBias.Bias", "NE.AccBias.Shift", "NE.PostScale.Shift",
                 "NE.MACCfg.MatrixBiasEn", "NE.MACCfg.PostScaleMode"):
        reader.refuse_unless(name, 0)
    if reader.second_from_memory():
        raise ProgramError("a neural-engine task has one source", register="L2.SourceCfg", field="SecondDMA")
    for axis in "xy":
        reader.refuse_unless(f"Common.ConvCfg.O{axis}", 1)
    shape = (int(reader.get("Common.GroupConvCfg.NumGroups")), int(reader.get("Common.Cout.C")),
             int(reader.get("Common.OutDepth.D")), int(reader.get("Common.OutDim.H")),
             int(reader.get("Common.OutDim.W")))
    common: dict[str, Any] = {
        "source": _first(reader),
        "result": _result(reader, shape, bool(reader.get("Common.Cfg.NEResultSwap"))),
        "coefficients": _coefficients(reader),
        "post": Post(bias=reader.get("NE.AccBias.AccBias"), scale=reader.get("NE.PostScale.PostScale"),
                     activation=Activation(reader.get("NE.MACCfg.NonlinearMode"))),
        "input_relu": bool(reader.get("L2.L2Cfg.InputReLU")),
    }
    mode = reader.get("NE.MACCfg.OpMode")
    unicast = int(reader.get("Common.GroupConvCfg.UnicastCin")) if reader.get("Common.GroupConvCfg.UnicastEn") else 0
    reader.refuse_unless("Common.GroupConvCfg.ElemMultMode", int(mode == "product"))
    if mode == "product":
        if unicast != 2:
            raise ProgramError(f"a product of {unicast} channels is not described",
                               register="Common.GroupConvCfg", field="UnicastCin")
        return ChannelProduct(**common)
    if mode == "pass_through":
        return PassThrough(**common)
    if mode == "max":
        return ChannelMaximum(**common, channels=unicast or common["source"].shape[1])
    if mode != "multiply_accumulate":
        raise ProgramError(f"{mode!r} is not described", register="NE.MACCfg", field="OpMode")
    return _accumulated(reader, common, unicast)


def _accumulated(reader: Reader, common: dict[str, Any], unicast: int) -> Operation:
    """Products with runtime or constant coefficients, summed."""
    coefficients, shape = common["coefficients"], common["result"].shape
    if coefficients is not None and coefficients.runtime:
        shared = bool(reader.get("NE.KernelCfg.GroupKernelReuse"))
        if shape[0] == 1:
            reader.refuse_unless("NE.KernelCfg.GroupKernelReuse", 0)
        return MatrixProduct(**common, grouped=shape[0] > 1 and not shared)
    if coefficients is None and not reader.get("NE.MACCfg.NoKernel"):
        raise ProgramError("weights are expected but no kernel DMA is enabled", register="NE.MACCfg", field="NoKernel")
    get = reader.get
    return Convolution(
        **common,
        kernel=(get("Common.ConvCfg3d.Kd"), get("Common.ConvCfg.Kh"), get("Common.ConvCfg.Kw")),
        stride=(get("Common.ConvCfg3d.Sz"), get("Common.ConvCfg.Sy"), get("Common.ConvCfg.Sx")),
        padding=(get("Common.ConvCfg3d.Pz"), get("Common.ConvCfg.Py"), get("Common.ConvCfg.Px")),
        unicast=unicast, shared=bool(get("NE.KernelCfg.GroupKernelReuse")))


def _coefficients(reader: Reader) -> Coefficients | None:
    get = reader.get
    weights, table = reader.sections()
    if weights is None and table is None:
        return None
    packing = Packing.SPARSE if get("NE.KernelCfg.SparseFmt") else Packing.DENSE
    palettized = bool(get("NE.KernelCfg.PalettizedEn"))
    return Coefficients(
        weights=None if get("NE.MACCfg.NoKernel") else weights, bias=weights if get("NE.MACCfg.BiasRow") else None,
        table=table if get("NE.MACCfg.NonlinearMode") == "table" else None,
        lanes=2 ** int(get("Common.ConvCfg.OCGSize")), packing=Packing.PALETTE if palettized else packing,
        palette_bits=int(get("NE.KernelCfg.PalettizeBits")) if palettized else 0, runtime=reader.runtime_kernel())


def _planar(reader: Reader) -> Operation:
    get = reader.get
    kind = get("Common.Cfg.TaskType")
    window = (int(get("Common.ConvCfg.Kh")), int(get("Common.ConvCfg.Kw")))
    paired = kind in ("binary", "gain_offset", "binary_reduce")
    reader.refuse_unless("PE.Cfg.SecondEn", int(paired))
    shape = _input_shape(reader)
    common: dict[str, Any] = {
        "first": _first(reader),
        "second": _second(reader, kind == "gain_offset") if paired else None,
        "pre_scale": get("PE.PreScale.PreScale"), "absolute": bool(get("PE.Cfg.Abs")),
        "negate": bool(get("PE.Cfg.NegateFirst")), "subtract": bool(get("PE.Cfg.SubtractSecond")),
        "first_relu": bool(get("L2.L2Cfg.InputReLU")), "second_relu": bool(get("L2.L2Cfg.SecondInputReLU")),
        "scale": get("PE.BiasScale.Scale"), "bias": get("PE.BiasScale.Bias"), "relu": bool(get("PE.Cfg.ReluEn")),
    }
    swapped = bool(get("Common.Broadcast.ResultSwap"))
    if kind in ("reduce", "binary_reduce"):
        return Reduction(
            **common, result=_result(reader, (shape[0], shape[1], 1, 1, 1), swapped),
            reduce=_reduce(reader), function=Binary(get("PE.Cfg.OpMode")), final_scale=get("PE.FinalScale.FinalScale"),
            epsilon=get("PE.PreScale.Epsilon"), root=Root(get("PE.Cfg.Root")))
    reader.refuse_unless("PE.Cfg.Root", "none", 0)
    reader.refuse_unless("PE.PreScale.Epsilon", 0.0)
    out = (shape[0], int(get("Common.Cout.C")), int(get("Common.OutDepth.D")), int(get("Common.OutDim.H")),
           int(get("Common.OutDim.W")))
    common["result"] = _result(reader, out, swapped)
    if kind == "pool" or (kind == "unary" and window != (1, 1)):
        return Pooling(
            **common, pool=_pool(reader), kernel=window, stride=(get("Common.ConvCfg.Sy"), get("Common.ConvCfg.Sx")),
            padding=(get("Common.ConvCfg.Py"), get("Common.ConvCfg.Px")), final_scale=get("PE.FinalScale.FinalScale"))
    reader.refuse_unless("PE.Cfg.PoolMode", "sum")
    reader.refuse_unless("PE.FinalScale.FinalScale", 1.0)
    if out != shape:
        raise ProgramError(f"an elementwise result must have the extents of its operand {shape}, not {out}",
                           register="Common.OutDim")
    if kind == "gain_offset":
        return GainOffset(**common)
    return Elementwise(**common, function=Binary(get("PE.Cfg.OpMode")))


def _reduce(reader: Reader) -> Reduce:
    reader.refuse_unless("PE.Cfg.PoolMode", "sum", "max")
    return Reduce(reader.get("PE.Cfg.PoolMode"))


def _pool(reader: Reader) -> Pool:
    reader.refuse_unless("PE.Cfg.PoolMode", "average", "max", "min")
    return Pool(reader.get("PE.Cfg.PoolMode"))
