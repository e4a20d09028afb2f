"""What every generation offers: its tables, its limits, and the two translations.

    words --decode--> TaskFields --encode--> the same words
    words --operation--> engine operation --emit--> words
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import Facts
from openane.chips.limits import Limits
from openane.engine import Operation, Space
from openane.record_classes import dataclass
from openane.registers import Bank, Value

if TYPE_CHECKING:
    from openane.chips.emit.exponents import Contents
    from openane.chips.emit.tiling import Tiling


@dataclass(frozen=True, slots=True)
class TaskFields:
    """One task descriptor by named fields.

    `values` maps `Block.Register.Field` to its value (the header is a block called `Header`), `rest` maps
    `Block.Register` (or `@0x13844` for an address no register has) to bits without a description, `records` lists
    the (byte address, word count) runs in stream order.
    """

    values: Mapping[str, Value]
    rest: Mapping[str, int]
    records: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TaskLink:
    """A task's place in its program: the chip, its number, how many tasks there are, and the operations of all of them
    in order, None where a task has none that is described."""

    chip: Chip
    identifier: int = 0
    tasks: int = 1
    operations: Sequence[Operation | None] = ()


@dataclass(frozen=True, slots=True)
class EmittedTask:
    """One encoded task: its words and its offset in the text."""

    words: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class NamedSlots:
    """Base-address slots a task names."""

    reads: frozenset[int] = field(default_factory=frozenset)
    writes: frozenset[int] = field(default_factory=frozenset)
    coefficients: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Breach:
    """A field whose value breaks a rule, and what the rule allows."""

    field: str
    value: object
    limit: object


Rule = Callable[[TaskFields, TaskLink], Iterator[Breach]]
"""A rule about one task. Its docstring is the sentence people read, its name the rule's name."""


@dataclass(frozen=True, slots=True)
class Passage:
    """L2 bytes `low` to `high` through which an operand (`first`, `second`, `result`) is streamed or handed over.

    What lay there is lost. As far as the task's registers state it: `high` is a lower bound.
    """

    operand: str
    low: int
    high: int


class Chip(Protocol):
    """One generation. Modules `openane.chips.hXX` export an instance called `CHIP`."""

    name: str
    header: Bank
    bank: Bank
    limits: Limits
    arithmetic: Arithmetic
    facts: Facts
    linked: bool
    """Tasks name their successor (`next_task`); otherwise they lie one after another at multiples of
    `limits.task_alignment`, each stating its own size (`task_size`)."""
    rules: tuple[Rule, ...]

    def next_task(self, words: Sequence[int]) -> tuple[int, int]:
        """(byte offset in the text, size in words) of the task after this one; (0, 0) at the end."""
        ...

    def task_size(self, words: Sequence[int]) -> int:
        """Words of the task that begins with `words`, 0 in a frame without a task. ProgramError where tasks do not
        state it."""
        ...

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """Byte addresses of the registers a task writes, in stream order. ProgramError when its runs contradict what
        their heads say."""
        ...

    def decode(self, words: Sequence[int]) -> TaskFields:
        """Named fields of a task descriptor. ProgramError when the stream is malformed."""
        ...

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """The task descriptor with these fields: decode(words) gives back exactly `words`."""
        ...

    def operation(self, words: Sequence[int]) -> Operation:
        """The engine operation of a task. ProgramError names the field when a mode is not described."""
        ...

    def slots(self, words: Sequence[int]) -> NamedSlots:
        """The slots a task names, from its fields alone (works where `operation` does not)."""
        ...

    def passages(self, fields: TaskFields) -> tuple[Passage, ...]:
        """The L2 rings of a task's streamed and chained operands."""
        ...

    def enabled_slots(self, fields: TaskFields) -> Mapping[str, int]:
        """Every base-address slot a task enables, used or not, by the field that names it."""
        ...

    def register(self, part: str, space: Space) -> str:
        """The field that says where an operand (`first`, `second`, `result`, `coefficients`) lies."""
        ...

    def tiling(self, operations: Sequence[Operation]) -> Tiling:
        """How a chain of operations walks what it streams, and which of them finds no room in L2 for that, if one
        does. ProgramError names what no register can express."""
        ...

    def emit(self, operations: Sequence[Operation], layout: str = "macos26",
             tiling: Tiling | None = None, contents: Contents | None = None) -> tuple[EmittedTask, ...]:
        """Descriptors of a chain of operations. `layout` is `macos26` or `compat`, `tiling` that of the operations
        where it is known, `contents` the constants behind base-address slots, of which tasks say what kind of table
        they hold. ProgramError names what no register can express."""
        ...

    def relayout(self, tasks: Sequence[Sequence[int]], layout: str,
                 slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
        """The same tasks in another container layout, their base-address slots renumbered by `slots`."""
        ...
