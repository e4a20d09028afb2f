"""What the fields of tasks from H14 on must hold: rules about one task's registers, for the verifier.

Evidence: all 178 tasks of the records of Apple's compiler for H14 to H18 keep them. Rules about windows, groups, modes,
padding and tiles are H13's, read by the names that field has there. What a field does that records do not show is
refused where the operation is decoded (`IndexedChip.operation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps

from openane.chips.chip import Breach, Rule, TaskFields, TaskLink
from openane.chips.h13 import rules as h13
from openane.chips.h13.idle import IDLE, NEURAL_IDLE, PLANAR_IDLE
from openane.chips.reader import STREAMED, Reader
from openane.chips.runs import RELATIVE, SLOT
from openane.errors import ProgramError
from openane.registers import FieldError, Value

TAGS = 256
POINTERS = {"RBase0": "FirstDataSet", "RBase1": "SecondDataSet", "WBase": "ResultDataSet"}
HARMLESS = ("Header.LiveOuts", "CacheDMA", "Runs", "Slots")
"""Registers and blocks whose bits decide no result."""

TABLE_AGAIN = "KernelDMA.AuxBaseAddr[3].Addr"
IN_USE = frozenset(("TileDMASrc.SecondDMAConfig.En", "TileDMASrc.SecondFmt.FmtMode", "KernelDMA.AuxDMAConfig[3].En",
                    TABLE_AGAIN))
"""Fields that are idle on H13 and have a use later."""

ReaderOf = Callable[[TaskFields], Reader]


class Named(Mapping[str, Value]):
    """A task's fields by the names that H13 has for them."""

    def __init__(self, reader: Reader, stated: Mapping[str, Value], unused: frozenset[str]) -> None:
        """`stated` replaces fields, of the `unused` ones nothing is known."""
        self._reader, self._stated, self._unused = reader, stated, unused

    def __getitem__(self, name: str) -> Value:
        if name in self._stated:
            return self._stated[name]
        if name in self._unused:
            raise KeyError(name)
        try:
            value: Value = self._reader.get(name)
        except (ProgramError, FieldError):
            raise KeyError(name) from None
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._stated)

    def __len__(self) -> int:
        return len(self._stated)


def frame_rules(reader_of: ReaderOf, unused: frozenset[str], pointers: Mapping[int, str]) -> tuple[Rule, ...]:
    """The rules of a generation: `reader_of` reads its tasks, `unused` are fields of H13 that its tasks do not set,
    `pointers` the addresses at which runs of addresses begin, and what they are called."""

    def as_h13(rule: Rule) -> Rule:
        @wraps(rule)
        def named(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
            reader = reader_of(fields)
            neural = reader.get("Common.TaskInfo.NEEn")
            stated: dict[str, Value] = {"L2.SourceCfg.SecondDMA": int(reader.second_from_memory())}
            if neural:
                stated |= _copy_lanes(reader)
            else:
                stated |= {"NE.MACCfg.OpMode": "", "NE.KernelCfg.GroupKernelReuse": 0,
                           "NE.KernelCfg.RuntimeKernel": 0}
            if neural:
                stated["PE.Cfg.PoolMode"] = ""
                stated["NE.KernelCfg.RuntimeKernel"] = int(reader.runtime_kernel())
            yield from rule(TaskFields(Named(reader, stated, unused), fields.rest, fields.records), link)

        return named

    def with_reader(rule: Callable[[Reader, TaskFields, TaskLink], Iterator[Breach]]) -> Rule:
        @wraps(rule)
        def read(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
            try:
                yield from rule(reader_of(fields), fields, link)
            except ProgramError as error:
                yield Breach(f"{error.register}.{error.field}", "not described", "a value with a described meaning")

        return read

    def run_slots(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
        """A run must name a slot only where it holds addresses or data sets, and twice only where it is the same."""
        yield from _slots_of_runs(fields, pointers)

    def idle_fields(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
        """A field that no known program uses must keep its idle value; what another value does is not known."""
        reader = reader_of(fields)
        idle = IDLE | (NEURAL_IDLE if reader.get("Common.TaskInfo.NEEn") else PLANAR_IDLE)
        for name, wanted in idle.items():
            stated = reader.names.get(name, name)
            if name not in unused and name not in IN_USE and fields.values.get(stated, wanted) != wanted:
                yield Breach(stated, fields.values[stated], wanted)

    own = (engine, memory_enables, coefficient_enables)
    return (described_bits, position, run_slots, idle_fields, *map(with_reader, own),
            *map(as_h13, (h13.element_formats, h13.windows, h13.grouping, h13.planar_modes, h13.padding_value,
                          h13.tiles)))


def _slots_of_runs(fields: TaskFields, pointers: Mapping[int, str]) -> Iterator[Breach]:
    for number, (address, _) in enumerate(fields.records):
        head = f"Runs.Dense[{number}]"
        if f"{head}.{SLOT.name}" not in fields.values:
            continue
        again = f"Slots.{pointers[address]}" if address in pointers else ""
        for part in (SLOT.name, RELATIVE.name):
            found, wanted = fields.values[f"{head}.{part}"], fields.values.get(f"{again}.{part}", 0)
            if found != wanted:
                yield Breach(f"{head}.{part}", found, wanted)


def _copy_lanes(reader: Reader) -> dict[str, Value]:
    """A copy in lanes says how many where others say how many channels they take each."""
    lanes = 2 ** int(reader.get("Common.ConvCfg.OCGSize"))
    copies = reader.get("NE.MACCfg.OpMode") == "pass_through"
    return {"Common.GroupConvCfg.UnicastCin": 1} if copies and reader.get(
        "Common.GroupConvCfg.UnicastCin") == lanes else {}


def described_bits(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """Bits without a described meaning must be zero."""
    for register, bits in fields.rest.items():
        if bits and not register.startswith(HARMLESS):
            yield Breach(register, hex(bits), "0 in bits without a description")


def position(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """Tasks must be numbered from 0 in the header and wherever memory is reached, and the last one must say so."""
    values, last = fields.values, int(link.identifier == link.tasks - 1)
    expected: dict[str, Value] = {"Header.Task.TID": link.identifier, "Header.Control.TSR": 1,
                                  "Header.Control.Last": last}
    for name in values:
        if name.endswith(".UserTag"):
            expected[name] = link.identifier % TAGS
    if values.get("KernelDMA.Control.Kernels"):
        expected["KernelDMA.Control.Tag"] = (link.identifier + 1) % TAGS
    for name, wanted in expected.items():
        if name in values and values[name] != wanted:
            yield Breach(name, values[name], wanted)
    if int(values.get("KernelDMA.Control.Last", 0)) != last:
        yield Breach("KernelDMA.Control.Last", values.get("KernelDMA.Control.Last", 0), last)


def engine(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A task must select one engine, and its header must say how many cores are at work."""
    neural = bool(reader.get("Common.TaskInfo.NEEn"))
    if neural == bool(fields.values.get("Common.Cfg.TaskType")):
        yield Breach("Common.TaskInfo.NEEn", int(neural), "set exactly when Common.Cfg.TaskType is not")
    wanted = int(reader.get("Common.Cfg.ActiveNE")) + 1 if neural else 0
    if fields.values.get("Header.Control.ENE", 0) != wanted:
        yield Breach("Header.Control.ENE", fields.values.get("Header.Control.ENE", 0), wanted)
    if neural and not reader.get("NE.MACCfg.En"):
        yield Breach("NE.MACCfg.En", 0, 1)


def memory_enables(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """The memory side of a task must be enabled exactly when an operand comes from or goes to memory: by its DMA, by
    the run of its address, which names a slot, and where tasks state data sets by the run of that."""
    sides = {"RBase0": reader.get("L2.SourceCfg.SourceType") in STREAMED, "RBase1": reader.second_from_memory(),
             "WBase": reader.get("L2.ResultCfg.ResultType") in STREAMED}
    sets = any(f"Slots.{name}.{SLOT.name}" in fields.values for name in POINTERS.values())
    for pointer, used in sides.items():
        for name in (pointer, POINTERS[pointer]) if sets else (pointer,):
            yield from _named(fields, name, used)
    yield from _dma(reader, fields, "TileDMADst.DMAConfig.En", sides["WBase"])
    if sides["RBase0"] or not sides["RBase1"]:
        yield from _dma(reader, fields, "TileDMASrc.DMAConfig.En", sides["RBase0"])
    second = int(sides["RBase1"] and "L2.SecondCfg" in link.chip.bank.by_name)
    if fields.values.get("TileDMASrc.SecondDMAConfig.En", second) != second:
        yield Breach("TileDMASrc.SecondDMAConfig.En", int(not second), second)


def _named(fields: TaskFields, name: str, used: bool) -> Iterator[Breach]:
    """Whether the run of an address names a slot where it is used."""
    if (f"Slots.{name}.{SLOT.name}" in fields.values) != used:
        yield Breach(f"Slots.{name}", "named" if not used else "not named", "named where it is used")
    elif used and not fields.values.get(f"Slots.{name}.{RELATIVE.name}"):
        yield Breach(f"Slots.{name}.{RELATIVE.name}", 0, 1)


def _dma(reader: Reader, fields: TaskFields, name: str, used: bool) -> Iterator[Breach]:
    """Whether a side's DMA is enabled where it is used; it need not be stated where it is not."""
    if int(reader.get(name)) != int(used) and (used or name in fields.values):
        yield Breach(name, reader.get(name), int(used))


def coefficient_enables(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """The coefficient side of a task must be enabled as a whole: streams, a table, the DMA; zero-skipping coefficients
    are marked in both places that state them, and coefficients computed at run time come from no constants."""
    try:
        weights, table = reader.sections()
    except ProgramError:
        yield Breach("Slots.KBase0", "not named", "named where coefficients are read")
        return
    used = int(weights is not None or table is not None)
    if table is not None and fields.values.get(TABLE_AGAIN, table.streams.start) != table.streams.start:
        yield Breach(TABLE_AGAIN, fields.values[TABLE_AGAIN], table.streams.start)
    yield from _unlike(reader, {"KernelDMA.Control.Kernels": used, "KernelDMA.Control.KernelsToo": used,
                                "KernelDMA.Control.Sparse": int(reader.get("NE.KernelCfg.SparseFmt"))})
    if reader.get("Common.TaskInfo.NEEn"):
        yield from _coefficient_modes(reader, weights is not None, table is not None)
    elif used:
        yield Breach("KernelDMA.Control.Kernels", used, "0 in a planar task")


def _unlike(reader: Reader, wanted: Mapping[str, object]) -> Iterator[Breach]:
    """Fields that hold something else than they must."""
    for name, value in wanted.items():
        if reader.get(name) != value:
            yield Breach(name, reader.get(name), value)


def _coefficient_modes(reader: Reader, weights: bool, table: bool) -> Iterator[Breach]:
    """Whether the engine does with weights and a table what is said of their streams."""
    kernel = bool(reader.get("NE.KernelCfg.RuntimeKernel"))
    if kernel != (table or (weights and reader.runtime_kernel())):
        yield Breach("NE.KernelCfg.RuntimeKernel", int(kernel), int(not kernel))
    if (reader.get("NE.MACCfg.NonlinearMode") == "table") != table:
        yield Breach("NE.MACCfg.NonlinearMode", reader.get("NE.MACCfg.NonlinearMode"), "table exactly with a table")
    if weights:
        yield from _unlike(reader, {"NE.MACCfg.NoKernel": 0, "NE.KernelCfg.KernelFmt": "fp16",
                                    "NE.MACCfg.OpMode": "multiply_accumulate"})
    else:
        yield from _unlike(reader, {"NE.MACCfg.BiasRow": 0})


__all__ = ["frame_rules"]
