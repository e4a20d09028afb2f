"""Rules about data: what is read was written, nothing is overwritten while it is in use, outputs are complete.

Tasks run in order; a task and the one it hands its result to run at the same time. What a memory write covers is
exactly its elements; the rest of each 64-byte burst it touches is lost, for the engine writes whole bursts. What an
L2 ring passes through is lost as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips import Breach
from openane.chips.coefficients import CoefficientFormat
from openane.engine import (
    Access,
    CoefficientSection,
    Convolution,
    Elementwise,
    GainOffset,
    Operation,
    Packing,
    PassThrough,
    Space,
    geometry_of,
)
from openane.errors import ProgramError
from openane.program.model import Role
from openane.program.verify.coefficients import needed_bytes
from openane.program.verify.container import layout_access
from openane.program.verify.context import TaskOperand, TaskView, VerifyContext
from openane.program.verify.regions import Region, access_regions, interval, meets, nested, rounded
from openane.program.verify.violation import Found, Violation, violation
from openane.program.verify.written import Written
from openane.program.verify.written_l2 import WrittenL2
from openane.record_classes import dataclass

FILLED = (Role.INPUT, Role.STATE)


class FlowState:
    """Which bytes of every memory and of L2 hold something before a task runs."""

    def __init__(self, context: VerifyContext) -> None:
        self._burst = context.chip.limits.burst
        self.memory = {slot: Written(slot in context.constants or memory.role in FILLED)
                       for slot, memory in context.memory.items()}
        self.scratchpad = WrittenL2(context.chip.limits.l2_size)
        self._rings: list[tuple[int, int, int]] = []

    def advance(self, view: TaskView) -> None:
        """What the task's rings and writes change."""
        for passage in view.passages:
            self._rings.append((view.index, passage.low, passage.high))
            self.scratchpad.remove(interval(passage.low, passage.high))
        for operand in _writes(view):
            access = operand.access
            held = self.scratchpad if access.space is Space.L2 else self.memory.get(access.slot)
            if held is None:
                continue
            regions, settled = access_regions(access)
            for region in regions or (interval(*access.span),):
                held.remove(rounded(region, self._burst) if access.space is Space.MEMORY else region)
            for region in regions if settled else ():
                held.add(region)

    def ring_over(self, byte: int) -> str:
        """What to say about a byte of L2 that a ring passed through."""
        tasks = [task for task, low, high in self._rings if low <= byte < high]
        return f", through which a ring of task {tasks[-1]} passed" if tasks else ""


def data_flow(context: VerifyContext) -> list[Violation]:
    """Violations of the two rules below, found in one pass over the tasks."""
    state, found = FlowState(context), []
    for view in context.tasks:
        found += [violation(view.index, breach, written_before) for breach in written_before(context, view, state)]
        state.advance(view)
    return found + [violation(None, breach, outputs_complete) for breach in outputs_complete(context, state)]


def written_before(context: VerifyContext, view: TaskView, state: FlowState) -> Iterator[Breach]:
    """Memory and L2 must have been written before they are read: by an earlier task, and not lost since to another
    write or to a ring that passes through it. Inputs, states and constants are filled from outside."""
    for region, slot, name in _reads(context, view):
        held = state.scratchpad if slot is None else state.memory.get(slot)
        missing = held.missing(region) if held is not None else None
        if missing is not None:
            by = state.ring_over(missing) if slot is None else ""
            yield Breach(name, f"a read of byte {missing:#x}{by}", "bytes that were written")


def outputs_complete(context: VerifyContext, state: FlowState) -> Iterator[Breach]:
    """Every element of an output must be written."""
    for buffer in context.program.buffers:
        held = state.memory.get(buffer.slot)
        if buffer.role is not Role.OUTPUT or held is None or buffer.layout is None:
            continue
        try:
            regions = _covering(layout_access(buffer.layout))
        except ProgramError:  # another rule's
            continue
        missing = next((byte for region in regions if (byte := held.missing(region)) is not None), None)
        if missing is not None:
            yield Breach(f"output {buffer.name}", f"byte {missing:#x} written by no task", "every element written")


def own_hazards(context: VerifyContext) -> Found:
    """A task must not write over what it is still reading, except element by element in place; its results, its copies
    and its L2 rings must not share bytes."""
    for view in context.tasks:
        used = _Use.of(context, view)
        for operand in _writes(view):
            if any(_clash(context, view, operand, read) for read in _tile_reads(view)):
                yield view.index, Breach(_name(context, operand), str(operand.access), "bytes the task does not read")
        yield from ((view.index, breach) for breach in used.conflicts())


def neighbour_hazards(context: VerifyContext) -> Found:
    """Tasks that hand over run at the same time: neither may write, or pass through in L2, what the other uses."""
    for before, view in zip(context.tasks, context.tasks[1:], strict=False):
        if before.operation is None or before.operation.result.space is not Space.CHAIN:
            continue
        first, second = _Use.of(context, before, "result"), _Use.of(context, view, "first")
        for one, other in ((first, second), (second, first)):
            for name, space, region in one.written:
                for _, elsewhere, used in (*other.read, *other.written):
                    if space == elsewhere and meets(region, used):
                        yield view.index, Breach(name, f"bytes {region.offset:#x} to {region.end:#x}",
                                                 "bytes the task before it does not use")


@dataclass(frozen=True, slots=True)
class _Use:
    """Regions a task reads and writes: (field, slot or None for L2, region)."""

    read: tuple[tuple[str, int | None, Region], ...]
    written: tuple[tuple[str, int | None, Region], ...]

    @staticmethod
    def of(context: VerifyContext, view: TaskView, without_ring: str = "") -> _Use:
        """`without_ring`: the operand whose ring is left out because the neighbour shares it."""
        reads = tuple((name, slot, region) for region, slot, name in _reads(context, view))
        writes = [(_name(context, operand), _place(operand.access), part) for operand in _writes(view)
                  for region in access_regions(operand.access)[0] for part in [_moved(context, operand.access, region)]]
        rings = [(context.chip.register(p.operand, Space.L2), None, interval(p.low, p.high))
                 for p in view.passages if p.operand != without_ring]
        return _Use(reads, (*writes, *rings))

    def conflicts(self) -> Iterator[Breach]:
        """Written regions that share bytes with each other, rings with what is read in L2."""
        for index, (name, space, region) in enumerate(self.written):
            for _, elsewhere, other in self.written[index + 1:]:
                if space == elsewhere and meets(region, other):
                    yield Breach(name, f"bytes {region.offset:#x} to {region.end:#x}",
                                 f"none of {other.offset:#x} to {other.end:#x}")


def _reads(context: VerifyContext, view: TaskView) -> Iterator[tuple[Region, int | None, str]]:
    """Regions a task reads: its operands, and coefficients it takes from a buffer: no task may write to constants."""
    for operand in _tile_reads(view):
        for region in _covering(operand.access):
            yield region, _place(operand.access), _name(context, operand)
    coefficients = view.coefficients
    if coefficients is None or view.operation is None:
        return
    sane, form = _sane(view), context.chip.limits.coefficients
    name = context.chip.register("coefficients", Space.MEMORY)
    for section in coefficients.sections:
        if section.slot in context.constants:
            continue
        computed = _multiplied(view, section, form) if sane else None
        if computed is not None:
            yield from ((region, section.slot, name) for region in computed)
            continue
        needed = needed_bytes(view.operation, coefficients, section, form) if sane else {}
        for stream in section.streams:
            size = min(needed.get(stream.core, stream.size), stream.size)
            if size > 0:
                yield interval(stream.offset, stream.offset + size), section.slot, name


def _multiplied(view: TaskView, section: CoefficientSection, form: CoefficientFormat) -> list[Region] | None:
    """What products are made with of coefficients that tasks before computed; None for other sections, which are read
    from end to end."""
    coefficients, geometry = view.coefficients, geometry_of(view.operation)
    if coefficients is None or geometry is None or not coefficients.runtime or coefficients.weights != section \
            or coefficients.packing is not Packing.DENSE:
        return None
    begin = {stream.core: stream.offset for stream in section.streams}
    found = [nested(begin[core] + offset, loops, run)[0]
             for core, offset, loops, run in form.place(geometry, coefficients).multiplied() if core in begin]
    return None if None in found else [region for region in found if region is not None]


def _sane(view: TaskView) -> bool:
    """Whether the streams could hold what is asked for, so that asking is cheap."""
    if view.operation is None or view.coefficients is None:
        return False
    geometry = geometry_of(view.operation)
    return geometry is None or geometry.groups * geometry.channels <= view.coefficients.size


def _tile_reads(view: TaskView) -> list[TaskOperand]:
    return [o for o in view.operands if not o.writes and o.access.space is not Space.CHAIN]


def _writes(view: TaskView) -> list[TaskOperand]:
    return [o for o in view.operands if o.writes and o.access.space is not Space.CHAIN]


def _covering(access: Access) -> tuple[Region, ...]:
    """The bytes of a read; where strides do not nest, every byte between the first and the last."""
    regions, _ = access_regions(access)
    return regions or (interval(*access.span),)


def _moved(context: VerifyContext, access: Access, region: Region) -> Region:
    return rounded(region, context.chip.limits.burst) if access.space is Space.MEMORY else region


def _clash(context: VerifyContext, view: TaskView, result: TaskOperand, read: TaskOperand) -> bool:
    if _place(result.access) != _place(read.access):
        return False
    if _pointwise(view.operation) and result.part == "result" and _same(result.access, read.access):
        return False
    written = [_moved(context, result.access, region) for region in access_regions(result.access)[0]]
    return any(meets(one, other) for one in written for other in _covering(read.access))


def _same(result: Access, source: Access) -> bool:
    return ((result.offset, result.shape, result.strides, result.dtype, result.interleave, result.packed)
            == (source.offset, source.shape, source.strides, source.dtype, source.interleave, source.packed))


def _pointwise(operation: Operation | None) -> bool:
    """Whether each result element depends on the source elements of its own position only."""
    if isinstance(operation, Convolution):
        return operation.unicast == 1 and operation.kernel == operation.stride == (1, 1, 1)
    return isinstance(operation, Elementwise | GainOffset | PassThrough)


def _place(access: Access) -> int | None:
    return None if access.space is Space.L2 else access.slot


def _name(context: VerifyContext, operand: TaskOperand) -> str:
    return context.chip.register(operand.part, operand.access.space)
