"""H13: the values of fields that are not in use, in any task, in neural-engine tasks and in planar ones; and the free
fields.

Every field of the register tables is either read by the decoder, held by a rule, idle, or listed here as free, with the
reason.
"""

from __future__ import annotations

from openane.chips.h13.limits import CORES
from openane.chips.h13.registers import COMMON, NE, PE
from openane.registers import Block, Value

IDLE: dict[str, Value] = {
    **{f"Header.{name}": 0 for name in (
        "Exceptions.Events", "DebugExceptions.Events", "Control.TDSkip", "Control.KPC", "Control.NextPriority",
        "Control.TQDis", *(f"KernelBases.KBase{i}{part}" for i in (1, 2, 3) for part in ("", "En")))},
    **{f"KernelDMA.{bank}DMAConfig[{i}].{name}": 0 for bank, count in (("Coeff", 16), ("Aux", 4))
       for i in range(count) for name in ("CrH", "PrefetchParticipateEn")},
    **{f"KernelDMA.AuxDMAConfig[{i}].En": 0 for i in range(4)},
    **{f"KernelDMA.AuxBaseAddr[{i}].Addr": 0 for i in range(4)},
    **{f"Common.{name}": 0 for name in (
        "Cfg.ContextSwitchIn", "Cfg.ContextSwitchOut", "TaskInfo.TaskID",
        "TaskInfo.TaskQ", "TaskInfo.TaskNID")},
    **{f"Common.{name}": 1 for name in ("ConvCfg.Ox", "ConvCfg.Oy", "ConvCfg3d.Oz")},
    **{f"TileDMASrc.{name}": 0 for name in (
        "SecondDMAConfig.En", "Fmt.Shift", "Fmt.OffsetCh", "Fmt.CmpVec", "SecondFmt.FmtMode", "SecondFmt.Shift",
        "SecondFmt.OffsetCh", *(f"PixelOffset[{i}].Offset" for i in range(4)))},
    **{f"TileDMADst.Fmt.{name}": 0 for name in ("Shift", "OffsetCh", "CmpVec", "CmpVecFill")},
    **{f"L2.{side}Cfg.{name}": 0 for side in ("Source", "Result") for name in ("DMACmpVec", "DMAOffsetCh")},
    **{f"NE.{name}": 0 for name in ("KernelCfg.PalettizedEn", "MACCfg.MatrixBiasEn", "MACCfg.PostScaleMode",
                                    "AccBias.Shift", "PostScale.Shift")},
    "NE.MatrixVectorBias.Bias": 0.0,
}
"""Never anything else in a known program."""

FREE = {
    "Header.Next.ExeCycles": "the compiler's estimate",
    "Header.LogEvents.Events": "what the firmware logs", "Header.DebugLogEvents.Events": "what the firmware logs",
    **{f"Header.Control.{name}": "scheduling" for name in ("DisallowAbort", "SPL", "TSR", "SPC", "DPC", "TSE")},
    "KernelDMA.CoeffDMAConfig.CacheHint": "a cache hint", "KernelDMA.AuxDMAConfig.CacheHint": "a cache hint",
    "KernelDMA.AuxBfrSize.Size": "of streams that are never enabled",
    **{f"Common.Cfg.{name}": "scheduling" for name in ("SmallSourceMode", "ShPref", "ShMin", "ShMax",
                                                      "AccDoubleBufEn")},
    "Common.DPE.Category": "no effect seen",
    **{f"TileDMASrc.{side}DMAConfig.{name}": "a hint" for side in ("", "Second")
       for name in ("CacheHint", "CacheHintReuse", "CacheHintNoReuse", "DependencyMode")},
    "TileDMASrc.Fmt2.Mode": "no effect seen",
    **{f"TileDMADst.DMAConfig.{name}": "a hint" for name in ("CacheHint", "CacheHintReuse", "Dependency")},
    **{f"TileDMADst.Fmt.ZeroPad{end}": "what fills a row up to whole bursts" for end in ("First", "Last")},
    "L2.SourceCfg.Dependent": "hazard tracking",
    **{f"L2.{side}Cfg.Alias{unit}": "hazard tracking" for side in ("Source", "Result")
       for unit in ("ConvSrc", "ConvRslt", "PlanarSrc", "PlanarRslt")},
    "NE.KernelCfg.PalettizeBits": "used by palettised coefficients only", "NE.MACCfg.BinaryPoint": "no effect on fp16",
}
"""Fields that may hold anything, and why. Array registers are named without their index."""


def _zero(block: Block, *registers: str, but: tuple[str, ...] = ()) -> dict[str, Value]:
    """The zero values of all fields of a block (or some of its registers)."""
    idle: dict[str, Value] = {}
    for register in block.registers:
        for field in register.fields:
            zero, name = field.decode(0), f"{register.name}.{field.name}"
            if zero is not None and name not in but and (not registers or register.name in registers):
                idle[f"{block.name}.{name}"] = zero
    return idle


NEURAL_IDLE: dict[str, Value] = {
    **_zero(PE), **_zero(COMMON, "PETile", "Broadcast"), "L2.SourceCfg.SecondDMA": 0, "L2.L2Cfg.SecondInputReLU": 0,
    "NE.KernelCfg.PreviousPlanar": 0, "Common.Cfg.Sources": 1,
}
"""What a neural-engine task says about the planar engine."""

PLANAR_IDLE: dict[str, Value] = {
    **_zero(NE, but=("KernelCfg.PalettizeBits", "KernelCfg.NextPlanar", "KernelCfg.PreviousPlanar", "MACCfg.En")),
    "Header.Bases.ENE": 0, "Common.Cfg.ActiveNE": 0, "Common.Cfg.NEResultSwap": 0, "Common.ConvCfg.OCGSize": 0,
    "Common.GroupConvCfg.UnicastEn": 0, "Common.GroupConvCfg.UnicastCin": 1,
    **{f"KernelDMA.CoeffDMAConfig[{core}].En": 0 for core in range(CORES)}, "Header.KernelBases.KBase0En": 0,
}
"""What a planar task says about the neural engine."""
