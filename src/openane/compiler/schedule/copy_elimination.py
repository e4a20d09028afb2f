"""Removes copies that need not be made, after lowering and before anything has an address.

Lowering transposes a tensor wherever an operation wants it transposed. Seen together, many of these copies fall away.
The neural engine can write its result transposed at once (Apple's chains of products have no copies between them). The
same copy may be made twice. And a transposition can often be moved to the other side of a function of single elements,
where a neighbour can take it over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from openane.chips import Limits
from openane.compiler.buffers.storage import BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.buffers.uses import RESULT, BufferUses, Use, operands, read_slots, usage
from openane.compiler.loops.assign import OperandRole, legal, within
from openane.compiler.schedule.reorder_loops import packing_copy, written_as
from openane.engine import (
    Access,
    Coefficients,
    Elementwise,
    NeuralOperation,
    Operation,
    PassThrough,
    Post,
    Space,
    with_operands,
)
from openane.engine.changing import with_fields
from openane.engine.relayout import relaid

Steps = list[tuple[int, Operation]]
"""Operations with the number each had when it was lowered."""


def forwarded(steps: Steps, blocks: VirtualBuffers, share: int, limits: Limits) -> Steps:
    """The operations without repeated work and needless copies. New buffers are added to `blocks`. Inputs of at most
    `share` bytes that several operations read in different ways are copied once."""
    uses = _usage(steps)
    kept = _once(steps, uses, blocks.table)
    uses = uses if len(kept) == len(steps) else _usage(kept)
    shared = _shared_inputs(kept, uses, blocks, share, limits)
    return _merged(shared, uses if len(shared) == len(kept) else _usage(shared), blocks.table, limits)


def _usage(steps: Steps) -> dict[int, BufferUses]:
    return usage([operation for _, operation in steps])


def _merged(steps: Steps, uses: dict[int, BufferUses], blocks: Mapping[int, VirtualBuffer], limits: Limits) -> Steps:
    merger = _Merger(steps, uses, blocks, limits)
    for position in range(len(merger.steps)):
        earlier = merger.merge(position)
        while earlier is not None:
            earlier = merger.merge(earlier)
    return [step for step in merger.steps if step is not None]


def plain_copy(operation: Operation) -> bool:
    """Whether an operation moves elements and does nothing else."""
    return isinstance(operation, PassThrough) and operation.post == Post() and operation.coefficients is None \
        and not operation.input_relu and operation.source.copy is None and operation.result.copy is None \
        and operation.result.interleave == operation.source.interleave == 1 \
        and operation.source.dtype is operation.result.dtype


def _shared_inputs(steps: Steps, uses: Mapping[int, BufferUses], blocks: VirtualBuffers, share: int,
                   limits: Limits) -> Steps:
    """An input that is turned for one operation and read as it lies by another is first copied, so that memory is read
    once (Apple's residual products)."""
    moved: dict[int, int] = {}
    copies: dict[int, list[Operation]] = {}
    for slot, use in uses.items():
        surface = blocks.table[slot].surface
        if surface is None or surface.size > share or not within(surface.shape, limits) \
                or not _read_in_several_ways(steps, use):
            continue
        moved[slot] = blocks.add(VirtualBuffer(surface.size, BufferKind.SCRATCH))
        whole = Access(slot=slot, shape=surface.shape, strides=surface.strides, dtype=surface.dtype)
        first = min(u.operation for u in use.uses)
        copies.setdefault(first, []).append(PassThrough(source=whole, result=replace(whole, slot=moved[slot])))
    if not moved:
        return steps
    found: Steps = []
    for position, (number, operation) in enumerate(steps):
        found += [(number, copy) for copy in copies.get(position, ())]
        found.append((number, _with_slots(operation, moved)))
    return found


def _read_in_several_ways(steps: Steps, use: BufferUses) -> bool:
    """Whether several operations read the same bytes of a buffer, one of them only to turn them, and none writes."""
    turned = any(plain_copy(steps[u.operation][1]) and u.access.strides[1] != 0 and u.access.shape[4] > 1
                 for u in use.uses)
    several = len({u.operation for u in use.uses}) > 1 and not _apart({u.access for u in use.uses})
    return turned and several and not use.streamed and _only_read(use)


def _apart(accesses: Iterable[Access]) -> bool:
    """Whether no two accesses touch the same bytes, as the matrices of a batch do not."""
    spans = sorted(access.span for access in accesses)
    return all(before[1] <= after[0] for before, after in pairwise(spans))


class _Merger:
    """Takes copies into the operations before them, keeping account of who names which buffer."""

    def __init__(self, steps: Steps, uses: dict[int, BufferUses], blocks: Mapping[int, VirtualBuffer],
                 limits: Limits) -> None:
        self.steps: list[tuple[int, Operation] | None] = list(steps)
        self._blocks = blocks
        self._limits = limits
        self._uses = uses

    def merge(self, position: int) -> int | None:
        """Drops the copy at `position` if it is one and its maker can do without it; where it moved before its maker
        instead, the place it moved to."""
        step = self.steps[position]
        if step is None or self._packed(position, step[1]) or not plain_copy(step[1]):
            return None
        copy = step[1]
        assert isinstance(copy, PassThrough)
        made = self._maker(copy.source.slot, position)
        if made is None or self._named(copy.result, made, position):
            return None
        maker = self._at(made)
        if isinstance(maker, NeuralOperation):
            self._write_at_once(made, maker, position, copy)
        elif isinstance(maker, Elementwise) and maker.second is None and self._turn_first(made, maker, position, copy):
            return made
        return None

    def _packed(self, position: int, copy: Operation) -> bool:
        """Drops a copy that writes coefficients if what makes its source can write them."""
        read = packing_copy(copy)
        made = None if read is None else self._maker(read.slot, position)
        if read is None or made is None or self._named(copy.result, made, position):
            return False
        maker = written_as(self._at(made), read, copy.result, self._limits)
        if maker is None:
            return False
        self._replace(made, maker)
        self._replace(position, None)
        return True

    def _at(self, position: int) -> Operation:
        step = self.steps[position]
        assert step is not None, "uses name operations that are there"
        return step[1]

    def _maker(self, slot: int, position: int) -> int | None:
        """The operation that makes a buffer only operation `position` reads, or None."""
        use = self._uses.get(slot)
        if use is None or self._blocks[slot].kind is BufferKind.PORT or use.streamed or len(use.uses) != 2:
            return None
        made, read = use.uses
        alone = made.role == RESULT and read.operation == position and made.access.copy is None
        return made.operation if alone else None

    def _named(self, place: Access, first: int, last: int) -> bool:
        """Whether an operation from `first` to before `last` touches what lies between the ends of `place`: parts of
        one buffer are made one after the other."""
        use = self._uses.get(place.slot)
        if use is None:
            return False
        begin, end = place.span
        return any(first <= number < last for number in use.streamed) or any(
            first <= u.operation < last and u.access.span[0] < end and begin < u.access.span[1] for u in use.uses)

    def _write_at_once(self, made: int, maker: Operation, position: int, copy: PassThrough) -> None:
        """The maker writes where the copy would have, where its result can lie so."""
        result = relaid(maker.result, copy.source, copy.result)
        if result is None or maker.result.dtype is not copy.result.dtype \
                or not legal(result, OperandRole.RESULT, self._limits) \
                or (maker.result.space is Space.L2 and _turned_rows(result)):
            return
        self._replace(made, with_operands(maker, {RESULT: result}))
        self._replace(position, None)

    def _turn_first(self, made: int, maker: Elementwise, position: int, copy: PassThrough) -> bool:
        """The copy moves before a planar function of one tensor, which then works in place on what it made."""
        source = relaid(copy.source, maker.result, maker.first)
        place = _along_rows(copy.result)
        if source is None or maker.first.copy is not None or self._blocks[copy.result.slot].kind is BufferKind.PORT \
                or not legal(source, OperandRole.NEURAL_SOURCE, self._limits) \
                or not legal(place, OperandRole.NEURAL_SOURCE, self._limits) \
                or maker.first.interleave > 1 or maker.first.dtype is not copy.source.dtype \
                or not within(place.shape, self._limits):
            return False
        self._replace(made, replace(copy, source=source))
        self._replace(position, replace(maker, first=place, result=place))
        return True

    def _replace(self, position: int, operation: Operation | None) -> None:
        """Puts another operation (or none) in a place and updates who names what."""
        old = self.steps[position]
        assert old is not None
        for _, access in operands(old[1]):
            if access.slot in self._uses:
                use = self._uses[access.slot]
                use.uses = [u for u in use.uses if u.operation != position]
        self.steps[position] = None if operation is None else (old[0], operation)
        for role, access in () if operation is None else operands(operation):
            if access.slot in self._uses:
                use = self._uses[access.slot]
                use.uses = sorted([*use.uses, Use(position, role, access)],
                                  key=lambda u: (u.operation, u.role == RESULT))


def _turned_rows(access: Access) -> bool:
    """Whether C and W are exchanged in memory over several rows: Apple leaves such a result in L2 and copies it."""
    return access.space is Space.MEMORY and access.shape[1] > 1 and access.strides[1] == access.dtype.size \
        and access.shape[3] > 1


def _along_rows(access: Access) -> Access:
    """The same elements walked with W contiguous: C and W exchanged where C is."""
    n, c, d, h, w = access.shape
    if c == 1 or access.strides[1] != access.dtype.size:
        return access
    sn, sc, sd, sh, sw = access.strides
    return replace(access, shape=(n, w, d, h, c), strides=(sn, sw, sd, sh, sc))


def _once(steps: Steps, uses: Mapping[int, BufferUses], blocks: Mapping[int, VirtualBuffer]) -> Steps:
    """Equal operations on equal operands done once: readers of the later result read the earlier one."""
    alone = {slot for slot, use in uses.items() if blocks[slot].kind is not BufferKind.PORT
             and sum(u.role == RESULT for u in use.uses) == 1}
    renamed: dict[int, int] = {}
    known: dict[Operation, int] = {}
    kept: Steps = []
    for number, operation in steps:
        operation = _with_slots(operation, renamed)
        slot = operation.result.slot
        if slot in alone and _repeatable(operation, uses, alone):
            key = with_operands(operation, {RESULT: with_fields(operation.result, {"slot": 0})})
            if key in known and blocks[known[key]] == blocks[slot]:
                renamed[slot] = known[key]
                continue
            known[key] = slot
        kept.append((number, operation))
    return kept


def _repeatable(operation: Operation, uses: Mapping[int, BufferUses], alone: Container[int]) -> bool:
    """Whether an operation would make the same again: nobody writes what it reads but who makes that, if one does."""
    stable = all(read not in uses or read in alone or _only_read(uses[read]) for read in read_slots(operation))
    return stable and all(access.copy is None for _, access in operands(operation))


def _only_read(use: BufferUses) -> bool:
    return all(u.role != RESULT for u in use.uses)


def _with_slots(operation: Operation, renamed: Mapping[int, int]) -> Operation:
    """The operation reading other buffers."""
    changes: dict[str, Access | Coefficients | None] = {
        role: with_fields(a, {"slot": renamed[a.slot]}) for role, a in operands(operation) if a.slot in renamed}
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    if coefficients is not None and any(slot in renamed for slot in coefficients.slots):
        changes["coefficients"] = coefficients.relocated(lambda section: section.relocated(renamed[section.slot], 0)
                                                         if section.slot in renamed else section)
    return with_operands(operation, changes) if changes else operation
