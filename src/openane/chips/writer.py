"""What an encoder is told of a task, put where a generation has it: the counterpart of `reader`.

Emission names fields as H13 does. A `Writer` renames them, says which register runs a task has, and where the whole
numbers go that differ between tasks that are alike otherwise: addresses, and a task's place in its program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.stream import Places, StreamFormat, WordLayout
from openane.record_classes import dataclass
from openane.registers import Fields

MOST_DRAFTS = 1 << 10
"""Tasks whose words are remembered."""

class Writer(Protocol):
    """How a generation writes tasks."""

    @property
    def format(self) -> StreamFormat:
        """The layout of its task descriptors."""
        ...

    def links(self, fields: TaskFields) -> tuple[str, ...]:
        """The fields of a task that say its place in its program, called as the generation does."""
        ...

    def task(self, values: Fields, rest: Mapping[str, int], layout: str, numbers: Sequence[str] = (), *,
             first: bool = False, last: bool = False) -> TaskFields:
        """A task with these fields, called as in H13, in a container layout; `numbers` are fields whose values come
        later, `first` and `last`: it is the program's.
        Fields of registers that it does not write are left out."""
        ...

    def numbers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Where whole numbers called so go: several fields for one that is stated in parts."""
        ...

    def parts(self, names: Sequence[str], numbers: Sequence[int]) -> Sequence[int]:
        """The values of the fields that `numbers` gives for numbers called so."""
        ...

    def link(self, bodies: Iterable[TaskBody], layout: str) -> tuple[EmittedTask, ...]:
        """The tasks of a program one after another, each with its place in it."""
        ...


class CommonTask:
    """What tasks alike have in common: all fields but the whole numbers `names`; encoded when first asked for."""

    def __init__(self, writer: Writer, fields: TaskFields, names: Sequence[str]) -> None:
        self._writer, self._fields, self._given = writer, fields, tuple(names)
        self.links = writer.links(fields)
        self._names = (*writer.numbers(names), *self.links)
        self._form = writer.format.form(fields)
        self._draft: Sequence[int] | None = None
        self._places: Places = ()

    @property
    def form(self) -> WordLayout:
        """Where its words lie."""
        return self._form

    @property
    def size(self) -> int:
        """Words of a task."""
        return len(self._form.words)

    def completed(self, numbers: Sequence[int], links: Sequence[int]) -> tuple[int, ...]:
        """The words of a task with these numbers, and with these for its `links`."""
        if self._draft is None:
            self._draft = _draft_once(self._writer.format, self._form, self._fields)
            self._places = self._writer.format.places(self._form, self._names)
        values = (*self._writer.parts(self._given, numbers), *links)
        return self._writer.format.completed(self._draft, self._places, values)


def _draft_once(form: StreamFormat, layout: WordLayout, fields: TaskFields) -> list[int]:
    """The words of a task with these fields, remembered: programs that are alike, and the same one compiled again, have
    the same tasks."""
    if fields.rest:
        return form.draft(layout, fields)
    real = tuple([float.hex(value) for value in fields.values.values() if isinstance(value, float)])
    key = fields.records, tuple(fields.values.items()), real  # 0.0 and -0.0 are equal keys
    known = form.drafts.get(key)
    if known is None:
        if len(form.drafts) >= MOST_DRAFTS:
            form.drafts.clear()
        known = form.drafts[key] = form.draft(layout, fields)
    return known


@dataclass(frozen=True, slots=True)
class TaskBody:
    """A task without its place in the program: what it has in common with tasks alike, and its own numbers."""

    common: CommonTask
    numbers: tuple[int, ...]
