"""What gradient rules are written against, and what they share: broadcasting undone, sums spread, zeros put around.

A rule is reverse-mode differentiation of one operation: from the derivative of the loss by the results it builds the
derivatives by the operands, out of MIL operations that run on the engine like any others.

    def gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
        return {"x": backward.single("mul", x=upstream[0], y=node.output)}        # of exp

Where the result says as much as the operand (relu, tanh, exp, softmax) rules read the result: the operand is then not
needed after the forward pass and can stay inside a fused engine operation.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Node, Operand, Value, numpy_type
from openane.ops.build import standing_for
from openane.ops.movement import factored
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Upstream

LARGEST = 1 << 22
"""Elements of a matrix that sums what was taken apart: 8 MiB of coefficients."""


class Backward(Rewriter):
    """Builds the nodes of one node's gradient; `wanted` holds id(value) of every value whose gradient is asked for."""

    def __init__(self, node: Node, names: set[str], wanted: Container[int]) -> None:
        super().__init__(node, names, f"gradient of {node.label}")
        self._wanted = wanted

    def wants(self, value: Value | None) -> bool:
        """Whether the gradient of an operand is needed."""
        return value is not None and id(value) in self._wanted

    @property
    def made(self) -> tuple[Node, ...]:
        """The nodes built so far."""
        return tuple(self._nodes)

    def loose(self, value: Value) -> Value:
        """`value`, which may be computed by the program, for an operand that has to be a constant: as in the operation
        that is differentiated it is made one again, or the operation is written otherwise."""
        if not value.constant:
            self._folded |= standing_for((value,))
        return value

    def refuse(self, rule: str, remedy: str) -> UnsupportedError:
        """The error for a node this rule does not differentiate."""
        return UnsupportedError(self._node.label, rule, remedy=remedy)


def stopped(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The gradient of a function that is constant nearly everywhere: none."""
    return {}


def only(upstream: Upstream) -> Value:
    """What comes from upstream of a node with one result."""
    value, = upstream
    assert value is not None, "a node is visited when one of its results has a gradient"
    return value


def reshaped(backward: Backward, value: Value, shape: Sequence[int]) -> Value:
    """The value under another shape; itself when it has it."""
    return value if value.shape == tuple(shape) else backward.single("reshape", x=value, shape=list(shape))


def unbroadcast(backward: Backward, value: Value, shape: Sequence[int]) -> Value:
    """The sum of `value` over the dimensions along which an operand of `shape` was repeated, under that shape."""
    if value.shape == tuple(shape):
        return value
    lead = len(value.shape) - len(shape)
    padded = (1,) * lead + tuple(shape)
    axes = [d for d, (have, want) in enumerate(zip(value.shape, padded, strict=True)) if want == 1 and have != 1]
    if axes:
        value = backward.single("reduce_sum", x=value, axes=axes, keep_dims=True)
    return reshaped(backward, value, shape)


def spread(backward: Backward, value: Value, shape: Sequence[int]) -> Value:
    """`value` repeated along its dimensions of 1 element until it has `shape` (of the same rank)."""
    reps = [want // have for have, want in zip(value.shape, shape, strict=True)]
    return value if set(reps) <= {1} else backward.single("tile", x=value, reps=reps)


def number(backward: Backward, condition: Value, dtype: str) -> Value:
    """1 where a boolean tensor is true, 0 elsewhere."""
    return backward.single("cast", x=condition, dtype=dtype)


def product(backward: Backward, first: Value, second: Value | np.ndarray | float) -> Value:
    """first * second."""
    return backward.single("mul", x=first, y=second)


def total(backward: Backward, terms: Sequence[Value]) -> Value:
    """The sum of one value or more of one shape."""
    result = terms[0]
    for term in terms[1:]:
        result = backward.single("add", x=result, y=term)
    return result


def over_norm(backward: Backward, given: Value, norm: Value) -> Value:
    """given / norm, to be multiplied with the elements the norm is of; finite where they are all 0, so that they get 0
    there, the middle of the slopes around that corner."""
    none = number(backward, backward.single("equal", x=norm, y=0.0), norm.dtype)
    return backward.single("real_div", x=given, y=backward.single("add", x=norm, y=none))


def padded(backward: Backward, value: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """`value` with (before, after) zeros around each dimension."""
    if not any(any(pair) for pair in pairs):
        return value
    return backward.single("pad", x=value, pad=[count for pair in pairs for count in pair], mode="constant",
                           constant_val=0.0)


def spaced(backward: Backward, value: Value, axis: int, step: int) -> Value:
    """`value` with step - 1 zeros behind every element along one axis, `step` times as long."""
    if step == 1 or value.shape[axis] == 1:
        return value
    shape = value.shape
    before, count, after = prod(shape[:axis]), shape[axis], prod(shape[axis + 1:])
    apart = padded(backward, reshaped(backward, value, (before, count, 1, after)),
                   ((0, 0), (0, 0), (0, step - 1), (0, 0)))
    return reshaped(backward, apart, (*shape[:axis], count * step, *shape[axis + 1:]))


def placed(backward: Backward, value: Value, shape: Sequence[int], kept: Sequence[range]) -> Value:
    """Zeros of `shape` with `value` at the positions `kept` of each dimension (rising; value's own extents)."""
    pairs = []
    for axis, positions in enumerate(kept):
        value = spaced(backward, value, axis, positions.step)
        room = shape[axis] - positions.start
        if value.shape[axis] > room:  # zeros behind the last element that do not fit
            size = [room if d == axis else extent for d, extent in enumerate(value.shape)]
            value = backward.single("slice_by_size", x=value, begin=[0] * len(size), size=size)
        pairs.append((positions.start, room - value.shape[axis]))
    return padded(backward, value, pairs)


def mapped_back(backward: Backward, value: Value, axis: int, matrix: np.ndarray) -> Value:
    """What a constant matrix [results, elements] along one dimension makes of its results' gradient: the product with
    its transpose, as many elements along `axis` as the matrix has columns."""
    shape, data = value.shape, matrix.astype(numpy_type(value.dtype))
    before, after = prod(shape[:axis]), prod(shape[axis + 1:])
    if axis == len(shape) - 1:
        flat = value if 1 < len(shape) < 5 else reshaped(backward, value, (before, shape[axis]))
        made = backward.single("matmul", x=flat, y=data)
    elif axis == len(shape) - 2 and len(shape) < 5:
        made = backward.single("matmul", x=data, y=value, transpose_x=True)
    else:
        rows = reshaped(backward, value, (before, shape[axis], after))
        made = backward.single("matmul", x=data, y=rows, transpose_x=True)
    return reshaped(backward, made, (*shape[:axis], matrix.shape[1], *shape[axis + 1:]))


def gathered_back(backward: Backward, value: Value, axis: int, at: np.ndarray, extent: int) -> Value:
    """What each of `extent` elements along an axis gets of the gradient `value` of those taken at positions `at`: the
    sum over its copies, rounded once; copy by copy where the matrix that sums them would be large."""
    if extent * len(at) <= LARGEST:
        copies = np.zeros((len(at), extent), np.float32)
        copies[np.arange(len(at)), at] = 1
        return mapped_back(backward, value, axis, copies)
    shape = [extent if d == axis else count for d, count in enumerate(value.shape)]
    return backward.single("scatter", data=np.zeros(shape, numpy_type(value.dtype)), indices=at.astype(np.int32),
                           updates=value, axis=axis, mode="add")


def taken_back(backward: Backward, value: Value, shape: Sequence[int], positions: np.ndarray) -> Value:
    """As `gathered_back` for elements of a tensor of `shape` taken at row-major `positions`, an array of any shape."""
    (leading, chosen, trailing), at = factored(shape, positions)
    seen = reshaped(backward, value, (leading, len(at), trailing))
    return reshaped(backward, gathered_back(backward, seen, 1, at, chosen), shape)
