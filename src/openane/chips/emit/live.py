"""Which parts of L2 hold something that a later task reads: what headers say from H14 on.

Evidence: a bit for every 64 KiB of L2, set while bytes there are to be read, in all 178 recorded tasks of H14 to H18.
"""

from __future__ import annotations

from collections.abc import Sequence

from openane.chips.emit.flow import l2_writes
from openane.engine import Operation, Space, sources

LIVE_OUTS = "Header.LiveOuts.LiveOuts"
BITS = 32


def live_outs(operations: Sequence[Operation], l2_size: int) -> list[int]:
    """For each operation, the blocks of L2 (`l2_size` bytes in `BITS` of them) that a later one reads from what it or
    an earlier one wrote, a bit for each."""
    block = l2_size // BITS
    changes: list[dict[int, int]] = [{} for _ in range(len(operations) + 1)]
    written: list[tuple[int, int, int]] = []
    for index, operation in enumerate(operations):
        for access in sources(operation):
            low, high = access.span if access.space is Space.L2 else (0, 0)
            for start, end, task in written:
                first, last = max(low, start), min(high, end)
                for bit in range(first // block, -(-last // block) if first < last else 0):
                    changes[task][bit] = changes[task].get(bit, 0) + 1
                    changes[index][bit] = changes[index].get(bit, 0) - 1
        for access, _ in l2_writes(operation):
            low, high = access.span
            written = [each for each in written if not (low <= each[0] and each[1] <= high)]
            written.append((low, high, index))
    counts, masks = [0] * BITS, list[int]()
    for change in changes[:-1]:
        for bit, more in change.items():
            counts[bit] += more
        masks.append(sum(2 ** bit for bit, count in enumerate(counts) if count))
    return masks


__all__ = ["LIVE_OUTS", "live_outs"]
