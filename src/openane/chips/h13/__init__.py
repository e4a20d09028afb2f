"""H13: the engine of A14 and M1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from openane.chips.chip import EmittedTask, Limits, Passage, Rule, Slots, TaskFields
from openane.chips.h13.decode import decode_operation, decode_slots
from openane.chips.emit.program import emit_program, relayout_program
from openane.chips.h13.limits import LIMITS
from openane.chips.emit.passages import PLACES, enabled_slots, passages
from openane.chips.h13.registers import HEADER, HEADER_BANK, STREAM_BANK
from openane.chips.h13.rules import RULES
from openane.chips.h13.stream import FORMAT, FORMS, HEADER_WORDS, decode_task, encode_task
from openane.engine import Operation, Space
from openane.errors import ProgramError
from openane.registers import Bank


@lru_cache(maxsize=16)
def _recent(words: tuple[int, ...]) -> TaskFields:
    """The fields of a task, remembered: a task is asked for its fields, its slots and its operation in turn."""
    return decode_task(words)


class H13:
    """The A14/M1 generation (see chips.Chip for what each method promises)."""

    name: str = "h13"
    header: Bank = HEADER_BANK
    bank: Bank = STREAM_BANK
    limits: Limits = LIMITS
    linked: bool = True
    rules: tuple[Rule, ...] = RULES
    forms: Mapping[str, tuple[tuple[int, int], ...]] = FORMS

    def next_task(self, words: Sequence[int]) -> tuple[int, int]:
        """(byte offset in the text, size in words) of the task after this one; (0, 0) at the end."""
        if len(words) < HEADER_WORDS:
            raise ProgramError(f"a task header has {HEADER_WORDS} words, not {len(words)}")
        pointer, _ = HEADER.register("NextPointer").decode(words[7])
        following, _ = HEADER.register("Next").decode(words[1])
        offset = int(pointer["Offset"])
        return (offset, int(following["NextSize"]) + 1) if offset else (0, 0)

    def task_size(self, words: Sequence[int]) -> int:
        """ProgramError: the task before it states the size of a task."""
        raise ProgramError("a task of h13 does not state its own size; the one before it does")

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """Byte addresses of the registers a task writes, in stream order."""
        return FORMAT.addresses(fields)

    def decode(self, words: Sequence[int]) -> TaskFields:
        """Named fields of a task descriptor."""
        fields = _recent(tuple(words))
        return TaskFields(dict(fields.values), dict(fields.rest), fields.records)

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """The words of a task with these fields."""
        return encode_task(fields)

    def operation(self, words: Sequence[int]) -> Operation:
        """The engine operation of a task."""
        return decode_operation(_recent(tuple(words)))

    def slots(self, words: Sequence[int]) -> Slots:
        """The base-address slots a task names."""
        return decode_slots(_recent(tuple(words)))

    def passages(self, fields: TaskFields) -> tuple[Passage, ...]:
        """The L2 rings of a task's streamed and chained operands."""
        return passages(fields)

    def enabled_slots(self, fields: TaskFields) -> Mapping[str, int]:
        """Every base-address slot a task enables, by the field that names it."""
        return enabled_slots(fields)

    def register(self, part: str, space: Space) -> str:
        """The field that says where an operand lies."""
        return PLACES.get((part, space), part)

    def emit(self, operations: Sequence[Operation], layout: str = "macos26") -> tuple[EmittedTask, ...]:
        """Descriptors of a chain of operations."""
        return emit_program(operations, layout)

    def relayout(self, tasks: Sequence[Sequence[int]], layout: str,
                 slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
        """The same tasks in another container layout, their base-address slots renumbered."""
        return relayout_program(tasks, layout, slots)


CHIP = H13()

__all__ = ["CHIP", "H13"]
