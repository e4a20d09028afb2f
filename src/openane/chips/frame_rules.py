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
from openane.chips.reader import STREAMED, Reader
from openane.chips.runs import RELATIVE, SLOT
from openane.errors import ProgramError
from openane.registers import FieldError, Value

TAGS = 256
POINTERS = {"RBase0": "FirstDataSet", "RBase1": "SecondDataSet", "WBase": "ResultDataSet"}
HARMLESS = ("Header.LiveOuts", "CacheDMA", "Runs", "Slots")
"""Registers and blocks whose bits decide no result."""

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


def frame_rules(reader_of: ReaderOf, unused: frozenset[str]) -> tuple[Rule, ...]:
    """The rules of a generation: `reader_of` reads its tasks, `unused` are fields of H13 that its tasks do not set."""

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

    own = (engine, memory_enables, coefficient_enables)
    return (described_bits, position, *map(with_reader, own),
            *map(as_h13, (h13.element_formats, h13.windows, h13.grouping, h13.planar_modes, h13.padding_value,
                          h13.tiles)))


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
    weights, table = reader.sections()
    used = int(weights is not None or table is not None)
    for name in ("KernelDMA.Control.Kernels", "KernelDMA.Control.KernelsToo"):
        if int(reader.get(name)) != used:
            yield Breach(name, reader.get(name), used)
    if int(reader.get("KernelDMA.Control.Sparse")) != int(reader.get("NE.KernelCfg.SparseFmt")):
        yield Breach("KernelDMA.Control.Sparse", reader.get("KernelDMA.Control.Sparse"),
                     reader.get("NE.KernelCfg.SparseFmt"))
    if not reader.get("Common.TaskInfo.NEEn"):
        if used:
            yield Breach("KernelDMA.Control.Kernels", used, "0 in a planar task")
        return
    multiplies = reader.get("NE.MACCfg.OpMode") == "multiply_accumulate"
    if weights is not None and not multiplies:
        yield Breach("NE.MACCfg.OpMode", reader.get("NE.MACCfg.OpMode"), "a mode that multiplies")
    if (reader.get("NE.MACCfg.NonlinearMode") == "table") != (table is not None):
        yield Breach("NE.MACCfg.NonlinearMode", reader.get("NE.MACCfg.NonlinearMode"), "table exactly with a table")
    kernel = bool(reader.get("NE.KernelCfg.RuntimeKernel"))
    runtime = weights is not None and reader.runtime_kernel()
    if kernel != (runtime or table is not None):
        yield Breach("NE.KernelCfg.RuntimeKernel", int(kernel), int(not kernel))


__all__ = ["frame_rules"]
