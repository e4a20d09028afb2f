"""A small decoder of tokens: token and position vectors, blocks of causal attention and a two-layer network, scores.

Tokens come as one-hot rows, so that looking a vector up is a matrix product the engine can do, and so is its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from openane.configuration import within
from openane.errors import FormatError
from openane.graph import Value
from openane.training.networks.network import INPUT, Network, NetworkMaker

EPSILON = 1e-3
"""Added to a mean of squares: fp16 holds it well."""
HIDDEN = -1e4
"""Added to the scores of later positions: their exponentials are 0, and fp16 holds it."""


@dataclass(frozen=True)
class Decoder:
    """`layers` blocks of `width`, attention of `heads`, a hidden layer of `hidden` (0: four times the width)."""

    layers: int = within(2, low=1, high=64)
    width: int = within(64, low=8, high=8192)
    heads: int = within(4, low=1, high=256)
    hidden: int = within(0, low=0, high=65536)

    def build(self, inputs: tuple[int, ...], classes: int, rng: np.random.Generator, base: Path) -> Network:
        """See `Description.build`. Inputs are one-hot rows [windows, length, classes]; the scores have a row per
        position of each window."""
        if self.width % self.heads:
            raise FormatError(f"model.width must be a multiple of model.heads {self.heads}, not {self.width}")
        if len(inputs) != 3:
            raise FormatError("model.kind decoder learns from tokens: data.kind text or tokens")
        maker = NetworkMaker(rng)
        one_hot = maker.builder.input(INPUT, "fp16", inputs)
        count, length, _ = inputs
        vectors = maker.normal("token_vectors", (classes, self.width), 0.1)
        x = maker.builder.single("matmul", "tokens", x=one_hot, y=vectors)
        x = maker.builder.single("add", "positions", x=x,
                                 y=maker.normal("position_vectors", (length, self.width), 0.1))
        for number in range(self.layers):
            x = self._attention(maker, x, f"block{number}_")
            x = self._feed(maker, x, f"block{number}_")
        x = maker.builder.single("reshape", "rows", x=self._norm(maker, x, "last_norm"),
                                 shape=[count * length, self.width])
        return maker.finish(maker.linear("head", x, classes, 1 / sqrt(self.width), bias=False))

    def _norm(self, maker: NetworkMaker, x: Value, name: str) -> Value:
        """x over the root of the mean of its squares, times a gain."""
        add = maker.builder.single
        square = add("mul", f"{name}_square", x=x, y=x)
        mean = add("reduce_mean", f"{name}_mean", x=square, axes=[-1], keep_dims=True)
        size = add("rsqrt", f"{name}_size", x=mean, epsilon=EPSILON)
        scaled = add("mul", f"{name}_scaled", x=x, y=size)
        return add("mul", name, x=scaled, y=maker.filled(f"{name}_gain", (self.width,), 1.0))

    def _attention(self, maker: NetworkMaker, x: Value, name: str) -> Value:
        add, (count, length, width) = maker.builder.single, x.shape
        normed = self._norm(maker, x, f"{name}attention_norm")
        query, key, value = (self._heads(maker, normed, f"{name}{part}") for part in ("query", "key", "value"))
        scores = add("matmul", f"{name}attention_scores", x=query, y=key, transpose_y=True)
        scaled = add("mul", f"{name}attention_scaled", x=scores, y=np.float16(1 / sqrt(width // self.heads)))
        mask = np.triu(np.full((length, length), HIDDEN, np.float16), 1)
        masked = add("add", f"{name}attention_masked", x=scaled, y=mask)
        shares = add("softmax", f"{name}attention", x=masked, axis=-1)
        mixed = add("matmul", f"{name}mixed", x=shares, y=value)
        turned = add("transpose", f"{name}mixed_turned", x=mixed, perm=[0, 2, 1, 3])
        rows = add("reshape", f"{name}mixed_rows", x=turned, shape=[count, length, width])
        deviation = 1 / sqrt(2 * self.layers * width)
        return add("add", f"{name}attended", x=x, y=maker.linear(f"{name}output", rows, width, deviation, bias=False))

    def _heads(self, maker: NetworkMaker, x: Value, name: str) -> Value:
        count, length, width = x.shape
        product = maker.linear(name, x, width, 1 / sqrt(width), bias=False)
        split = maker.builder.single("reshape", f"{name}_split", x=product,
                                     shape=[count, length, self.heads, width // self.heads])
        return maker.builder.single("transpose", f"{name}_heads", x=split, perm=[0, 2, 1, 3])

    def _feed(self, maker: NetworkMaker, x: Value, name: str) -> Value:
        add, hidden = maker.builder.single, self.hidden or 4 * self.width
        normed = self._norm(maker, x, f"{name}feed_norm")
        inner = maker.linear(f"{name}inner", normed, hidden, sqrt(2 / self.width))
        active = add("relu", f"{name}active", x=inner)
        deviation = 1 / sqrt(2 * self.layers * hidden)
        return add("add", f"{name}fed", x=x, y=maker.linear(f"{name}outer", active, self.width, deviation))
