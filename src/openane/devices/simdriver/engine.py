"""The simulated engine behind the driver: prepares submissions, remembers them, and runs them on the clients' memory.

A prepared submission is used again as long as the descriptors it fetched are the same, which are compared each time;
so are the constants its weights come from, and tasks whose weights have changed take them anew.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from openane.chips import Chip
from openane.devices.constants import differing
from openane.devices.linux.interface import BOOTSTRAP_NID, COMMAND_CHANNEL, CONSTANT_CHANNEL
from openane.devices.other_engine import OtherEngine
from openane.devices.simdriver import host
from openane.devices.simdriver.chain import WORD, Fetched, Submission, SubmissionFault, driver_chip, fetch
from openane.devices.simdriver.placing import ANYWHERE, Reach, misplaced, placed, unmapped
from openane.devices.simdriver.reports import DriverError, FaultReport, ReportKind
from openane.devices.simdriver.space import AddressSpace, SimulatedBufferObject
from openane.engine import Operation, Space
from openane.errors import AneError
from openane.program.patch import ByteRange
from openane.record_classes import dataclass
from openane.simulator import LoadedProgram, Mode, RunReport
from openane.simulator.memory import Memory
from openane.simulator.variation import STANDARD

REMEMBERED, REMEMBERED_BYTES = 1024, 1 << 29
"""Prepared submissions that are kept, and bytes of copies they may hold together."""
NEAR = 4096
"""Ranges this close together are compared as one."""


class DeviceMemory(Memory):
    """All of the device's memory behind every slot, and the one L2 all submissions share."""

    def __init__(self, space: AddressSpace, l2: np.ndarray, chip: Chip) -> None:
        super().__init__((), chip.limits, l2_reach=0)
        self.names = dict.fromkeys((COMMAND_CHANNEL, CONSTANT_CHANNEL, ANYWHERE), "device memory")
        self.l2 = l2
        self._space = space

    @property
    def total_size(self) -> int:
        """Bytes that are mapped, and L2."""
        return self._space.used + self.l2.size

    def bytes_of(self, slot: int, what: str) -> np.ndarray:
        """The window. What is not mapped must not be touched."""
        return self._space.bytes


class PreparedSubmission:
    """A submission that can be run again and again, as long as the descriptors it was made from are what they were.
    `touched` is all it reaches."""

    def __init__(self, client: int, loaded: LoadedProgram, commands: Sequence[SourceBytes],
                 weights: Sequence[SourceBytes], touched: frozenset[SimulatedBufferObject]) -> None:
        self.client, self.loaded, self.touched = client, loaded, touched
        self._commands, self._weights = tuple(commands), tuple(weights)
        self.held = sum(origin.copy.size for origin in (*commands, *weights))

    def current(self) -> bool:
        """Whether it can be run on the memory as it is now; weights that changed are taken anew."""
        if not all(origin.unchanged() for origin in self._commands):
            return False
        changed = [part for origin in self._weights if not origin.unchanged() for part in origin.updated()]
        try:
            self.loaded.reload(changed)
        except AneError:  # preparing it anew finds out what is wrong with them
            return False
        return True


@dataclass(frozen=True)
class SourceBytes:
    """Bytes something was made from: where they lie in the device's window and in this process, and what they were."""

    offset: int
    memory: np.ndarray
    copy: np.ndarray

    def unchanged(self) -> bool:
        """Whether they are what they were."""
        return host.same(self.memory.ctypes.data, self.copy.ctypes.data, self.copy.size)

    def updated(self) -> list[ByteRange]:
        """Remembers what they are now; the ranges of the window in which they are others than before."""
        parts = differing(self.copy, self.memory)
        self.copy[:] = self.memory
        return [(self.offset + low, self.offset + high) for low, high in parts]


class SimulatedEngine:
    """Executes submissions one at a time; the driver's lock sees to that."""

    def __init__(self, space: AddressSpace, mode: Mode, tell: Callable[[FaultReport], None], *,
                 strict: bool, other: OtherEngine | None = None) -> None:
        """`tell` takes reports about submissions that are executed all the same; `other` is what the engine is where
        it is not as believed."""
        self.other = other
        self._variation = other.variation if other is not None else STANDARD
        self._space, self._mode, self._strict = space, mode, strict
        self._tell = tell
        self._chip = driver_chip()
        self._l2 = np.zeros(self._chip.limits.l2_size, np.uint8)
        self._prepared: OrderedDict[Hashable, PreparedSubmission] = OrderedDict()
        self.running: frozenset[SimulatedBufferObject] = frozenset()
        self.report = RunReport()

    def _loaded(self, operations: Sequence[Operation]) -> LoadedProgram:
        """The operations in the device's memory, ready to run."""
        return LoadedProgram(operations, DeviceMemory(self._space, self._l2, self._chip), self._mode, self._chip,
                             variation=self._variation)

    def known(self, key: Hashable) -> PreparedSubmission | None:
        """What `key` was last prepared as, when its descriptors have not changed."""
        found = self._prepared.get(key)
        if found is None or not found.current():
            self._prepared.pop(key, None)  # it may hold new weights beside tasks made of old ones
            return None
        self._prepared.move_to_end(key)
        return found

    def take(self, work: Submission | PreparedSubmission) -> None:
        """DriverError for what an engine that is not as believed refuses, when it is new, and for what it fails at."""
        if self.other is None:
            return
        if isinstance(work, Submission):
            request = work.request
            ports = [handle for handle in request.handles[self._chip.limits.slots.first_port:] if handle]
            why = self._variation.refusal({
                "ports": len(ports), "tasks": request.task_count, "text": request.text_size,
                "constants": max(0, work.commands.size - work.constants)})
            if why:
                raise DriverError(errno.EINVAL, f"SUBMIT: {why}")
        if self.other.fails():
            raise DriverError(errno.EIO, "SUBMIT: the run failed")

    def execute(self, prepared: PreparedSubmission) -> None:
        """Executes on the memory as it is now. SubmissionFault when what it computes for itself to use has no
        meaning."""
        self.running = prepared.touched
        try:
            self.report = prepared.loaded.run()
            if self.other is not None:
                self.other.ran(prepared.loaded.operations)
        except AneError as error:  # a table or weights computed by the program that mean nothing
            raise SubmissionFault(FaultReport(ReportKind.DESCRIPTOR, prepared.client, str(error))) from None
        finally:
            self.running = frozenset()

    def prepare(self, key: Hashable, submission: Submission) -> PreparedSubmission:
        """Follows a submission to its tasks and checks where they reach. SubmissionFault when the engine would not
        finish; in faithful mode the tasks before the one at fault are executed first (inferred)."""
        self._prepared.pop(key, None)
        tasks: list[Fetched] = []
        try:
            for index, task in enumerate(fetch(self._space, submission, strict=self._strict,
                                                variation=self._variation)):
                report = self._refusal(task.operation, submission, index)
                if report is not None:
                    raise SubmissionFault(report)
                if self._variation.hangs(task.operation):
                    raise submission.fault(ReportKind.DESCRIPTOR, "the engine does not end such a task", index)
                tasks.append(task)
            self._look_at_bootstrap(tasks[0], submission)
            prepared = self._load(tasks, submission)
        except SubmissionFault:
            if not self._strict:
                self._execute_first(tasks, submission)
            raise
        self._remember(key, prepared)
        return prepared

    def _remember(self, key: Hashable, prepared: PreparedSubmission) -> None:
        self._prepared[key] = prepared
        held = sum(known.held for known in self._prepared.values())
        while len(self._prepared) > 1 and (len(self._prepared) > REMEMBERED or held > REMEMBERED_BYTES):
            held -= self._prepared.popitem(last=False)[1].held

    def forget(self, item: SimulatedBufferObject) -> None:
        """Drops every prepared submission that reaches a buffer object."""
        for key in [key for key, known in self._prepared.items() if item in known.touched]:
            del self._prepared[key]

    def close(self) -> None:
        """Drops everything."""
        self._prepared.clear()

    def _look_at_bootstrap(self, first: Fetched, submission: Submission) -> None:
        """The bootstrap should be a copy of the first task that carries the network number by which the driver starts
        the engine; what happens when it is not is not known."""
        if not self._strict:
            return
        text = ""
        low, high = submission.commands.address + WORD, submission.commands.address + first.size
        if first.network != BOOTSTRAP_NID:
            text = f"its network number is {first.network:#x}, the driver starts {BOOTSTRAP_NID:#x}"
        elif self._space.unmapped(low, high) is not None or not host.same(
                self._space.host_address(first.address + WORD), self._space.host_address(low), high - low):
            text = "the bootstrap is no copy of the first of the commands"
        if text:
            self._tell(FaultReport(ReportKind.BOOTSTRAP, submission.client, text, 0, "descriptor", first.address))

    def _refusal(self, operation: Operation, submission: Submission, index: int) -> FaultReport | None:
        if self._strict:
            report = misplaced(operation, submission, self._space, index)
            if report is not None:
                return report
        return unmapped(operation, submission, self._space, index)

    def _load(self, tasks: Sequence[Fetched], submission: Submission) -> PreparedSubmission:
        fetched = [(task.address, task.address + task.size) for task in tasks]
        reach = Reach.of([task.operation for task in tasks], submission)
        operations = [placed(task.operation, submission, self._space.base, prepared=reach.steady) for task in tasks]
        try:
            loaded = self._loaded(operations)
        except AneError as error:
            raise submission.fault(ReportKind.DESCRIPTOR, str(error)) from None
        items = {item for low, high in (*fetched, *reach.all) for item in self._space.objects_in(low, high)}
        items |= {item for item in (*submission.channels, submission.bootstrap) if item is not None}
        return PreparedSubmission(submission.client, loaded, self._origins(fetched), self._origins(reach.prepared),
                                  frozenset(items))

    def _origins(self, ranges: Sequence[tuple[int, int]]) -> list[SourceBytes]:
        """The bytes of ranges of device addresses, near ranges as one, by address."""
        joined: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if joined and low <= joined[-1][1] + NEAR and self._space.unmapped(joined[-1][0], high) is None:
                joined[-1] = joined[-1][0], max(joined[-1][1], high)
            else:
                joined.append((low, high))
        origin = self._space.base
        return [SourceBytes(low - origin, memory, memory.copy()) for low, high in joined
                for memory in (self._space.bytes[low - origin:high - origin],)]

    def _execute_first(self, tasks: Sequence[Fetched], submission: Submission) -> None:
        """Executes the tasks before one at fault, as far as they hand nothing over to it."""
        operations = [placed(task.operation, submission, self._space.base, prepared=False) for task in tasks]
        while operations and operations[-1].result.space is Space.CHAIN:
            operations.pop()
        try:
            self.report = self._loaded(operations).run()
        except AneError:
            return  # one of them cannot be executed either: the engine would have stopped there
