"""The comparison itself: tasks aligned, then compared by engine operation and by register field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from openane.chips import Chip, TaskFields, get_chip
from openane.errors import AneError, ProgramError
from openane.program.diff.align import AlignedTask, align, view
from openane.program.diff.attributes import changes
from openane.program.diff.constants import Pairing, compare
from openane.program.diff.records import AttributeChange, BufferChange, Diff, FieldChange, TaskChange
from openane.program.listing import slot_names, summary
from openane.program.listing.tasks import bank_of, block_of
from openane.program.model import Buffer, Program, Task
from openane.registers import Value

MOST_TRIALS = 2000  # fields tried one at a time to find out which property each one decides


def diff(a: Program, b: Program) -> Diff:
    """Everything that differs between two programs: generation, name, tasks, buffers, constants.

    Tasks are aligned by what they do, so that an inserted task is reported as inserted. UnsupportedError when a
    generation is not described.
    """
    buffers = tuple(_buffers(a, b))
    names = None if a.name == b.name else (a.name, b.name)
    if a.chip != b.chip:
        return Diff((a.chip, b.chip), buffers=buffers, names=names)
    comparison = _Comparison(get_chip(a.chip), a, b)
    tasks = tuple(comparison.tasks())
    return Diff(None, tasks, buffers, tuple(compare(a, b, comparison.pairings())), names)


class _Comparison:
    """Two programs of one generation."""

    def __init__(self, chip: Chip, a: Program, b: Program) -> None:
        self._chip, self._trials = chip, 0
        self._a, self._b = [view(chip, t) for t in a.tasks], [view(chip, t) for t in b.tasks]
        self._names = slot_names(a.slots, a.buffers), slot_names(b.slots, b.buffers)
        self._pairs = align(self._a, self._b)

    def pairings(self) -> list[Pairing]:
        """Per task of the second program: number, operation before and after."""
        return [(j, None if i is None else self._a[i].operation, self._b[j].operation)
                for i, j in self._pairs if j is not None]

    def tasks(self) -> Iterator[TaskChange]:
        """The tasks that differ."""
        for i, j in self._pairs:
            before, after = None if i is None else self._a[i].task, None if j is None else self._b[j].task
            texts = (self._text(before, 0), self._text(after, 1))
            sizes = (len(before.words) if before else 0, len(after.words) if after else 0)
            if before is None or after is None or i is None or j is None:
                yield TaskChange(i, j, texts, sizes)
            elif before.words != after.words or before.offset != after.offset:
                fields, attributes = self._changed(self._a[i], self._b[j])
                if before.offset != after.offset:
                    attributes = [AttributeChange("place in the text", before.offset, after.offset, "bytes"),
                                  *attributes]
                yield TaskChange(i, j, texts, sizes, tuple(attributes), tuple(fields))

    def _text(self, task: Task | None, side: int) -> str:
        return "" if task is None else summary(self._chip, task, self._names[side])

    def _changed(self, a: AlignedTask, b: AlignedTask) -> tuple[list[FieldChange], list[AttributeChange]]:
        try:
            old, new = self._chip.decode(a.task.words), self._chip.decode(b.task.words)
        except ProgramError:
            return list(_words(a.task, b.task)), changes(a.operation, b.operation)
        fields = [*_fields(self._chip, old, new), *_records(old, new)]
        return fields, self._explained(changes(a.operation, b.operation), a, old, fields)

    def _explained(self, attributes: list[AttributeChange], a: AlignedTask, old: TaskFields,
                   fields: list[FieldChange]) -> list[AttributeChange]:
        """The changes with the fields that make them: each changed field is applied alone to the task before."""
        wanted = {c.name for c in attributes}
        makers: dict[str, list[str]] = {}
        for field in fields:
            if not wanted or self._trials >= MOST_TRIALS:
                break
            if field.after is None or field.name not in old.values:
                continue
            self._trials += 1
            try:
                words = self._chip.encode(replace(old, values={**old.values, field.name: field.after}))
                alone = changes(a.operation, self._chip.operation(words))
            except AneError:
                continue
            for change in alone:
                makers.setdefault(change.name, []).append(field.name)
        return [replace(c, fields=tuple(makers.get(c.name, ()))) for c in attributes]


def _fields(chip: Chip, old: TaskFields, new: TaskFields) -> Iterator[FieldChange]:
    """Fields and undescribed bits that differ, in stream order."""
    for name in dict.fromkeys((*old.values, *new.values)):
        was, becomes = old.values.get(name), new.values.get(name)
        if repr(was) != repr(becomes):
            address, _, field = bank_of(chip, block_of(name)).locate(name)
            yield FieldChange(name, was, becomes, address, field.bits)
    for name in dict.fromkeys((*old.rest, *new.rest)):
        bits, others = old.rest.get(name, 0), new.rest.get(name, 0)
        if bits != others:
            bank = bank_of(chip, block_of(name))
            address = int(name[1:], 16) if name.startswith("@") else bank.by_name[name][0]
            yield FieldChange(name, bits, others, address, "rest")


def _records(old: TaskFields, new: TaskFields) -> Iterator[FieldChange]:
    if old.records != new.records:
        texts: list[Value] = [" ".join(f"{a:#x} x{n}" for a, n in side.records) for side in (old, new)]
        yield FieldChange("records", texts[0], texts[1], 0, "the register runs")


def _words(a: Task, b: Task) -> Iterator[FieldChange]:
    """Words that differ, for tasks whose fields cannot be told."""
    for i in range(max(len(a.words), len(b.words))):
        was, becomes = (t.words[i] if i < len(t.words) else None for t in (a, b))
        if was != becomes:
            yield FieldChange(f"word {i}", was, becomes, 4 * i, "[31:0]")


def _buffers(a: Program, b: Program) -> Iterator[BufferChange]:
    """Buffers that differ, by name."""
    old, new = {x.name: x for x in a.buffers}, {x.name: x for x in b.buffers}
    for name in dict.fromkeys((*old, *new)):
        was, becomes = old.get(name), new.get(name)
        if was is None or becomes is None:
            yield BufferChange(name, "buffer", _text(was), _text(becomes))
            continue
        for what in ("role", "slot", "size", "layout"):
            before, after = getattr(was, what), getattr(becomes, what)
            if before == after:
                continue
            if what == "layout" and before is not None and after is not None:
                for part in ("shape", "strides", "dtype", "interleave"):
                    x, y = getattr(before, part), getattr(after, part)
                    if x != y:
                        yield BufferChange(name, part, _plain(x), _plain(y))
            else:
                yield BufferChange(name, what, str(before), str(after))


def _text(buffer: Buffer | None) -> str | None:
    return None if buffer is None else f"{buffer.role}, slot {buffer.slot}, {buffer.size} bytes"


def _plain(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
