"""Parts of transformers that have no weights, over rows: [1, tokens, width] in and out, fp16."""

from __future__ import annotations

import numpy as np

from openane.graph import Value
from openane.ops.build import GraphBuilder


class RowLayers:
    """Writes parts of a model into a builder. `tokens` rows are computed at a time."""

    def __init__(self, builder: GraphBuilder, tokens: int) -> None:
        self.builder, self.tokens = builder, tokens

    def rms(self, x: Value, epsilon: float, name: str | None = None) -> Value:
        """Normalisation by the root of the mean square of the last axis, without gains."""
        builder = self.builder
        square = builder.single("reduce_mean", x=builder.single("mul", x=x, y=x), axes=[-1], keep_dims=True)
        return builder.single("mul", name, x=x, y=builder.single("rsqrt", x=square, epsilon=epsilon))

    def heads(self, x: Value, count: int) -> Value:
        """[1, tokens, count * size] as [1, count, tokens, size]."""
        size = x.shape[-1] // count
        if self.tokens == 1:
            return self.builder.single("reshape", x=x, shape=(1, count, 1, size))
        rows = self.builder.single("reshape", x=x, shape=(1, self.tokens, count, size))
        return self.builder.single("transpose", x=rows, perm=(0, 2, 1, 3))

    def turned_over(self, x: Value) -> Value:
        """The last two axes exchanged."""
        *outer, rows, columns = x.shape
        if rows == 1 or columns == 1:
            return self.builder.single("reshape", x=x, shape=(*outer, columns, rows))
        return self.builder.single("transpose", x=x, perm=(*range(len(outer)), len(outer) + 1, len(outer)))

    def rows(self, x: Value) -> Value:
        """[1, count, tokens, size] as [1, tokens, count * size]."""
        _, count, _, size = x.shape
        if self.tokens > 1:
            x = self.builder.single("transpose", x=x, perm=(0, 2, 1, 3))
        return self.builder.single("reshape", x=x, shape=(1, self.tokens, count * size))

    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        """Positions begin to end of one axis."""
        if (begin, end) == (0, x.shape[axis]):
            return x
        low, high = [0] * len(x.shape), list(x.shape)
        low[axis], high[axis] = begin, end
        return self.builder.single("slice_by_index", x=x, begin=low, end=high)

    def turned(self, x: Value, cosines: Value | np.ndarray, sines: Value | np.ndarray) -> Value:
        """Rotary positions on [1, heads, tokens, size]: x * cosines + x with its halves exchanged * sines, the first
        half of the sines negated."""
        half = x.shape[3] // 2
        exchanged = self.builder.single("concat", values=(self.part(x, 3, half, 2 * half), self.part(x, 3, 0, half)),
                                        axis=3)
        return self.builder.single("add", x=self.builder.single("mul", x=x, y=cosines),
                                   y=self.builder.single("mul", x=exchanged, y=sines))

    def attended(self, query: Value, keys: Value, values: Value, mask: Value, cap: float | None = None) -> Value:
        """query [1, heads, tokens, size] (already scaled) over keys [1, kv heads, size, seen] and values [1, kv heads,
        seen, size], as rows; the mask [1, 1 or heads, tokens or 1, seen] is added to the scores, which were capped
        before where there is a cap. Heads of one group share a product."""
        builder = self.builder
        _, heads, tokens, size = query.shape
        _, kv_heads, _, seen = keys.shape
        grouped = (1, kv_heads, heads // kv_heads * tokens, size)
        scores = builder.single("matmul", x=self._shaped(query, grouped), y=keys)
        scores = self.capped(self._shaped(scores, (1, heads, tokens, seen)), cap)
        shares = builder.single("softmax", x=builder.single("add", x=scores, y=mask), axis=-1)
        mixed = builder.single("matmul", x=self._shaped(shares, (*grouped[:3], seen)), y=values)
        return self.rows(self._shaped(mixed, query.shape))

    def capped(self, x: Value, cap: float | None) -> Value:
        """cap * tanh(x), where there is a cap; x has been divided by it."""
        return x if cap is None else self.builder.single("mul", x=self.builder.single("tanh", x=x), y=cap)

    def _shaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == shape else self.builder.single("reshape", x=x, shape=shape)
