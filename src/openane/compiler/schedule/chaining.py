"""Results that go from one operation to the next without memory in between, and sources that are read from memory only
once.

`chain`: where a planar and a neural-engine operation follow each other, the two can run together, the second reading
the ring in L2 that the first writes (as in Apple's log, sigmoid and softmax of 8 MB tensors).

`keep`: the first operation that reads or writes a tensor in memory can leave a copy in L2 for those that read it later
(as in Apple's layer norm, softmax and reductions).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from openane.chips import Limits
from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.buffers.uses import RESULT, Use, lives, operands
from openane.compiler.schedule.l2_residency import hold, resident_strides, residents
from openane.engine import Access, Elementwise, Operation, PassThrough, Space, with_operands
from openane.engine.changing import with_fields
from openane.record_classes import dataclass


def chain(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer]) -> list[Operation]:
    """The operations, with scratch buffers between neighbours left out where both go through them in the same order:
    the first hands its result to the second. Only pointwise neighbours on different engines are chained: that is what
    Apple's programs show."""
    named = lives(operations)
    linked = list(operations)
    taken = -1
    for number, (before, after) in enumerate(pairwise(operations)):
        role, source = operands(after)[0]
        slot = before.result.slot
        if taken == number or slot not in named or named[slot].times != 2 \
                or blocks[slot].kind is not BufferKind.SCRATCH \
                or before.result.space is not Space.MEMORY:
            continue
        if _pointwise(before, after) and before.result == source and _in_order(source):
            handed = Access(space=Space.CHAIN, shape=source.shape, dtype=source.dtype)
            linked[number] = with_operands(linked[number], {RESULT: handed})
            linked[number + 1] = with_operands(linked[number + 1], {role: handed})
            taken = number + 1
    return linked


def in_place(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer]) -> list[Operation]:
    """Functions of one L2 tensor write over it where nothing needs it any more, as in Apple's programs."""
    changed = []
    known = {slot: (life.first, life.last) for slot, life in lives(operations).items()}
    names: dict[int, int] = {}
    for number, operation in enumerate(operations):
        operation = _renamed(operation, names)
        pair = [access for _, access in operands(operation)]
        source, result = pair[0], pair[-1]
        alike = isinstance(operation, PassThrough | Elementwise) and len(pair) == 2 and source.space is Space.L2 \
            and source.copy is None and source == with_fields(result, {"slot": source.slot})
        if alike and known[source.slot][1] == number == known[result.slot][0] \
                and blocks[source.slot].size == blocks[result.slot].size:
            names[result.slot] = source.slot
            known[source.slot] = known[source.slot][0], known[result.slot][1]
            operation = _renamed(operation, names)
        changed.append(operation)
    return changed


def _renamed(operation: Operation, names: Mapping[int, int]) -> Operation:
    if not names:
        return operation
    changes = {}
    for role, access in operands(operation):
        copy = access.copy
        if copy is not None and copy.slot in names:
            changes[role] = access = with_fields(access, {"copy": with_fields(copy, {"slot": names[copy.slot]})})
        if access.slot in names:
            changes[role] = with_fields(access, {"slot": names[access.slot]})
    return with_operands(operation, changes) if changes else operation


def _pointwise(before: Operation, after: Operation) -> bool:
    kinds = (PassThrough, Elementwise)
    return isinstance(before, kinds) and isinstance(after, kinds) and type(before) is not type(after)


def _in_order(access: Access) -> bool:
    """Whether W is contiguous and nothing is interleaved, repeated or kept."""
    return access.copy is None and access.interleave == 1 and access.shape[4] > 1 and \
        access.strides[4] == access.dtype.size and all(s > 0 for e, s in zip(access.shape, access.strides, strict=True)
                                                       if e > 1)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A tensor walked alike by operation `maker` and by later `readers`."""

    access: Access
    maker: Use
    readers: tuple[Use, ...]
    size: int

    @property
    def gain(self) -> float:
        """Bytes saved for each byte held over one operation."""
        moved = self.access.elements * self.access.dtype.size * len(self.readers)
        return moved / (self.size * (self.readers[-1].operation - self.maker.operation + 1))


def keep(operations: Sequence[Operation], blocks: VirtualBuffers, share: int, limits: Limits,
         reserved: Sequence[int] = ()) -> list[Operation]:
    """Operations in which a tensor of memory that several of them walk alike is read from L2 after the first.

    New L2 blocks are added to `blocks`; residents and copies together take at most `share` bytes at any time, less
    those `reserved` during an operation.
    """
    held = residents(len(operations), {slot: life[:2] for slot, life in lives(operations).items()}, blocks.table,
                     reserved)
    changed = list(operations)
    for copy in sorted(_copies(operations, limits), key=lambda c: -c.gain):
        first, last = copy.maker.operation, copy.readers[-1].operation
        if max(held[first:last + 1]) + copy.size > share:
            continue
        hold(held, (first, last), copy.size)
        _apply(changed, copy, blocks, limits)
    return changed


def _apply(changed: list[Operation], copy: _Copy, blocks: VirtualBuffers, limits: Limits) -> None:
    size, strides = resident_strides(copy.access, limits)
    resident = replace(copy.access, space=Space.L2, slot=blocks.add(VirtualBuffer(size, BufferKind.L2)), offset=0,
                       strides=strides)
    maker = copy.maker
    changed[maker.operation] = with_operands(changed[maker.operation],
                                             {maker.role: replace(maker.access, copy=resident)})
    for reader in copy.readers:
        changed[reader.operation] = with_operands(changed[reader.operation], {reader.role: resident})


def _copies(operations: Sequence[Operation], limits: Limits) -> Iterator[_Copy]:
    """Tensors in memory, walked by the same loops several times with nothing written between."""
    runs = _Runs()
    for number, operation in enumerate(operations):
        for role, access in operands(operation):
            if access.space is Space.MEMORY:
                runs.add(Use(number, role, access))
    for uses in runs.all():
        copy = _copy(uses, limits)
        if copy is not None:
            yield copy


class _Runs:
    """Uses of equal accesses with nothing written between."""

    def __init__(self) -> None:
        self._open: dict[Access, list[Use]] = {}
        self._spans: dict[int, dict[Access, tuple[int, int]]] = {}
        self._reach: dict[int, tuple[int, int]] = {}  # what the known accesses of a slot lie within
        self._ended: list[list[Use]] = []

    def add(self, use: Use) -> None:
        """One more use; a result ends the runs of what it writes over."""
        access = use.access
        low, high = access.span
        first, last = self._reach.get(access.slot, (high, low))
        if use.role == RESULT and first < high and low < last:
            self._end(access.slot, low, high)
        if access.interleave == 1 and access.copy is None:
            self._spans.setdefault(access.slot, {})[access] = low, high
            self._reach[access.slot] = min(first, low), max(last, high)
            self._open.setdefault(access, []).append(use)

    def all(self) -> list[list[Use]]:
        """The runs, those that ended first."""
        return [*self._ended, *self._open.values()]

    def _end(self, slot: int, low: int, high: int) -> None:
        known = self._spans[slot]
        for stale in [access for access, (start, end) in known.items() if start < high and low < end]:
            del known[stale]
            self._ended.append(self._open.pop(stale))


def _copy(uses: Sequence[Use], limits: Limits) -> _Copy | None:
    """What a run of equal accesses becomes: the first that can leave a copy, and those of later operations."""
    maker = next((u for u in uses if u.role != "second"), None)
    if maker is None or maker.access.repeats or maker.access.slot < FIRST_VIRTUAL_SLOT:
        return None
    readers = tuple(u for u in uses if u.operation > maker.operation)
    return _Copy(maker.access, maker, readers, resident_strides(maker.access, limits)[0]) if readers else None
