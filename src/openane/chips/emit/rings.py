"""Where streamed operands pass through L2, and how many rows of them at a time.

An operand that is not resident in L2 passes through a ring buffer there, beside the tensors that are. Rings do not
change the result, but they must not overlap anything resident. A row of a ring takes channels * channel stride, and a
pad that keeps neighbouring rows out of each other's memory banks. Tiles become lower until their rings fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field

from openane.chips.emit.flow import Flow, l2_writes
from openane.chips.emit.operands import stored
from openane.chips.emit.patches import Patch, patch, staged, tile_rows
from openane.chips.emit.policy import Policy
from openane.chips.emit.row_pads import row_pad
from openane.engine import (
    Access,
    Convolution,
    GainOffset,
    NeuralOperation,
    Operation,
    Pooling,
    Space,
    sources,
)
from openane.engine.relayout import contains, touches
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ring:
    """An L2 ring: base and strides in bytes; `staged`: a result's lies there whole rows at a time."""

    base: int
    channel: int
    row: int
    depth: int
    group: int
    staged: bool = False


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tile height in result rows, the ring of each streamed operand (`first`, `second`, `result`), the bytes the rings
    take, the neural engine's patch, and the L2 bytes of each operand, resident or ring."""

    tile_height: int
    rings: dict[str, Ring]
    taken: tuple[Range, ...] = ()
    patch: Patch | None = None
    spans: dict[str, Range] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Resident:
    """What an operation wrote to L2, from then to the last one that reads it; `low`, `high`: its span."""

    access: Access
    low: int
    high: int
    first: int
    last: int


def resident_ranges(operations: Sequence[Operation], paired: bool = False) -> list[list[Range]]:
    """For each operation, the L2 byte ranges that hold data it or a later operation needs, or that it writes."""
    live: list[list[Range]] = [[] for _ in operations]
    held: list[_Resident] = []
    finished: list[_Resident] = []
    for index, operation in enumerate(operations):
        for read in _l2_reads(operation):
            live[index].append(read.span)
            for resident in _read(held, read):
                resident.last = index
        for written, _ in l2_writes(operation):
            low, high = written.span
            gone = _overwritten(held, written)
            if gone:
                finished += gone.values()
                held = [resident for resident in held if id(resident) not in gone]
            held.append(_Resident(written, low, high, index, index))
    for resident in (*finished, *held):
        footprint = _footprint(resident.access, paired)
        for ranges in live[resident.first:resident.last + 1]:
            ranges.append(footprint)
    return live


def _read(held: Sequence[_Resident], read: Access) -> Iterator[_Resident]:
    """What an access reads of, the last written first."""
    low, high = read.span
    for resident in reversed(held):
        if low < resident.high and resident.low < high:
            yield resident
            if contains(resident.access, read):
                return  # what lies below it was overwritten


def _overwritten(held: Sequence[_Resident], written: Access) -> dict[int, _Resident]:
    """Those of which nothing is left, by id."""
    low, high = written.span
    return {id(resident): resident for resident in held if low <= resident.low and resident.high <= high
            and _fills(written, resident.low, resident.high)}


def _fills(written: Access, first: int, end: int) -> bool:
    """Whether what lies within a tensor is written over, and not in its gaps, as parts of one tensor may."""
    return touches(written, first) or touches(written, end - 1)


def _footprint(access: Access, paired: bool) -> Range:
    """The span with every dimension's whole pitch: rings begin behind the pad of the last row. `paired`: of tensors
    whose channels lie between each other's, all."""
    low, high = access.span
    (n, c, d, h, w), (sn, sc, sd, sh, sw) = access.shape, access.strides
    start = access.offset - (access.offset % sc if paired and c > 1 and sc > w * sw and not 0 < sh < c * sc else 0)
    return low, max(high, start + max(n * sn, c * sc, d * sd, h * sh, w * sw))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A ring an operand asks for, None for the one it is handed its data in; its bytes, and what its base is a multiple
    of."""

    name: str
    ring: Ring | None
    size: int
    alignment: int


class Planner:
    """Plans the tiles of a program's tasks. `forms` says which operations are alike but for where their operands lie:
    those are measured once."""

    def __init__(self, operations: Sequence[Operation], forms: Sequence[int], policy: Policy) -> None:
        self._operations, self._forms, self._policy = operations, forms, policy
        self._live = resident_ranges(operations, policy.rings.own_pairs)
        self._tiles: dict[tuple[int, bool], tuple[Patch | None, tuple[tuple[int, int], ...]]] = {}
        self._wanted: dict[tuple[int, bool, int, int], tuple[_Wanted, ...]] = {}
        self._plans: dict[Hashable, TilePlan] = {}  # equal ones are one, which is less for the garbage collector

    def plan(self, index: int, before: TilePlan | None, flow: Flow) -> TilePlan | None:
        """Rings of operation `index`. `before` is the plan of the operation that hands it its source, if one does: both
        run at the same time, so they share the ring between them and nothing else.

        Rule: a task that follows the one before patch by patch does not stream over what that one uses; rings lie above
        the operands the task has in L2, where that is not possible at the lowest free place.
        None when not even one row of each streamed operand fits beside what is resident.
        """
        operation = self._operations[index]
        follows = flow.pipelined and not isinstance(self._operations[index - 1], NeuralOperation)
        kind = self._forms[index], follows
        if kind not in self._tiles:
            shape = patch(operation, self._policy.patches, follows) if isinstance(operation, NeuralOperation) else None
            self._tiles[kind] = shape, tuple(_tiles(operation, shape, self._policy))
        shape, sizes = self._tiles[kind]
        blocked = self._blocked(index, before, flow)
        held = {name: _footprint(access, self._policy.rings.own_pairs) for name, access in _held(operation).items()}
        top = max([high for _, high in held.values()], default=0)
        for tile, width in sizes if before is None else _no_taller(sizes, before.tile_height):
            wanted = self._wanted.get((*kind, tile, width))
            if wanted is None:
                wanted = self._wanted[*kind, tile, width] = tuple(
                    _wanted(operation, tile, width, shape, self._policy))
            for floor in (top, 0) if top else (0,):
                plan = _place(wanted, tile, shape, [(0, floor), *blocked], before,
                              self._policy.limits.l2_size, self._policy.rings.second_step)
                if plan is not None:
                    plan.spans.update(held)
                    same = (*kind, tile, width, plan.taken, tuple(held.items()))
                    return plan if before is not None else self._plans.setdefault(same, plan)
        return None

    def _blocked(self, index: int, before: TilePlan | None, flow: Flow) -> list[Range]:
        """L2 bytes that are not free for the rings of an operation."""
        live = self._live
        blocked = list(live[index])
        if _chained(self._operations[index]) and index + 1 < len(self._operations):
            blocked += live[index + 1]
        if before is not None:
            blocked += [*live[index - 1], *before.taken]
        elif flow.pipelined:
            blocked += live[index - 1]
        return blocked


def _no_taller(sizes: Sequence[tuple[int, int]], rows: int) -> list[tuple[int, int]]:
    """Tiles of at most as many rows as the ring holds in which a task is handed its data."""
    return [(tile, width) for tile, width in sizes if tile <= rows]


def _tiles(operation: Operation, shape: Patch | None, policy: Policy) -> Iterator[tuple[int, int]]:
    """Rule: rows and columns of a tile to try: all rows; where they do not fit, 32 rows of a planar task and half as
    many of any; then narrower ones. 16 rows between tasks that hand over directly."""
    rules, rows = policy.rings, tile_rows(operation, policy.patches)
    if shape is None:
        width = rules.planar_width
    else:
        narrower = 0 if shape.small else min(shape.fewest, rules.narrowest)
        width = rules.neural_bytes // sources(operation)[0].dtype.size // 2 ** narrower
    if _chained(operation):
        rows = min(rows, rules.chained_rows)
    yield rows, width
    if shape is None and rows > rules.planar_rows:
        rows = rules.planar_rows
        yield rows, width
    while rows > 1:
        rows = ceil_div(rows, 2)
        yield rows, width
    while width > policy.limits.tile_width:
        width //= 2
        yield rows, width


def _wanted(operation: Operation, tile: int, width: int, shape: Patch | None, policy: Policy) -> Iterator[_Wanted]:
    """The rings of an operation with tiles of so many rows and columns."""
    alignment, line = policy.rings.second_alignment, policy.limits.l2_alignment
    for name, access in _streamed(operation).items():
        ring = _ring(access, operation, width, shape, policy)
        if name == "result" and staged(operation, policy):
            ring = _staged_ring(access, shape, policy)
        if name == "second" and policy.rings.own_second:
            yield _second(access, isinstance(operation, GainOffset), tile, width, policy)
            continue
        rows = min(access.shape[3], tile if name == "result" else _source_rows(operation, tile, policy.limits.height))
        handed = name == "first" and access.space is Space.CHAIN
        yield _Wanted(name, None if handed else ring, ring.row * rows, alignment if name == "second" else line)


def _place(wanted: Sequence[_Wanted], tile: int, shape: Patch | None, blocked: list[Range],
           before: TilePlan | None, l2_size: int, step: int) -> TilePlan | None:
    taken = list(blocked)
    rings: dict[str, Ring] = {}
    spans: dict[str, Range] = {}
    for want in wanted:
        ring = want.ring
        if ring is None:
            assert before is not None, "a chained source is another operation's result"
            rings[want.name] = before.rings["result"]
            continue
        base = _first_fit(want.size, taken, want.alignment, l2_size, step if want.name == "second" else 0)
        if base is None:
            return None
        rings[want.name] = Ring(base, ring.channel, ring.row, ring.depth, ring.group, ring.staged)
        spans[want.name] = base, base + want.size
        taken.append(spans[want.name])
    return TilePlan(tile, rings, tuple(spans.values()), shape, spans)


def _ring(access: Access, operation: Operation, width: int, shape: Patch | None, policy: Policy) -> Ring:
    """Rule: a channel of a ring is one line of a tile, channels lie innermost, then D, then rows, which are padded."""
    _, c, d, h, w = access.shape
    lines = 1 if h > 1 and access.strides[3] == 0 and access.space is Space.MEMORY else c
    channel = policy.limits.l2_row(min(w, width) * access.dtype.size)
    line = c * channel
    pad = row_pad(access, operation, channel, shape, lines, policy)
    return Ring(0, channel, d * lines * channel + pad, line, d * line)


def _second(access: Access, vectors: bool, tile: int, width: int, policy: Policy) -> _Wanted:
    """Rule: a second operand passes through L2 with its own extents, of which broadcast ones are 1; the `vectors` of a
    gain-offset do whole, as two rows."""
    view = stored(access, "the second operand", may_swap=True, may_broadcast=True)
    _, c, d, h, w = view.extents
    channel = policy.limits.l2_row((w if vectors else min(w, width)) * access.dtype.size)
    line = c * d * channel
    ring = Ring(0, channel, line + policy.limits.banks.row_pad(line, h if vectors else None), line, line)
    return _Wanted("second", ring, ring.row * (h if vectors else min(h, tile)),
                   policy.limits.l2_alignment if vectors else policy.rings.second_alignment)


def _staged_ring(access: Access, shape: Patch | None, policy: Policy) -> Ring:
    """Rule: a staged result lies in L2 as a tensor does, of the planar engine one patch wide."""
    view = stored(access, "the result", may_swap=True, may_broadcast=False)
    _, c, d, h, w = view.extents
    across = w if shape is not None else min(w, policy.patches.staged_width)
    channel = policy.limits.l2_row(across * access.dtype.size)
    line = c * channel
    pad = policy.limits.banks.row_pad(line, h) if h > 1 else 0
    return Ring(0, channel, d * line + pad, line, d * line, staged=True)


def _held(operation: Operation) -> dict[str, Access]:
    """The L2 side of operands that do not pass through a ring."""
    names = dict(zip(("first", "second"), sources(operation), strict=False)) | {"result": operation.result}
    held = {name: access if access.space is Space.L2 else access.copy for name, access in names.items()}
    return {name: access for name, access in held.items() if access is not None}


def _source_rows(operation: Operation, tile: int, all_rows: int) -> int:
    """Source rows a tile of result rows needs; `all_rows` when it holds the whole result."""
    if tile >= operation.result.shape[3] and isinstance(operation, Convolution | Pooling):
        return all_rows
    if isinstance(operation, Convolution):
        return (tile - 1) * operation.stride[1] + operation.kernel[1]
    if isinstance(operation, Pooling):
        return (tile - 1) * operation.stride[0] + operation.kernel[0]
    return tile


def _first_fit(size: int, taken: list[Range], alignment: int, l2_size: int, step: int = 0) -> int | None:
    """The lowest free place of so many bytes; `step`: behind others at no multiple of that."""
    base = 0
    for low, high in sorted(taken):
        if base + size <= low:
            return base
        behind = round_up(high, alignment)
        base = max(base, behind + alignment if step and behind % step == 0 else behind)
    return base if base + size <= l2_size else None


def _streamed(operation: Operation) -> dict[str, Access]:
    names = dict(zip(("first", "second"), sources(operation), strict=False)) | {"result": operation.result}
    return {name: a for name, a in names.items() if a.space is not Space.L2 and a.copy is None}


def _chained(operation: Operation) -> bool:
    return any(a.space is Space.CHAIN for a in (*sources(operation), operation.result))


def _l2_reads(operation: Operation) -> list[Access]:
    return [a for a in sources(operation) if a.space is Space.L2]
