"""all-MiniLM-L6-v2 as a graph for the engine: six transformer layers, mean over the tokens, length 1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import openane as ane
from openane.graph import Value
from openane.ops.build import GraphBuilder

WIDTH, LAYERS, HEADS = 384, 6, 12
EPSILON = 1e-7
"""Of the layer normalisations: fp16 does not hold the 1e-12 of the model's configuration."""
FAR = 10000.0
"""Scores of masked tokens are lowered by this."""


def build_graph(weights: Mapping[str, np.ndarray], tokens: int, texts: int = 1) -> ane.Graph:
    """Words [texts, tokens, 384] and mask [texts, tokens, 1] (1 for a token, 0 for padding) to embedding
    [texts, 1, 384].

    `weights` are those of weights.load_weights. Positions are added here; looking words up in their table is left to
    the host.
    """
    half = {name: array.astype(np.float16) for name, array in weights.items()}
    builder = GraphBuilder("minilm")
    words = builder.input("words", "fp16", (texts, tokens, WIDTH))
    mask = builder.input("mask", "fp16", (texts, tokens, 1))
    positions = (weights["embeddings.positions"][:tokens] + weights["embeddings.types"][0]).astype(np.float16)
    x = normalise(builder, builder.single("add", x=words, y=positions[None]), "embeddings.norm", half)
    row = builder.single("reshape", x=mask, shape=(texts, 1, 1, tokens))
    bias = builder.single("mul", x=builder.single("sub", x=row, y=1.0), y=FAR)
    for number in range(LAYERS):
        layer = f"layers.{number}"
        mixed = attention(builder, x, bias, f"{layer}.attention", half)
        x = normalise(builder, builder.single("add", x=x, y=mixed), f"{layer}.norm1", half)
        hidden = builder.single("gelu", x=linear(builder, x, f"{layer}.up", half), mode="EXACT")
        x = builder.single("add", x=x, y=linear(builder, hidden, f"{layer}.down", half))
        x = normalise(builder, x, f"{layer}.norm2", half)
    return builder.finish({"embedding": pooled(builder, x, mask)})


def linear(builder: GraphBuilder, x: Value, name: str, weights: Mapping[str, np.ndarray]) -> Value:
    """A linear layer over the last axis."""
    return builder.single("linear", name, x=x, weight=weights[f"{name}.weight"], bias=weights[f"{name}.bias"])


def normalise(builder: GraphBuilder, x: Value, name: str, weights: Mapping[str, np.ndarray]) -> Value:
    """Layer normalisation of the last axis."""
    return builder.single("layer_norm", name, x=x, axes=[-1], gamma=weights[f"{name}.weight"],
                          beta=weights[f"{name}.bias"], epsilon=EPSILON)


def attention(builder: GraphBuilder, x: Value, bias: Value, name: str, weights: Mapping[str, np.ndarray]) -> Value:
    """Every token [texts, tokens, 384] mixed with those that `bias` [texts, 1, 1, tokens] does not lower."""
    texts, tokens, each = x.shape[0], x.shape[1], WIDTH // HEADS

    def heads(part: str) -> Value:
        rows = builder.single("reshape", x=linear(builder, x, f"{name}.{part}", weights),
                              shape=(texts, tokens, HEADS, each))
        return builder.single("transpose", x=rows, perm=(0, 2, 1, 3))

    query = builder.single("mul", x=heads("query"), y=each ** -0.5)
    scores = builder.single("matmul", x=query, y=heads("key"), transpose_y=True)
    shares = builder.single("softmax", x=builder.single("add", x=scores, y=bias), axis=-1)
    mixed = builder.single("transpose", x=builder.single("matmul", x=shares, y=heads("value")), perm=(0, 2, 1, 3))
    return linear(builder, builder.single("reshape", x=mixed, shape=(texts, tokens, WIDTH)), f"{name}.output", weights)


def pooled(builder: GraphBuilder, x: Value, mask: Value) -> Value:
    """The mean over the tokens that count, divided by its length."""
    total = builder.single("reduce_sum", x=builder.single("mul", x=x, y=mask), axes=[1], keep_dims=True)
    mean = builder.single("real_div", x=total, y=builder.single("reduce_sum", x=mask, axes=[1], keep_dims=True))
    length = builder.single("reduce_l2_norm", x=mean, axes=[-1], keep_dims=True)
    return builder.single("real_div", x=mean, y=length)
