"""What the rules look at: a program with its tasks decoded once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openane.chips import Chip, Passage, TaskFields, get_chip
from openane.chips.limits import BaseSlots
from openane.engine import Access, Coefficients, NeuralOperation, Operation, Space, sources
from openane.errors import ProgramError, UnsupportedError
from openane.program.model import ByteRange, Program, Role, Task
from openane.program.sparse_bodies import Follower
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class TaskOperand:
    """One access of a task. `part` is `first`, `second` or `result`; a copy kept in L2 is an operand of its own."""

    part: str
    access: Access
    writes: bool
    copy: bool = False


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task as far as it can be read: fields, operation, operands and L2 rings; `refusal` says why there is none."""

    index: int
    task: Task
    fields: TaskFields | None
    operation: Operation | None
    refusal: ProgramError | None
    operands: tuple[TaskOperand, ...]
    passages: tuple[Passage, ...]

    @property
    def coefficients(self) -> Coefficients | None:
        """The coefficients of its operation, if there are any."""
        return self.operation.coefficients if isinstance(self.operation, NeuralOperation) else None

    def used_slots(self) -> set[int]:
        """Slots its operation reads, writes and takes coefficients from."""
        used = {operand.access.slot for operand in self.operands if operand.access.space is Space.MEMORY}
        return used | set(self.coefficients.slots if self.coefficients is not None else ())


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """What is behind a slot: a name, bytes, and the role (None for text and constants)."""

    name: str
    size: int
    role: Role | None


@dataclass(frozen=True, slots=True)
class VerifyContext:
    """A program, its chip, its tasks decoded, and the memory behind every slot."""

    program: Program
    chip: Chip
    tasks: tuple[TaskView, ...]
    memory: Mapping[int, SlotMemory]
    operations: Sequence[Operation | None]
    follow: Follower | None = None
    """What follows zero-skipping bodies in less time, where it is at hand."""

    @property
    def slots(self) -> BaseSlots:
        """What the base-address slots of the chip are for."""
        return self.chip.limits.slots

    @property
    def constants(self) -> Mapping[int, ByteRange]:
        """The bytes of the constants behind each slot that has some."""
        return self.program.constant_ranges

    @staticmethod
    def of(program: Program, follow: Follower | None = None) -> VerifyContext:
        """UnsupportedError when the chip is not described, or no rules about its registers are known."""
        chip = get_chip(program.chip)
        if not getattr(chip, "rules", ()):
            raise UnsupportedError(f"target {program.chip!r}", "a generation whose programs are verified needs rules "
                                   "about its registers, and none are known for this one")
        tasks = tuple(_view(chip, index, task) for index, task in enumerate(program.tasks))
        slots = chip.limits.slots
        names = {slots.constants: "the constants"}
        memory = {slot: SlotMemory(names.get(slot, "a kernel section"), end - start, None)
                  for slot, (start, end) in program.constant_ranges.items()}
        memory[slots.text] = SlotMemory("the program text", 0, None)
        memory |= {b.slot: SlotMemory(b.name, b.size, b.role) for b in program.buffers if b.slot not in slots.taken}
        return VerifyContext(program, chip, tasks, memory, [view.operation for view in tasks], follow)


def _view(chip: Chip, index: int, task: Task) -> TaskView:
    fields, operation, refusal = None, None, None
    passages: tuple[Passage, ...] = ()
    try:
        fields = chip.decode(task.words)
        passages = chip.passages(fields)
        operation = chip.operation(task.words)
    except ProgramError as error:
        refusal = error
    operands = () if operation is None else tuple(_operands(operation))
    return TaskView(index, task, fields, operation, refusal, operands, passages)


def _operands(operation: Operation) -> Iterator[TaskOperand]:
    for part, access in zip(("first", "second"), sources(operation), strict=False):
        yield TaskOperand(part, access, False)
        if access.copy is not None:
            yield TaskOperand(part, access.copy, True, True)
    yield TaskOperand("result", operation.result, True)
    if operation.result.copy is not None:
        yield TaskOperand("result", operation.result.copy, True, True)
