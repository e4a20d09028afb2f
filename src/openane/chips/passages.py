"""Which fields place an operand, and the L2 bytes that streamed and chained operands pass through.

A ring holds the rows of one tile: for a result TileHeight rows, for a source the rows those need through the window
(observed: in Apple-made programs the next ring or tensor starts exactly there). Many tasks leave the strides of a
streamed result zero; a row then takes at least what L2 addresses are multiples of per channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from openane.chips.chip import Passage, TaskFields
from openane.chips.reader import Reader
from openane.engine import Space
from openane.registers import Value

BASES = ("Header.Bases.RBase0", "Header.Bases.RBase1", "Header.Bases.WBase", "Header.KernelBases.KBase0",
         "Header.KernelBases.KBase1", "Header.KernelBases.KBase2", "Header.KernelBases.KBase3")
PLACES = {
    ("first", Space.MEMORY): "TileDMASrc.BaseAddr.Addr", ("second", Space.MEMORY): "TileDMASrc.SecondBaseAddr.Addr",
    ("result", Space.MEMORY): "TileDMADst.BaseAddr.Addr", ("coefficients", Space.MEMORY): "KernelDMA.CoeffBaseAddr",
    ("first", Space.L2): "L2.SourceBase.Addr", ("second", Space.L2): "L2.SecondBase.Addr",
    ("result", Space.L2): "L2.ResultBase.Addr", ("first", Space.CHAIN): "L2.SourceCfg.SourceType",
    ("result", Space.CHAIN): "L2.ResultCfg.ResultType",
}


def enabled_slots(fields: TaskFields) -> dict[str, int]:
    """Every base-address slot a task enables, used or not, by the field that names it."""
    return {name: _number(fields.values, name) for name in BASES if fields.values.get(f"{name}En")}


def passages(fields: TaskFields, smallest: int) -> tuple[Passage, ...]:
    """The L2 rings of a task's streamed and chained operands; a row takes at least `smallest` bytes per channel."""
    return tuple(_rings(fields.values, smallest))


RING_FIELDS = ("Common.TileCfg.TileHeight", "Common.ConvCfg.Sy", "Common.ConvCfg.Kh", "Common.InDim.H",
               "Common.OutDim.H", "Common.Cin.C", "Common.Cout.C", "L2.SourceCfg.SourceType", "L2.ResultCfg.ResultType",
               *(f"L2.{operand}{field}" for operand in ("Source", "Second", "Result")
                 for field in ("Base.Addr", "RowStride.Stride")))
SECOND_ROWS = "second rows"


def ring_fields(reader: Reader) -> dict[str, Value]:
    """The fields that rings follow from, by H13's names; a second operand of its own extents has rows of its own."""
    values: dict[str, Value] = {name: reader.get(name) for name in RING_FIELDS}
    values["L2.SourceCfg.SecondDMA"] = int(reader.second_from_memory())
    if not reader.get("Common.TaskInfo.NEEn"):
        kind = values["Common.Cfg.TaskType"] = reader.get("Common.Cfg.TaskType")
        if kind == "gain_offset":
            values[SECOND_ROWS] = 2
        elif reader.get("Common.Broadcast.SecondBroadcastH"):
            values[SECOND_ROWS] = 1
    return values


def _rings(values: Mapping[str, Value], smallest: int) -> Iterator[Passage]:
    tile = _number(values, "Common.TileCfg.TileHeight")
    stride, kernel = _number(values, "Common.ConvCfg.Sy"), _number(values, "Common.ConvCfg.Kh")
    source_rows = min(_number(values, "Common.InDim.H"), (tile - 1) * stride + kernel)
    if values.get("L2.SourceCfg.SourceType") in ("stream", "chain"):
        yield _ring(values, "first", "Source", source_rows, "Common.Cin.C", smallest)
    if values.get("L2.SourceCfg.SecondDMA"):
        rows = _number(values, SECOND_ROWS) or source_rows
        yield _ring(values, "second", "Second", rows, "Common.Cin.C", smallest)
    if values.get("L2.ResultCfg.ResultType") in ("stream", "chain"):
        result_rows = min(_number(values, "Common.OutDim.H"), tile)
        if values.get("Common.Cfg.TaskType") in ("reduce", "binary_reduce"):
            result_rows = 1
        yield _ring(values, "result", "Result", result_rows, "Common.Cout.C", smallest)


def _ring(values: Mapping[str, Value], operand: str, prefix: str, rows: int, channels: str,
          smallest: int) -> Passage:
    base, row = _number(values, f"L2.{prefix}Base.Addr"), _number(values, f"L2.{prefix}RowStride.Stride")
    return Passage(operand, base, base + max(rows, 1) * (row or smallest * _number(values, channels)))


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values.get(name, 0)
    return value if isinstance(value, int) else 0
