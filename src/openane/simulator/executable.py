"""Loads a program and runs it. Every task is prepared once, and then executed as often as the program is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from openane.chips import Chip, get_chip
from openane.chips.coefficients import HALFWORD
from openane.engine import Access, NeuralOperation, Operation, PlanarOperation, Space, multiplications
from openane.errors import ProgramError, SimulationError
from openane.machine_code.patience import patience
from openane.program import Buffer, Constants, Program
from openane.program.patch import ByteRange, meets
from openane.program.verify import Verified
from openane.record_classes import dataclass
from openane.simulator import kernels, neural_engine, planar_engine
from openane.simulator.arithmetic import Mode, SumForm
from openane.simulator.calls import PreparedTask
from openane.simulator.context import TaskContext, Workspace
from openane.simulator.memory import ELEMENT, Memory, OperandArray, overlapping
from openane.simulator.report import RunReport, TaskReport
from openane.simulator.sequences import RunStep, Sequences
from openane.simulator.sharing import SharedWeights
from openane.simulator.variation import READS, STANDARD, STORES, SUMS, Variation

Seen = Callable[[int, np.ndarray], None]
"""Shown a task's number and the raw elements of its result [N, C, D, H, W] (fp16 as uint16); they do not stay."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    sources: tuple[OperandArray, ...]
    step: RunStep
    result: OperandArray


class LoadedProgram:
    """A program in simulated memory. `buffers` maps names to uint8 arrays, which keep their contents between runs."""

    def __init__(self, operations: Sequence[Operation], memory: Memory, arithmetic: Mode, chip: Chip,
                 weights: SharedWeights | None = None, variation: Variation = STANDARD,
                 verified: bool = False) -> None:
        """`chip` decides which rules of the arithmetic hold, see `simulator.rules`; programs with the same `weights`
        hold equal ones once; `variation` says how the engine differs from the one that is believed in. The weights of a
        `verified` program, which mean something, are unpacked when it is run first."""
        self._chip = variation.chip(chip)
        self._variation = variation
        self.operations = tuple(map(variation.operation, operations))
        self.memory = memory
        self._arithmetic = Mode.FAST if variation.float32 else arithmetic
        products = [*map(multiplications, self.operations)]
        self._form, self._products = SumForm.choose(arithmetic, products), sum(products)
        self._workspace = Workspace(weights, sum(n for n in products if self._arithmetic.choose(n) is Mode.FAST))
        self._owns_constants, self.unpacked, self._spent = False, False, 0.0
        self._tasks = self._prepare_all()
        if not verified:
            self._unpack()

    def _unpack(self) -> None:
        """Reads the weights that were not read yet."""
        if self.unpacked:
            return
        patience().unpacker(self.memory.constant_size // HALFWORD)  # so many: the loop is brought before the first
        with np.errstate(all="ignore"):
            for each in self._tasks:
                if isinstance(each.step.task, neural_engine.WeightedTask):
                    each.step.task.ready()
        self.unpacked = True

    def _prepare_all(self) -> list[_Prepared]:
        tasks: list[_Prepared] = []
        chained: OperandArray | None = None
        for index, operation in enumerate(self.operations):
            tasks.append(self._prepare(index, operation, chained))
            chained = tasks[-1].result if operation.result.space is Space.CHAIN else None
        if chained is not None:
            raise SimulationError(f"task {len(tasks) - 1} hands its result to a next task, but is the last one")
        return self._linked(tasks)

    def _linked(self, tasks: list[_Prepared]) -> list[_Prepared]:
        """Tells tasks which one is executed just before them, where nothing else moves elements in between."""
        before: PreparedTask | None = None
        for step in () if self._variation.computes else [each.step for each in tasks]:
            if isinstance(step.task, neural_engine.WeightedTask):
                step.task.follow(None if step.loads else before)
            before = None if step.stores else step.task
        self._sequences = Sequences([each.step for each in tasks], self._workspace)
        return tasks

    @property
    def buffers(self) -> dict[str, np.ndarray]:
        """Bytes of every buffer by name."""
        return self.memory.buffers

    def bind(self, name: str, store: np.ndarray) -> None:
        """Puts other memory (uint8, one-dimensional, as large as the buffer or larger) behind a buffer."""
        self.memory.bind(name, store)
        self._tasks, self.unpacked = self._prepare_all(), False

    def write_constants(self, data: Constants, ranges: Sequence[ByteRange]) -> None:
        """Puts the bytes `ranges` (ascending) of `data`, which is as large as the constants, in their places. Only the
        tasks that read some of them are prepared again.

        SimulationError or ProgramError when a task can make nothing of them; then nothing has changed.
        """
        owned = self._owns_constants
        store, new = self.memory.constants, np.frombuffer(data, np.uint8)
        if not owned:  # views of the memory before become views of the copy
            self._prepare_again(self._reads_constants)
            self._owns_constants = True
        kept = [store[low:high].copy() for low, high in ranges]
        try:
            for low, high in ranges:
                store[low:high] = new[low:high]
            self.reload(ranges)
        except BaseException:
            for (low, high), before in zip(ranges, kept, strict=True):
                store[low:high] = before
            self.reload(ranges)
            raise

    def reload(self, ranges: Sequence[ByteRange]) -> None:
        """Makes the tasks with coefficients in these bytes (ascending) of the constants' memory take what is there now.
        SimulationError or ProgramError when one can make nothing of it."""
        others = set[int]()
        met = [index for index, (low, high) in self._coefficients.items() if meets(ranges, low, high)]
        if met:
            self._sequences.forget()
        with np.errstate(all="ignore"):
            for index in met:
                task = self._tasks[index].step.task
                if isinstance(task, neural_engine.WeightedTask):
                    task.reload()
                else:
                    others.add(id(self.operations[index]))
        if others:
            self._prepare_again(lambda operation: id(operation) in others)

    @cached_property
    def _coefficients(self) -> dict[int, ByteRange]:
        """By task the bytes of the constants' memory from the first to the last of its coefficients."""
        found = {}
        for index, operation in enumerate(self.operations):
            held = operation.coefficients if isinstance(operation, NeuralOperation) else None
            constant = [(self.memory.ranges[section.slot][0], section.streams)
                        for section in (held.sections if held is not None else ())
                        if section.slot in self.memory.ranges and section.streams]
            if constant:
                found[index] = (min(first + each.start for first, each in constant),
                                max(first + each.end for first, each in constant))
        return found

    def _reads_constants(self, operation: Operation) -> bool:
        """Whether a source, other than coefficients, is a view of the constants."""
        return any(access.space is Space.MEMORY and access.slot in self.memory.ranges
                   for access in _named_sources(operation).values())

    def _prepare_again(self, wanted: Callable[[Operation], bool]) -> None:
        """Prepares the tasks of some operations anew, and those after them that are handed their results."""
        tasks = list(self._tasks)
        chained: OperandArray | None = None
        moved = False
        for index, operation in enumerate(self.operations):
            moved = moved or wanted(operation)
            if moved:
                tasks[index] = self._prepare(index, operation, chained)
            chained = tasks[index].result if operation.result.space is Space.CHAIN else None
            moved = moved and chained is not None
        self._tasks = self._linked(tasks)

    def run(self, buffers: Mapping[str, np.ndarray | bytes] | None = None, seen: Seen | None = None) -> RunReport:
        """Copies `buffers` in (bytes from each buffer's start), runs every task, and reports.

        Results are then in `self.buffers`. `seen` is shown every task's result as it is stored. SimulationError when a
        name or size does not fit.
        """
        self.memory.fill(buffers or {})
        if self._workspace.kernels is None and kernels.worth(self._spent, self._products):
            self._workspace.kernels = kernels.kernels()
        self._unpack()
        self._workspace.held = None
        tasks: Sequence[TaskReport] | None = None
        start = time.perf_counter()
        with np.errstate(all="ignore"), self._workspace.shared():
            if self._variation.computes:
                self._run_varied()
            elif seen is None:
                tasks = self._sequences.run()
            else:
                for index, each in enumerate(self._tasks):
                    each.step.execute()
                    seen(index, each.result.array)
        seconds = time.perf_counter() - start
        self._spent += seconds
        if tasks is None:
            tasks = tuple(each.step.report.numbered(index) for index, each in enumerate(self._tasks))
        return RunReport(tasks, seconds)

    def _run_varied(self) -> None:
        """The tasks on an engine that reads, stores or orders otherwise. A result that comes late is kept aside until
        the next task has read its sources."""
        late: tuple[OperandArray, np.ndarray] | None = None
        for task in self._tasks:
            task.step.report.reset()
            for source in task.sources:
                source.load()
                for rule in self._variation.read:
                    if source.array.dtype == np.uint16:
                        source.array[...] = READS[rule](source.array)
            if late is not None:
                late[0].array[...] = late[1]
                late[0].store()
            before = task.result.array.copy() if self._variation.race else None
            task.step.task.execute()
            for rule in self._variation.store:
                if task.result.array.dtype == np.uint16:
                    task.result.array[...] = STORES[rule](task.result.array)
            late = None
            if before is not None and task is not self._tasks[-1]:
                late = task.result, task.result.array.copy()
                task.result.array[...] = before
            task.result.store()

    def _prepare(self, index: int, operation: Operation, chained: OperandArray | None) -> _Prepared:
        name = type(operation).__name__
        what = f"task {index} ({name})"
        report = TaskReport(index, name)
        accesses = _named_sources(operation)
        sources = tuple(self._source(access, f"{what} {role}", chained) for role, access in accesses.items())
        result = self._result(operation.result, f"{what} result")
        overlaps = [overlapping(access, operation.result) for access in accesses.values()]
        for source, access, over in zip(sources, accesses.values(), overlaps, strict=True):
            if over or (self._variation.detaches and access.space is not Space.CHAIN):
                source.detach()
        context = TaskContext(self.memory, self._workspace, self._arithmetic, report, what, self._chip, self._form,
                              SUMS.get(self._variation.sums))
        with np.errstate(all="ignore"):
            if isinstance(operation, NeuralOperation):
                task: PreparedTask = neural_engine.prepare(operation, sources[0], result, context)
            elif isinstance(operation, PlanarOperation):
                second = sources[1] if len(sources) > 1 else None
                task = planar_engine.prepare(operation, sources[0], second, result, context)
            else:
                raise SimulationError(f"{what} is not an engine operation")
        moves = tuple(source.load for source in sources if source.apart), (result.store,) if result.apart else ()
        return _Prepared(sources, RunStep(task, report, *moves, repeatable=not any(overlaps)), result)

    def _source(self, access: Access, what: str, chained: OperandArray | None) -> OperandArray:
        if access.space is not Space.CHAIN:
            return self.memory.operand(access, what, writes=False)
        if chained is None:
            raise SimulationError(f"{what} is handed over by the task before it, which does not hand anything over")
        if chained.array.shape != access.shape or chained.array.dtype != ELEMENT[access.dtype]:
            raise SimulationError(f"{what} expects {access.shape} {access.dtype} from the task before it, which hands "
                                  f"over {chained.array.shape} {chained.array.dtype}")
        return chained

    def _result(self, access: Access, what: str) -> OperandArray:
        if access.space is not Space.CHAIN:
            return self.memory.operand(access, what, writes=True)
        if access.elements * access.dtype.size > self.memory.total_size:
            raise SimulationError(f"{what} hands over {access.elements} elements, more than all buffers hold")
        operand = OperandArray(np.zeros(access.shape, ELEMENT[access.dtype]))
        if access.copy is not None:
            operand.copies.append(self.memory.operand(access.copy, f"{what} (copy)", writes=True))
        return operand


def load(program: Program | Verified, arithmetic: str = "auto", stores: Mapping[str, np.ndarray] | None = None,
         weights: SharedWeights | None = None, variation: Variation = STANDARD) -> LoadedProgram:
    """Prepares a program; the tasks of one that was verified are decoded already. `arithmetic` is `exact`, `fast` or
    `auto`; `stores` is memory to use for buffers, by name; programs loaded with the same `weights` hold equal ones
    once; `variation` is how the engine differs from the one that is believed in.

    SimulationError names the task and operand of an access outside its buffer; ProgramError a task whose words have
    no described meaning; UnsupportedError an unknown chip.
    """
    mode = Mode.of(arithmetic)
    known = isinstance(program, Verified) and not variation.take
    operations = program.operations if isinstance(program, Verified) and known else _decoded(
        program.program if isinstance(program, Verified) else program, variation)
    program = program.program if isinstance(program, Verified) else program
    chip = get_chip(program.chip)
    memory = Memory(program.buffers, chip.limits, program.constants, program.text(), l2_reach(operations),
                    program.constant_ranges)
    for name, store in (stores or {}).items():
        memory.bind(name, store)
    return LoadedProgram(operations, memory, mode, chip, weights, variation, known)


def _decoded(program: Program, variation: Variation = STANDARD) -> tuple[Operation, ...]:
    chip, operations = get_chip(program.chip), []
    for index, task in enumerate(program.tasks):
        try:
            operations.append(chip.operation(variation.fields(task.words, chip)))
        except ProgramError as error:
            if error.task is None:
                raise ProgramError(str(error), task=index) from error
            raise
    return tuple(operations)


def load_operations(operations: Sequence[Operation], buffers: Sequence[Buffer], constants: Constants = b"", *,
                    chip: Chip, arithmetic: str = "auto") -> LoadedProgram:
    """The same from engine operations, without task words."""
    memory = Memory(buffers, chip.limits, constants, b"", l2_reach(operations))
    return LoadedProgram(operations, memory, Mode.of(arithmetic), chip)


def l2_reach(operations: Sequence[Operation]) -> int:
    """The byte of L2 up to which the operands of the operations go."""
    accesses = [access for each in operations for access in (*_named_sources(each).values(), each.result)]
    for access in accesses:
        if access.copy is not None:
            accesses.append(access.copy)
    return max([0, *(access.span[1] for access in accesses if access.space is Space.L2)])


def _named_sources(operation: Operation) -> dict[str, Access]:
    if isinstance(operation, NeuralOperation):
        return {"source": operation.source}
    if operation.second is None:
        return {"first": operation.first}
    return {"first": operation.first, "second": operation.second}


