"""pad: elements added around the last dimensions of x; `pad` lists (before, after) for each, outermost first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.engine import DType
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import fewer
from openane.ops.gradients import Backward, gathered_back, only
from openane.ops.lowering import Lowering, Tensor
from openane.ops.movement import inner, inside, select
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PADDED = tuple(dtype for dtype in ELEMENTS if dtype != "bool")
NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
PARAMETERS = (
    Parameter("x"),
    Parameter("pad", const=True, kind="int32"),
    Parameter("mode", const=True, default="constant", kind="string"),
    Parameter("constant_val", const=True, default=0.0),
)


def padding(operands: Mapping[str, Operand]) -> tuple[tuple[int, int], ...]:
    """(before, after) for every dimension of x. GraphError when `pad` does not fit x or the mode."""
    arguments = Arguments("pad", PARAMETERS, operands)
    x = arguments.tensor("x", PADDED, (1, 8))
    counts = arguments.integers("pad", (), minimum=0) or ()
    if len(counts) % 2 or len(counts) > 2 * x.type.rank:
        raise refusal("pad", "pad", f"must hold two counts for each of at most {x.type.rank} dimensions", list(counts))
    pairs = _pairs(counts, x.type.rank)
    mode = arguments.text("mode", tuple(NUMPY_MODES))
    for extent, pair in zip(x.shape, pairs, strict=True):
        if mode == "reflect" and max(pair) >= extent:
            raise refusal("pad", "pad", f"may add at most {extent - 1} elements to a dimension of {extent} in reflect "
                          "mode", list(pair))
    return pairs


def _pairs(counts: tuple[int, ...], rank: int) -> tuple[tuple[int, int], ...]:
    stated = tuple(zip(counts[::2], counts[1::2], strict=True))
    return ((0, 0),) * (rank - len(stated)) + stated


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    pairs = padding(operands)
    arguments = Arguments("pad", PARAMETERS, operands)
    arguments.number("constant_val")
    x = arguments.tensor("x", ELEMENTS)
    return (TensorType(x.dtype, tuple(e + before + after for e, (before, after) in zip(x.shape, pairs, strict=True))),)


def _reference(*, x: np.ndarray, pad: np.ndarray, mode: str, constant_val: np.ndarray) -> tuple[np.ndarray, ...]:
    pairs = _pairs(tuple(int(count) for count in pad), x.ndim)
    if mode == "constant":
        return (np.pad(x, pairs, constant_values=constant_val.astype(x.dtype)),)
    return (np.pad(x, pairs, mode="reflect" if mode == "reflect" else "edge"),)


def widened(lowering: Lowering, source: Tensor, pairs: Sequence[tuple[int, int]],
            final: Tensor | None = None, value: float = 0.0) -> Tensor:
    """`source` with `value` joined on, (before, after) for each dimension; in `final` where one is given, else in
    row-major scratch. The source is copied once, each side of each dimension once, and all of it once more where rows
    cannot be cut."""
    if not any(any(pair) for pair in pairs):
        if final is not None:
            lowering.copy(source, final)
        return source if final is None else final
    shape = tuple(e + before + after for e, (before, after) in zip(source.shape, pairs, strict=True))
    target = lowering.scratch(shape, None, source.dtype) if final is None else final
    middle = tuple(range(before, before + e) for e, (before, _) in zip(source.shape, pairs, strict=True))
    sides = _sides(shape, middle)
    whole = inside(lowering, target, middle, *sides)
    lowering.copy(source, inner(whole, middle))
    for side in sides:
        place = inner(whole, side)
        lowering.copy(_filled(lowering, place, value), place)
    if whole is not target:
        lowering.copy(whole, target)
    return target


def _sides(shape: Sequence[int], middle: Sequence[range]) -> list[tuple[range, ...]]:
    """Slabs that cover everything outside `middle`, each once: full in the dimensions before its own."""
    found = []
    for axis, kept in enumerate(middle):
        for side in (range(kept.start), range(kept.stop, shape[axis])):
            if side:
                found.append((*(range(extent) for extent in shape[:axis]), side, *middle[axis + 1:]))
    return found


def _filled(lowering: Lowering, like: Tensor, value: float) -> Tensor:
    """A constant of the shape of `like`, stored with the same dimension along rows."""
    row = like.rank - 1 if like.contiguous is None else like.contiguous
    order = (*(d for d in range(like.rank) if d != row), row)
    stored = lowering.constant(np.full([like.shape[d] for d in order], value, np.float16))
    return stored.transpose([order.index(d) for d in range(like.rank)])


def outside(mode: str, extent: int, before: int, after: int) -> np.ndarray:
    """The position each element of a padded dimension repeats, in reflect or replicate mode."""
    at = np.arange(-before, extent + after)
    if mode == "replicate":
        return at.clip(0, extent - 1)
    at = np.abs(at)
    return np.where(at >= extent, 2 * (extent - 1) - at, at)


def _lower(node: Node, lowering: Lowering) -> None:
    """Constants are copied around x; reflections and repeats are elements of x picked by constant indices."""
    pairs = padding(node.operands)
    arguments = Arguments("pad", PARAMETERS, node.operands)
    mode = arguments.text("mode", tuple(NUMPY_MODES))
    if mode == "constant":
        tensor = lowering.read(node["x"])
        place = lowering.native_result(node.output, DType.FLOAT16)
        widened(lowering, tensor, pairs, place, arguments.number("constant_val"))
        return
    tensor = lowering.native(node["x"])
    select(lowering, node.output, tensor, {d: outside(mode, tensor.shape[d], *pair) for d, pair in enumerate(pairs)})


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """What was inside, and where elements are repeated or reflected the sums over their copies, axis by axis."""
    x, given, pairs = node["x"], only(upstream), padding(node.operands)
    mode = Arguments("pad", PARAMETERS, node.operands).text("mode", tuple(NUMPY_MODES))
    if mode == "constant":
        return {"x": backward.single("slice_by_size", x=given, begin=[before for before, _ in pairs],
                                     size=list(x.shape))}
    for axis, pair in enumerate(pairs):
        if any(pair):
            given = gathered_back(backward, given, axis, outside(mode, x.shape[axis], *pair), x.shape[axis])
    return {"x": given}


def _homogeneous(node: Node) -> tuple[str, ...]:
    """Of x where what is put around it is zero, or x itself."""
    arguments = Arguments("pad", PARAMETERS, node.operands)
    around = arguments.text("mode", tuple(NUMPY_MODES)) == "constant" and arguments.number("constant_val")
    return () if around else ("x",)


def _fewer(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    return fewer.widened(node["x"], padding(node.operands), node, rewriter)


OPS = (Op("pad", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient, moves=Movement.MIX,
          homogeneous=_homogeneous, fewer=_fewer),)
