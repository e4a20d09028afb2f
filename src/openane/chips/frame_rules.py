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

WITH_WEIGHTS: dict[str, Value] = {"NE.MACCfg.NoKernel": 0, "NE.KernelCfg.KernelFmt": "fp16",
                                  "NE.MACCfg.OpMode": "multiply_accumulate"}
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
            yield from rule(reader_of(fields), fields, link)

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

    own = (engine, memory_slots, memory_enables, coefficient_enables, coefficient_uses)
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


def _memory_sides(reader: Reader) -> dict[str, bool]:
    return {"RBase0": reader.get("L2.SourceCfg.SourceType") in STREAMED, "RBase1": reader.second_from_memory(),
            "WBase": reader.get("L2.ResultCfg.ResultType") in STREAMED}


def memory_slots(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A task must have the run of an address exactly where an operand comes from or goes to memory, and where tasks
    state data sets the run of that; each names a slot."""
    sets = any(f"Slots.{name}.{SLOT.name}" in fields.values for name in POINTERS.values())
    for pointer, used in _memory_sides(reader).items():
        for name in (pointer, POINTERS[pointer]) if sets else (pointer,):
            if (f"Slots.{name}.{SLOT.name}" in fields.values) != used:
                yield Breach(f"Slots.{name}", "named" if not used else "not named", "named where it is used")
            elif used and not fields.values.get(f"Slots.{name}.{RELATIVE.name}"):
                yield Breach(f"Slots.{name}.{RELATIVE.name}", 0, 1)


def memory_enables(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """The tile DMA must be enabled exactly when an operand comes from or goes to memory; that of the second operand
    where it has a configuration word of its own in L2, else never."""
    first, second, result = _memory_sides(reader).values()
    own = int(second and "L2.SecondCfg" in link.chip.bank.by_name)
    if fields.values.get("TileDMASrc.SecondDMAConfig.En", own) != own:
        yield Breach("TileDMASrc.SecondDMAConfig.En", int(not own), own)
    for name, used in (("TileDMASrc.DMAConfig.En", first or second), ("TileDMADst.DMAConfig.En", result)):
        if int(reader.get(name)) != int(used) and (used or name in fields.values) and not (second and not first):
            yield Breach(name, reader.get(name), int(used))


def coefficient_enables(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """The coefficient side of a task must be enabled as a whole: streams, a table, the DMA; zero-skipping coefficients
    are marked in both places that state them."""
    try:
        weights, table = reader.sections()
    except ProgramError:
        yield Breach("Slots.KBase0", "not named", "named where coefficients are read")
        return
    used = int(weights is not None or table is not None)
    if table is not None and fields.values.get(TABLE_AGAIN, table.streams.start) != table.streams.start:
        yield Breach(TABLE_AGAIN, fields.values[TABLE_AGAIN], table.streams.start)
    for name in ("KernelDMA.Control.Kernels", "KernelDMA.Control.KernelsToo"):
        if int(reader.get(name)) != used:
            yield Breach(name, reader.get(name), used)
    if int(reader.get("KernelDMA.Control.Sparse")) != int(reader.get("NE.KernelCfg.SparseFmt")):
        yield Breach("KernelDMA.Control.Sparse", reader.get("KernelDMA.Control.Sparse"),
                     reader.get("NE.KernelCfg.SparseFmt"))
    if used and not reader.get("Common.TaskInfo.NEEn"):
        yield Breach("KernelDMA.Control.Kernels", used, "0 in a planar task")


def coefficient_uses(reader: Reader, fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """A neural-engine task must use what coefficients it reads: weights are fp16 and multiplied, biases lie among
    weights, and a table is its non-linear function; coefficients computed at run time are marked as such."""
    if not reader.get("Common.TaskInfo.NEEn"):
        return
    weights, table = reader.sections()
    if weights is None and reader.get("NE.MACCfg.BiasRow"):
        yield Breach("NE.MACCfg.BiasRow", 1, "0 without weights")
    for name, wanted in WITH_WEIGHTS.items() if weights is not None else ():
        if reader.get(name) != wanted:
            yield Breach(name, reader.get(name), wanted)
    if (reader.get("NE.MACCfg.NonlinearMode") == "table") != (table is not None):
        yield Breach("NE.MACCfg.NonlinearMode", reader.get("NE.MACCfg.NonlinearMode"), "table exactly with a table")
    kernel = bool(reader.get("NE.KernelCfg.RuntimeKernel"))
    runtime = weights is not None and reader.runtime_kernel()
    if kernel != (runtime or table is not None):
        yield Breach("NE.KernelCfg.RuntimeKernel", int(kernel), int(not kernel))


__all__ = ["frame_rules"]
