"""How the tasks of a program are related: which task wrote what another reads from L2, and where parts of the program
begin and end.

Evidence for every rule: the recorded programs of Apple's compiler. These relations decide fields (see `schedule`) that
order tasks which could overlap; when tasks are executed one after another they have no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from openane.chips.emit.operands import stored
from openane.chips.limits import Limits
from openane.engine import (
    Access,
    Convolution,
    GainOffset,
    NeuralOperation,
    Operation,
    PassThrough,
    PlanarOperation,
    Space,
    sources,
)
from openane.record_classes import dataclass

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Producer:
    """The task that last wrote L2 bytes an operand reads; `kept`: it did so with a copy of its own source."""

    task: int
    kept: bool


@dataclass(slots=True)
class Flow:
    """One task's relations.

    producers: who wrote its L2 operands (in operand order, None for others); pipelined: it follows the task before
    patch by patch; source_stated, result_stated: its first operand, its result is stated as memory though it stays in
    L2; begins, ends: a part of the program does; planar_before, planar_after: planar work is under way; surface: bytes
    of the surface its result in memory is one of several parts of; strides: L2 strides of extents of 1 that another
    task's view of the tensor decides, by register; late: it reads a result of the other engine that nothing
    before it has waited for; read_again, read_earlier: other tasks read its streamed first
    operand later, earlier.
    """

    producers: tuple[Producer | None, ...] = ()
    pipelined: bool = False
    source_stated: bool = False
    result_stated: bool = False
    begins: bool = True
    ends: bool = True
    planar_before: bool = False
    planar_after: bool = False
    surface: int = 0
    strides: dict[str, int] = field(default_factory=dict)
    late: bool = False
    read_again: bool = False
    read_earlier: bool = False


def _moves(operation: Operation, flow: Flow, readers: Mapping[int, int]) -> bool:
    """Whether a task only brings elsewhere what no other reads: inputs, results with one reader seen as another tensor,
    or anything on the planar engine."""
    only = [readers[producer.task] == 1 for producer in flow.producers if producer is not None]
    return not only or (bool(flow.strides) and all(only)) or isinstance(operation, PlanarOperation)


def flows(operations: Sequence[Operation], limits: Limits) -> list[Flow]:
    """The relations of every task."""
    found = [Flow(producers) for producers in _producers(operations)]
    _changed_views(operations, found, limits)
    readers = Counter(producer.task for flow in found for producer in flow.producers if producer is not None)
    for index in range(1, len(operations)):
        before, here = found[index - 1], found[index]
        reads_before = here.producers[:1] == (Producer(index - 1, False),)
        here.pipelined = reads_before and _follows(operations[index - 1], operations[index], limits.cores)
        stated = reads_before and _moves(operations[index - 1], before, readers) \
            and _transposed_pair(operations[index - 1], operations[index])
        before.result_stated = here.source_stated = stated
    _parts(operations, found)
    _planar_spans(operations, found)
    _repeated_reads(operations, found)
    _shared_surfaces(operations, found)
    _vector_rows(operations, found)
    _late_reads(operations, found)
    return found


def _producers(operations: Sequence[Operation]) -> list[tuple[Producer | None, ...]]:
    """Rule: the latest task whose L2 result, or copy of a source, overlaps the operand."""
    written: list[tuple[Range, Producer]] = []
    found = []
    for index, operation in enumerate(operations):
        found.append(tuple(_writer(access, written) if access.space is Space.L2 else None
                           for access in sources(operation)))
        for access, kept in l2_writes(operation):
            low, high = access.span
            written = [(span, by) for span, by in written if not (low <= span[0] and span[1] <= high)]
            written.append(((low, high), Producer(index, kept)))
    return found


def _writer(access: Access, written: Sequence[tuple[Range, Producer]]) -> Producer | None:
    low, high = access.span
    over = [producer for span, producer in written if span[0] < high and low < span[1]]
    return max(over, key=lambda producer: producer.task, default=None)


def l2_writes(operation: Operation) -> list[tuple[Access, bool]]:
    """What an operation leaves in L2, and whether it is a copy of a source."""
    writes = [(access.copy, True) for access in sources(operation) if access.copy is not None]
    result = operation.result
    if result.copy is not None:
        writes.append((result.copy, False))
    return [*writes, (result, False)] if result.space is Space.L2 else writes


def _follows(before: Operation, operation: Operation, cores: int) -> bool:
    """Rule: a neural-engine task that reads the result of the task before as that one wrote it, neither transposed nor
    in several blocks of channels a core."""
    weights = before.coefficients if isinstance(before, Convolution) and not before.unicast else None
    if weights is not None and before.result.shape[1] > cores * weights.lanes:
        return False
    return isinstance(operation, NeuralOperation) and not is_transposed(before.result) and (
        operation.source.shape == before.result.shape and operation.source.strides == before.result.strides
        and operation.source.offset == before.result.offset)


def _transposed_pair(before: Operation, operation: Operation) -> bool:
    """Rule: a transposed result handed to the next task through L2 is stated as a tensor in memory, on both sides: a
    copy that a convolution takes for its pixels, of an input or of the only use of rows that become channels; a planar
    result that a copy takes."""
    if not is_transposed(before.result):
        return False
    if isinstance(before, PlanarOperation):
        return isinstance(operation, PassThrough)
    return isinstance(before, PassThrough) and isinstance(operation, Convolution) and not operation.unicast


def is_transposed(access: Access) -> bool:
    """Whether an access stores channels and width swapped."""
    return stored(access, "the result", may_swap=True, may_broadcast=True).swapped


def _parts(operations: Sequence[Operation], found: Sequence[Flow]) -> None:
    """Rule: a part ends with a result stated as memory, with the first result in memory and with the program."""
    ended = False
    for index, operation in enumerate(operations):
        here = found[index]
        here.begins = index == 0 or found[index - 1].ends
        here.ends = here.result_stated or index == len(operations) - 1 or (
            not ended and operation.result.space is Space.MEMORY)
        ended = ended or here.ends


def _planar_spans(operations: Sequence[Operation], found: Sequence[Flow]) -> None:
    """Rule: from a planar task to the last planar task that reads its result from L2, all tasks are marked."""
    until: dict[int, int] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, PlanarOperation):
            for producer in found[index].producers:
                if producer is not None and isinstance(operations[producer.task], PlanarOperation):
                    until[producer.task] = index
    reach = -1
    for index, operation in enumerate(operations):
        found[index].planar_before = index <= reach and isinstance(operation, PlanarOperation)
        reach = max(reach, until.get(index, -1))
        found[index].planar_after = index < reach


def _repeated_reads(operations: Sequence[Operation], found: Sequence[Flow]) -> None:
    """Rule: a first operand that comes from the same bytes of memory as another task's."""
    latest: dict[tuple[int, Range], int] = {}
    for index, operation in enumerate(operations):
        source = sources(operation)[0]
        if source.space is not Space.MEMORY:
            continue
        before = latest.get((source.slot, source.span))
        if before is not None:
            found[before].read_again = found[index].read_earlier = True
        latest[source.slot, source.span] = index


def _shared_surfaces(operations: Sequence[Operation], found: Sequence[Flow]) -> None:
    """Rule: results of one row a channel, of the same strides in the same slot, are parts of one surface."""
    parts: dict[tuple[int, int, int], list[int]] = {}
    for index, operation in enumerate(operations):
        result = operation.result
        n, c, d, h, w = result.shape
        if result.space is Space.MEMORY and (n, d, h) == (1, 1, 1) and c > 1 and result.strides[4] == result.dtype.size:
            parts.setdefault((result.slot, result.strides[1], w), []).append(index)
    for (_, plane, _), indices in parts.items():
        if len(indices) > 1:
            results = [operations[index].result for index in indices]
            low = min(result.offset for result in results)
            surface = max(result.offset + result.shape[1] * plane for result in results) - low
            for index in indices:
                found[index].surface = surface


def _vector_rows(operations: Sequence[Operation], found: Sequence[Flow]) -> None:
    """Rule: what is one of the two rows of vectors a gain-offset task reads has their row stride."""
    vectors: dict[int, int] = {}
    for index in range(len(operations) - 1, -1, -1):
        operation = operations[index]
        for name, access in (("Result", operation.result), ("Source", sources(operation)[0])):
            if access.space is Space.L2 and access.offset in vectors and _single(access):
                found[index].strides[f"{name}RowStride"] = vectors[access.offset]
        if isinstance(operation, GainOffset) and operation.second is not None and operation.second.space is Space.L2:
            second = operation.second
            vectors = {second.offset + i * second.strides[3]: second.strides[3] for i in (0, 1)}


def _single(access: Access) -> bool:
    """One element, possibly broadcast."""
    return all(extent == 1 or not stride for extent, stride in zip(access.shape, access.strides, strict=True))


def _changed_views(operations: Sequence[Operation], found: Sequence[Flow], limits: Limits) -> None:
    """Rule: where rows that one task wrote are channels to another, or channels rows, the strides of the extents that
    became 1 are those of the tensor as it was written."""
    for index, operation in enumerate(operations):
        operands = zip(("Source", "Second"), sources(operation), found[index].producers, strict=False)
        for side, access, producer in operands:
            if producer is None or producer.kept or access.shape[2] > 1:
                continue
            written = stored(operations[producer.task].result, "the result", may_swap=True, may_broadcast=True).extents
            view = stored(access, "an operand", may_swap=True, may_broadcast=True)
            _, c, _, h, w = view.extents
            if written[1] == h == 1 < c == written[3]:
                line = limits.l2_row(w * access.dtype.size)
                found[index].strides |= {f"{side}RowStride": line, f"{side}DepthStride": line}
            elif written[3] == c == 1 < h == written[1]:
                plane = h * view.strides[3]
                found[index].strides |= {f"{side}ChannelStride": plane, f"{side}DepthStride": plane}


def _late_reads(operations: Sequence[Operation], found: Sequence[Flow]) -> None:
    """Rule (inferred: no record reads so): tasks of one engine run in order, so a task may read what the other engine
    wrote once it, or an earlier task of its own engine, has waited for that or a later task of the other."""
    waited = {True: -1, False: -1}
    for index, operation in enumerate(operations):
        planar = isinstance(operation, PlanarOperation)
        for producer in found[index].producers:
            if producer is not None and isinstance(operations[producer.task], PlanarOperation) is not planar:
                found[index].late |= producer.task > waited[planar] and producer.task < index - 1
                waited[planar] = max(waited[planar], producer.task)


__all__ = ["Flow", "Producer", "flows", "is_transposed", "l2_writes"]
