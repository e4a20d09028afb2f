"""Transformer encoders from their published configurations, as ONNX: ViT-tiny, Whisper-tiny's encoder, MiniLM-L6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from networks.graph import OnnxGraph


@dataclass(frozen=True, slots=True)
class Encoder:
    """What the layers of an encoder share. `before`: whether each block normalises its input (else its output)."""

    width: int
    layers: int
    heads: int
    hidden: int
    epsilon: float
    before: bool


VIT_TINY = Encoder(width=192, layers=12, heads=3, hidden=768, epsilon=1e-6, before=True)
"""DeiT-tiny's (Touvron et al. 2021, table 1): patches of 16, 224x224, 1000 classes."""
WHISPER_TINY = Encoder(width=384, layers=4, heads=6, hidden=1536, epsilon=1e-5, before=True)
"""Radford et al. 2022, table 1: 80 mel bins, 3000 frames of 10 ms."""
MINILM_L6 = Encoder(width=384, layers=6, heads=12, hidden=1536, epsilon=1e-12, before=False)
"""all-MiniLM-L6-v2's config.json."""

IMAGE, PATCH, CLASSES = 224, 16, 1000
MELS, FRAMES = 80, 3000


def vit_tiny(seed: int = 0) -> ModelProto:
    """Image [1, 3, 224, 224] to 1000 logits."""
    return vit(VIT_TINY, "vit_tiny", seed)


def vit(config: Encoder, name: str, seed: int = 0) -> ModelProto:
    """The same of any configuration."""
    graph = OnnxGraph(name, seed)
    image = graph.input("input", 1, 3, IMAGE, IMAGE)
    tokens = (IMAGE // PATCH) ** 2
    patches = graph.add("Conv", image, graph.weight("patch.weight", config.width, 3, PATCH, PATCH),
                        graph.weight("patch.bias", config.width), kernel_shape=[PATCH] * 2, strides=[PATCH] * 2)
    rows = graph.add("Transpose", graph.add("Reshape", patches, np.array([1, config.width, tokens])), perm=[0, 2, 1])
    class_token = np.random.default_rng(seed).standard_normal((1, 1, config.width)).astype(np.float32)
    x = graph.add("Concat", class_token, rows, axis=1)
    x = graph.add("Add", x, graph.weight("positions", 1, tokens + 1, config.width))
    for layer in range(config.layers):
        x = block(graph, x, f"blocks.{layer}", config, tokens + 1)
    x = graph.layer_norm(x, "norm", config.width, config.epsilon)
    first = graph.add("Gather", x, np.array(0), axis=1)
    return graph.finish(graph.linear(first, "head", config.width, CLASSES), 1, CLASSES)


def whisper_tiny_encoder(seed: int = 0) -> ModelProto:
    """Log-mel spectrogram [1, 80, 3000] to states [1, 1500, 384]."""
    return whisper_encoder(WHISPER_TINY, "whisper_tiny_encoder", seed)


def whisper_encoder(config: Encoder, name: str, seed: int = 0) -> ModelProto:
    """The same of any configuration."""
    graph = OnnxGraph(name, seed)
    x, inputs, tokens = graph.input("input", 1, MELS, FRAMES), MELS, FRAMES // 2
    for number, stride in ((1, 1), (2, 2)):
        kernel = graph.weight(f"conv{number}.weight", config.width, inputs, 3)
        x = graph.gelu(graph.add("Conv", x, kernel, graph.weight(f"conv{number}.bias", config.width),
                                 kernel_shape=[3], pads=[1, 1], strides=[stride]))
        inputs = config.width
    x = graph.add("Transpose", x, perm=[0, 2, 1])
    x = graph.add("Add", x, _sinusoids(tokens, config.width))
    for layer in range(config.layers):
        x = block(graph, x, f"layers.{layer}", config, tokens, key_bias=False)
    return graph.finish(graph.layer_norm(x, "norm", config.width, config.epsilon), 1, tokens, config.width)


def minilm(tokens: int, weights: Mapping[str, np.ndarray] | None = None, seed: int = 0) -> ModelProto:
    """Token embeddings [1, tokens, 384] and a mask [1, 1, 1, tokens] of 0 and -10000 to states [1, tokens, 384].

    `weights` by the names that `block` uses, see `examples/minilm`; drawn from the seed otherwise.
    """
    config, graph = MINILM_L6, OnnxGraph("minilm", seed, weights)
    x, mask = graph.input("embeddings", 1, tokens, config.width), graph.input("mask", 1, 1, 1, tokens)
    x = graph.layer_norm(x, "embeddings.norm", config.width, config.epsilon)
    for layer in range(config.layers):
        x = block(graph, x, f"layers.{layer}", config, tokens, mask=mask)
    return graph.finish(x, 1, tokens, config.width)


def block(graph: OnnxGraph, x: str, name: str, config: Encoder, tokens: int, *, mask: str | None = None,
          key_bias: bool = True) -> str:
    """One layer: attention and a feed-forward net, each added to its input."""
    for part, norm in (("attention", "norm1"), ("feed_forward", "norm2")):
        taken = graph.layer_norm(x, f"{name}.{norm}", config.width, config.epsilon) if config.before else x
        if part == "attention":
            made = _attention(graph, taken, f"{name}.attention", config, tokens, mask, key_bias)
        else:
            hidden = graph.gelu(graph.linear(taken, f"{name}.up", config.width, config.hidden))
            made = graph.linear(hidden, f"{name}.down", config.hidden, config.width)
        x = graph.add("Add", x, made)
        if not config.before:
            x = graph.layer_norm(x, f"{name}.{norm}", config.width, config.epsilon)
    return x


def _attention(graph: OnnxGraph, x: str, name: str, config: Encoder, tokens: int, mask: str | None,
               key_bias: bool) -> str:
    each = config.width // config.heads

    def heads(part: str, order: list[int]) -> str:
        rows = graph.linear(x, f"{name}.{part}", config.width, config.width, bias=part != "key" or key_bias)
        split = graph.add("Reshape", rows, np.array([1, tokens, config.heads, each]))
        return graph.add("Transpose", split, perm=order)

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    scores = graph.add("Div", graph.add("MatMul", query, key), np.full(1, np.sqrt(each), np.float32))
    if mask is not None:
        scores = graph.add("Add", scores, mask)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    joined = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), np.array([1, tokens, config.width]))
    return graph.linear(joined, f"{name}.output", config.width, config.width)


def _sinusoids(count: int, width: int) -> np.ndarray:
    """Position embeddings [count, width]: sines then cosines of wavelengths from 2 pi to 10000 * 2 pi."""
    rates = np.exp(-np.log(10000) / (width // 2 - 1) * np.arange(width // 2))
    angles = np.arange(count)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
