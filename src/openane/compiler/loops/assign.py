"""Which dimensions of a tensor the engine's five loops N, C, D, H and W go through.

Every operand of an engine operation is read or written by five nested loops. The hardware does not take any strides:

* in memory and in L2, W has the stride of one element, and all other strides are multiples of an alignment;
* a result, and a planar operand in L2, may have C at the stride of one element instead, and W aligned: the engine then
  transposes;
* a stride of 0 repeats an operand. N may repeat anywhere, the other dimensions only for planar operands in L2.

`assign` finds an assignment of dimensions to loops that suits all operands of one operation. Where there is none,
`split` takes the tensors apart.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise, permutations
from math import prod

from openane.chips import Limits
from openane.engine import Access, Space
from openane.engine.access import CHANNELS, DEPTH, HEIGHT, WIDTH, plain_access
from openane.engine.access import Shape as Loops
from openane.ops.lowering import ELEMENT, Tensor
from openane.record_classes import dataclass

Dims = tuple[int | None, int | None, int | None, int | None, int | None]
"""The logical dimension that each of N, C, D, H and W goes through; None: the loop has one turn."""
Shape = tuple[int, ...]
MAXIMUM_OPERATIONS = 4096
"""The most engine operations that one operation of a model may be unrolled into."""


class OperandRole(Enum):
    """What an operand is to its operation."""

    NEURAL_SOURCE = "neural source"
    PLANAR_SOURCE = "planar source"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class OperandStrides:
    """The strides of an operand in bytes. `element` is the size of an element; other strides must be multiples of
    `unit`; `near` says that the operand lies in L2."""

    strides: Shape
    element: int
    unit: int
    near: bool


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand's dimensions by the loops they may be: N, D or H, and C and W as stored or swapped."""

    group: frozenset[int]
    outer: frozenset[int]
    row: frozenset[int]
    element: frozenset[int]
    swaps: bool

    @staticmethod
    def of(shape: Shape, steps: OperandStrides, role: OperandRole) -> _Side:
        repeats = role is OperandRole.PLANAR_SOURCE and steps.near
        zero, aligned, element = set(), set(), set()
        for dimension, (extent, stride) in enumerate(zip(shape, steps.strides, strict=True)):
            if stride == 0 and extent > 1:
                zero.add(dimension)
            elif stride % steps.unit == 0 or extent == 1:
                aligned.add(dimension)
            if stride == steps.element or extent == 1:
                element.add(dimension)
        standing = zero if repeats else set[int]()
        result = role is OperandRole.RESULT
        return _Side(frozenset(aligned if result else aligned | zero), frozenset(aligned | standing),
                     frozenset(element | standing), frozenset(element), repeats or result)

    def takes(self, row: int | None, plane: int | None) -> bool:
        """Whether W can walk `row` and C `plane`: W contiguous, or C where the operand may be swapped."""
        if (row is None or row in self.row) and (plane is None or plane in self.outer):
            return True
        return self.swaps and (plane is None or plane in self.element) and (row is None or row in self.outer)


def access(tensor: Tensor, dims: Sequence[int | None], interleave: int = 1) -> Access:
    """The operand that goes through `tensor` with loop N, C, D, H, W number i over dimension dims[i]. A loop of None
    has one turn. `interleave`: channels lie in blocks of so many."""
    shape, strides, real = _walked(tensor.shape, tensor.strides, tuple(dims))
    if interleave == 1 and real:
        return plain_access(tensor.space, tensor.slot, tensor.offset, shape, strides, tensor.dtype)
    return Access(space=tensor.space, slot=tensor.slot, offset=tensor.offset, shape=shape, strides=strides,
                  dtype=tensor.dtype, interleave=interleave)


@lru_cache(maxsize=4096)
def _walked(extents: Shape, steps: Shape, dims: tuple[int | None, ...]) -> tuple[Loops, Loops, bool]:
    """Extents and strides of the loops over those dimensions, and whether there are elements at all. Remembered: most
    operands of a network are walked as others are."""
    n, c, d, h, w = [1 if at is None else extents[at] for at in dims]
    strides = [0 if at is None or extents[at] == 1 else steps[at] for at in dims]
    return (n, c, d, h, w), (strides[0], strides[1], strides[2], strides[3], strides[4]), min(n, c, d, h, w) > 0


def row_cut(limits: Limits) -> int:
    """The number of elements between places at which a row may be cut, so that every part is aligned in memory even
    where elements have one byte."""
    return limits.memory_alignment


def legal(operand: Access, role: OperandRole, limits: Limits) -> bool:
    """Whether the engine can read or write the operand in this role. It must begin at an aligned place, and N, D and H
    must have aligned strides. Either C has an aligned stride and W is contiguous, or, where the two may be exchanged, C
    is contiguous and W has an aligned stride."""
    unit = limits.alignment(operand.space is not Space.MEMORY)
    repeats = role is OperandRole.PLANAR_SOURCE and operand.space is Space.L2
    if operand.offset % unit or not _steps(operand, 0, unit, role is not OperandRole.RESULT):
        return False
    if not all(_steps(operand, loop, unit, repeats) for loop in (DEPTH, HEIGHT)):
        return False
    row = _contiguous(operand, WIDTH) or (repeats and operand.strides[WIDTH] == 0)
    if row and _steps(operand, CHANNELS, unit, repeats):
        return True
    swaps = repeats or role is OperandRole.RESULT
    return swaps and _contiguous(operand, CHANNELS) and _steps(operand, WIDTH, unit, repeats)


def _steps(operand: Access, loop: int, unit: int, repeats: bool) -> bool:
    """Whether a loop goes in aligned steps; it may stand still where it has one step, or operands `repeats`."""
    stride = operand.strides[loop]
    return stride % unit == 0 and (stride != 0 or operand.shape[loop] == 1 or repeats)


def _contiguous(operand: Access, loop: int) -> bool:
    """Whether a loop goes from element to element, or has one step."""
    return operand.shape[loop] == 1 or operand.strides[loop] == operand.dtype.size


def assign(tensors: Sequence[Tensor], roles: Sequence[OperandRole], limits: Limits,
           channel: int | None = None) -> Dims | None:
    """Dimensions for N, C, D, H, W that suit every operand and the widths of the register fields, or None. All tensors
    have one shape. Among several the one closest to the natural order wins; `channel` says which dimension C must go
    through."""
    shape, steps = tensors[0].shape, _strides(tensors)
    return None if steps is None else _assigned(shape, steps, tuple(roles), limits, channel)


def assignments(tensors: Sequence[Tensor], roles: Sequence[OperandRole], channel: int | None = None) -> list[Dims]:
    """Every choice of dimensions for N, C, D, H, W that suits the strides of every operand, extents apart."""
    steps = _strides(tensors)
    return [] if steps is None else list(_assignments(tensors[0].shape, steps, tuple(roles), channel))


def streamed_channels(limits: Limits, width: int, operands: int) -> int:
    """Channels of rows `width` wide that `operands` streamed operands may have, so that one row of the narrowest tile
    of each fits half of L2; the other half is for what is resident, and for results."""
    row = limits.l2_row(min(width, limits.tile_width) * ELEMENT)
    most, cut = limits.l2_size // 2 // (row * operands), row_cut(limits)
    return min(limits.channels, most // cut * cut)


def excess(shape: Shape, dims: Dims, limits: Limits) -> list[tuple[float, int, int]]:
    """The dimensions that are too large for their loop, each as (extent divided by the bound, dimension, bound). One
    line of a tile holds every C of every D, so that `limits.channels`, which is what fits L2, bounds the product of the
    two."""
    planes = 1 if dims[1] is None else min(shape[dims[1]], limits.channels)
    depth = min(limits.depth, limits.channels // planes)
    bounds = (limits.groups, limits.channels, depth, limits.height, limits.width)
    return [(shape[d] / bound, d, bound) for d, bound in zip(dims, bounds, strict=True)
            if d is not None and shape[d] > bound]


def within(shape: Sequence[int], limits: Limits) -> bool:
    """Whether one operation can go through the extents N, C, D, H, W."""
    return not excess(tuple(shape), (0, 1, 2, 3, 4), limits)


def _strides(tensors: Sequence[Tensor]) -> tuple[OperandStrides, ...] | None:
    """The strides of every operand by what they allow; None where an offset rules everything out."""
    if any(t.offset % t.alignment for t in tensors):
        return None
    return tuple(OperandStrides(t.strides, t.element, t.alignment, t.space is Space.L2) for t in tensors)


@lru_cache(maxsize=4096)
def _assigned(shape: Shape, steps: tuple[OperandStrides, ...], roles: tuple[OperandRole, ...], limits: Limits,
              channel: int | None) -> Dims | None:
    return next((dims for dims in _assignments(shape, steps, roles, channel) if not excess(shape, dims, limits)), None)


def _assignments(shape: Shape, steps: tuple[OperandStrides, ...], roles: tuple[OperandRole, ...],
                 channel: int | None) -> Iterator[Dims]:
    """Choices that suit the strides, the one closest to the natural order first."""
    real = [d for d in range(len(shape)) if shape[d] > 1 or d == channel]
    sides = [_Side.of(shape, step, role) for step, role in zip(steps, roles, strict=True)]
    groups = set(real).intersection(*(side.group for side in sides))
    planes = set(real).intersection(*(side.outer for side in sides))
    for row, plane in _pairs(len(shape), real, channel):
        if set(real) - {row, plane} <= planes | groups and all(side.takes(row, plane) for side in sides):
            yield from (dims for dims in _completions(real, row, plane) if _allowed(dims, groups, planes))


def _pairs(rank: int, real: list[int], channel: int | None) -> Iterator[tuple[int | None, int | None]]:
    """What W and C may walk, the natural choice first."""
    for row in _row_choices(rank, real):
        yield from ((row, plane) for plane in _channel_choices(rank, real, row, channel))


def _allowed(dims: Dims, groups: Container[int], planes: Container[int]) -> bool:
    """Whether N walks one of `groups`, D and H some of `planes`, or none."""
    batch, _, depth, height, _ = dims
    return (batch is None or batch in groups) and (depth is None or depth in planes) \
        and (height is None or height in planes)


def merged(tensors: Sequence[Tensor], limit: int) -> list[Tensor]:
    """The tensors with neighbouring dimensions joined where every operand's strides allow it (up to `limit`)."""
    shape = tensors[0].shape
    keep = [d for d in range(len(shape)) if shape[d] > 1]
    groups: list[list[int]] = [[d] for d in keep[:1]]
    for before, after in pairwise(keep):
        extent = shape[after] * prod(shape[d] for d in groups[-1])
        if extent <= limit and all(t.strides[before] == t.strides[after] * shape[after] for t in tensors):
            groups[-1].append(after)
        else:
            groups.append([after])
    extents = tuple(prod(shape[d] for d in group) for group in groups)
    return [t.seen(t.offset, extents, tuple(t.strides[g[-1]] for g in groups)) for t in tensors]


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
    before = [d for d in rest if plane is not None and d < plane]
    after = [d for d in rest if d not in before]
    height = after.pop() if after else None
    batch = before.pop(0) if before else None
    free = iter([*before, *after])
    depth = next(free, None)
    batch = next(free, None) if batch is None else batch
    height = next(free, None) if height is None else height
    return batch, plane, depth, height, row
