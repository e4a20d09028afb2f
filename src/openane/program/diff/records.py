"""The records a comparison consists of."""

from __future__ import annotations

from openane.record_classes import dataclass
from openane.registers import Value

Plain = Value | bool | None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A register field (or the undescribed bits of a register) that differs.

    `name` is `Block.Register.Field` (`Block.Register` with `bits` "rest"); None stands for a value that one side does
    not have. `address` is the byte address of the register, `bits` the position of the field in it (`[31:6]`).
    """

    name: str
    before: Value | None
    after: Value | None
    address: int
    bits: str


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """A property of the engine operation that differs: `name` in words (`result row stride`), its unit (`bytes` or
    empty), and the names of the fields that make the difference, as far as each does so by itself."""

    name: str
    before: Plain
    after: Plain
    unit: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task that differs. `before` and `after` are its numbers in the two programs; None: it is not there.

    `summary` holds what the task does before and after, in words; `words` how many words it has.
    """

    before: int | None
    after: int | None
    summary: tuple[str, str]
    words: tuple[int, int]
    attributes: tuple[AttributeChange, ...] = ()
    fields: tuple[FieldChange, ...] = ()

    @property
    def kind(self) -> str:
        """`inserted`, `removed` or `changed`."""
        if self.before is None:
            return "inserted"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class BufferChange:
    """A property of a buffer that differs: `what` is `buffer` when one side does not have it at all."""

    buffer: str
    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ConstantChange:
    """Constants that differ.

    `task` is the number (in the second program) of the task that reads them, None where none does; `what` is
    `coefficients` or the operand; `core` the core whose stream it is. `halfwords` of `total` differ; `first` lists the
    byte offsets in the constants of the second program of at most eight of them. `sizes` are bytes before and after.
    """

    task: int | None
    what: str
    core: int | None
    halfwords: int
    total: int
    first: tuple[int, ...]
    sizes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that differs between two programs. `chips` is set when the generations differ; tasks are then not
    compared by field."""

    chips: tuple[str, str] | None = None
    tasks: tuple[TaskChange, ...] = ()
    buffers: tuple[BufferChange, ...] = ()
    constants: tuple[ConstantChange, ...] = ()
    names: tuple[str, str] | None = None

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self == Diff()
