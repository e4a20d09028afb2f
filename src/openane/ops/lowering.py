"""What `lower` functions are written against: strided tensors, and the compiler's side of the conversation.

A `Tensor` is a logical tensor of any rank lying somewhere in memory or L2 with one byte stride per dimension.
Transposes, slices and most reshapes only change the strides. How logical dimensions become the engine's N, C, D, H, W
is the compiler's business (`openane.compiler`), which implements `Lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from openane.chips import Limits
from openane.engine import Access, Binary, Operation, Pool, Post, Reduce, Root, Space
from openane.engine.table import Table
from openane.graph import Node, Value

ELEMENT = 2
"""Bytes per element: tensors on the engine are fp16."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A strided view: `slot` names a buffer (or an L2 block), `offset` and `strides` are bytes.

    A dimension of extent 1 or one that is broadcast has stride 0.
    """

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    space: Space = Space.MEMORY

    def __post_init__(self) -> None:
        normal = tuple(0 if extent == 1 else stride for extent, stride in zip(self.shape, self.strides, strict=True))
        object.__setattr__(self, "strides", normal)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements, broadcast ones counted each time."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def contiguous(self) -> int | None:
        """The dimension whose neighbours are adjacent in memory, or None."""
        found = [axis for axis, stride in enumerate(self.strides) if stride == ELEMENT]
        return found[0] if len(found) == 1 else None

    @property
    def alignment(self) -> int:
        """What offsets and strides other than the contiguous one must be multiples of, in bytes."""
        return 64 if self.space is Space.MEMORY else 16

    @property
    def aligned(self) -> bool:
        """Whether the engine can address the tensor: one contiguous dimension at most, everything else aligned."""
        if self.offset % self.alignment or sum(stride == ELEMENT for stride in self.strides) > 1:
            return False
        return all(stride == ELEMENT or stride % self.alignment == 0 for stride in self.strides)

    def transpose(self, order: Sequence[int]) -> Tensor:
        """The same elements with dimensions reordered: new dimension i is old dimension order[i]."""
        return replace(self, shape=tuple(self.shape[i] for i in order), strides=tuple(self.strides[i] for i in order))

    def part(self, axis: int, start: int, size: int, step: int = 1) -> Tensor:
        """Elements start, start+step, ... (`size` of them) of one dimension."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis], strides[axis] = size, self.strides[axis] * step
        offset = self.offset + start * self.strides[axis]
        return replace(self, offset=offset, shape=tuple(shape), strides=tuple(strides))

    def reshape(self, shape: Sequence[int]) -> Tensor | None:
        """The same elements in row-major order under another shape, or None when strides cannot express it or the
        engine could not address the result."""
        target = tuple(shape)
        if self.elements == 0 or int(np.prod(target, dtype=object)) != self.elements:
            return None
        strides = _reshaped_strides(self.shape, self.strides, target)
        if strides is None:
            return None
        view = replace(self, shape=target, strides=strides)
        return view if view.aligned or not self.aligned else None

    def expand(self, shape: Sequence[int]) -> Tensor:
        """Broadcast to `shape` by numpy's rules: missing and extent-1 dimensions get stride 0."""
        missing = len(shape) - self.rank
        own = (1,) * missing + self.shape
        strides = (0,) * missing + self.strides
        return replace(self, shape=tuple(shape), strides=tuple(
            0 if mine == 1 else stride for mine, stride in zip(own, strides, strict=True)))


def _reshaped_strides(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of a row-major reshape that moves nothing, or None."""
    old = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    result: list[int] = []
    room, stride = 1, 0
    for extent in reversed(target):
        if extent == 1:
            result.append(0)
            continue
        while room % extent or room < extent:
            if not old:
                return None
            outer, outer_stride = old.pop()
            if room > 1 and outer_stride != stride * room:
                return None
            stride = stride if room > 1 else outer_stride
            room *= outer
        result.append(stride)
        stride, room = stride * extent, room // extent
    return tuple(reversed(result)) if room == 1 and not old else None


class Lowering(Protocol):
    """The compiler as seen by a `lower` function: operands in, engine operations out."""

    limits: Limits

    def read(self, value: Value) -> Tensor:
        """The tensor of a value, materialised if it was only described so far; constants are stored on first use."""
        ...

    def unshaped(self, value: Value) -> Tensor:
        """Like `read`, but a reshape that would move data is seen through: the shape may differ, row-major order
        does not."""
        ...

    def result(self, value: Value) -> Tensor:
        """Where a value is to be written."""
        ...

    def bind(self, value: Value, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """States that `value` is `tensor` (under row-major `shape` when given): no operation."""
        ...

    def scratch(self, shape: Sequence[int], order: Sequence[int] | None = None) -> Tensor:
        """New memory for a tensor, rows padded; `order` lists the dimensions from outermost to contiguous."""
        ...

    def near(self, shape: Sequence[int], row: int = -1) -> Tensor:
        """New storage for a small tensor that is broadcast next: in L2 where it fits, dimension `row` contiguous, or
        one element per 16 bytes."""
        ...

    def compact(self, tensor: Tensor) -> Tensor:
        """`tensor` itself when the engine can address it, else a copy."""
        ...

    def with_last(self, tensor: Tensor, axis: int) -> Tensor:
        """The tensor, or a transposed copy, in which `axis` can be reduced or read as a row."""
        ...

    def copy(self, source: Tensor, target: Tensor, post: Post | None = None, table: Table | None = None) -> None:
        """target = post(source), element by element, whatever the strides."""
        ...

    def reshape(self, source: Tensor, target: Tensor) -> None:
        """target = source in row-major order, whatever the shapes and strides."""
        ...

    def constant(self, array: np.ndarray) -> Tensor:
        """An fp16 array in the constant section, laid out as a surface."""
        ...

    def elementwise(self, target: Tensor, first: Tensor, second: Tensor | None = None,
                    function: Binary = Binary.ADD, **settings: float | bool) -> None:
        """target = function(first, second) with broadcasting; `settings` are fields of engine.Elementwise."""
        ...

    def gain_offset(self, target: Tensor, source: Tensor, axis: int, offset: np.ndarray, gain: np.ndarray,
                    relu: bool = False) -> None:
        """target = (source + offset) * gain with one pair of constants per position of `axis`."""
        ...

    def reduce(self, target: Tensor, source: Tensor, axes: Sequence[int], kind: Reduce = Reduce.SUM,
               pre_scale: float = 1.0, final_scale: float = 1.0, epsilon: float = 0.0, root: Root = Root.NONE,
               square: bool = False) -> None:
        """root(reduce(pre_scale * source or its square) * final_scale + epsilon) over `axes`, where target has 1."""
        ...

    def sum_planes(self, target: Tensor, source: Tensor, axis: int, table: Table) -> bool:
        """target = table(sum over `axis`), rows left as they lie; False, with nothing done, where that cannot be."""
        ...

    def normalise(self, target: Tensor, source: Tensor, axes: Sequence[int], epsilon: float) -> None:
        """target = (source - mean) / sqrt(variance + epsilon), statistics over `axes`."""
        ...

    def convolution(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                    stride: Sequence[int] = (1, 1), padding: Sequence[int] = (0, 0), groups: int = 1,
                    post: Post | None = None, table: Table | None = None) -> None:
        """2-D convolution of [N, C, H, W] with weights [Cout, C/groups, Kh, Kw]; padding is what lies before."""
        ...

    def product(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                post: Post | None = None, table: Table | None = None) -> None:
        """target[M, N] = source[M, K] @ weights[K, N] + bias."""
        ...

    def runtime_product(self, target: Tensor, left: Tensor, right: Tensor) -> None:
        """target [M, N] = left [M, K] @ right [K, N], both computed by the program."""
        ...

    def pool(self, target: Tensor, source: Tensor, kind: Pool, kernel: Sequence[int], stride: Sequence[int],
             padding: Sequence[int], final_scale: float = 1.0) -> None:
        """Windowed pooling of [N, C, H, W]."""
        ...

    def followers(self, node: Node) -> tuple[Value, Post | None, Table | None]:
        """What may be fused behind a convolution or product: the value it then makes, its post stage and table.
        The nodes it stands for are not lowered again."""
        ...

    def relu_behind(self, node: Node) -> tuple[Value, bool]:
        """The value a planar operation makes when a ReLU alone reads its result: then (the ReLU's result, True)."""
        ...

    def clamped(self, value: Value) -> tuple[Tensor, bool]:
        """Like `read` for an operand of a planar operation; with True it must be clamped at 0 as it is read."""
        ...

    def part(self, tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
        """Elements start, start + step, ... of one dimension, moved where the engine could not address them."""
        ...

    def join(self, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
        """target = parts side by side along `axis`."""
        ...

    def emit(self, operation: Operation) -> None:
        """Appends one engine operation."""
        ...

    def access(self, tensor: Tensor, dims: Sequence[int | None]) -> Access:
        """The operand that walks `tensor` with dimension dims[i] as the engine's N, C, D, H, W (None: extent 1)."""
        ...


Lower = Callable[[Node, Lowering], None]
