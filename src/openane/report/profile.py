"""Where the time of a model goes on a chip: per task and in sum, every number with what it is.

Counts and bytes of memory are exact: they are read from the program. Bytes moved follow the model's rules (whole
bursts, coefficients still held are not fetched, sources read once a pass). The engine's time is modelled
(`openane.timing`), and extrapolated where the chip's own figures are guessed or the program was planned for another
generation; a call's time is as its figure is known; their sum is as sure as the less sure of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from openane.chips import get_chip
from openane.chips.machines import Figure, Known, find
from openane.engine import NeuralOperation, Space, sources
from openane.record_classes import dataclass
from openane.report.subject import ProfileSubject
from openane.timing import (
    ClockState,
    EnginePart,
    ProgramTime,
    Rates,
    SubmissionRoute,
    TaskTime,
    dispatch,
    program_time,
    rates,
)
from openane.timing.operation import saved
from openane.wording import plural

MULTIPLIERS = 256


class NumberKind(StrEnum):
    """What a number is; the surest first."""

    EXACT = "exact"                # counted in the program
    MEASURED = "measured"          # on a device, in this run
    MODELLED = "modelled"          # by the timing model with known figures of the chip
    EXTRAPOLATED = "extrapolated"  # by the model with figures that are guessed or another generation's


KINDS = {Known.STATED: NumberKind.EXACT, Known.TABLE: NumberKind.EXACT, Known.MEASURED: NumberKind.MEASURED,
         Known.DERIVED: NumberKind.MODELLED, Known.GUESS: NumberKind.EXTRAPOLATED}
MOVED_KIND = NumberKind.MODELLED
"""What bytes moved are: counted by rules of the model."""


def kind_of(figure: Figure) -> NumberKind:
    """What a figure of a chip is, by how it is known."""
    return KINDS[figure.known] if figure.known is not None else NumberKind.EXTRAPOLATED


def weakest(*kinds: NumberKind) -> NumberKind:
    """What a number is that was made of such numbers."""
    return max(kinds, key=list(NumberKind).index)


@dataclass(frozen=True, slots=True)
class Row:
    """One task. Times in seconds from the first program's start; `share` of the engine's time; `utilisation` of the
    part that decides (1: that part at its peak all the time); `kernel_bytes` are fetched, `held_bytes` were fetched for
    the task before and are still in the cores; `products` are multiplications that are left in the Winograd form."""

    program: int
    task: int
    operation: str
    node: str
    engine: str
    bound: EnginePart
    start: float
    seconds: float
    share: float
    utilisation: float
    multiplies: int
    kernel_bytes: int
    tile_bytes: int
    l2_bytes: int
    parts: dict[EnginePart, float]
    l2_high: int
    held_bytes: int
    products: float

    @property
    def memory_bytes(self) -> int:
        """Bytes to and from memory."""
        return self.kernel_bytes + self.tile_bytes


@dataclass(frozen=True, slots=True)
class Profile:
    """A model on a chip. `dispatch` in seconds a call; `asked` is the name the chip was asked for by, `choices` the
    chips it stands for."""

    subject: ProfileSubject
    rates: Rates
    route: SubmissionRoute
    state: ClockState
    programs: tuple[ProgramTime, ...]
    rows: tuple[Row, ...]
    dispatch: float
    engine_kind: NumberKind
    dispatch_kind: NumberKind
    asked: str
    choices: tuple[str, ...]

    @property
    def time_kind(self) -> NumberKind:
        """What the time of an inference is: no surer than the engine's or the calls'."""
        return weakest(self.engine_kind, self.dispatch_kind) if self.dispatch else self.engine_kind

    @property
    def foreign(self) -> bool:
        """Whether the programs were planned for another generation than the chip's."""
        return get_chip(self.subject.target).name != self.rates.generation

    @property
    def without(self) -> str:
        """What the time of an inference leaves out, in words; empty where that is nothing."""
        count = len(self.subject.host)
        return f"without {plural(count, 'host operation')}, whose time is not modelled" if count else ""

    @property
    def engine_seconds(self) -> float:
        """Of all programs, one after the other."""
        return sum(program.seconds for program in self.programs)

    @property
    def seconds(self) -> float:
        """Of one inference, a dispatch per program included."""
        return self.engine_seconds + self.dispatch * len(self.programs)

    @property
    def inferences(self) -> float:
        """A second, one after the other; 0 without work."""
        return 1 / self.seconds if self.seconds else 0.0

    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes moved in one inference: coefficients fetched, operands and results in whole bursts, L2."""
        return {"coefficients": sum(row.kernel_bytes for row in self.rows),
                "operands and results": sum(row.tile_bytes for row in self.rows),
                "L2": sum(row.l2_bytes for row in self.rows)}

    def time_by_engine(self) -> dict[str, float]:
        """Seconds of tasks by the engine that runs them."""
        return self._sums(lambda row: row.engine)

    def time_by_part(self) -> dict[str, float]:
        """Seconds of tasks by the part that decides how long they take."""
        return self._sums(lambda row: str(row.bound))

    def time_by_node(self) -> dict[str, float]:
        """Seconds by operation of the model, longest first; tasks whose operation is not known under their own."""
        found = self._sums(lambda row: row.node or row.operation)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def roofline(self) -> dict[str, float]:
        """Seconds each resource needs at its peak for all the work: what no order of these tasks can undercut."""
        clock, cores = self.rates.clock.value or 1.0, self.rates.cores.value or 1.0
        needed = {str(part): sum(row.parts[part] for row in self.rows) for part in EnginePart}
        return needed | {str(EnginePart.MULTIPLY): sum(row.products
                                                       for row in self.rows) / (clock * cores * MULTIPLIERS),
                         str(EnginePart.KERNEL): self.bytes_by_kind()["coefficients"] / (self.rates.kernel.value
                                                                                         or 1.0)}

    def limit(self) -> tuple[str, float]:
        """The resource that needs longest for all the work at its peak, and its seconds."""
        return max(self.roofline().items(), key=lambda item: item[1])

    def efficiency(self) -> float:
        """The highest of the roofline over the engine's time: 1 is the best these programs could do."""
        return self.limit()[1] / self.engine_seconds if self.engine_seconds else 0.0

    def l2_high(self) -> int:
        """Highest byte of L2 in use."""
        return max((row.l2_high for row in self.rows), default=0)

    def _sums(self, key: Callable[[Row], str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for row in self.rows:
            name = key(row)
            found[name] = found.get(name, 0.0) + row.seconds
        return found


def profile(subject: ProfileSubject, chip: str, route: SubmissionRoute = SubmissionRoute.MACOS,
            state: ClockState = ClockState.FULL) -> Profile:
    """Models one inference on a chip (`m1`) or a machine. UnsupportedError for a name that is not known;
    ProgramError for a task without a described meaning."""
    rate = rates(chip, state)
    programs = tuple(program_time(program, rate) for program in subject.programs)
    busy = [program.seconds for program in programs]
    call = dispatch(rate.chip, route, sum(busy) / len(busy) if busy else 0.0)
    own = get_chip(subject.target).name == rate.generation
    kind = NumberKind.MODELLED if own and not rate.guessed else NumberKind.EXTRAPOLATED
    rows = tuple(_rows(subject, programs, call.value or 0.0, sum(busy) or 1.0))
    return Profile(subject, rate, route, state, programs, rows, call.value or 0.0, kind, kind_of(call), chip,
                   tuple(soc.name for soc in find(chip).chips))


def _rows(subject: ProfileSubject, programs: tuple[ProgramTime, ...], call: float, total: float) -> Iterator[Row]:
    begin = 0.0
    for number, program in enumerate(programs):
        begin += call
        for task in program.tasks:
            yield _row(subject, number, task, begin, total, program.rates.winograd)
        begin += program.seconds


def _row(subject: ProfileSubject, number: int, task: TaskTime, begin: float, total: float, winograd: bool) -> Row:
    asked = task.times.work
    accesses = (*sources(task.operation), task.operation.result)
    accesses += tuple(access.copy for access in accesses if access.copy is not None)
    high = max((access.span[1] for access in accesses if access.space is Space.L2), default=0)
    seconds = task.seconds
    fetched = asked.kernel_bytes if task.times.parts[EnginePart.KERNEL] else 0
    return Row(
        program=number, task=task.index, operation=type(task.operation).__name__,
        node=subject.node(number, task.index),
        engine="neural" if isinstance(task.operation, NeuralOperation) else "planar", bound=task.bound,
        start=begin + task.start, seconds=seconds, share=seconds / total,
        utilisation=min(1.0, task.times.parts[task.bound] / seconds) if seconds else 0.0,
        multiplies=asked.multiplies, kernel_bytes=fetched, tile_bytes=asked.tile_bytes,
        l2_bytes=asked.l2_read + asked.l2_write, parts=dict(task.times.parts), l2_high=high,
        held_bytes=asked.kernel_bytes - fetched,
        products=asked.multiplies * (saved(task.operation) if winograd else 1.0))
