"""The tasks of a profile by the operation of the model they belong to, and how data flows between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from openane.engine import Access, NeuralOperation, Operation, PassThrough, Post, Space, sources
from openane.ops import all_ops
from openane.ops.spec import Op
from openane.program import Role
from openane.record_classes import dataclass
from openane.report.explain.model import Change, Place
from openane.report.profile import Profile, Row


@dataclass(frozen=True, slots=True)
class ProfiledTask:
    """One task: its row of the profile, its operation, and where it is."""

    place: Place
    row: Row
    operation: Operation

    @property
    def reads(self) -> tuple[Access, ...]:
        """Its operands."""
        return sources(self.operation)

    @property
    def copies_only(self) -> bool:
        """Whether it copies elements and does nothing else."""
        operation = self.operation
        return isinstance(operation, PassThrough) and operation.post == Post() and not operation.input_relu


@dataclass(frozen=True, slots=True)
class ProfiledLayer:
    """The tasks of one operation of the model, in order; `kind` is the operation's type where that is known."""

    subject: str
    kind: str
    tasks: tuple[ProfiledTask, ...]

    @property
    def record(self) -> Op | None:
        """What is known of the operation, where its type is one that is described."""
        return all_ops().get(self.kind)

    def changed(self, change: Change, tasks: Sequence[ProfiledTask] | None = None) -> dict[Place, Change]:
        """The same change for some of its tasks, or all."""
        return {task.place: change for task in (self.tasks if tasks is None else tasks)}


Written = dict[tuple[int, Space, int], list[tuple[Access, ProfiledTask]]]
"""Results that are not overwritten, in order, by program, space and buffer."""


class ProfiledLayers:
    """A profile's layers. `producers` and `readers` say which tasks write what a task reads, and the other way."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.tasks = {(row.program, row.task): ProfiledTask((row.program, row.task), row,
                                                            profile.programs[row.program].tasks[row.task].operation)
                      for row in profile.rows}
        self._roles = [{buffer.slot: buffer.role for buffer in program.buffers}
                       for program in profile.subject.programs]

    def __iter__(self) -> Iterator[ProfiledLayer]:
        return iter(self.layers)

    @cached_property
    def layers(self) -> tuple[ProfiledLayer, ...]:
        """In the order of their first tasks; a task whose operation is not known is a layer of its own."""
        found: dict[tuple[int, str], list[ProfiledTask]] = {}
        for task in self.tasks.values():
            row = task.row
            found.setdefault((row.program, row.node or f"task {row.task} ({row.operation})"), []).append(task)
        return tuple(ProfiledLayer(name, name.partition(" ")[0] if tasks[0].row.node else "", tuple(tasks))
                     for (_, name), tasks in found.items())

    def role(self, place: Place, access: Access) -> Role | None:
        """What the buffer of a memory access is for; None for constants and L2."""
        return self._roles[place[0]].get(access.slot) if access.space is Space.MEMORY else None

    def constant(self, place: Place, access: Access) -> bool:
        """Whether an operand is part of the program."""
        return access.space is Space.MEMORY and self.role(place, access) is None

    @property
    def producers(self) -> dict[Place, dict[int, ProfiledTask]]:
        """By task: the last task before it that wrote some of its operand, by the operand's number."""
        return self._flow[0]

    @property
    def _weights(self) -> set[Place]:
        return self._flow[1]

    @cached_property
    def _flow(self) -> tuple[dict[Place, dict[int, ProfiledTask]], set[Place]]:
        """Producers, and the tasks whose results are weights of a product."""
        found: dict[Place, dict[int, ProfiledTask]] = {}
        weights: set[Place] = set()
        written: Written = {}
        for task in self.tasks.values():
            found[task.place] = dict(self._sources(task, written))
            weights.update(_makers_of_weights(task, written))
            results = (task.operation.result, task.operation.result.copy, *(a.copy for a in task.reads))
            for access in (access for access in results if access is not None):
                known = written.get(_where(task, access), ())
                written[_where(task, access)] = [*(old for old in known if not _covers(access, old[0])),
                                                 (access, task)]
        return found, weights

    @cached_property
    def readers(self) -> dict[Place, list[ProfiledTask]]:
        """By task: those that read what it wrote."""
        found: dict[Place, list[ProfiledTask]] = {place: [] for place in self.tasks}
        for place, known in self.producers.items():
            for producer in known.values():
                found[producer.place].append(self.tasks[place])
        return found

    def becomes_weights(self, task: ProfiledTask) -> bool:
        """Whether a product reads a task's result as its weights, which come from memory."""
        return task.place in self._weights

    def _sources(self, task: ProfiledTask, written: Written) -> Iterator[tuple[int, ProfiledTask]]:
        for number, access in enumerate(task.reads):
            if self.constant(task.place, access) or self.role(task.place, access) is Role.INPUT:
                continue
            made = written.get(_where(task, access), ())
            known = next((maker for result, maker in reversed(made) if _meet(result, access)), None)
            if known is not None:
                yield number, known


def _makers_of_weights(task: ProfiledTask, written: Written) -> Iterator[Place]:
    operation = task.operation
    given = operation.coefficients if isinstance(operation, NeuralOperation) else None
    if given is not None and given.runtime:
        for section in given.sections:
            for result, maker in written.get((task.place[0], Space.MEMORY, section.slot), ()):
                if result.span[0] < section.streams.end and section.streams.start < result.span[1]:
                    yield maker.place


def _where(task: ProfiledTask, access: Access) -> tuple[int, Space, int]:
    """The bytes an access is of: a program's L2 or one of its buffers."""
    return task.place[0], access.space, access.slot if access.space is Space.MEMORY else 0


def _meet(made: Access, read: Access) -> bool:
    """Whether two accesses of the same bytes share any; what is chained is read by the next task."""
    return made.space is Space.CHAIN or (made.span[0] < read.span[1] and read.span[0] < made.span[1])


def _covers(new: Access, old: Access) -> bool:
    """Whether nothing of an older result can be left."""
    return new.space is Space.CHAIN or (new.span[0] <= old.span[0] and old.span[1] <= new.span[1])


def weighted(operation: Operation) -> bool:
    """Whether an operation multiplies by weights of the program."""
    given = operation.coefficients if isinstance(operation, NeuralOperation) else None
    return given is not None and given.weights is not None and not given.runtime
