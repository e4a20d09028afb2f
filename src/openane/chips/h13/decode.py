"""H13: task fields to engine operation. Every mode without a described meaning is refused by name."""

from __future__ import annotations

from typing import Any

from openane.chips.chip import Slots, TaskFields
from openane.chips.h13.registers import HEADER_BANK, STREAM_BANK
from openane.engine import (
    Access,
    Activation,
    Binary,
    ChannelMaximum,
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
    Stream,
)
from openane.engine.access import Shape
from openane.errors import ProgramError

_STREAMED = ("keep", "stream")


class _Reader:
    """Field values with the engine's defaults: a register the task does not write holds zero."""

    def __init__(self, fields: TaskFields) -> None:
        self._values, self._rest = fields.values, fields.rest

    def get(self, name: str) -> Any:
        """A field's value; ProgramError when its bits have no described meaning."""
        if name in self._values:
            return self._values[name]
        register, _, field = name.rpartition(".")
        if register in self._rest:
            raise ProgramError(f"bits 0x{self._rest[register]:x} have no described meaning", register=register,
                               field=field)
        unwritten = (HEADER_BANK if register.startswith("Header.") else STREAM_BANK).locate(name)[2].decode(0)
        return 0 if unwritten is None else unwritten

    def refuse_unless(self, name: str, *allowed: object) -> None:
        """ProgramError unless the field has one of the values whose meaning is known here."""
        value = self.get(name)
        if value not in allowed:
            raise ProgramError(f"{value!r} is not described for this kind of task", field=name)


def decode_operation(fields: TaskFields) -> Operation:
    """The engine operation of a task. ProgramError names the first field whose mode is not described."""
    reader = _Reader(fields)
    if reader.get("Common.TaskInfo.NEEn"):
        return _neural(reader)
    if reader.get("Common.Cfg.TaskType"):
        return _planar(reader)
    raise ProgramError("the task selects neither engine", register="Common.TaskInfo", field="NEEn")


def decode_slots(fields: TaskFields) -> Slots:
    """Base-address slots a task reads, writes and takes coefficients from, by its enables."""
    reader = _Reader(fields)
    reads = set()
    if reader.get("L2.SourceCfg.SourceType") in _STREAMED:
        reads.add(int(reader.get("Header.Bases.RBase0")))
    if reader.get("L2.SourceCfg.SecondDMA"):
        reads.add(int(reader.get("Header.Bases.RBase1")))
    writes = {int(reader.get("Header.Bases.WBase"))} if reader.get("TileDMADst.DMAConfig.En") else set()
    kernels = {int(reader.get("Header.KernelBases.KBase0"))} if reader.get("Header.KernelBases.KBase0En") else set()
    return Slots(frozenset(reads), frozenset(writes), frozenset(kernels))


def _dtype(reader: _Reader, name: str) -> DType:
    return DType(reader.get(name) or "uint8")


def _slot(reader: _Reader, name: str) -> int:
    if not reader.get(f"Header.Bases.{name}En"):
        raise ProgramError("memory is accessed through a slot that is not enabled", register="Header.Bases", field=name)
    return int(reader.get(f"Header.Bases.{name}"))


def _swap(strides: Shape, swapped: bool, element: int) -> Shape:
    """With C and W swapped, what is stored as channel stride steps W, and channels are adjacent elements."""
    n, c, d, h, w = strides
    return (n, element, d, h, c) if swapped else strides


def _masked(strides: Shape, broadcast: tuple[bool, bool, bool, bool]) -> Shape:
    """Strides with 0 where C, D, H, W are broadcast."""
    masked = [0 if hidden else stride for stride, hidden in zip(strides[1:], broadcast, strict=True)]
    return (strides[0], *masked)  # type: ignore[return-value]


def _l2_strides(reader: _Reader, prefix: str, element: int) -> Shape:
    n, c, d, h = (int(reader.get(f"L2.{prefix}{axis}Stride.Stride")) for axis in ("Group", "Channel", "Depth", "Row"))
    return (n, c, d, h, element)


def _memory_strides(reader: _Reader, prefix: str, element: int) -> Shape:
    n, c, d, h = (int(reader.get(f"{prefix}{axis}Stride.Stride")) for axis in ("Group", "Plane", "Depth", "Row"))
    return (n, c, d, h, element)


def _l2(reader: _Reader, prefix: str, shape: Shape, strides: Shape, dtype: DType) -> Access:
    return Access(space=Space.L2, offset=int(reader.get(f"L2.{prefix}Base.Addr")), shape=shape, strides=strides,
                  dtype=dtype)


def _input_shape(reader: _Reader) -> Shape:
    return (int(reader.get("Common.GroupConvCfg.NumGroups")), int(reader.get("Common.Cin.C")),
            int(reader.get("Common.InDepth.D")), int(reader.get("Common.InDim.H")), int(reader.get("Common.InDim.W")))


def _first(reader: _Reader) -> Access:
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
    interleave = int(reader.get("TileDMASrc.Fmt.Interleave")) or 1
    memory = _memory_strides(reader, "TileDMASrc.", dtype.size * interleave)
    return Access(slot=_slot(reader, "RBase0"), offset=int(reader.get("TileDMASrc.BaseAddr.Addr")), shape=shape,
                  strides=strided(memory), dtype=dtype, interleave=interleave, copy=copy)


def _broadcast(reader: _Reader, operand: str) -> tuple[bool, bool, bool, bool]:
    c, d, h, w = (bool(reader.get(f"Common.Broadcast.{operand}Broadcast{axis}")) for axis in "CDHW")
    return c, d, h, w


def _second(reader: _Reader, vectors: bool) -> Access:
    """The second operand; for gain-offset vectors two rows of one value per channel."""
    n, c, d, h, w = _input_shape(reader)
    shape = (n, c, 1, 2, 1) if vectors else (n, c, d, h, w)
    dtype = _dtype(reader, "Common.ChCfg.SecondFmt")
    hidden = _broadcast(reader, "Second")
    if vectors:
        hidden = (hidden[0], False, False, False)
    swapped = bool(reader.get("Common.Broadcast.SecondSwap"))
    if reader.get("L2.SourceCfg.SecondDMA"):
        strides = _memory_strides(reader, "TileDMASrc.Second", dtype.size)
        return Access(slot=_slot(reader, "RBase1"), offset=int(reader.get("TileDMASrc.SecondBaseAddr.Addr")),
                      shape=shape, strides=_masked(_swap(strides, swapped, dtype.size), hidden), dtype=dtype)
    strides = _masked(_swap(_l2_strides(reader, "Second", dtype.size), swapped, dtype.size), hidden)
    return _l2(reader, "Second", shape, strides, dtype)


def _result(reader: _Reader, shape: Shape, swapped: bool) -> Access:
    dtype = _dtype(reader, "Common.ChCfg.OutFmt")
    kind = reader.get("L2.ResultCfg.ResultType")
    if (kind in _STREAMED) != bool(reader.get("TileDMADst.DMAConfig.En")):
        raise ProgramError(f"ResultType is {kind} but the destination DMA enable says otherwise",
                           register="TileDMADst.DMAConfig", field="En")
    if kind == "chain":
        return Access(space=Space.CHAIN, shape=shape, dtype=dtype)
    resident = _swap(_l2_strides(reader, "Result", dtype.size), swapped, dtype.size)
    if kind == "resident":
        return _l2(reader, "Result", shape, resident, dtype)
    copy = _l2(reader, "Result", shape, resident, dtype) if kind == "keep" else None
    interleave = int(reader.get("TileDMADst.Fmt.Interleave")) or 1
    memory = _memory_strides(reader, "TileDMADst.", dtype.size * interleave)
    return Access(slot=_slot(reader, "WBase"), offset=int(reader.get("TileDMADst.BaseAddr.Addr")), shape=shape,
                  strides=_swap(memory, swapped, dtype.size), dtype=dtype, interleave=interleave, copy=copy)


def _neural(reader: _Reader) -> Operation:
    for name in ("NE.MatrixVectorBias.Bias", "NE.AccBias.Shift", "NE.PostScale.Shift",
                 "Common.GroupConvCfg.ElemMultMode", "NE.MACCfg.MatrixBiasEn", "NE.MACCfg.PostScaleMode",
                 "L2.SourceCfg.SecondDMA"):
        reader.refuse_unless(name, 0)
    for axis in "xy":
        reader.refuse_unless(f"Common.ConvCfg.O{axis}", 1)
    shape = (int(reader.get("Common.GroupConvCfg.NumGroups")), int(reader.get("Common.Cout.C")),
             int(reader.get("Common.OutDepth.D")), int(reader.get("Common.OutDim.H")),
             int(reader.get("Common.OutDim.W")))
    coefficients = _coefficients(reader)
    common: dict[str, Any] = {
        "source": _first(reader),
        "result": _result(reader, shape, bool(reader.get("Common.Cfg.NEResultSwap"))),
        "coefficients": coefficients,
        "post": Post(bias=reader.get("NE.AccBias.AccBias"), scale=reader.get("NE.PostScale.PostScale"),
                     activation=Activation(reader.get("NE.MACCfg.NonlinearMode"))),
        "input_relu": bool(reader.get("L2.L2Cfg.InputReLU")),
    }
    mode = reader.get("NE.MACCfg.OpMode")
    unicast = int(reader.get("Common.GroupConvCfg.UnicastCin")) if reader.get("Common.GroupConvCfg.UnicastEn") else 0
    if mode == "pass_through":
        return PassThrough(**common)
    if mode == "max":
        return ChannelMaximum(**common, channels=unicast or common["source"].shape[1])
    if mode != "multiply_accumulate":
        raise ProgramError(f"{mode!r} is not described", register="NE.MACCfg", field="OpMode")
    if coefficients is not None and coefficients.runtime:
        return MatrixProduct(**common)
    if coefficients is None and not reader.get("NE.MACCfg.NoKernel"):
        raise ProgramError("weights are expected but no kernel DMA is enabled", register="NE.MACCfg", field="NoKernel")
    get = reader.get
    return Convolution(
        **common,
        kernel=(get("Common.ConvCfg3d.Kd"), get("Common.ConvCfg.Kh"), get("Common.ConvCfg.Kw")),
        stride=(get("Common.ConvCfg3d.Sz"), get("Common.ConvCfg.Sy"), get("Common.ConvCfg.Sx")),
        padding=(get("Common.ConvCfg3d.Pz"), get("Common.ConvCfg.Py"), get("Common.ConvCfg.Px")),
        unicast=unicast, shared=bool(get("NE.KernelCfg.GroupKernelReuse")))


def _coefficients(reader: _Reader) -> Coefficients | None:
    get = reader.get
    streams = tuple(Stream(core, int(get(f"KernelDMA.CoeffBaseAddr[{core}].Addr")),
                           int(get(f"KernelDMA.CoeffBfrSize[{core}].Size")))
                    for core in range(16) if get(f"KernelDMA.CoeffDMAConfig[{core}].En"))
    if not streams:
        return None
    if not get("Header.KernelBases.KBase0En"):
        raise ProgramError("coefficients are read through a slot that is not enabled", register="Header.KernelBases",
                           field="KBase0")
    packing = Packing.SPARSE if get("NE.KernelCfg.SparseFmt") else Packing.DENSE
    palettized = bool(get("NE.KernelCfg.PalettizedEn"))
    return Coefficients(
        slot=int(get("Header.KernelBases.KBase0")), streams=streams, lanes=2 ** int(get("Common.ConvCfg.OCGSize")),
        weights=not get("NE.MACCfg.NoKernel"), bias=bool(get("NE.MACCfg.BiasRow")),
        table=get("NE.MACCfg.NonlinearMode") == "table", packing=Packing.PALETTE if palettized else packing,
        palette_bits=int(get("NE.KernelCfg.PalettizeBits")) if palettized else 0,
        runtime=bool(get("NE.KernelCfg.RuntimeKernel")))


def _planar(reader: _Reader) -> Operation:
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


def _reduce(reader: _Reader) -> Reduce:
    reader.refuse_unless("PE.Cfg.PoolMode", "sum", "max")
    return Reduce(reader.get("PE.Cfg.PoolMode"))


def _pool(reader: _Reader) -> Pool:
    reader.refuse_unless("PE.Cfg.PoolMode", "average", "max", "min")
    return Pool(reader.get("PE.Cfg.PoolMode"))
