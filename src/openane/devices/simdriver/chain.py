"""The engine's way through a submission: which task descriptors it fetches, from which device addresses.

The first descriptor comes from the bootstrap buffer, every later one from where its predecessor's next pointer leads,
relative to the base-address slot the predecessor names. How many words the first has and how many tasks there are is
stated by one word the driver writes into the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openane.chips import Chip, driver_generation, get_chip
from openane.chips.tables import uint
from openane.devices.linux.interface import COMMAND_CHANNEL, COMMAND_GRANULE, CONSTANT_CHANNEL, Submit
from openane.devices.simdriver.reports import FaultReport, ReportKind
from openane.devices.simdriver.space import AddressSpace, SimulatedBufferObject
from openane.engine import Operation
from openane.errors import AneError, ProgramError
from openane.record_classes import dataclass
from openane.registers import Register
from openane.rounding import round_up
from openane.simulator.variation import STANDARD, Variation

"""The only generation the driver knows."""
WORD = 4
TASK_BASE, NETWORK = "Header.Bases.TBase", "Header.Task.NID"

SIZE_WORD = Register("Size", 0, (
    uint("Tasks", 15, 0, doc="the driver does not check that the number fits"),
    uint("Words", 24, 16, minus=1, doc="of the first task"),
), doc="The queue's size word")


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission whose handles are known: the buffer objects bound to the 32 channels, and the one the first task is
    fetched from."""

    client: int
    request: Submit
    channels: tuple[SimulatedBufferObject | None, ...]
    bootstrap: SimulatedBufferObject

    @property
    def commands(self) -> SimulatedBufferObject:
        """The buffer object with the tasks and the constants."""
        item = self.channels[COMMAND_CHANNEL]
        assert item is not None
        return item

    @property
    def constants(self) -> int:
        """Bytes from the start of the commands to the constants, as the driver computes it."""
        return round_up(self.request.text_size, COMMAND_GRANULE)

    def base(self, slot: int) -> int:
        """Device address of a base-address slot; 0 where nothing is bound (inferred)."""
        if slot == CONSTANT_CHANNEL:
            return self.commands.address + self.constants
        item = self.bound(slot)
        return 0 if item is None else item.address

    def bound(self, slot: int) -> SimulatedBufferObject | None:
        """The buffer object behind a base-address slot, if any."""
        return self.channels[COMMAND_CHANNEL if slot == CONSTANT_CHANNEL else slot]

    def fault(self, kind: ReportKind, text: str, task: int | None = None,
              address: int | None = None) -> SubmissionFault:
        """A report about this submission, to raise."""
        return SubmissionFault(FaultReport(kind, self.client, text, task, address=address))


class SubmissionFault(AneError):
    """A submission cannot go on; caught inside this package."""

    def __init__(self, report: FaultReport) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True, slots=True)
class Fetched:
    """A task as the engine fetched it: where its words lay, and what they mean. Offsets of `operation` are relative to
    its slots, `network` is the number of the network it belongs to."""

    address: int
    size: int
    operation: Operation
    network: int


def queue_word(request: Submit) -> tuple[int, int]:
    """(words of the first task, number of tasks) that reach the engine: the driver puts both into one word without
    checking that they fit."""
    words = (request.first_task_size // WORD - 1) * 0x10000 % 0x1_0000_0000
    values, _ = SIZE_WORD.decode(words | request.task_count)
    return int(values["Words"]), int(values["Tasks"])


def driver_chip() -> Chip:
    """The generation of the engine behind the driver."""
    return get_chip(driver_generation())


def fetch(space: AddressSpace, submission: Submission, *, strict: bool,
          variation: Variation = STANDARD) -> Iterator[Fetched]:
    """The tasks in the order of execution. SubmissionFault when one cannot be fetched or has no described meaning, when
    the chain ends before the number of tasks is reached, comes back to a task or has none (inferred: the engine would
    not end); `strict`: also when a descriptor is not inside the buffer it is fetched from.

    `variation` is how the engine takes their fields. What the engine does when the chain is longer than the stated
    number is not known; here it stops.
    """
    chip = driver_chip()
    words, count = queue_word(submission.request)
    address = submission.bootstrap.address
    source: SimulatedBufferObject | None = submission.bootstrap
    if not count:
        raise submission.fault(ReportKind.CHAIN,
                               f"of the number of tasks, {submission.request.task_count}, the queue keeps "
                                                 "16 bits, which say 0")
    seen: set[int] = set()
    for index in range(count):
        if address in seen:
            raise submission.fault(ReportKind.CHAIN, f"the chain of tasks comes back to {address:#x}", index, address)
        seen.add(address)
        if strict:
            _require_inside(submission, source, address, address + words * WORD, index)
        descriptor = _words(space, submission, address, words, index)
        try:
            operation = chip.operation(variation.fields(descriptor, chip))
            offset, following, slot = _next(descriptor)
        except ProgramError as error:
            raise submission.fault(ReportKind.DESCRIPTOR, str(error), index, address) from None
        yield Fetched(address, words * WORD, operation, int(chip.decode(descriptor).values[NETWORK]))
        if not following and index + 1 < count:
            raise submission.fault(ReportKind.CHAIN, f"the chain of tasks ends; the submission says there are {count}",
                                   index)
        address, words = submission.base(slot) + offset, following
        source = submission.bound(slot)


def _words(space: AddressSpace, submission: Submission, address: int, count: int, index: int) -> list[int]:
    hole = space.unmapped(address, address + count * WORD)
    if hole is not None:
        raise submission.fault(ReportKind.UNMAPPED, f"its descriptor reaches {hole:#x}, where nothing is mapped", index,
                               hole)
    start = address - space.base
    words: list[int] = np.frombuffer(space.bytes[start:start + count * WORD].tobytes(), "<u4").tolist()
    return words


def _next(words: Sequence[int]) -> tuple[int, int, int]:
    """(offset, words, base-address slot) of the next task; zeros at the end. ProgramError for a pointer without a slot:
    whether the engine would take it for an absolute address is not known."""
    chip = driver_chip()
    offset, size = chip.next_task(words)
    if not size:
        return 0, 0, 0
    values = chip.decode(words).values
    if not values[f"{TASK_BASE}En"]:
        raise ProgramError("the next task's offset is relative to a slot that is not enabled", register="Header.Bases",
                           field="TBase")
    return offset, size, int(values[TASK_BASE])


def _require_inside(submission: Submission, source: SimulatedBufferObject | None, low: int, high: int,
                    index: int) -> None:
    if source is None:
        raise submission.fault(ReportKind.UNBOUND, "is fetched through a slot to which no buffer is bound", index, low)
    end = source.address + source.size
    if not source.address <= low <= high <= end:
        beyond = max(source.address - low, high - end)
        raise SubmissionFault(FaultReport(ReportKind.BOUNDS, submission.client,
                                          f"its descriptor of {high - low} bytes lies {beyond} "
                                          f"bytes outside {source}", index, "descriptor", low, source.handle, beyond))
