"""Generations from H14 on: tasks lie one after another, each stating its size; run heads name the slots.

Their tasks are read, printed, changed and written; engine operations are decoded where the fields are known. None is
emitted: no rule for the words of these generations is known beyond what their records show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from openane.chips import decode
from openane.chips.arithmetic import Arithmetic
from openane.chips.chip import EmittedTask, NamedSlots, Passage, Rule, TaskFields
from openane.chips.emit.tiling import Tiling
from openane.chips.facts import Facts
from openane.chips.limits import Limits
from openane.chips.passages import PLACES
from openane.chips.reader import Reader
from openane.chips.runs import RELATIVE, SLOT, IndexedHeads
from openane.chips.stream import StreamFormat
from openane.chips.undescribed import rules_known
from openane.engine import CoefficientSection, CoefficientStream, Operation, Space
from openane.errors import ProgramError, UnsupportedError
from openane.registers import Bank, Evidence, Field, Fields, Value

LONGEST = 2047  # Header.Task.TaskSize has eleven bits
WITHOUT_RESULT = ("Header", "Slots", "Runs", "CacheDMA")  # blocks that decide no result, or only through slots


def _extended(header: Fields) -> tuple[bool, ...]:
    """One more header word follows where both TSR and TDE are set."""
    return (bool(header["Header.Control.TDE"]) and bool(header["Header.Control.TSR"]),)


def indexed_format(header: Bank, body: Bank, pointers: Mapping[int, str]) -> StreamFormat:
    """The layout of these generations' task descriptors."""
    return StreamFormat(header, body, LONGEST, _extended, IndexedHeads(), pointers, rewrites=True)


class IndexedReader(Reader):
    """Slots come from run heads, addresses have two halves, the table has a stream of its own, and a register that the
    task does not write holds its default."""

    table: ClassVar[tuple[str, str]] = ("KernelDMA.AuxDMAConfig[3].En", "KernelDMA.AuxBfrSize[3].Size")
    """Fields that say whether the table's stream is read, and its bytes."""

    def preset(self, field: Field) -> object:
        """The field's default."""
        return field.default_value()

    def slot(self, name: str) -> int | None:
        """The base-address slot called `name`."""
        return self.enabled_slot(name)

    def enabled_slot(self, name: str) -> int | None:
        """The base-address slot called `name`; None when no run head names it."""
        relative = self._values.get(f"Slots.{name}.{RELATIVE.name}")
        return int(self._values[f"Slots.{name}.{SLOT.name}"]) if relative else None

    def kernel_slots(self) -> set[int | None]:
        """Slots the task takes coefficients and its table from."""
        weights = {self.enabled_slot("KBase0")} if self.streams() else set()
        return weights | ({self.enabled_slot("TableBase")} if self._table() else set())

    def offset(self, name: str) -> int:
        """A memory address relative to its slot, in bytes."""
        return int(self.get(f"{name}.Addr")) + int(self.get(f"{name}Hi.Addr"))

    def streams(self) -> tuple[CoefficientStream, ...]:
        """The streams of weights and biases, relative to their slot."""
        weights = super().streams()
        base = self.offset("KernelDMA.CoeffSection")
        return tuple(CoefficientStream(s.core, base + s.offset, s.size) for s in weights)

    def sections(self) -> tuple[CoefficientSection | None, CoefficientSection | None]:
        """Where weights and biases lie, and where the table does, which every active core reads."""
        streams = self.streams()
        weights = CoefficientSection.of(self.required_slot("KBase0"), streams) if streams else None
        if not self._table():
            return weights, None
        size, place = int(self.get(self.table[1])), self.offset("KernelDMA.TableBase")
        active = min(self.limits.cores, 2 ** int(self.get("Common.Cfg.ActiveNE")))
        table = CoefficientSection.of(self.required_slot("TableBase"),
                                      [CoefficientStream(core, place, size) for core in range(active)])
        return weights, table

    def runtime_kernel(self) -> bool:
        """Whether the coefficients are another operation's result."""
        return super().runtime_kernel() and not self._table()

    def _table(self) -> bool:
        return bool(self.get(self.table[0]))


@dataclass(frozen=True)
class IndexedChip:
    """A generation from H14 on (see chips.Chip for what each method promises)."""

    name: str
    format: StreamFormat
    limits: Limits
    reader: Callable[[TaskFields, Bank, Bank, Limits], Reader]
    facts: Facts
    arithmetic: Arithmetic
    linked: bool = False
    rules: tuple[Rule, ...] = (rules_known,)

    @property
    def header(self) -> Bank:
        """The header's table."""
        return self.format.header

    @property
    def bank(self) -> Bank:
        """The registers' tables, and what run heads say."""
        return self.format.body

    def next_task(self, words: Sequence[int]) -> tuple[int, int]:
        """ProgramError: a task says nothing about the one after it."""
        raise ProgramError(f"a task of {self.name} does not link to the next: they lie one after another")

    def task_size(self, words: Sequence[int]) -> int:
        """Words of the task that begins with `words`; 0 where a frame has none."""
        if not words:
            raise ProgramError("a task begins with a word that states its size")
        return int(self.header.decode({0: words[0]})[0]["Header.Task.TaskSize"])

    def decode(self, words: Sequence[int]) -> TaskFields:
        """Named fields of a task descriptor."""
        return self.format.decode(words)

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """The words of a task with these fields."""
        return self.format.encode(fields)

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """Byte addresses of the registers a task writes, in stream order."""
        return self.format.addresses(fields)

    def operation(self, words: Sequence[int]) -> Operation:
        """The engine operation of a task. ProgramError also names bits without a description, and fields in use of
        which public maps say where they are and nothing shows what they do."""
        fields = self.format.decode(words)
        for register, bits in fields.rest.items():
            if register.partition(".")[0] not in WITHOUT_RESULT:
                raise ProgramError(f"bits {bits:#x} have no described meaning on {self.name}", register=register)
        for name, value in fields.values.items():
            if name.partition(".")[0] not in WITHOUT_RESULT and self._only_inferred(name, value):
                raise ProgramError(f"{value!r}: what this field of {self.name} does is known by inference only",
                                   field=name)
        return decode.decode_operation(self.reader(fields, self.header, self.bank, self.limits))

    def slots(self, words: Sequence[int]) -> NamedSlots:
        """The base-address slots a task names."""
        return decode.decode_slots(self._reader(words))

    def passages(self, fields: TaskFields) -> tuple[Passage, ...]:
        """ProgramError: how many rows a tile of these generations holds is not known."""
        raise ProgramError(f"the L2 rings of tasks of {self.name} are not described")

    def enabled_slots(self, fields: TaskFields) -> Mapping[str, int]:
        """Every base-address slot a task's run heads name, by the field that names it."""
        return {f"{head}.{SLOT.name}": int(fields.values[f"{head}.{SLOT.name}"])
                for head, _, said in (name.rpartition(".") for name in fields.values)
                if head.startswith("Slots.") and said == RELATIVE.name and fields.values[f"{head}.{said}"]}

    def register(self, part: str, space: Space) -> str:
        """The field that says where an operand lies: called as in H13."""
        return PLACES.get((part, space), part)

    def tiling(self, operations: Sequence[Operation]) -> Tiling:
        """UnsupportedError: programs are not compiled for this generation."""
        raise self._not_compiled()

    def emit(self, operations: Sequence[Operation], layout: str = "macos26",
             tiling: Tiling | None = None) -> tuple[EmittedTask, ...]:
        """UnsupportedError: programs are not compiled for this generation."""
        raise self._not_compiled()

    def _not_compiled(self) -> UnsupportedError:
        return UnsupportedError(f"target {self.name}", "programs are compiled for h13 only; tasks of other "
                                "generations are read, printed and changed", limit="h13", found=self.name,
                                remedy="compile for h13")

    def relayout(self, tasks: Sequence[Sequence[int]], layout: str,
                 slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
        """UnsupportedError: one layout of these generations is known."""
        raise UnsupportedError(f"layout {layout}", f"tasks of {self.name} have one known layout", found=layout,
                               remedy="write layout='macos26' with the slots as they are")

    def _only_inferred(self, name: str, value: Value) -> bool:
        field = self.bank.locate(name)[2]
        return field.evidence is Evidence.INFERRED and value != field.default_value()

    def _reader(self, words: Sequence[int]) -> Reader:
        return self.reader(self.format.decode(words), self.header, self.bank, self.limits)
