"""How far scores are from exact ones, next to what rounding every result to fp16 does by itself.

Weights drawn wide make the scores of attention large and softmax sharp: errors grow from layer to layer, in any fp16
arithmetic. The engine's tables and the order of its steps may add a little to that, not more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from networks.language import RandomWeights
from support.language_reference import GROUPED, LLAMA, NORMED

from openane.models import Buckets, Config, LanguageModel, LanguageSettings

ALLOWED = 1.3
"""Root mean square of the engine's error over that of rounding alone."""
Rounding = Callable[[np.ndarray], np.ndarray]


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float64)


def exact(x: np.ndarray) -> np.ndarray:
    return x


class Forward:
    """A Llama in float64, every result rounded as asked."""

    def __init__(self, config: Config, rounded: Rounding) -> None:
        drawn = RandomWeights(config, spread=2.0)
        self.config, self.rounded = config, rounded
        self.weights = {name: drawn[name].astype(np.float64) for name in drawn}

    def scores(self, tokens: Sequence[int]) -> np.ndarray:
        """float64 [tokens, vocabulary]."""
        rounded, weights = self.rounded, self.weights
        x = rounded(weights["embedding.weight"][list(tokens)])
        for layer in range(self.config.layers):
            name = f"layers.{layer}"
            x = rounded(x + self.attention(self.normal(x, f"{name}.norm1"), name))
            y = self.normal(x, f"{name}.norm2")
            gate, up = self.linear(y, f"{name}.gate"), self.linear(y, f"{name}.up")
            hidden = rounded(rounded(gate / (1 + np.exp(-gate))) * up)
            x = rounded(x + self.linear(hidden, f"{name}.down"))
        head = weights["embedding.weight" if self.config.tied else "head.weight"]
        return rounded(self.normal(x, "norm") @ rounded(head).T)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        bias = self.weights.get(f"{name}.bias", np.zeros(1))
        return self.rounded(x @ self.rounded(self.weights[f"{name}.weight"]).T + bias)

    def normal(self, x: np.ndarray, name: str) -> np.ndarray:
        root = np.sqrt(np.mean(x * x, -1, keepdims=True) + self.config.epsilon)
        return self.rounded(x / root * self.weights[f"{name}.weight"])

    def attention(self, x: np.ndarray, name: str) -> np.ndarray:
        config, rounded, count = self.config, self.rounded, len(x)
        query, key, value = (self.linear(x, f"{name}.{part}").reshape(count, -1, config.head_size).swapaxes(0, 1)
                             for part in ("query", "key", "value"))
        if config.normed_heads:
            query, key = self.normal(query, f"{name}.query_norm"), self.normal(key, f"{name}.key_norm")
        group = config.heads // config.kv_heads
        query, key, value = self.turned(query), self.turned(key).repeat(group, 0), value.repeat(group, 0)
        products = rounded(query @ key.swapaxes(1, 2) / np.sqrt(config.head_size))
        products = np.where(np.tril(np.ones((count, count), bool)), products, -np.inf)
        powers = np.exp(products - products.max(-1, keepdims=True))
        mixed = rounded(rounded(powers / powers.sum(-1, keepdims=True)) @ value)
        return self.linear(mixed.swapaxes(0, 1).reshape(count, -1), f"{name}.output")

    def turned(self, x: np.ndarray) -> np.ndarray:
        rounded, half_size = self.rounded, self.config.head_size // 2
        angles = np.outer(np.arange(x.shape[1]), self.config.rope.base ** (-np.arange(half_size) / half_size))
        cosines, sines = rounded(np.cos(angles)), rounded(np.sin(angles))
        low, high = x[..., :half_size], x[..., half_size:]
        return np.concatenate([rounded(rounded(low * cosines) - rounded(high * sines)),
                               rounded(rounded(high * cosines) + rounded(low * sines))], -1)


@pytest.mark.parametrize("config", [LLAMA, GROUPED, NORMED], ids=["llama", "grouped", "heads normalised"])
def test_the_engine_is_little_worse_than_rounding(config: Config) -> None:
    tokens = np.random.default_rng(5).integers(3, config.vocabulary, 40).tolist()
    wanted = Forward(config, exact).scores(tokens)
    rounding = np.sqrt(np.mean((Forward(config, half).scores(tokens) - wanted) ** 2))
    with LanguageModel(config, RandomWeights(config, spread=2.0), "simulator",
                       LanguageSettings(Buckets((48,), (16,)), scores=True)) as model:
        found = np.concatenate([model.score(tokens[:32]), *(model.decode(token)[None] for token in tokens[32:])])
    error = np.sqrt(np.mean((found - wanted) ** 2))
    assert 0 < rounding < 0.01 * np.abs(wanted).max()
    assert error <= ALLOWED * rounding, error / rounding
