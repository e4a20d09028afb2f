"""Blocks of well-known networks as graphs: an encoder layer, two residual blocks, with drawn weights."""

from __future__ import annotations

import numpy as np

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder


class Transformer:
    """One pre-norm encoder block: layer norm, attention with a mask, residuals, a feed-forward part with gelu."""

    def __init__(self, batch: int, length: int, width: int, heads: int, seed: int = 0) -> None:
        self.shape, self.heads = (batch, length, width), heads
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder()

    def linear(self, x: Value, rows: int, name: str) -> Value:
        """A linear layer with a bias."""
        weight = self.rng.standard_normal((rows, x.shape[-1])) / np.sqrt(x.shape[-1])
        return self.builder.single("linear", name, x=x, weight=weight, bias=self.rng.standard_normal(rows) / 10)

    def norm(self, x: Value, name: str) -> Value:
        """A layer norm of each row."""
        width = x.shape[-1]
        return self.builder.single("layer_norm", name, x=x, axes=[-1], epsilon=1e-3,
                                   gamma=1 + self.rng.standard_normal(width) / 10,
                                   beta=self.rng.standard_normal(width) / 10)

    def split(self, x: Value) -> Value:
        """[batch, length, width] as [batch, heads, length, width of a head]."""
        batch, length, width = self.shape
        heads = self.builder.single("reshape", x=x, shape=[batch, length, self.heads, width // self.heads])
        return self.builder.single("transpose", x=heads, perm=[0, 2, 1, 3])

    def attention(self, x: Value, mask: Value, spelled: bool) -> Value:
        """Attention of every head: as one operation, or `spelled` in products and a softmax."""
        query, key, value = (self.split(self.linear(x, self.shape[2], name)) for name in ("query", "key", "value"))
        add = self.builder.single
        if spelled:
            scores = add("matmul", x=query, y=key, transpose_y=True)
            scores = add("mul", x=scores, y=1 / np.sqrt(query.shape[-1]))
            mixed = add("matmul", x=add("softmax", x=add("add", x=scores, y=mask), axis=-1), y=value)
        else:
            mixed = add("scaled_dot_product_attention", query=query, key=key, value=value, attn_mask=mask)
        together = add("reshape", x=add("transpose", x=mixed, perm=[0, 2, 1, 3]), shape=list(self.shape))
        return self.linear(together, self.shape[2], "output")

    def graph(self, mask_kind: str, spelled: bool = False) -> Graph:
        """The block. Its mask is a constant (`causal`), a bool input or an fp16 input that is `added`."""
        add, (_, length, width) = self.builder.single, self.shape
        x = self.builder.input("x", "fp16", self.shape)
        mask = {"causal": lambda: self.builder.constant(np.tril(np.ones((length, length), bool))),
                "bool": lambda: self.builder.input("mask", "bool", (length, length)),
                "added": lambda: self.builder.input("mask", "fp16", (1, 1, length, length))}[mask_kind]()
        x = add("add", "after_attention", x=x, y=self.attention(self.norm(x, "first_norm"), mask, spelled))
        hidden = add("gelu", x=self.linear(self.norm(x, "second_norm"), 4 * width, "up"), mode="EXACT")
        return self.builder.finish({"y": add("add", x=x, y=self.linear(hidden, width, "down"))})


def masks(kind: str, length: int) -> dict[str, np.ndarray]:
    """What `Transformer.graph` takes besides x: every token sees those before it."""
    allowed = np.tril(np.ones((length, length), bool))
    return {"causal": {}, "bool": {"mask": allowed},
            "added": {"mask": np.where(allowed, 0, -np.inf).astype(np.float16)[None, None]}}[kind]


def convolved(builder: GraphBuilder, x: Value, channels: int, kernel: int, stride: int, rng: np.random.Generator,
              activation: bool = True) -> Value:
    """Convolution, batch normalisation, and a ReLU unless told otherwise."""
    weight = rng.standard_normal((channels, x.shape[1], kernel, kernel)) * np.sqrt(2 / (x.shape[1] * kernel * kernel))
    y = builder.single("conv", x=x, weight=weight, strides=[stride] * 2, pad_type="custom", pad=[kernel // 2] * 4)
    y = builder.single("batch_norm", x=y, mean=rng.standard_normal(channels) / 10,
                       variance=rng.uniform(0.5, 1.5, channels), gamma=rng.uniform(0.5, 1.5, channels),
                       beta=rng.standard_normal(channels) / 10)
    return builder.single("relu", x=y) if activation else y


def residual(batch: int, stride: int, channels: int) -> Graph:
    """Two 3x3 convolutions around a shortcut, which a 1x1 convolution of stride 2 carries where the size halves."""
    rng, builder = np.random.default_rng(4), GraphBuilder()
    x = builder.input("x", "fp16", (batch, 32, 16, 16))
    y = convolved(builder, convolved(builder, x, channels, 3, stride, rng), channels, 3, 1, rng, activation=False)
    short = x if stride == 1 else convolved(builder, x, channels, 1, stride, rng, activation=False)
    return builder.finish({"y": builder.single("relu", x=builder.single("add", x=y, y=short))})


def bottleneck() -> Graph:
    """A 3x3 convolution of 16 channels between two 1x1 convolutions, around a shortcut of 64 channels."""
    rng, builder = np.random.default_rng(5), GraphBuilder()
    x = builder.input("x", "fp16", (1, 64, 14, 14))
    y = convolved(builder, x, 16, 1, 1, rng)
    y = convolved(builder, convolved(builder, y, 16, 3, 1, rng), 64, 1, 1, rng, activation=False)
    return builder.finish({"y": builder.single("relu", x=builder.single("add", x=y, y=x))})
