"""Whole blocks of well-known networks: one engine program each, nothing on the host, results within a stated bound."""

import numpy as np
import pytest

from openane.ops.build import GraphBuilder


class Transformer:
    """One pre-norm encoder block: layer norm, attention with a mask, residuals, a feed-forward part with gelu."""

    def __init__(self, batch, length, width, heads, seed=0):
        self.shape, self.heads = (batch, length, width), heads
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder()

    def linear(self, x, rows, name):
        weight = self.rng.standard_normal((rows, x.shape[-1])) / np.sqrt(x.shape[-1])
        return self.builder.single("linear", name, x=x, weight=weight, bias=self.rng.standard_normal(rows) / 10)

    def norm(self, x, name):
        width = x.shape[-1]
        return self.builder.single("layer_norm", name, x=x, axes=[-1], epsilon=1e-3,
                                   gamma=1 + self.rng.standard_normal(width) / 10,
                                   beta=self.rng.standard_normal(width) / 10)

    def split(self, x):
        batch, length, width = self.shape
        heads = self.builder.single("reshape", x=x, shape=[batch, length, self.heads, width // self.heads])
        return self.builder.single("transpose", x=heads, perm=[0, 2, 1, 3])

    def attention(self, x, mask, spelled):
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

    def graph(self, mask_kind, spelled=False):
        add, (_, length, width) = self.builder.single, self.shape
        x = self.builder.input("x", "fp16", self.shape)
        mask = {"causal": lambda: self.builder.constant(np.tril(np.ones((length, length), bool))),
                "bool": lambda: self.builder.input("mask", "bool", (length, length)),
                "added": lambda: self.builder.input("mask", "fp16", (1, 1, length, length))}[mask_kind]()
        x = add("add", "after_attention", x=x, y=self.attention(self.norm(x, "first_norm"), mask, spelled))
        hidden = add("gelu", x=self.linear(self.norm(x, "second_norm"), 4 * width, "up"), mode="EXACT")
        return self.builder.finish({"y": add("add", x=x, y=self.linear(hidden, width, "down"))})


@pytest.mark.parametrize(("batch", "length", "width", "mask", "spelled"), [
    (1, 32, 128, "causal", False), (2, 32, 128, "bool", False), (1, 64, 256, "added", True),
])
def test_transformer_block(hold, batch, length, width, mask, spelled):
    allowed = np.tril(np.ones((length, length), bool))
    inputs = {"causal": {}, "bool": {"mask": allowed},
              "added": {"mask": np.where(allowed, 0, -np.inf).astype(np.float16)[None, None]}}[mask]
    model = hold(Transformer(batch, length, width, 4).graph(mask, spelled), inputs, absolute=3e-2, relative=1e-2)
    assert len(model.programs) == 1
    assert model.one_program


def convolved(builder, x, channels, kernel, stride, rng, activation=True):
    """Convolution, batch normalisation, and a ReLU unless told otherwise."""
    weight = rng.standard_normal((channels, x.shape[1], kernel, kernel)) * np.sqrt(2 / (x.shape[1] * kernel * kernel))
    y = builder.single("conv", x=x, weight=weight, strides=[stride] * 2, pad_type="custom", pad=[kernel // 2] * 4)
    y = builder.single("batch_norm", x=y, mean=rng.standard_normal(channels) / 10,
                       variance=rng.uniform(0.5, 1.5, channels), gamma=rng.uniform(0.5, 1.5, channels),
                       beta=rng.standard_normal(channels) / 10)
    return builder.single("relu", x=y) if activation else y


@pytest.mark.parametrize(("batch", "stride", "channels"), [(1, 1, 32), (1, 2, 64), (2, 2, 64)])
def test_residual_block(hold, batch, stride, channels):
    """Two 3x3 convolutions around a shortcut, which a 1x1 convolution of stride 2 carries where the size halves."""
    rng, builder = np.random.default_rng(4), GraphBuilder()
    x = builder.input("x", "fp16", (batch, 32, 16, 16))
    y = convolved(builder, convolved(builder, x, channels, 3, stride, rng), channels, 3, 1, rng, activation=False)
    short = x if stride == 1 else convolved(builder, x, channels, 1, stride, rng, activation=False)
    graph = builder.finish({"y": builder.single("relu", x=builder.single("add", x=y, y=short))})
    model = hold(graph, absolute=2e-2, relative=1e-2)
    assert model.one_program
    assert len(model.program.tasks) <= 4


def test_bottleneck_block(hold):
    rng, builder = np.random.default_rng(5), GraphBuilder()
    x = builder.input("x", "fp16", (1, 64, 14, 14))
    y = convolved(builder, x, 16, 1, 1, rng)
    y = convolved(builder, convolved(builder, y, 16, 3, 1, rng), 64, 1, 1, rng, activation=False)
    model = hold(builder.finish({"y": builder.single("relu", x=builder.single("add", x=y, y=x))}), absolute=2e-2,
                 relative=1e-2)
    assert model.one_program
