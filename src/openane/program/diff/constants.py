"""Constants compared by who reads them: coefficient streams core by core, operands that lie in the constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from openane.engine import NeuralOperation, Operation, PlanarOperation, Space
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
    found: dict[Use, tuple[ByteRange, ByteRange]] = {}
    if isinstance(operation, NeuralOperation):
        held = operation.coefficients
        for section in held.sections if held is not None else ():
            part = "table" if held is not None and section == held.table != held.weights else "coefficients"
            for stream in section.streams if section.slot in constants else ():
                found[part, stream.core] = (stream.offset, stream.offset + stream.size), constants[section.slot]
    operands = {"source": operation.source} if isinstance(operation, NeuralOperation) else {}
    if isinstance(operation, PlanarOperation):
        operands = {"first operand": operation.first}
        if operation.second is not None:
            operands["second operand"] = operation.second
    for name, access in operands.items():
        if access.space is Space.MEMORY and access.slot in constants:
            found[name, None] = access.span, constants[access.slot]
    return {use: (start + max(low, 0), min(start + high, end)) for use, ((low, high), (start, end)) in found.items()
            if start + low < end and high > 0}


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
