"""pad: elements added around the last dimensions of x; `pad` lists (before, after) for each, outermost first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter

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
    x = arguments.tensor("x", ranks=(1, 8))
    counts = arguments.integers("pad", (), minimum=0) or ()
    if len(counts) % 2 or len(counts) > 2 * x.type.rank:
        raise refusal("pad", "pad", f"must hold two counts for each of at most {x.type.rank} dimensions", list(counts))
    pairs = _pairs(counts, x.type.rank)
    mode = arguments.text("mode", tuple(NUMPY_MODES))
    for extent, pair in zip(x.shape, pairs, strict=True):
        largest = {"reflect": extent - 1, "replicate": extent}.get(mode)
        if largest is not None and max(pair) > largest:
            raise refusal("pad", "pad", f"may add at most {largest} elements to a dimension of {extent} in {mode} mode",
                          list(pair))
    return pairs


def _pairs(counts: tuple[int, ...], rank: int) -> tuple[tuple[int, int], ...]:
    stated = tuple(zip(counts[::2], counts[1::2], strict=True))
    return ((0, 0),) * (rank - len(stated)) + stated


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    pairs = padding(operands)
    arguments = Arguments("pad", PARAMETERS, operands)
    arguments.number("constant_val")
    x = arguments.tensor("x")
    return (TensorType(x.dtype, tuple(e + before + after for e, (before, after) in zip(x.shape, pairs, strict=True))),)


def _reference(*, x: np.ndarray, pad: np.ndarray, mode: str, constant_val: np.ndarray) -> tuple[np.ndarray, ...]:
    pairs = _pairs(tuple(int(count) for count in pad), x.ndim)
    if mode == "constant":
        return (np.pad(x, pairs, constant_values=float(constant_val)),)
    return (np.pad(x, pairs, mode="reflect" if mode == "reflect" else "edge"),)


def pads_with_zeros(node: Node, limits: Limits) -> bool:
    """The mode must be constant and the value 0."""
    mode, value = node.get("mode"), node.get("constant_val")
    return (mode is None or mode.data == "constant") and (value is None or not value.array().any())


def widened(lowering: Lowering, source: Tensor, pairs: Sequence[tuple[int, int]],
            final: Tensor | None = None) -> Tensor:
    """`source` with zeros joined on, (before, after) for each dimension, one axis after the other; in `final` where one
    is given, else in scratch."""
    pending = [(axis, pair) for axis, pair in enumerate(pairs) if any(pair)]
    if not pending and final is not None:
        lowering.copy(source, final)
    for axis, (before, after) in pending:
        def shape(count: int, axis: int = axis, like: Tensor = source) -> tuple[int, ...]:
            return (*like.shape[:axis], count, *like.shape[axis + 1:])

        parts = [source]
        if before:
            parts.insert(0, lowering.constant(np.zeros(shape(before), np.float16)))
        if after:
            parts.append(lowering.constant(np.zeros(shape(after), np.float16)))
        whole = shape(before + source.shape[axis] + after)
        target = final if final is not None and axis == pending[-1][0] else lowering.scratch(whole)
        lowering.join(target, parts, axis)
        source = target
    return source


def _lower(node: Node, lowering: Lowering) -> None:
    widened(lowering, lowering.read(node["x"]), padding(node.operands), lowering.result(node.output))


OPS = (Op("pad", PARAMETERS, _infer, _reference, rules=(*ENGINE, pads_with_zeros), lower=_lower),)
