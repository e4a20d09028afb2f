"""Constants compared by who reads them: coefficient streams core by core, operands that lie in the constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from openane.engine import Access, Coefficients, NeuralOperation, Operation, PlanarOperation, Space
from openane.program.diff.records import ConstantChange
from openane.program.model import ByteRange, Program

HALFWORD = 2
LISTED = 8

Use = tuple[str, int | None]
"""What reads the bytes: `coefficients` and the core, or an operand and None."""

Pairing = tuple[int, Operation | None, Operation | None]
"""A task's number in the second program, what it does in the first and in the second."""


def uses(operation: Operation | None, constants: Mapping[int, ByteRange]) -> dict[Use, ByteRange]:
    """Start and end in the constants (those behind each slot) of everything an operation reads there."""
    found: dict[Use, tuple[int, ByteRange]] = {}
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        found |= _streams(operation.coefficients)
    found |= {(name, None): (access.slot, access.span) for name, access in _operands(operation).items()
              if access is not None and access.space is Space.MEMORY}
    return {use: within for use, (slot, span) in found.items() if (within := _within(span, constants.get(slot)))}


def _within(span: ByteRange, held: ByteRange | None) -> ByteRange | None:
    """The bytes of the constants that a span behind a slot takes, of those that are `held` there."""
    if held is None or held[0] + span[0] >= held[1] or span[1] <= 0:
        return None
    return held[0] + max(span[0], 0), min(held[0] + span[1], held[1])


def _streams(held: Coefficients) -> Iterator[tuple[Use, tuple[int, ByteRange]]]:
    """What each core reads: slot, and bytes behind it."""
    for section in held.sections:
        part = "table" if section == held.table != held.weights else "coefficients"
        for stream in section.streams:
            yield (part, stream.core), (section.slot, (stream.offset, stream.offset + stream.size))


def _operands(operation: Operation | None) -> dict[str, Access | None]:
    """What an operation reads beside coefficients."""
    if isinstance(operation, NeuralOperation):
        return {"source": operation.source}
    if isinstance(operation, PlanarOperation):
        return {"first operand": operation.first, "second operand": operation.second}
    return {}


def compare(before: Program, after: Program, pairs: Iterable[Pairing]) -> Iterator[ConstantChange]:
    """What differs, for every task that has a counterpart; then what no task reads."""
    old, new = memoryview(before.constants), memoryview(after.constants)
    same_bytes = before.constants == after.constants
    read: list[tuple[int, int]] = []
    for task, was, becomes in pairs:
        old_uses, new_uses = uses(was, before.constant_ranges), uses(becomes, after.constant_ranges)
        read += new_uses.values()
        if was is None or becomes is None:
            continue
        for use in dict.fromkeys((*old_uses, *new_uses)):
            a, b = old_uses.get(use, (0, 0)), new_uses.get(use, (0, 0))
            if a != b or not same_bytes:
                yield from _change(task, use, old[a[0]:a[1]], new[b[0]:b[1]], b[0])
    if not same_bytes:
        yield from _unread(old, new, read)


def _change(task: int | None, use: Use, old: memoryview, new: memoryview, start: int) -> Iterator[ConstantChange]:
    if old == new:
        return
    differing = _differing(old, new)
    total = max(len(old), len(new)) // HALFWORD
    yield ConstantChange(task, use[0], use[1], len(differing), total,
                         tuple(start + HALFWORD * i for i in differing[:LISTED]), (len(old), len(new)))


def _differing(old: memoryview, new: memoryview) -> list[int]:
    """Numbers of the halfwords that differ; those that only one side has differ."""
    both = min(len(old), len(new)) // HALFWORD
    a, b = old[:both * HALFWORD].cast("H"), new[:both * HALFWORD].cast("H")
    return [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y] + \
        list(range(both, max(len(old), len(new)) // HALFWORD))


def _unread(old: memoryview, new: memoryview, read: list[tuple[int, int]]) -> Iterator[ConstantChange]:
    """Differences at bytes that no compared task reads, as one change per gap."""
    position, end = 0, max(len(old), len(new))
    for low, high in [*sorted(read), (end, end)]:
        if low > position:
            yield from _change(None, ("bytes no compared task reads", None), old[position:low], new[position:low],
                               position)
        position = max(position, high)
