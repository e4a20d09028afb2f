"""Language models in float32, written from their definitions: what tests and benchmarks compare with.

Weights by the names of `openane.models.naming`. Nothing here is shared with the code that is tested but the
configuration: positions are turned by complex numbers, the whole text is computed at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.models import Config, Rope

Weights = Mapping[str, np.ndarray]

LLAMA = Config("llama", 97, 64, 2, 4, 4, 16, 96, 64, 1e-5, stops=(2,), start=1)
GROUPED = Config("llama", 101, 96, 2, 6, 2, 16, 128, 64, 1e-6, tied=True, rope=Rope(1e6),
                 biases=frozenset({"query", "key", "value"}))
NORMED = Config("llama", 97, 64, 2, 4, 2, 32, 96, 64, 1e-6, rope=Rope(1e6), normed_heads=True)
LAYER_NORM: dict[str, Any] = {"norm": "layer", "norm_vectors": frozenset({"weight", "bias"}), "gated": False,
                              "positions": "learned"}
GPT2 = Config("gpt2", 89, 64, 2, 4, 4, 16, 256, 64, 1e-5, "gelu_tanh", True,
              frozenset({"query", "key", "value", "output", "up", "down"}), **LAYER_NORM)
BERT = Config("bert", 83, 64, 2, 4, 4, 16, 128, 64, 1e-12, "gelu", True,
              frozenset({"query", "key", "value", "output", "up", "down", "pooler"}), types=2, **LAYER_NORM)


def scores(config: Config, weights: Weights, tokens: Sequence[int]) -> np.ndarray:
    """What a decoder thinks follows each token: float32 [tokens, vocabulary]."""
    x = weights["embedding.weight"][list(tokens)].astype(np.float32)
    if config.positions == "learned":
        x = x + weights["positions.weight"][:len(tokens)]
    allowed = np.tril(np.ones((len(tokens), len(tokens)), bool))
    for layer in range(config.layers):
        name = f"layers.{layer}"
        x = x + attention(config, weights, name, normal(config, weights, f"{name}.norm1", x), allowed)
        x = x + feed_forward(config, weights, name, normal(config, weights, f"{name}.norm2", x))
    head = weights["embedding.weight" if config.tied else "head.weight"]
    return normal(config, weights, "norm", x) @ head.T.astype(np.float32)


def states(config: Config, weights: Weights, tokens: Sequence[int]) -> np.ndarray:
    """What an encoder makes of a text, all in the first segment: float32 [tokens, width]."""
    x = (weights["embedding.weight"][list(tokens)] + weights["positions.weight"][:len(tokens)]
         + weights["types.weight"][0])
    x = normal(config, weights, "embedding.norm", x)
    allowed = np.ones((len(tokens), len(tokens)), bool)
    for layer in range(config.layers):
        name = f"layers.{layer}"
        x = normal(config, weights, f"{name}.norm1", x + attention(config, weights, name, x, allowed))
        x = normal(config, weights, f"{name}.norm2", x + feed_forward(config, weights, name, x))
    return x


def normal(config: Config, weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """RMS or layer normalisation."""
    gain = weights[f"{name}.weight"]
    if config.norm == "rms":
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + config.epsilon) * gain
    middle = x - x.mean(-1, keepdims=True)
    return middle / np.sqrt(np.mean(middle ** 2, -1, keepdims=True) + config.epsilon) * gain + weights[f"{name}.bias"]


def linear(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """A linear layer, with its bias where it has one."""
    result = x @ weights[f"{name}.weight"].T.astype(np.float32)
    return result + weights[f"{name}.bias"] if f"{name}.bias" in weights else result


def attention(config: Config, weights: Weights, name: str, x: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Every head on its own."""
    count, size = len(x), config.head_size
    query, key, value = (linear(weights, f"{name}.{part}", x).reshape(count, -1, size).swapaxes(0, 1)
                         for part in ("query", "key", "value"))
    if config.normed_heads:
        query, key = (normal(config, weights, f"{name}.{part}_norm", x) for part, x in (("query", query), ("key", key)))
    if config.positions == "rotary":
        query, key = (turned(config, part) for part in (query, key))
    mixed = []
    for head in range(config.heads):
        group = head // (config.heads // config.kv_heads)
        logits = np.where(allowed, query[head] @ key[group].T / math.sqrt(size), -np.inf)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        mixed.append(powers / powers.sum(-1, keepdims=True) @ value[group])
    return linear(weights, f"{name}.output", np.concatenate(mixed, -1))


def turned(config: Config, x: np.ndarray) -> np.ndarray:
    """Pairs (i, i + size/2) of [heads, tokens, size] as complex numbers, turned by position."""
    half = config.head_size // 2
    angles = np.outer(np.arange(x.shape[1]), config.rope.base ** (-np.arange(half) / half))
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1).astype(np.float32)


def feed_forward(config: Config, weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """The hidden part."""
    up = linear(weights, f"{name}.up", x)
    if config.gated:
        gate = linear(weights, f"{name}.gate", x)
        return linear(weights, f"{name}.down", gate / (1 + np.exp(-gate)) * up)
    if config.activation == "gelu":
        hidden = up * (1 + np.vectorize(math.erf)(up / math.sqrt(2))) / 2
    else:
        hidden = up * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up ** 3))) / 2
    return linear(weights, f"{name}.down", hidden.astype(np.float32))
