"""From logical dimensions to the engine's five loops N, C, D, H, W.

Memory and L2 operands need W at element stride and everything else aligned; a result (and a planar operand in L2) may
instead have C at element stride and W aligned, which is how the engine transposes; a stride of 0 repeats an operand
along N from anywhere, along the other dimensions only for planar operands in L2. `walk` finds an assignment of
dimensions that suits all operands of one operation, merging, splitting or unrolling dimensions where none does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise, permutations

from openane.chips import Limits
from openane.engine import Access, Space
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor

Dims = tuple[int | None, int | None, int | None, int | None, int | None]
"""Logical dimension walked by each of N, C, D, H, W."""
MAXIMUM_OPERATIONS = 4096
"""Engine operations one model operation may be unrolled into."""


class Role(Enum):
    """What an operand is to its operation."""

    NEURAL_SOURCE = "neural source"
    PLANAR_SOURCE = "planar source"
    RESULT = "result"


def access(tensor: Tensor, dims: Sequence[int | None]) -> Access:
    """The operand that walks `tensor` with dimension dims[i] as N, C, D, H, W; None is an extent of 1."""
    shape = tuple(1 if d is None else tensor.shape[d] for d in dims)
    strides = tuple(0 if d is None else tensor.strides[d] for d in dims)
    slot = tensor.slot
    return Access(space=tensor.space, slot=slot, offset=tensor.offset, shape=shape,  # type: ignore[arg-type]
                  strides=strides)  # type: ignore[arg-type]


def legal(operand: Access, role: Role) -> bool:
    """Whether the engine can walk the operand in this role."""
    unit = 64 if operand.space is Space.MEMORY else 16
    repeatable = role is Role.PLANAR_SOURCE and operand.space is Space.L2
    loops = dict(zip("NCDHW", zip(operand.shape, operand.strides, strict=True), strict=True))
    if operand.offset % unit:
        return False

    def aligned(axis: str, zero: bool) -> bool:
        extent, stride = loops[axis]
        return extent == 1 or (stride % unit == 0 and (stride != 0 or zero))

    def element(axis: str) -> bool:
        extent, stride = loops[axis]
        return extent == 1 or stride == ELEMENT

    if not (aligned("N", role is not Role.RESULT) and aligned("D", repeatable) and aligned("H", repeatable)):
        return False
    row = element("W") or (repeatable and loops["W"][1] == 0)
    if row and aligned("C", repeatable):
        return True
    swappable = role is Role.RESULT or repeatable
    return swappable and element("C") and aligned("W", repeatable)


def assign(tensors: Sequence[Tensor], roles: Sequence[Role], limits: Limits,
           channel: int | None = None) -> Dims | None:
    """Dimensions for N, C, D, H, W that suit every operand and the field widths, or None.

    All tensors have one shape. The choice closest to the natural order wins; `channel` fixes what C walks.
    """
    shape = tensors[0].shape
    real = [d for d in range(len(shape)) if shape[d] > 1 or d == channel]
    for row in _row_choices(len(shape), real):
        for plane in _channel_choices(len(shape), real, row, channel):
            for dims in _completions(real, row, plane):
                if _within(shape, dims, limits) and all(
                        legal(access(t, dims), role) for t, role in zip(tensors, roles, strict=True)):
                    return dims
    return None


def walk(tensors: Sequence[Tensor], roles: Sequence[Role], limits: Limits, label: str) -> list[list[Access]] | None:
    """Operands of the operations that together cover the tensors; None when their strides rule it out.

    UnsupportedError when more than MAXIMUM_OPERATIONS would be needed.
    """
    found: list[list[Access]] = []
    for operands in _cover(list(tensors), roles, limits):
        if operands is None:
            return None
        found.append(operands)
        if len(found) > MAXIMUM_OPERATIONS:
            raise UnsupportedError(label, "the operation would be unrolled into too many engine operations",
                                   limit=MAXIMUM_OPERATIONS, found=f"shape {list(tensors[0].shape)}",
                                   remedy="use a shape whose trailing dimensions are larger")
    return found


def merged(tensors: Sequence[Tensor], limit: int) -> list[Tensor]:
    """The tensors with neighbouring dimensions joined where every operand's strides allow it (up to `limit`)."""
    shape = tensors[0].shape
    keep = [d for d in range(len(shape)) if shape[d] > 1]
    groups: list[list[int]] = [[d] for d in keep[:1]]
    for before, after in pairwise(keep):
        extent = shape[after]
        for d in groups[-1]:
            extent *= shape[d]
        if extent <= limit and all(t.strides[before] == t.strides[after] * shape[after] for t in tensors):
            groups[-1].append(after)
        else:
            groups.append([after])
    out = []
    for t in tensors:
        extents = []
        for group in groups:
            extent = 1
            for d in group:
                extent *= shape[d]
            extents.append(extent)
        out.append(Tensor(t.slot, t.offset, tuple(extents), tuple(t.strides[g[-1]] for g in groups), t.space))
    return out


def _cover(tensors: list[Tensor], roles: Sequence[Role], limits: Limits) -> Iterator[list[Access] | None]:
    dims = assign(tensors, roles, limits)
    if dims is None:
        joined = merged(tensors, min(limits.width, limits.height, limits.groups))
        if joined[0].shape != tensors[0].shape:
            tensors = joined
            dims = assign(tensors, roles, limits)
    if dims is not None:
        yield [access(t, dims) for t in tensors]
        return
    axis, size = _unroll(tensors[0].shape, limits)
    if axis is None:
        yield None
        return
    for start in range(0, tensors[0].shape[axis], size):
        count = min(size, tensors[0].shape[axis] - start)
        yield from _cover([t.part(axis, start, count) for t in tensors], roles, limits)


def _unroll(shape: tuple[int, ...], limits: Limits) -> tuple[int | None, int]:
    """Which dimension to cut into pieces of which size: the one beyond every field, else the smallest outer one."""
    large = [d for d, extent in enumerate(shape) if extent > limits.width]
    if large:
        return large[0], limits.width // 2
    real = [d for d, extent in enumerate(shape) if extent > 1]
    if len(real) <= 2:
        return None, 1
    return min(real[:-1], key=lambda d: shape[d]), 1


def _row_choices(rank: int, real: list[int]) -> list[int | None]:
    last = rank - 1
    first: list[int | None] = [last] if last in real else [None]
    return first + [d for d in reversed(real) if d not in first] + ([None] if None not in first else [])


def _channel_choices(rank: int, real: list[int], row: int | None, channel: int | None) -> list[int | None]:
    if channel is not None:
        return [channel] if channel != row else []
    natural: list[int | None] = [rank - 3] if rank == 4 or rank == 3 else [rank - 4] if rank == 5 else [None]
    if natural[0] is not None and (natural[0] not in real or natural[0] == row):
        natural = [None]
    return natural + [d for d in real if d != row and d not in natural] + ([None] if None not in natural else [])


def _completions(real: list[int], row: int | None, plane: int | None) -> Iterator[Dims]:
    """The natural distribution of the dimensions left over N, D and H, then every other one."""
    natural = _complete(real, row, plane)
    if natural is None:
        return
    yield natural
    rest = [d for d in real if d not in (row, plane)]
    for batch, depth, height in permutations([*rest, *[None] * (3 - len(rest))]):
        if (batch, plane, depth, height, row) != natural:
            yield batch, plane, depth, height, row


def _complete(real: list[int], row: int | None, plane: int | None) -> Dims | None:
    """Gives N, D and H the dimensions left: those before C to N first, those after it to H first."""
    rest = [d for d in real if d not in (row, plane)]
    if len(rest) > 3:
        return None
    batch = depth = height = None
    before = [d for d in rest if plane is not None and d < plane]
    after = [d for d in rest if d not in before]
    if after:
        height = after.pop()
    if before:
        batch = before.pop(0)
    for d in before + after:
        if depth is None:
            depth = d
        elif batch is None:
            batch = d
        else:
            height = d if height is None else None
    if sorted(d for d in (batch, depth, height) if d is not None) != sorted(rest):
        return None
    return batch, plane, depth, height, row


def _within(shape: tuple[int, ...], dims: Dims, limits: Limits) -> bool:
    bounds = (limits.groups, limits.channels, limits.depth, limits.height, limits.width)
    return all(d is None or shape[d] <= bound for d, bound in zip(dims, bounds, strict=True))
