"""Elements picked by constant indices: a view where one stride expresses them, else strided copies.

Everything here is neural-engine copies, which leave every bit as it is; repeats and reversals, which no stride of the
engine expresses, are unrolled; a long reversal is made in two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openane.compiler.recipes.context import RecipeContext
from openane.errors import UnsupportedError
from openane.ops.indexing import MAXIMUM_COPIES, REVERSAL, IndexedPiece, Loop, block_size, cut_order, pieces
from openane.ops.lowering import Move, Tensor


def taken(context: RecipeContext, tensor: Tensor, axis: int, indices: np.ndarray,
          place: Callable[[], Tensor]) -> Tensor:
    """The elements at `indices` of one dimension: a view where possible, else copied into what `place` gives."""
    found = pieces(indices)
    if len(found) == 1 and len(found[0].loops) <= 1:
        count = len(indices)
        step = found[0].loops[0].source if found[0].loops else 1
        if step > 0:
            return context.part(tensor, axis, found[0].source, count, step)
        if step < 0 and count > REVERSAL:
            forward = context.part(tensor, axis, found[0].source + (count - 1) * step, count, -step)
            return _reversed(context, forward, axis, place)
    target = place()
    copy_indexed(context, target, axis, [(tensor, indices, None)])
    return target


def copy_indexed(context: RecipeContext, target: Tensor, axis: int, moves: Sequence[Move]) -> None:
    """target[places] = source[indices] along one dimension for each move in turn; together they must cover target.

    Where the target or a source cannot be cut there (its rows run along the dimension), a turned copy is cut instead.
    """
    plan = [(source, piece) for source, indices, places in moves for piece in pieces(indices, places)]
    cost = sum(piece.cost() for _, piece in plan)
    if cost > MAXIMUM_COPIES:
        raise UnsupportedError(context.label, "constant indices must be expressible by few strided copies",
                               limit=MAXIMUM_COPIES, found=cost, remedy="use indices that run in ranges or repeat "
                               "periodically, or apply them to a constant")
    plan = [_forward(context, source, axis, piece) if piece.backwards else (source, piece) for source, piece in plan]
    _copy_pieces(context, target, axis, [(source, piece) for source, found in plan for piece in found.unrolled()])


def _forward(context: RecipeContext, source: Tensor, axis: int, piece: IndexedPiece) -> tuple[Tensor, IndexedPiece]:
    """What a long reversal takes, reversed by itself, and the piece that takes it from there."""
    loop = piece.loops[0]
    span = context.part(source, axis, piece.source + (loop.count - 1) * loop.source, loop.count, -loop.source)
    order = cut_order(span.shape, (axis,))
    made = _reversed(context, span, axis, lambda: context.scratch(span.shape, order, span.dtype))
    return made, IndexedPiece(piece.place, 0, (Loop(loop.count, loop.place, 1),))


def _copy_pieces(context: RecipeContext, target: Tensor, axis: int,
                 steps: Sequence[tuple[Tensor, IndexedPiece]]) -> None:
    """Every piece of a source copied to its places in the target."""
    whole = target
    if not all(_writable(target, axis, piece) for _, piece in steps):
        whole = context.scratch(target.shape, cut_order(target.shape, (axis,)), target.dtype)
    cut: dict[Tensor, Tensor] = {}
    for source, piece in steps:
        if source not in cut and not _sources(source, axis, piece).aligned:
            cut[source] = turned(context, source, axis)
    for source, piece in steps:
        start = _without_repeats(piece)
        context.copy(_sources(cut.get(source, source), axis, start), _places(whole, axis, start))
        _repeat(context, whole, axis, piece)
    if whole is not target:
        context.copy(whole, target)


def _writable(target: Tensor, axis: int, piece: IndexedPiece) -> bool:
    """Whether the places of a piece, and those of the repeats it is made from, can be addressed, and nothing else is
    written: the engine fills the last 64 bytes of a row with zeros."""
    stop = piece.place + sum((loop.count - 1) * loop.place for loop in piece.loops) + 1
    if target.contiguous == axis and stop < target.shape[axis] and stop * target.element % target.alignment:
        return False
    starts = [0, *(loop.place for loop in piece.loops if loop.doubled)]
    return all(_places(target, axis, IndexedPiece(piece.place + start, 0, piece.loops)).aligned for start in starts)


def _without_repeats(piece: IndexedPiece) -> IndexedPiece:
    return IndexedPiece(piece.place, piece.source, tuple(loop for loop in piece.loops if loop.source))


def _repeat(context: RecipeContext, whole: Tensor, axis: int, piece: IndexedPiece) -> None:
    """Fills the repeats of a piece from its first elements, twice as many with every copy."""
    done = [loop for loop in piece.loops if loop.source]
    for loop in piece.loops:
        made = loop.count if loop.source else 1
        while made < loop.count:
            loops = (*done, Loop(min(made, loop.count - made), loop.place, loop.place))
            filled, empty = (IndexedPiece(start, start, loops)
                             for start in (piece.place, piece.place + made * loop.place))
            context.copy(_places(whole, axis, filled), _places(whole, axis, empty))
            made += loops[-1].count
        if not loop.source:
            done.append(loop)


def turned(context: RecipeContext, tensor: Tensor, axis: int) -> Tensor:
    """The tensor, or a copy in which rows run along another dimension, so that `axis` can be cut anywhere."""
    if tensor.aligned and tensor.contiguous != axis:
        return tensor
    target = context.scratch(tensor.shape, cut_order(tensor.shape, (axis,)), tensor.dtype)
    context.copy(tensor, target)
    return target


def _reversed(context: RecipeContext, tensor: Tensor, axis: int, place: Callable[[], Tensor]) -> Tensor:
    """The tensor backwards: elements within blocks first, then the blocks, what no block holds one by one."""
    count = tensor.shape[axis]
    size = block_size(count)
    held = count // size * size
    blocks = np.arange(held).reshape(-1, size)
    shape = (*tensor.shape[:axis], held, *tensor.shape[axis + 1:])
    inner = context.scratch(shape, cut_order(tensor.shape, (axis,)), tensor.dtype)
    copy_indexed(context, inner, axis, [(tensor, blocks[:, ::-1].reshape(-1), None)])
    target = place()
    rest = count - held
    copy_indexed(context, target, axis, [(inner, blocks[::-1].reshape(-1), np.arange(rest, count)),
                                         (tensor, np.arange(count - 1, held - 1, -1), np.arange(rest))])
    return target


def _places(tensor: Tensor, axis: int, piece: IndexedPiece) -> Tensor:
    return _looped(tensor, axis, piece.place, [(loop.count, loop.place) for loop in _or_one(piece.loops)])


def _sources(tensor: Tensor, axis: int, piece: IndexedPiece) -> Tensor:
    return _looped(tensor, axis, piece.source, [(loop.count, loop.source) for loop in _or_one(piece.loops)])


def _or_one(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    return loops or (Loop(1, 1, 1),)


def _looped(tensor: Tensor, axis: int, start: int, loops: Sequence[tuple[int, int]]) -> Tensor:
    """The tensor with `axis` replaced by loops of (count, step)."""
    stride = tensor.strides[axis]
    shape = (*tensor.shape[:axis], *(count for count, _ in loops), *tensor.shape[axis + 1:])
    strides = (*tensor.strides[:axis], *(step * stride for _, step in loops), *tensor.strides[axis + 1:])
    return tensor.seen(tensor.offset + start * stride, shape, strides)
