"""Strict execution: follows every byte a program reads and writes, and runs it between guards on poisoned memory.

Two independent looks at one program. The trace enumerates the bytes of every access and keeps what has been written
in plain byte maps; what is read must be there, inside its buffer, in memory of the right role. The run executes the
program twice on memory filled with different patterns between guard zones: outputs that differ show that something
unwritten was read. Assumptions shared with the verifier, for lack of knowledge: writes replace whole 64-byte bursts,
and L2 rings reach as far as the task's registers say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from openane.chips import Chip, get_chip
from openane.engine import (
    Access,
    Convolution,
    Elementwise,
    GainOffset,
    MatrixProduct,
    Operation,
    PassThrough,
    Space,
    sources,
)
from openane.errors import SimulationError
from openane.program import Program, Role
from openane.program.listing import names_of
from openane.record_classes import dataclass
from openane.rounding import ceil_div
from openane.simulator.executable import LoadedProgram, load
from openane.simulator.trace import OperandBytes, positions, reads, writes

GUARD = 1 << 12
GUARD_BYTE = 0xA5
PATTERNS = (0x3C, 0x45)
MEMORY = 1 << 27
"""Bytes of all buffers that are followed."""
WORK = 1 << 25
"""Products a program may need to be run as well as traced."""


@dataclass(frozen=True, slots=True)
class ProgramFault:
    """Something a program does that it must not: the task, what kind of fault, and the details."""

    task: int | None
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{'program' if self.task is None else f'task {self.task}'}: {self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True)
class StrictReport:
    """Faults found, the bytes really read and written (bool per byte, by buffer name, `L2` among them), and whether
    the program was small enough to be run as well."""

    faults: tuple[ProgramFault, ...]
    read: Mapping[str, np.ndarray]
    written: Mapping[str, np.ndarray]
    executed: bool


class _Map:
    """One memory: bytes that hold something, bytes that were read, bytes that were written."""

    def __init__(self, name: str, size: int, filled: bool) -> None:
        self.name, self.size = name, size
        self.holds = np.full(size, filled)
        self.read, self.written = np.zeros(size, bool), np.zeros(size, bool)


def _written_over(operation: Operation) -> list[int | None]:
    """Where the sources lie that an operation may write over as it reads them: slots of memory, None for L2."""
    alike = [a for a in sources(operation) if _pointwise(operation) and _same(a, operation.result)]
    return [a.slot if a.space is Space.MEMORY else None for a in alike]


class _Tracer:
    """Goes through the tasks in order and collects faults."""

    def __init__(self, program: Program, chip: Chip) -> None:
        self._chip, self._program, self._slots = chip, program, chip.limits.slots
        self._constants = program.constant_ranges
        self._roles: dict[int, Role | None] = {b.slot: b.role for b in program.buffers} | dict.fromkeys(self._constants)
        total = sum(abs(buffer.size) for buffer in program.buffers) + len(program.constants)
        if total > MEMORY or any(buffer.size < 0 for buffer in program.buffers):
            raise SimulationError(f"strict execution follows programs of up to {MEMORY} bytes, not {total}")
        names = names_of(program)
        self.maps: dict[int | None, _Map] = {slot: _Map(names[slot], end - start, True)
                                             for slot, (start, end) in self._constants.items()}
        for buffer in program.buffers:
            self.maps[buffer.slot] = _Map(buffer.name, buffer.size, buffer.role in (Role.INPUT, Role.STATE))
        self.maps[None] = _Map("L2", chip.limits.l2_size, False)
        self.faults: list[ProgramFault] = []

    def task(self, index: int, operation: Operation) -> None:
        """One task: reads, hazards, rings, writes."""
        read, written = reads(operation, self._chip.limits.coefficients), writes(operation)
        for touch in read:
            self._read(index, touch)
        self._hazards(index, operation, read, written)
        for passage in self._chip.passages(self._chip.decode(self._program.tasks[index].words)):
            self.maps[None].holds[passage.low:passage.high] = False
        for touch in written:
            self._write(index, touch, operation)

    def finish(self) -> None:
        """Outputs must hold something everywhere."""
        for buffer in self._program.buffers:
            if buffer.role is Role.OUTPUT and buffer.layout is not None:
                layout = buffer.layout
                where = positions(Access(shape=layout.shape, strides=layout.strides, dtype=layout.dtype,
                                         interleave=layout.interleave))
                memory = self.maps[buffer.slot]
                if where.min() < 0 or where.max() >= memory.size:
                    self._fault(None, "outside", f"the layout of {buffer.name} does not fit its {memory.size} bytes")
                elif not memory.holds[where].all():
                    self._fault(None, "incomplete", f"output {buffer.name} is not written everywhere")

    def _read(self, index: int, touch: OperandBytes) -> None:
        memory = self._memory(index, touch)
        if memory is None:
            return
        if touch.what == "coefficients" and self._roles.get(touch.slot or 0) is Role.OUTPUT:
            self._fault(index, "role", f"coefficients from output {memory.name}")
        inside = touch.positions[(touch.positions >= 0) & (touch.positions < memory.size)]
        memory.read[inside] = True
        if not memory.holds[inside].all():
            first = int(inside[~memory.holds[inside]][0])
            self._fault(index, "unwritten", f"{touch.what} reads byte {first:#x} of {memory.name}")

    def _write(self, index: int, touch: OperandBytes, operation: Operation) -> None:
        memory = self._memory(index, touch)
        if memory is None:
            return
        if touch.slot in self._constants or self._roles.get(touch.slot or 0) is Role.INPUT:
            self._fault(index, "role", f"{touch.what} is written to {memory.name}")
        inside = touch.positions[(touch.positions >= 0) & (touch.positions < memory.size)]
        if touch.slot is not None:
            burst = self._chip.limits.burst
            lost = (np.unique(inside // burst)[:, None] * burst + np.arange(burst)).reshape(-1)
            memory.holds[lost[lost < memory.size]] = False
        repeated = touch.what == "copy" and any(
            a.copy is not None and touch.positions.size < a.copy.elements * a.copy.dtype.size
            for a in (*sources(operation), operation.result))
        memory.holds[inside] = not repeated
        memory.written[inside] = True

    def _memory(self, index: int, touch: OperandBytes) -> _Map | None:
        memory = self.maps.get(touch.slot)
        if memory is None or touch.slot == self._slots.text:
            self._fault(index, "unbound", f"{touch.what} lies in slot {touch.slot}")
            return None
        if touch.positions.size and not 0 <= touch.positions[0] <= touch.positions[-1] < memory.size:
            self._fault(index, "outside", f"{touch.what} touches bytes {touch.positions[0]:#x} to "
                                          f"{touch.positions[-1] + 1:#x} of {memory.name} with {memory.size:#x}")
        return memory

    def _hazards(self, index: int, operation: Operation, read: list[OperandBytes], written: list[OperandBytes]) -> None:
        places = _written_over(operation)
        for position, touch in enumerate(written):
            over = touch.what == "result" and touch.slot in places
            others = [other for other in read if not over or other.what == "coefficients"]
            for other in (*others, *written[position + 1:]):
                if other.slot == touch.slot \
                        and np.intersect1d(touch.positions, other.positions, assume_unique=True).size:
                    self._fault(index, "hazard", f"{touch.what} is written over {other.what}")

    def _fault(self, task: int | None, kind: str, detail: str) -> None:
        self.faults.append(ProgramFault(task, kind, detail))


def strict(program: Program, seed: int = 0) -> StrictReport:
    """Traces a program and, when it is small enough and has no fault so far, runs it on random inputs.

    ProgramError where a task has no described meaning, SimulationError where the simulator refuses the program or it
    is too large to be followed byte by byte.
    """
    chip = get_chip(program.chip)
    tracer = _Tracer(program, chip)
    operations = [chip.operation(task.words) for task in program.tasks]
    for index, operation in enumerate(operations):
        tracer.task(index, operation)
    tracer.finish()
    faults = list(tracer.faults)
    executed = not faults and sum(map(_products, operations)) <= WORK
    if executed:
        faults += _run(program, seed)
    names = {memory.name: memory for memory in tracer.maps.values()}
    return StrictReport(tuple(faults), {name: m.read for name, m in names.items()},
                        {name: m.written for name, m in names.items()}, executed)


def _run(program: Program, seed: int) -> Iterator[ProgramFault]:
    """Both runs; faults where a guard or an input changed or an output depends on what memory held before."""
    outputs: list[dict[str, np.ndarray]] = []
    for pattern in PATTERNS:
        loaded = load(program, "fast")
        stores = _guarded(loaded, program, pattern, seed)
        before = {b.name: stores[b.name].copy() for b in program.inputs}
        loaded.run()
        for name, store in stores.items():
            if (store[:GUARD] != GUARD_BYTE).any() or (store[-GUARD:] != GUARD_BYTE).any():
                yield ProgramFault(None, "outside", f"the run wrote beside buffer {name}")
        for name, store in before.items():
            if (store != stores[name]).any():
                yield ProgramFault(None, "role", f"the run changed input {name}")
        outputs.append({b.name: stores[b.name][GUARD:-GUARD] for b in program.outputs})
    for buffer in program.outputs:
        if buffer.layout is None:
            continue
        layout = buffer.layout
        where = positions(Access(shape=layout.shape, strides=layout.strides, dtype=layout.dtype,
                                 interleave=layout.interleave))
        if (outputs[0][buffer.name][where] != outputs[1][buffer.name][where]).any():
            yield ProgramFault(None, "unwritten", f"output {buffer.name} depends on what memory held before")


def _guarded(loaded: LoadedProgram, program: Program, pattern: int, seed: int) -> dict[str, np.ndarray]:
    """Binds every buffer between guards: inputs and states with random fp16 numbers, the others with the pattern."""
    rng = np.random.default_rng(seed)
    loaded.memory.l2[:] = pattern
    stores = {}
    for buffer in program.buffers:
        store = np.full(buffer.size + 2 * GUARD, GUARD_BYTE, np.uint8)
        inside = store[GUARD:-GUARD]
        inside[:] = pattern
        if buffer.role in (Role.INPUT, Role.STATE):
            numbers = rng.standard_normal(ceil_div(buffer.size, 2)).astype(np.float16)
            inside[:] = numbers.view(np.uint8)[:buffer.size]
        loaded.bind(buffer.name, inside)
        stores[buffer.name] = store
    return stores


def _products(operation: Operation) -> int:
    """Multiplications, or elements where nothing is multiplied."""
    elements = max(access.elements for access in (*sources(operation), operation.result))
    if isinstance(operation, MatrixProduct):
        return elements * operation.source.shape[1]
    if isinstance(operation, Convolution):
        return elements * (operation.unicast or operation.source.shape[1]) * int(np.prod(operation.kernel))
    return elements


def _pointwise(operation: Operation) -> bool:
    if isinstance(operation, Convolution):
        return operation.unicast == 1 and operation.kernel == operation.stride == (1, 1, 1)
    return isinstance(operation, Elementwise | GainOffset | PassThrough)


def _same(source: Access, result: Access) -> bool:
    return (source.space is result.space and source.slot == result.slot and source.shape == result.shape
            and np.array_equal(positions(source), positions(result)))
