"""How long a program takes: its tasks in order, the coefficients of the next brought in under the one that runs.

Rules: tasks run strictly one after the other (M6, measured; a planar task and a matrix task do not overlap); inside a
task all parts are pipelined; the coefficients of task n + 1 are fetched while task n runs; those a core still holds are
not fetched again (chains of layers that share one block of weights run at the array's speed on M3 Ultra, M4, M4 Max).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from openane.chips import Limits, get_chip
from openane.engine import Coefficients, NeuralOperation, Operation
from openane.program import Program
from openane.record_classes import dataclass
from openane.timing.operation import EnginePart, Times, times
from openane.timing.parameters import BELIEVED, TimingParameters
from openane.timing.rates import Rates

PAYLOAD = 1 << 20
"""Bytes per core after which the addresses of the cores' coefficients repeat in the memory's channels (inferred)."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One task: when it starts and ends, in seconds from the program's start, and when its coefficients come in."""

    index: int
    operation: Operation
    times: Times
    start: float
    end: float
    kernel_start: float
    kernel_end: float

    @property
    def seconds(self) -> float:
        """What it adds to the program."""
        return self.end - self.start

    @property
    def bound(self) -> EnginePart:
        """The part of the engine that decides how long it takes."""
        waiting = self.kernel_end >= self.end - self.times.fixed and self.times.parts[EnginePart.KERNEL] > 0
        if waiting:
            return EnginePart.KERNEL
        return max((part for part in EnginePart if part is not EnginePart.KERNEL),
                   key=lambda part: self.times.parts[part])


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """A program on one chip."""

    rates: Rates
    tasks: tuple[TaskTime, ...]

    @property
    def seconds(self) -> float:
        """From the first task's start to the last one's end; dispatch apart."""
        return self.tasks[-1].end if self.tasks else 0.0

    def busy(self, part: EnginePart) -> float:
        """Seconds a part of the engine is busy."""
        return sum(task.times.parts[part] for task in self.tasks)

    def decided(self, part: EnginePart) -> float:
        """Seconds of the tasks that a part decides."""
        return sum(task.seconds for task in self.tasks if task.bound is part)


def operations_of(program: Program, shared: bool = False) -> tuple[Operation, ...]:
    """The engine operations of a program. ProgramError for a task that has no described meaning.

    `shared`: equal coefficients read the same bytes, as in programs of Apple's compiler for layers that share weights;
    ours repeat them.
    """
    chip = get_chip(program.chip)
    operations = [chip.operation(task.words) for task in program.tasks]
    return tuple(_sharing(operations, program) if shared else operations)


def _sharing(operations: Sequence[Operation], program: Program) -> Iterator[Operation]:
    known: dict[bytes, Coefficients] = {}
    for operation in operations:
        if isinstance(operation, NeuralOperation) and operation.coefficients is not None \
                and not operation.coefficients.runtime:
            one = operation.coefficients
            content = b"".join(program.constants_of(section.slot)[offset:offset + size] for section in one.sections
                               for _, offset, size in section.streams)
            operation = replace(operation, coefficients=known.setdefault(sha256(content).digest(), one))
        yield operation


def program_time(program: Program, rates: Rates, parameters: TimingParameters = BELIEVED) -> ProgramTime:
    """How long a program's tasks take on a chip, dispatch and host apart. ProgramError as `operations_of`."""
    return schedule(operations_of(program), rates, parameters)


def schedule(operations: Sequence[Operation], rates: Rates, parameters: TimingParameters = BELIEVED) -> ProgramTime:
    """The same from operations."""
    tasks: list[TaskTime] = []
    free = kernel_free = start_before = 0.0
    held: tuple[object, ...] = ()
    payloads = _payloads(operations, rates.limits)
    for index, operation in enumerate(operations):
        cost = times(operation, rates, parameters)
        if payloads[index] and payloads[index] % PAYLOAD == 0:
            repeated = cost.parts[EnginePart.KERNEL] / rates.repeated_payload
            cost = replace(cost, parts={**cost.parts, EnginePart.KERNEL: repeated})
        wanted = _coefficients(operation, rates.limits)
        if wanted and wanted == held:
            cost = replace(cost, parts={**cost.parts, EnginePart.KERNEL: 0.0})
        held = wanted
        kernel_start = max(kernel_free, start_before)
        kernel_end = kernel_free = kernel_start + cost.parts[EnginePart.KERNEL]
        start = max(free, kernel_start)
        end = max(start + cost.pipelined, kernel_end + cost.fixed)
        tasks.append(TaskTime(index, operation, cost, start, end, kernel_start, kernel_end))
        free, start_before = end, start
    return ProgramTime(rates, tuple(tasks))


def _payloads(operations: Sequence[Operation], limits: Limits) -> list[int]:
    """Bytes of coefficients a core gets of its own for the layer a task is part of: a layer's tasks follow each other
    and read the same source."""
    layers: list[int] = []
    sizes: list[int] = []
    for index, operation in enumerate(operations):
        if not index or not _same_layer(operations[index - 1], operation):
            sizes.append(0)
        layers.append(len(sizes) - 1)
        mine = operation.coefficients if isinstance(operation, NeuralOperation) else None
        if mine is not None:
            common = limits.coefficients.common(mine)
            own = sum(section.streams.total for section in mine.sections if section != common)
            sizes[-1] += own // limits.cores
    return [sizes[layer] for layer in layers]


def _same_layer(first: Operation, other: Operation) -> bool:
    """Whether two tasks that follow each other read one source (the second perhaps the copy the first has kept)."""
    if not isinstance(first, NeuralOperation) or not isinstance(other, NeuralOperation):
        return False
    return other.source in (first.source, first.source.copy)


def _coefficients(operation: Operation, limits: Limits) -> tuple[object, ...]:
    """What tells an operation's coefficients apart; empty when a core cannot hold all of its own."""
    if not isinstance(operation, NeuralOperation) or operation.coefficients is None:
        return ()
    sections = operation.coefficients.sections
    if max((stream.size for section in sections for stream in section.streams), default=0) \
            > limits.lanes.kept:
        return ()
    return sections
