"""Which parts of L2 hold something that a later task reads: what headers say from H14 on.

Evidence: a bit for every 64 KiB of L2, set while bytes there are to be read, in all 178 recorded tasks of H14 to H18.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openane.chips.emit.flow import l2_writes
from openane.engine import Operation, Space, sources
from openane.rounding import ceil_div

LIVE_OUTS = "Header.LiveOuts.LiveOuts"
BITS = 32


def live_outs(operations: Sequence[Operation], l2_size: int) -> list[int]:
    """For each operation, the blocks of L2 (`l2_size` bytes in `BITS` of them) that a later one reads from what it or
    an earlier one wrote, a bit for each."""
    changes = [[0] * BITS for _ in range(len(operations) + 1)]
    for first, last, writer, reader in _read_later(operations):
        for bit in range(first // (l2_size // BITS), ceil_div(last, l2_size // BITS)):
            changes[writer][bit] += 1
            changes[reader][bit] -= 1
    counts, masks = [0] * BITS, list[int]()
    for change in changes[:-1]:
        counts = [count + more for count, more in zip(counts, change, strict=True)]
        masks.append(sum(2 ** bit for bit, count in enumerate(counts) if count))
    return masks


def _read_later(operations: Sequence[Operation]) -> Iterator[tuple[int, int, int, int]]:
    """Bytes of L2 (first, one past the last) that an operation writes and a later one reads: their numbers."""
    written: list[tuple[int, int, int]] = []
    for index, operation in enumerate(operations):
        for low, high in [access.span for access in sources(operation) if access.space is Space.L2]:
            yield from ((max(low, start), min(high, end), task, index) for start, end, task in written
                        if start < high and low < end)
        for access, _ in l2_writes(operation):
            low, high = access.span
            written = [each for each in written if not (low <= each[0] and each[1] <= high)]
            written.append((low, high, index))


__all__ = ["LIVE_OUTS", "live_outs"]
