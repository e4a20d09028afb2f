"""H13: where streamed operands pass through L2.

What a task streams goes through ring buffers in L2 beside the tensors that live there. Rings have no effect on the
result; they must not overlap anything resident. Sizes follow Apple's choices (facts: chan stride = 16-byte multiple
of a tile's width, row = channels * chan + pad, rows per tile up to 32 for planar tasks); tiles shrink until they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openane.chips.h13.limits import LIMITS
from openane.engine import Access, Convolution, NeuralOperation, Operation, Pooling, Space, sources
from openane.errors import ProgramError

CHAIN_ROWS = 16
PLANAR_TILE_WIDTH = 512
NEURAL_TILE_WIDTH = 64
ROW_PAD = 0x20
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ring:
    """An L2 ring: base and strides in bytes."""

    base: int
    channel: int
    row: int
    depth: int


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tile height in result rows, the ring of each streamed operand (`first`, `second`, `result`), and the bytes the
    rings take."""

    tile_height: int
    rings: dict[str, Ring]
    taken: tuple[Range, ...] = ()


@dataclass(slots=True)
class _Resident:
    """Bytes of L2 from the operation that wrote them to the last one that reads them."""

    span: Range
    first: int
    last: int


def resident_ranges(operations: Sequence[Operation]) -> list[list[Range]]:
    """For each operation, the L2 byte ranges that hold data it or a later operation needs, or that it writes."""
    live: list[list[Range]] = [[] for _ in operations]
    held: list[_Resident] = []
    finished: list[_Resident] = []
    for index, operation in enumerate(operations):
        for read in _l2_reads(operation):
            live[index].append(read.span)
            for resident in held:
                if _overlap(read.span, resident.span):
                    resident.last = index
        for written in _l2_writes(operation):
            low, high = written.span
            finished += [r for r in held if low <= r.span[0] and r.span[1] <= high]
            held = [r for r in held if not (low <= r.span[0] and r.span[1] <= high)]
            held.append(_Resident(written.span, index, index))
    for resident in (*finished, *held):
        for index in range(resident.first, resident.last + 1):
            live[index].append(resident.span)
    return live


def plan_tiles(index: int, operations: Sequence[Operation], live: Sequence[Sequence[Range]],
               before: TilePlan | None) -> TilePlan:
    """Rings of operation `index`. `before` is the plan of the operation that hands it its source, if one does: both
    run at the same time, so they share the ring between them and nothing else.

    ProgramError when not even one row of each streamed operand fits beside what is resident.
    """
    operation = operations[index]
    streamed = _streamed(operation)
    neural = isinstance(operation, NeuralOperation)
    blocked = list(live[index])
    if any(a.space is Space.CHAIN for a in streamed.values()) and index + 1 < len(operations):
        blocked += live[index + 1]
    if before is not None:
        blocked += [*live[index - 1], *before.taken]
    height = operation.result.shape[3] if neural else max(a.shape[3] for a in sources(operation))
    width = NEURAL_TILE_WIDTH if neural else PLANAR_TILE_WIDTH
    tile = min(height, CHAIN_ROWS if _chained(operation) else height if neural else 32)
    while True:
        plan = _place(streamed, operation, tile, width, blocked, before)
        if plan is not None:
            return plan
        if tile > 1:
            tile = -(-tile // 2)
        elif width > 16:
            width //= 2
        else:
            raise ProgramError(f"one row of each streamed operand must fit the {LIMITS.l2_size} bytes of L2 beside "
                               "what is resident there; split the channels or the width", task=index)


def _place(streamed: dict[str, Access], operation: Operation, tile: int, width: int, blocked: list[Range],
           before: TilePlan | None) -> TilePlan | None:
    taken = list(blocked)
    rings: dict[str, Ring] = {}
    for name, access in streamed.items():
        if name == "first" and access.space is Space.CHAIN and before is not None:
            rings[name] = before.rings["result"]
            continue
        _, c, _, h, w = access.shape
        channel = -(-min(w, width) * access.dtype.size // 16) * 16
        row = c * channel + (ROW_PAD if c > 1 else 0)
        rows = min(h, _source_rows(operation, tile) if name != "result" else tile)
        base = _first_fit(row * rows, taken)
        if base is None:
            return None
        rings[name] = Ring(base, channel, row, c * channel)
        taken.append((base, base + row * rows))
    return TilePlan(tile, rings, tuple(taken[len(blocked):]))


def _source_rows(operation: Operation, tile: int) -> int:
    """Source rows a tile of result rows needs."""
    if isinstance(operation, Convolution):
        return (tile - 1) * operation.stride[1] + operation.kernel[1]
    if isinstance(operation, Pooling):
        return (tile - 1) * operation.stride[0] + operation.kernel[0]
    return tile


def _first_fit(size: int, taken: list[Range]) -> int | None:
    base = 0
    for low, high in sorted(taken):
        if base + size <= low:
            return base
        base = max(base, -(-high // 16) * 16)
    return base if base + size <= LIMITS.l2_size else None


def _streamed(operation: Operation) -> dict[str, Access]:
    names = dict(zip(("first", "second"), sources(operation), strict=False)) | {"result": operation.result}
    return {name: a for name, a in names.items() if a.space is not Space.L2 and a.copy is None}


def _chained(operation: Operation) -> bool:
    return any(a.space is Space.CHAIN for a in (*sources(operation), operation.result))


def _l2_writes(operation: Operation) -> list[Access]:
    result = operation.result
    writes = [a.copy for a in (*sources(operation), result) if a.copy is not None]
    return writes + ([result] if result.space is Space.L2 else [])


def _l2_reads(operation: Operation) -> list[Access]:
    return [a for a in sources(operation) if a.space is Space.L2]


def _overlap(a: Range, b: Range) -> bool:
    return a[0] < b[1] and b[0] < a[1]
