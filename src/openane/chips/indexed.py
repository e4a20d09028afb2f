"""Generations from H14 on: tasks lie one after another, each stating its size; run heads name the slots.

Engine operations are decoded and emitted by H13's names for fields; the reader and the writer of a generation know
where it has them, and its policy what it states otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from openane.chips import decode
from openane.chips.arithmetic import Arithmetic
from openane.chips.chip import EmittedTask, NamedSlots, Passage, Rule, TaskFields
from openane.chips.emit.policy import Policy
from openane.chips.facts import Facts
from openane.chips.frame_rules import frame_rules
from openane.chips.frame_writer import FrameWriter
from openane.chips.h13.registers import STREAM_BANK as H13_BANK
from openane.chips.limits import Limits
from openane.chips.passages import PLACES, passages, ring_fields
from openane.chips.reader import Reader
from openane.chips.runs import RELATIVE, SLOT, IndexedHeads
from openane.chips.stream import StreamFormat
from openane.engine import CoefficientSection, CoefficientStream, Operation, Space
from openane.errors import ProgramError, UnsupportedError
from openane.record_classes import dataclass
from openane.registers import Bank, Evidence, Field, Fields, Value

if TYPE_CHECKING:
    from openane.chips.emit.exponents import Contents
    from openane.chips.emit.tiling import Tiling

ADDED = frozenset(("KernelDMA.KernelOCGStride.Stride", "TileDMASrc.SecondFmt.Interleave"))
"""Fields that H13 lacks and records of H14 show in use."""
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
        size, place = int(self.get("KernelDMA.TableBfrSize.Size")), self.offset("KernelDMA.TableBase")
        active = min(self.limits.cores, 2 ** int(self.get("Common.Cfg.ActiveNE")))
        table = CoefficientSection.of(self.required_slot("TableBase"),
                                      [CoefficientStream(core, place, size) for core in range(active)])
        return weights, table

    def runtime_kernel(self) -> bool:
        """Whether the coefficients are another operation's result: beside a table, which sets the same bit, where the
        distance of such coefficients is stated (inferred: no record has both)."""
        stated = bool(self.get("KernelDMA.KernelOCGStride.Stride"))
        return super().runtime_kernel() and (stated or not self._table())

    def _table(self) -> bool:
        return bool(self.get("KernelDMA.TableDMAConfig.En"))


@dataclass(frozen=True, eq=False)
class IndexedChip:
    """A generation from H14 on (see chips.Chip for what each method promises)."""

    name: str
    format: StreamFormat
    policy: Policy
    reader: type[IndexedReader]
    writer: type[FrameWriter]
    facts: Facts
    arithmetic: Arithmetic
    linked: bool = False

    @property
    def limits(self) -> Limits:
        """What field widths and memories allow."""
        return self.policy.limits

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
        which public maps say where they are and nothing shows what they do. Fields that H13 has under the same name are
        taken to do what they do there (inferred where no record shows them)."""
        fields = self.format.decode(words)
        for register, bits in fields.rest.items():
            if register.partition(".")[0] not in WITHOUT_RESULT:
                raise ProgramError(f"bits {bits:#x} have no described meaning on {self.name}", register=register)
        for name, value in fields.values.items():
            if name.partition(".")[0] not in WITHOUT_RESULT and self._only_inferred(name, value):
                raise ProgramError(f"{value!r}: what this field of {self.name} does is known by inference only",
                                   field=name)
        return decode.decode_operation(self._read(fields))

    def slots(self, words: Sequence[int]) -> NamedSlots:
        """The base-address slots a task names."""
        return decode.decode_slots(self._reader(words))

    def passages(self, fields: TaskFields) -> tuple[Passage, ...]:
        """The L2 rings of a task's streamed and chained operands: as H13's (inferred), by the same fields."""
        reader = self._read(fields)
        return passages(TaskFields(ring_fields(reader), {}, ()), self.limits.l2_alignment)

    def enabled_slots(self, fields: TaskFields) -> Mapping[str, int]:
        """Every base-address slot a task's run heads name, by the field that names it."""
        return {f"{head}.{SLOT.name}": int(fields.values[f"{head}.{SLOT.name}"])
                for head, _, said in (name.rpartition(".") for name in fields.values)
                if head.startswith("Slots.") and said == RELATIVE.name and fields.values[f"{head}.{said}"]}

    def register(self, part: str, space: Space) -> str:
        """The field that says where an operand lies: called as in H13."""
        return PLACES.get((part, space), part)

    def tiling(self, operations: Sequence[Operation]) -> Tiling:
        """How a chain of operations walks what it streams."""
        from openane.chips.emit.tiling import tiled

        return tiled(operations, self.policy)

    def emit(self, operations: Sequence[Operation], layout: str = "macos26",
             tiling: Tiling | None = None, contents: Contents | None = None) -> tuple[EmittedTask, ...]:
        """Descriptors of a chain of operations; of `layout` there is one."""
        from openane.chips.emit.program import emit_program

        return emit_program(operations, self.policy, self._writer, layout, tiling, contents)

    def relayout(self, tasks: Sequence[Sequence[int]], layout: str,
                 slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
        """UnsupportedError: one layout of these generations is known."""
        raise UnsupportedError(f"layout {layout}", f"tasks of {self.name} have one known layout", found=layout,
                               remedy="write layout='macos26' with the slots as they are")

    @cached_property
    def _writer(self) -> FrameWriter:
        return self.writer(self.format, self.policy, self.reader.names)

    def _only_inferred(self, name: str, value: Value) -> bool:
        field = self.bank.locate(name)[2]
        return field.evidence is Evidence.INFERRED and value != field.default_value() and name not in self._carried

    @cached_property
    def _carried(self) -> frozenset[str]:
        """The fields that H13, or H14 before a later generation, has too."""
        known = {f"{name}.{field.name}" for _, (name, register) in H13_BANK.by_address.items()
                 for field in register.fields}
        return frozenset({self.reader.names.get(name, name) for name in known} | ADDED)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """What must hold of a task's registers."""
        return frame_rules(self._read, self.writer.unused, self.format.pointers)

    def _reader(self, words: Sequence[int]) -> Reader:
        return self._read(self.format.decode(words))

    def _read(self, fields: TaskFields) -> Reader:
        return self.reader(fields, self.header, self.bank, self.limits)
