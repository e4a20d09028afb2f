"""Generations up to H13: every task names the one after it, and the header names the base-address slots.

Two container layouts of their tasks are known. `macos26` is what Apple's current compiler writes: kernel-less tasks
skip the stream registers. `compat` is the older form that the Linux tools read: one run for all of the kernel DMA. They
also differ in what the offsets of tasks are multiples of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from openane.chips import decode
from openane.chips.arithmetic import Arithmetic
from openane.chips.chip import EmittedTask, NamedSlots, Passage, Rule, TaskFields
from openane.chips.emit.neural import idle_stream_sizes, stream_fields
from openane.chips.emit.policy import Policy
from openane.chips.facts import Facts
from openane.chips.limits import Limits
from openane.chips.passages import BASES, PLACES, enabled_slots, passages
from openane.chips.reader import Reader
from openane.chips.stream import StreamFormat
from openane.chips.writer import TaskBody
from openane.engine import Operation, Space
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.registers import Bank, Block, Fields
from openane.rounding import round_up

if TYPE_CHECKING:
    from openane.chips.emit.exponents import Contents
    from openane.chips.emit.tiling import Tiling

Records = tuple[tuple[int, int], ...]
LINKS = ("Header.Task.TID", "Header.Task.LNID", "Header.Task.EON", "Header.Next.NextSize", "Header.NextPointer.Offset",
         "Header.Bases.TBaseEn")
"""What a task says of its place in the chain."""
KERNEL_DMA = "KernelDMA"
TEXT = "Header.Bases.TBase"
"""The slot that the pointer to the next task is relative to."""


def linked_format(header: Block, body: Bank, longest: int, scratch: int) -> StreamFormat:
    """The layout of these generations' task descriptors, of at most `longest` words.

    One more header word (the DTID) follows where Control.TDE says so, and where coefficients come from the scratch
    slot; samples agree on both. Where they disagree the reading whose runs end exactly with the task is taken.
    """
    def extended(fields: Fields) -> tuple[bool, ...]:
        stated = bool(fields["Header.Control.TDE"])
        implied = int(fields["Header.KernelBases.KBase0"]) == scratch
        return (stated,) if stated == implied else (stated, implied)

    return StreamFormat(Bank((header,)), body, longest, extended)


def full_runs(body: Bank) -> Records:
    """The runs of a task that writes every register."""
    return tuple((block.base, sum(register.count for register in block.registers)) for block in body.blocks)


def split_runs(body: Bank) -> Records:
    """The runs of a task that skips where the streams of its coefficients lie and how long they are."""
    kernel = next(block for block in body.blocks if block.name == KERNEL_DMA)
    first, second = (kernel.by_name[name][0] for name in ("CoeffBaseAddr[0]", "AuxDMAConfig[0]"))
    end = kernel.base + 4 * sum(register.count for register in kernel.registers)
    split = (kernel.base, (first - kernel.base) // 4), (second, (end - second) // 4)
    return (*split, *(run for run in full_runs(body) if run[0] != kernel.base))


class LinkedWriter:
    """Writes tasks under the names that emission has for their fields."""

    def __init__(self, form: StreamFormat, policy: Policy, alignments: Mapping[str, int]) -> None:
        """`alignments`: by container layout, what the offsets of tasks are multiples of."""
        self.format = form
        self._alignments = alignments
        self._text = policy.limits.slots.text
        self._streams = tuple(enable for enable, _, _ in stream_fields(policy.limits.cores))
        self._idle = idle_stream_sizes(policy)
        self._full, self._split = full_runs(form.body), split_runs(form.body)
        self._skipped = {runs: _skipped(form.body, runs) for runs in (self._full, self._split)}

    def links(self, fields: TaskFields) -> tuple[str, ...]:
        """The same of every task."""
        return LINKS

    def task(self, values: Fields, rest: Mapping[str, int], layout: str, numbers: Sequence[str] = (), *,
             first: bool = False, last: bool = False) -> TaskFields:
        """A task with these fields in a container layout. Those of registers it does not write are left out."""
        self._alignment(layout)
        full = layout == "compat" or any(values.get(enable) for enable in self._streams)
        records = self._full if full else self._split
        values = {TEXT: self._text, **(self._idle if full else {}), **values}
        for name in values.keys() & self._skipped[records]:
            del values[name]
        return TaskFields(values, rest, records)

    def numbers(self, names: Iterable[str]) -> tuple[str, ...]:
        """One field for each."""
        return tuple(names)

    def parts(self, names: Sequence[str], numbers: Sequence[int]) -> Sequence[int]:
        """The numbers themselves."""
        return numbers

    def link(self, bodies: Iterable[TaskBody], layout: str) -> tuple[EmittedTask, ...]:
        """Identity, sizes and pointers of the chain, then words."""
        alignment = self._alignment(layout)
        tasks: list[EmittedTask] = []
        waiting = iter(bodies)
        offset, here = 0, next(waiting, None)
        while here is not None:
            index, after = len(tasks), next(waiting, None)
            following = round_up(offset + 4 * here.common.size, alignment)
            links = (index, int(index > 0), int(after is None), 0 if after is None else after.common.size - 1,
                     0 if after is None else following, int(after is not None))
            try:
                words = here.common.completed(here.numbers, links)
            except ProgramError as error:
                raise ProgramError(str(error), task=index) from error
            tasks.append(EmittedTask(words, offset))
            offset, here = following, after
        return tuple(tasks)

    def _alignment(self, layout: str) -> int:
        if layout not in self._alignments:
            raise ProgramError(f"layout must be one of {', '.join(self._alignments)}, not {layout!r}")
        return self._alignments[layout]


def _skipped(body: Bank, records: Records) -> frozenset[str]:
    """The fields of registers that no run of `records` writes."""
    written = {a for base, count in records for a in range(base, base + 4 * count, 4)}
    return frozenset(f"{name}.{field.name}" for address, (name, register) in body.by_address.items()
                     if address not in written for field in register.fields)


@dataclass(frozen=True, eq=False)
class LinkedChip:
    """A generation up to H13 (see chips.Chip for what each method promises)."""

    name: str
    format: StreamFormat
    policy: Policy
    alignments: Mapping[str, int]
    rules: tuple[Rule, ...]
    facts: Facts
    arithmetic: Arithmetic
    linked: bool = True

    @property
    def header(self) -> Bank:
        """The header's table."""
        return self.format.header

    @property
    def bank(self) -> Bank:
        """The registers' tables."""
        return self.format.body

    @property
    def limits(self) -> Limits:
        """What field widths and memories allow."""
        return self.policy.limits

    @cached_property
    def forms(self) -> Mapping[str, Records]:
        """The register runs of tasks as compilers write them: with the kernel DMA's words whole, or in two runs."""
        return {"full": full_runs(self.bank), "split": split_runs(self.bank)}

    def next_task(self, words: Sequence[int]) -> tuple[int, int]:
        """(byte offset in the text, size in words) of the task after this one; (0, 0) at the end."""
        if len(words) < self.format.header_words:
            raise ProgramError(f"a task header has {self.format.header_words} words, not {len(words)}")
        offset, size = (self._header_field(words, register, field)
                        for register, field in (("NextPointer", "Offset"), ("Next", "NextSize")))
        return (offset, size + 1) if offset else (0, 0)

    def task_size(self, words: Sequence[int]) -> int:
        """ProgramError: the task before it states the size of a task."""
        raise ProgramError(f"a task of {self.name} does not state its own size; the one before it does")

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """Byte addresses of the registers a task writes, in stream order."""
        return self.format.addresses(fields)

    def decode(self, words: Sequence[int]) -> TaskFields:
        """Named fields of a task descriptor."""
        fields = self._recent(tuple(words))
        return TaskFields(dict(fields.values), dict(fields.rest), fields.records)

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """The words of a task with these fields."""
        return self.format.encode(fields)

    def operation(self, words: Sequence[int]) -> Operation:
        """The engine operation of a task."""
        return decode.decode_operation(self._reader(words))

    def slots(self, words: Sequence[int]) -> NamedSlots:
        """The base-address slots a task names."""
        fields = self.format.decode(words, self._slot_registers)
        return decode.decode_slots(Reader(fields, self.header, self.bank, self.limits))

    def passages(self, fields: TaskFields) -> tuple[Passage, ...]:
        """The L2 rings of a task's streamed and chained operands."""
        return passages(fields, self.limits.l2_alignment)

    def enabled_slots(self, fields: TaskFields) -> Mapping[str, int]:
        """Every base-address slot a task enables, by the field that names it."""
        return enabled_slots(fields)

    def register(self, part: str, space: Space) -> str:
        """The field that says where an operand lies."""
        return PLACES.get((part, space), part)

    def tiling(self, operations: Sequence[Operation]) -> Tiling:
        """How a chain of operations walks what it streams."""
        from openane.chips.emit.tiling import tiled

        return tiled(operations, self.policy)

    def emit(self, operations: Sequence[Operation], layout: str = "macos26",
             tiling: Tiling | None = None, contents: Contents | None = None) -> tuple[EmittedTask, ...]:
        """Descriptors of a chain of operations."""
        from openane.chips.emit.program import emit_program

        return emit_program(operations, self.policy, self._writer, layout, tiling, contents)

    def relayout(self, tasks: Sequence[Sequence[int]], layout: str,
                 slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
        """The same tasks in another container layout, their base-address slots renumbered."""
        from openane.chips.emit.program import relayout_program

        return relayout_program([self.decode(words) for words in tasks], self._writer, layout, BASES, LINKS, slots)

    @cached_property
    def _writer(self) -> LinkedWriter:
        return LinkedWriter(self.format, self.policy, self.alignments)

    @cached_property
    def _slot_registers(self) -> frozenset[int]:
        """The registers that say whether an operand comes from, or goes to, memory."""
        return frozenset(self.bank.by_name[name][0] for name in decode.MEMORY_REGISTERS)

    @cached_property
    def _recent(self) -> Callable[[tuple[int, ...]], TaskFields]:
        """The fields of a task, remembered: a task is asked for its fields, its slots and its operation in turn."""
        return lru_cache(maxsize=16)(self.format.decode)

    def _reader(self, words: Sequence[int]) -> Reader:
        return Reader(self._recent(tuple(words)), self.header, self.bank, self.limits)

    def _header_field(self, words: Sequence[int], name: str, field: str) -> int:
        address, register = self.header.by_name[f"Header.{name}"]
        return int(register.decode(words[address // 4])[0][field])


__all__ = ["LINKS", "LinkedChip", "LinkedWriter", "full_runs", "linked_format", "split_runs"]
