"""Constants compared by who reads them: coefficient streams core by core, operands that lie in the constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openane.engine import Access, Coefficients, NeuralOperation, Operation, PlanarOperation, Space
from openane.program.diff.records import ConstantChange
from openane.program.model import Program

HALFWORD = 2
LISTED = 8

Use = tuple[str, int | None]
"""What reads the bytes: `coefficients` and the core, or an operand and None."""

Pairing = tuple[int, Operation | None, Operation | None]
"""A task's number in the second program, what it does in the first and in the second."""


def _streams(held: Coefficients, constants: int) -> Iterator[tuple[Use, tuple[int, int]]]:
    """What each core reads of the constants."""
    for section in held.sections:
        part = "table" if section == held.table != held.weights else "coefficients"
        for stream in section.streams if section.slot == constants else ():
            yield (part, stream.core), (stream.offset, stream.offset + stream.size)


def _operands(operation: Operation | None) -> dict[str, Access | None]:
    """What an operation reads beside coefficients."""
    if isinstance(operation, NeuralOperation):
        return {"source": operation.source}
    if isinstance(operation, PlanarOperation):
        return {"first operand": operation.first, "second operand": operation.second}
    return {}


def uses(operation: Operation | None, size: int, constants: int) -> dict[Use, tuple[int, int]]:
    """Start and end in the constants (slot `constants`, of `size` bytes) of everything an operation reads there."""
    found: dict[Use, tuple[int, int]] = {}
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        found |= _streams(operation.coefficients, constants)
    for name, access in _operands(operation).items():
        if access is not None and access.space is Space.MEMORY and access.slot == constants:
            found[name, None] = access.span
    return {use: (max(low, 0), min(high, size)) for use, (low, high) in found.items() if low < size and high > 0}


def compare(before: Program, after: Program, pairs: Iterable[Pairing]) -> Iterator[ConstantChange]:
    """What differs, for every task that has a counterpart; then what no task reads."""
    old, new = memoryview(before.constants), memoryview(after.constants)
    same_bytes = before.constants == after.constants
    read: list[tuple[int, int]] = []
    for task, was, becomes in pairs:
        old_uses, new_uses = (uses(was, len(old), before.slots.constants),
                              uses(becomes, len(new), after.slots.constants))
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
