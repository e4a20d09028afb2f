"""H13: rules about one task's registers. Each docstring is the sentence people read when it is broken.

All hold for every Apple-made program examined (119 programs, 176 tasks). What an engine does when one is broken is
mostly unknown, and some broken ones are known to hang it. Rules about memory, L2 and data are not here: they follow
from the operation and are the same for every generation (program.verify).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openane.chips.chip import Breach, Rule, TaskFields, TaskLink
from openane.chips.emit.neural import stream_fields
from openane.chips.h13.idle import IDLE, NEURAL_IDLE, PLANAR_IDLE
from openane.chips.linked import full_runs, split_runs
from openane.engine import Space
from openane.registers import Value
from openane.rounding import ceil_div

REDUCTIONS = ("reduce", "binary_reduce")
PAIRED = ("binary", "gain_offset", "binary_reduce")

_Values = Mapping[str, Any]


def described_bits(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """Every bit a task sets must belong to a described field, and every field must hold a described value."""
    for name, bits in fields.rest.items():
        yield Breach(name, hex(bits), "no undescribed bits")


def all_registers(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A task must write every described register and no other: what it leaves out would keep an earlier task's value.
    Only the coefficient addresses of a task without coefficients may be left out."""
    bank, used = link.chip.bank, _coefficients(fields.values, link)
    if fields.records in ((full_runs(bank),) if used else (full_runs(bank), split_runs(bank))):
        return
    written = {base + 4 * i for base, count in fields.records for i in range(count)}
    for address in sorted(written - set(bank.by_address)):
        yield Breach(f"@0x{address:x}", "written", "a register of the tables")
    required = full_runs(bank) if used else split_runs(bank)
    for address in sorted({base + 4 * i for base, count in required for i in range(count)} - written):
        yield Breach(bank.by_address[address][0], "not written", "written by every task")


def position(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """Tasks must be numbered from 0; all but the first are marked as followers, the last one ends the program, the
    others state the base of the next pointer (the text), and the network number is left to the driver."""
    last = link.identifier == link.tasks - 1
    expected = {"Header.Task.TID": link.identifier, "Header.Task.NID": 0, "Header.Task.LNID": int(link.identifier > 0),
                "Header.Task.EON": int(last), "Header.Bases.TBase": link.chip.limits.slots.text,
                "Header.Bases.TBaseEn": int(not last)}
    if last:
        expected |= {"Header.NextPointer.Offset": 0, "Header.Next.NextSize": 0}
    yield from _differing(fields.values, expected)


def extended_header(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A task must have the eleventh header word exactly when its coefficients come from scratch memory; the word names
    an earlier task that wrote to that slot."""
    values, scratch = fields.values, link.chip.limits.slots.scratch
    extended = (bool(values.get("Header.KernelBases.KBase0En"))
                and values.get("Header.KernelBases.KBase0") == scratch)
    present = "Header.Dependency.DTID" in values
    if present != extended:
        yield Breach("Header.Dependency.DTID", "present" if present else "absent", "present" if extended else "absent")
    if bool(values.get("Header.Control.TDE")) != extended:
        yield Breach("Header.Control.TDE", values.get("Header.Control.TDE"), int(extended))
    if not (present and extended):
        return
    named: Any = values["Header.Dependency.DTID"]
    writer = link.operations[named] if named < min(link.identifier, len(link.operations)) else None
    if writer is None or writer.result.space is not Space.MEMORY or writer.result.slot != scratch:
        yield Breach("Header.Dependency.DTID", named, f"an earlier task that writes slot {scratch}")


def idle_fields(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A field that no known program uses must keep its idle value; what another value does is not known."""
    yield from _differing(fields.values, IDLE)


def one_engine(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A task must select one engine and enable as many cores as it has channels or blocks of lanes for, up to 16 (log2;
    with channels and width swapped in the result either may count); the other engine's fields stay idle."""
    values = fields.values
    neural = bool(values.get("Common.TaskInfo.NEEn"))
    if neural == bool(values.get("Common.Cfg.TaskType")):
        yield Breach("Common.TaskInfo.NEEn", int(neural), "set exactly when Common.Cfg.TaskType is not")
    yield from _differing(values, NEURAL_IDLE if neural else PLANAR_IDLE)
    if neural:
        active = _number(values, "Common.Cfg.ActiveNE")
        yield from _differing(values, {"NE.MACCfg.En": 1, "Header.Bases.ENE": active + 1})
        lanes = 2 ** _number(values, "Common.ConvCfg.OCGSize")
        allowed = {_cores(values, "Common.Cout.C", link), _cores(values, "Common.Cout.C", link, lanes)}
        if values.get("Common.Cfg.NEResultSwap"):
            allowed.add(_cores(values, "Common.OutDim.W", link))
        if active not in allowed:
            yield Breach("Common.Cfg.ActiveNE", active, " or ".join(map(str, sorted(allowed))))


def memory_enables(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """The memory side of a task must be enabled exactly when an operand comes from or goes to memory: in the header,
    in the tile DMA and by source and result types alike. Each used base slot must be enabled."""
    values = fields.values
    first = values.get("L2.SourceCfg.SourceType") in ("keep", "stream")
    second = bool(values.get("L2.SourceCfg.SecondDMA"))
    result = values.get("L2.ResultCfg.ResultType") in ("keep", "stream")
    source = int(first or second)
    yield from _differing(values, {
        "Header.Control.SrcLoc": source, "TileDMASrc.DMAConfig.En": source,
        "Header.Control.DstLoc": int(result), "TileDMADst.DMAConfig.En": int(result),
        "TileDMADst.DMAConfig.L2BfrMode": int(values.get("L2.ResultCfg.L2BfrMode") == 2)})
    if values.get("L2.ResultCfg.L2BfrMode") not in ((0, 2) if result else (0,)):
        yield Breach("L2.ResultCfg.L2BfrMode", values.get("L2.ResultCfg.L2BfrMode"), "0, or 2 for a result in memory")
    for name, used in (("RBase0", first), ("RBase1", second), ("WBase", result)):
        if used and not values.get(f"Header.Bases.{name}En"):
            yield Breach(f"Header.Bases.{name}En", 0, 1)


def coefficient_enables(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """The coefficient side of a task must be enabled as a whole: streams, their base slot and the DMA; sparse and
    runtime coefficients are marked in both places that state them, and weights are fp16."""
    values = fields.values
    used = int(_coefficients(values, link))
    sparse = int(bool(values.get("NE.KernelCfg.SparseFmt")))
    runtime = int(bool(used) and values.get("Header.KernelBases.KBase0") != link.chip.limits.slots.constants)
    yield from _differing(values, {"Header.KernelBases.KBase0En": used, "KernelDMA.Control.Kernels": used,
                                   "KernelDMA.Control.Sparse": sparse, "NE.KernelCfg.RuntimeKernel": runtime})
    if sparse and not used:
        yield Breach("NE.KernelCfg.SparseFmt", 1, "0 without coefficients")
    yield from _parts(values, used)
    if not used:
        yield from _differing(values, {"NE.MACCfg.BiasRow": 0, "Common.ConvCfg.OCGSize": 0})


def _parts(values: Mapping[str, Value], used: int) -> Iterator[Breach]:
    """Of weights, biases and a table there is one where coefficients are `used`, and what goes with weights only where
    there are weights."""
    weights = used and not values.get("NE.MACCfg.NoKernel")
    if weights and values.get("NE.KernelCfg.KernelFmt") != "fp16":
        yield Breach("NE.KernelCfg.KernelFmt", values.get("NE.KernelCfg.KernelFmt"), "fp16")
    if used and not (weights or values.get("NE.MACCfg.BiasRow") or values.get("NE.MACCfg.NonlinearMode") == "table"):
        yield Breach("KernelDMA.Control.Kernels", used, "0 where neither weights, biases nor a table are used")
    if weights and values.get("NE.MACCfg.OpMode") != "multiply_accumulate":
        yield Breach("NE.MACCfg.NoKernel", 0, "1 in a mode that multiplies nothing")
    if values.get("NE.MACCfg.BiasRow") and not weights:
        yield Breach("NE.MACCfg.BiasRow", 1, "0 without weights")


def element_formats(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A tile DMA must move elements of the type the engine works on, in the same blocks of channels."""
    values = fields.values
    kind = values.get("L2.SourceCfg.SourceType")
    if kind in ("keep", "stream"):
        yield from _format(values, "TileDMASrc.Fmt", "Common.ChCfg.InFmt", "L2.SourceCfg")
    if values.get("L2.SourceCfg.SecondDMA"):
        second = values.get("Common.ChCfg.SecondFmt")
        yield from _differing(values, {"TileDMASrc.SecondFmt.MemFmt": second,
                                       "TileDMASrc.SecondFmt.Truncate": 3 if second == "fp16" else 0})
    if values.get("L2.ResultCfg.ResultType") in ("keep", "stream"):
        yield from _format(values, "TileDMADst.Fmt", "Common.ChCfg.OutFmt", "L2.ResultCfg")
    elif _number(values, "L2.ResultCfg.DMAInterleave") > 1:
        yield Breach("L2.ResultCfg.DMAInterleave", values.get("L2.ResultCfg.DMAInterleave"), 1)
    if kind in ("resident", "chain") and _number(values, "L2.SourceCfg.DMAInterleave") > 1:
        yield Breach("L2.SourceCfg.DMAInterleave", values.get("L2.SourceCfg.DMAInterleave"), 1)


def _windowed(values: Mapping[str, Value], neural: bool) -> bool:
    """Whether a task of the neural, else the planar engine may have a window."""
    if not neural:
        return values.get("Common.Cfg.TaskType") in ("pool", "unary")
    return values.get("NE.MACCfg.OpMode") == "multiply_accumulate" and not values.get("NE.KernelCfg.RuntimeKernel")


def windows(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """Only convolutions and pools have a window: every other task states 1x1x1, stride 1, no padding. A window has
    at least one tap and a stride of at least 1."""
    values = fields.values
    neural = bool(values.get("Common.TaskInfo.NEEn"))
    taps = ("Common.ConvCfg.Kw", "Common.ConvCfg.Kh", "Common.ConvCfg3d.Kd", "Common.ConvCfg.Sx", "Common.ConvCfg.Sy",
            "Common.ConvCfg3d.Sz")
    pads = ("Common.ConvCfg.Px", "Common.ConvCfg.Py", "Common.ConvCfg3d.Pz")
    if not _windowed(values, neural):
        yield from _differing(values, dict.fromkeys(taps, 1) | dict.fromkeys(pads, 0))
        return
    for name in taps:
        if _number(values, name) < 1:
            yield Breach(name, values.get(name), "at least 1")
    pool = not neural and (values.get("Common.Cfg.TaskType") == "pool" or _number(values, "Common.ConvCfg.Kw") > 1
                           or _number(values, "Common.ConvCfg.Kh") > 1)
    if not neural:
        yield from _differing(values, {"Common.ConvCfg3d.Kd": 1, "Common.ConvCfg3d.Sz": 1, "Common.ConvCfg3d.Pz": 0})
    if not neural and not pool:
        yield from _differing(values, {"Common.ConvCfg.Sx": 1, "Common.ConvCfg.Sy": 1} | dict.fromkeys(pads, 0))


def grouping(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """Channels must be paired one to one by a pass-through; only convolutions, maxima and products take several inputs
    each, products two; weights are shared between groups only where there are groups."""
    values = fields.values
    product = values.get("NE.MACCfg.OpMode") == "product"
    yield from _differing(values, {"Common.GroupConvCfg.ElemMultMode": int(product)})
    if not values.get("Common.TaskInfo.NEEn"):
        return
    unicast = {"Common.GroupConvCfg.UnicastEn": values.get("Common.GroupConvCfg.UnicastEn"),
               "Common.GroupConvCfg.UnicastCin": values.get("Common.GroupConvCfg.UnicastCin")}
    if values.get("NE.MACCfg.OpMode") == "pass_through":
        yield from _differing(unicast, {"Common.GroupConvCfg.UnicastEn": 1, "Common.GroupConvCfg.UnicastCin": 1})
    elif product:
        yield from _differing(unicast, {"Common.GroupConvCfg.UnicastEn": 1, "Common.GroupConvCfg.UnicastCin": 2})
    elif not unicast["Common.GroupConvCfg.UnicastEn"]:
        yield from _differing(unicast, {"Common.GroupConvCfg.UnicastCin": 1})
    elif values.get("NE.KernelCfg.RuntimeKernel"):
        yield Breach("Common.GroupConvCfg.UnicastEn", 1, "0 with runtime coefficients")
    if values.get("NE.KernelCfg.GroupKernelReuse") and _number(values, "Common.GroupConvCfg.NumGroups") < 2:
        yield Breach("NE.KernelCfg.GroupKernelReuse", 1, "0 with a single group")


def planar_modes(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A planar task must state its sources, and settings of the second operand only where there is one; a function of
    two operands other than the sum only where there are two, but for a reduction's square."""
    values = fields.values
    kind = values.get("Common.Cfg.TaskType")
    if values.get("Common.TaskInfo.NEEn") or kind is None:
        return
    paired, streamed = kind in PAIRED, bool(values.get("L2.SourceCfg.SecondDMA"))
    memory = values.get("L2.SourceCfg.SourceType") in ("keep", "stream")
    yield from _differing(values, {"Common.Cfg.Sources": int(memory or not streamed) + 2 * int(streamed)})
    if not paired:
        squares = kind == "reduce" and values.get("PE.Cfg.OpMode") == "square_sum"
        yield from _differing(values, _UNPAIRED | ({} if squares else {"PE.Cfg.OpMode": "add"}))
    if kind == "gain_offset":
        yield from _differing(values, dict.fromkeys((f"Common.Broadcast.SecondBroadcast{axis}" for axis in "DHW"), 0))
        yield from _differing(values, {"PE.Cfg.OpMode": "add"})
    if kind not in REDUCTIONS:
        yield from _differing(values, {"PE.PreScale.Epsilon": 0.0, "PE.Cfg.Root": "none"})


def padding_value(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """What lies outside a window must be minus infinity for a maximum and zero for everything else."""
    values = fields.values
    maximum = (values.get("NE.MACCfg.OpMode") == "max" if values.get("Common.TaskInfo.NEEn")
               else values.get("PE.Cfg.PoolMode") == "max")
    yield from _differing(values, {"L2.L2Cfg.PaddingMode": "minus_infinity" if maximum else "zero"})


def tiles(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A tile must have at least one row and no more than the operands; a planar tile is 16 to 512 elements wide and
    up to 32 rows high."""
    values = fields.values
    rows = max(_number(values, "Common.InDim.H"), _number(values, "Common.OutDim.H"))
    height = _number(values, "Common.TileCfg.TileHeight")
    if not 1 <= height <= max(rows, 32):
        yield Breach("Common.TileCfg.TileHeight", height, f"1 to {max(rows, 32)}")
    if not values.get("Common.TaskInfo.NEEn"):
        for name, low, high in (("Common.PETile.WidthLog2", 4, 9), ("Common.PETile.HeightLog2", 0, 5)):
            if not low <= _number(values, name) <= high:
                yield Breach(name, values.get(name), f"{low} to {high}")


RULES: tuple[Rule, ...] = (described_bits, all_registers, position, extended_header, idle_fields, one_engine,
                           memory_enables, coefficient_enables, element_formats, windows, grouping, planar_modes,
                           padding_value, tiles)

_UNPAIRED: dict[str, object] = {
    "L2.SourceCfg.SecondDMA": 0, "PE.Cfg.SecondEn": 0, "PE.Cfg.SubtractSecond": 0,
    "L2.L2Cfg.SecondInputReLU": 0, "Common.Broadcast.SecondSwap": 0,
    **{f"Common.Broadcast.SecondBroadcast{axis}": 0 for axis in "WHDC"}}


def _format(values: _Values, prefix: str, state: str, l2: str) -> Iterator[Breach]:
    fp16 = values.get(state) == "fp16"
    yield from _differing(values, {
        f"{prefix}.MemFmt": values.get(state), f"{prefix}.FmtMode": int(fp16), f"{prefix}.Truncate": 3 if fp16 else 0,
        f"{l2}.DMAFmt": int(fp16), f"{l2}.DMAInterleave": values.get(f"{prefix}.Interleave")})
    if _number(values, f"{prefix}.Interleave") < 1:
        yield Breach(f"{prefix}.Interleave", values.get(f"{prefix}.Interleave"), "at least 1")


def _differing(values: _Values, expected: Mapping[str, object]) -> Iterator[Breach]:
    """A breach per field that does not have its expected value; fields in no run are another rule's."""
    for name, wanted in expected.items():
        if name in values and values[name] != wanted:
            yield Breach(name, values[name], wanted)


def _cores(values: _Values, name: str, link: TaskLink, lanes: int = 1) -> int:
    """log2 of the cores that this many channels take, in blocks of `lanes`."""
    return (min(link.chip.limits.cores, max(1, ceil_div(_number(values, name), lanes))) - 1).bit_length()


def _coefficients(values: _Values, link: TaskLink) -> bool:
    return any(values.get(enable) for enable, _, _ in stream_fields(link.chip.limits.cores))


def _number(values: _Values, name: str) -> int:
    value = values.get(name, 0)
    return value if isinstance(value, int) else 0
