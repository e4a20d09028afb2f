"""What `lower` functions are written against: the compiler's side of the conversation.

How the dimensions of a `Tensor` become the engine's N, C, D, H, W is the compiler's business (`openane.compiler`),
which implements `Lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from openane.chips import Limits
from openane.engine import Access, Binary, DType, Operation, Pool, Post, Reduce, Root
from openane.engine.table import Table
from openane.graph import Node, Value
from openane.ops.tensor import ELEMENT, Tensor, plane_axis
from openane.record_classes import dataclass

__all__ = ["ELEMENT", "Entering", "Lowering", "Move", "Tensor", "plane_axis"]

Move = tuple[Tensor, np.ndarray, np.ndarray | None]
"""A source, the positions of it that are read, and the positions of the result they go to (None: 0, 1, ...)."""


@dataclass(frozen=True, slots=True)
class Entering:
    """An operand of a planar operation: the tensor, whether it is clamped at 0 as it is read, and the power of two that
    it is multiplied by."""

    tensor: Tensor
    relu: bool = False
    scale: float = 1.0


class Lowering(Protocol):
    """The compiler as seen by a `lower` function: operands in, engine operations out."""

    limits: Limits

    @property
    def level(self) -> int:
        """How far programs are optimised (optimisation.LEVEL): at 0 they are as Apple's."""
        ...

    @property
    def close_functions(self) -> bool:
        """Whether the graph asks for functions of less error than their tables have (accuracy.FUNCTIONS)."""
        ...

    def read(self, value: Value) -> Tensor:
        """The fp16 tensor of a value, materialised if it was only described so far; constants are stored on first use,
        one-byte elements converted by an engine copy."""
        ...

    def native(self, value: Value) -> Tensor:
        """Like `read` in the element type the value is stored in: for operations that only move elements."""
        ...

    def unshaped(self, value: Value) -> Tensor:
        """Like `read`, but a reshape that would move data is seen through: the shape may differ, row-major order
        does not."""
        ...

    def result(self, value: Value) -> Tensor:
        """Where a value is to be written, in fp16: what belongs in a one-byte port is converted on the way there."""
        ...

    def native_result(self, value: Value, dtype: DType) -> Tensor:
        """Where a value moved without arithmetic is to be written, in the element type its source has."""
        ...

    def alias(self, value: Value, source: Value) -> None:
        """States that `value` has the elements of `source` in row-major order, in the same element type."""
        ...

    def bind(self, value: Value, tensor: Tensor, shape: Sequence[int] | None = None) -> None:
        """States that `value` is `tensor` (under row-major `shape` when given): no operation."""
        ...

    def scratch(self, shape: Sequence[int], order: Sequence[int] | None = None,
                dtype: DType = DType.FLOAT16) -> Tensor:
        """New memory for a tensor, rows padded; `order` lists the dimensions from outermost to contiguous."""
        ...

    def near(self, shape: Sequence[int], row: int = -1) -> Tensor:
        """New storage for a small tensor that is broadcast next: in L2 where it fits, dimension `row` contiguous, or
        one element per 16 bytes, those of neighbouring planes side by side as Apple's statistics are."""
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

    def channel_affine(self, node: Node) -> tuple[np.ndarray, np.ndarray]:
        """Float64 gain and offset of each channel of a node that is nothing but these (`Op.channel_affine`)."""
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
        """root(reduce(y) * final_scale + epsilon) over `axes`, where target has 1; y is pre_scale * source or its
        square."""
        ...

    def max_planes(self, target: Tensor, source: Tensor, axis: int) -> bool:
        """target = maximum over `axis`, rows left as they lie; False, with nothing done, where that cannot be."""
        ...

    def multiply_planes(self, target: Tensor, first: Tensor, second: Tensor, axis: int, before: Table,
                        after: Table) -> bool:
        """target = after(before(first) * second), `axis` walked as channels and the product unrounded; False, with
        nothing done, where that cannot be."""
        ...

    def staged(self, tensor: Tensor) -> Tensor:
        """The tensor, or a copy of an input for L2, before several operations walk it by different loops."""
        ...

    def sum_planes(self, target: Tensor, source: Tensor, axis: int, table: Table) -> bool:
        """target = table(sum over `axis`), rows left as they lie; False, with nothing done, where that cannot be."""
        ...

    def normalise(self, target: Tensor, source: Tensor, axes: Sequence[int], epsilon: float,
                  scale: float = 1.0) -> None:
        """target = scale * (source - mean) / sqrt(variance + epsilon), statistics over `axes`."""
        ...

    def convolution(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                    stride: Sequence[int] = (), padding: Sequence[int] = (), dilation: Sequence[int] = (),
                    groups: int = 1, post: Post | None = None, table: Table | None = None) -> None:
        """Convolution of [N, C, *spatial], one to three axes, with weights [Cout, C/groups, *kernel] of any size.
        `padding` is what lies before each axis; the zeros behind follow from the target's extents. Empty: 1, 0, 1."""
        ...

    def product(self, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                post: Post | None = None, table: Table | None = None) -> None:
        """target[M, N] = source[M, K] @ weights[K, N] + bias."""
        ...

    def rows_product(self, value: Value, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                     post: Post | None = None, table: Table | None = None) -> None:
        """value = source @ weights [K, N] + bias in rows; source is [M, K], or pixels [H, W, K] with W contiguous."""
        ...

    def runtime_product(self, value: Value, left: Tensor, right: Tensor, post: Post | None = None) -> None:
        """value = post(left [..., M, K] @ right [..., K, N]), both computed by the program, batch dimensions equal
        (strides of 0 repeat); the value may have fewer dimensions of 1."""
        ...

    def products(self, target: Tensor, left: Tensor, right: Tensor, post: Post | None = None) -> None:
        """target [B, M, H, W] = post(left [B, M, K] times the channels of right [B, K, H, W]), both computed by the
        program, in one operation for all of the batch. UnsupportedError for larger ones."""
        ...

    def runtime_convolution(self, target: Tensor, matrices: Tensor, source: Tensor, post: Post | None = None) -> bool:
        """target [N, G * M, H, W] = post(1x1 convolution of source [N, G * K, H, W] with matrices [G, M, K] computed by
        the program); False, and nothing done, where the extents ask for a product per image."""
        ...

    def pool(self, target: Tensor, source: Tensor, kind: Pool, kernel: Sequence[int], stride: Sequence[int],
             padding: Sequence[int]) -> None:
        """Windowed maximum or minimum of [N, C, *spatial], one to three axes; `padding` is what lies before each."""
        ...

    def followers(self, node: Node, tables: bool = True) -> tuple[Value, Post | None, Table | None]:
        """What may be fused behind a convolution or product: the value it then makes, its post stage and table (only
        with `tables`). The nodes it stands for are not lowered again."""
        ...

    def relu_behind(self, node: Node) -> tuple[Value, bool]:
        """The value a planar operation makes when a ReLU alone reads its result: then (the ReLU's result, True)."""
        ...

    def scale_and_relu_behind(self, node: Node) -> tuple[Value, float, bool]:
        """As `relu_behind` for a planar operation that also multiplies its result by a power of two: (the value, that
        power, whether it is clamped)."""
        ...

    def entering(self, value: Value) -> Entering:
        """Like `read` for an operand of a planar operation of two tensors, and what is done to it as it is read. No
        more than one operand of an operation is multiplied."""
        ...

    def part(self, tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
        """Elements start, start + step, ... of one dimension, moved where the engine could not address them."""
        ...

    def join(self, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
        """target = parts side by side along `axis`."""
        ...

    def turned(self, tensor: Tensor, axis: int) -> Tensor:
        """The tensor, or a copy whose rows run along another dimension: `axis` can be cut anywhere then."""
        ...

    def taken(self, tensor: Tensor, axis: int, indices: np.ndarray, place: Callable[[], Tensor]) -> Tensor:
        """The elements at `indices` of one dimension, bit by bit: a view where strides express it, else copied into
        the tensor that `place` gives."""
        ...

    def copy_indexed(self, target: Tensor, axis: int, moves: Sequence[Move]) -> None:
        """target[places] = source[indices] along one dimension, bit by bit, for each move in turn; together they must
        cover the target."""
        ...

    def mix(self, target: Tensor, source: Tensor, axis: int, matrix: np.ndarray) -> None:
        """target = matrix [results, elements] times source along one dimension; sums are wide, weights fp16. Elements
        that are inf or NaN reach every result of their block of the matrix."""
        ...

    def emit(self, operation: Operation) -> None:
        """Appends one engine operation."""
        ...

    def access(self, tensor: Tensor, dims: Sequence[int | None]) -> Access:
        """The operand that walks `tensor` with dimension dims[i] as the engine's N, C, D, H, W (None: extent 1)."""
        ...
