"""A small Llama trained in a few seconds: numpy in float32, gradients by a tape, Adam. Its text has structure to be
learnt: what is said once is asked for later, and some words are likelier than others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from networks.language import RandomWeights

from openane.models import Config

NAMES, COLOURS = ("lily", "tim", "anna", "ben"), ("red", "blue", "green", "black")
THINGS = ("ball", "cat", "car", "hat")
WORDS = ("<s>", ".", "has", "a", "the", "of", "is", *NAMES, *COLOURS, *THINGS)
CONFIG = Config("llama", len(WORDS), 64, 2, 4, 2, 16, 96, 256, 1e-5, stops=(), start=0)
ODDS = np.array([0.55, 0.25, 0.14, 0.06])
STEPS, BATCH, LENGTH, RATE = 150, 8, 40, 8e-3

Weights = dict[str, np.ndarray]


class Held:
    """An array and its gradient."""

    def __init__(self, value: np.ndarray) -> None:
        self.value, self.slope = value, np.zeros_like(value)


class Tape:
    """Forward operations that remember how to go back; `back` goes through them in reverse."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def back(self) -> None:
        """Slopes of everything, from those of the last result."""
        for step in reversed(self._steps):
            step()

    def made(self, value: np.ndarray, back: Callable[[np.ndarray], None]) -> Held:
        """A result, and what its slope does to its sources."""
        held = Held(value.astype(np.float32, copy=False))
        self._steps.append(lambda: back(held.slope))
        return held

    def rows(self, table: Held, tokens: np.ndarray) -> Held:
        """Rows of a table."""
        return self.made(table.value[tokens], lambda slope: np.add.at(table.slope, tokens, slope))

    def linear(self, x: Held, weight: Held) -> Held:
        """x @ weight^T."""
        def back(slope: np.ndarray) -> None:
            x.slope += slope @ weight.value
            weight.slope += slope.reshape(-1, slope.shape[-1]).T @ x.value.reshape(-1, x.value.shape[-1])
        return self.made(x.value @ weight.value.T, back)

    def add(self, x: Held, y: Held) -> Held:
        """x + y, of one shape."""
        def back(slope: np.ndarray) -> None:
            x.slope += slope
            y.slope += slope
        return self.made(x.value + y.value, back)

    def normal(self, x: Held, gain: Held, epsilon: float) -> Held:
        """RMS normalisation."""
        root = 1 / np.sqrt(np.mean(x.value ** 2, -1, keepdims=True) + epsilon)

        def back(slope: np.ndarray) -> None:
            inner = slope * gain.value
            along = np.mean(x.value * inner, -1, keepdims=True)
            x.slope += root * inner - x.value * root ** 3 * along
            gain.slope += (slope * x.value * root).reshape(-1, gain.value.size).sum(0)
        return self.made(x.value * root * gain.value, back)

    def gated(self, gate: Held, up: Held) -> Held:
        """SiLU(gate) * up."""
        share = 1 / (1 + np.exp(-gate.value))

        def back(slope: np.ndarray) -> None:
            gate.slope += slope * up.value * share * (1 + gate.value * (1 - share))
            up.slope += slope * gate.value * share
        return self.made(gate.value * share * up.value, back)

    def attention(self, query: Held, key: Held, value: Held, config: Config) -> Held:
        """Causal, rotary positions turned here; [batch, tokens, heads * size] in and out."""
        batch, count, _ = query.value.shape
        size, group = config.head_size, config.heads // config.kv_heads

        def heads(x: np.ndarray) -> np.ndarray:
            return x.reshape(batch, count, -1, size).swapaxes(1, 2)

        def flat(x: np.ndarray) -> np.ndarray:
            return x.swapaxes(1, 2).reshape(batch, count, -1)

        q, k = turned(config, heads(query.value)), np.repeat(turned(config, heads(key.value)), group, 1)
        v = np.repeat(heads(value.value), group, 1)
        scores = np.where(np.tri(count, dtype=bool), q @ k.swapaxes(2, 3) * size ** -0.5, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)

        def together(x: np.ndarray) -> np.ndarray:
            return x.reshape(batch, config.kv_heads, group, count, size).sum(2)

        def back(slope: np.ndarray) -> None:
            out = heads(slope)
            inner = out @ v.swapaxes(2, 3)
            logits = shares * (inner - (inner * shares).sum(-1, keepdims=True)) * size ** -0.5
            query.slope += flat(turned(config, logits @ k, -1))
            key.slope += flat(turned(config, together(logits.swapaxes(2, 3) @ q), -1))
            value.slope += flat(together(shares.swapaxes(2, 3) @ out))
        return self.made(flat(shares @ v), back)


def turned(config: Config, x: np.ndarray, way: int = 1) -> np.ndarray:
    """Rotary positions of [batch, heads, tokens, size]; `way` -1 turns back."""
    half = config.head_size // 2
    angles = np.outer(np.arange(x.shape[2]), config.rope.base ** (-np.arange(half) / half))
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * way * angles)
    return np.concatenate([pairs.real, pairs.imag], -1).astype(np.float32)


def text(count: int, seed: int) -> np.ndarray:
    """At least so many tokens: somebody has something, and what it is like is told once more."""
    rng, words = np.random.default_rng(seed), []
    while len(words) < count:
        name, colour = NAMES[rng.choice(4, p=ODDS)], COLOURS[rng.choice(4, p=ODDS)]
        thing = THINGS[rng.choice(4, p=ODDS)]
        words += ["<s>", name, "has", "a", colour, thing, ".", "the", thing, "of", name, "is", colour, "."]
    return np.array([WORDS.index(word) for word in words])


def _scores(tape: Tape, config: Config, weights: Mapping[str, Held], tokens: np.ndarray) -> Held:
    x = tape.rows(weights["embedding.weight"], tokens)
    for layer in range(config.layers):
        def part(name: str, source: Held, layer: int = layer) -> Held:
            return tape.linear(source, weights[f"layers.{layer}.{name}.weight"])

        inner = tape.normal(x, weights[f"layers.{layer}.norm1.weight"], config.epsilon)
        mixed = tape.attention(part("query", inner), part("key", inner), part("value", inner), config)
        x = tape.add(x, part("output", mixed))
        inner = tape.normal(x, weights[f"layers.{layer}.norm2.weight"], config.epsilon)
        x = tape.add(x, part("down", tape.gated(part("gate", inner), part("up", inner))))
    return tape.linear(tape.normal(x, weights["norm.weight"], config.epsilon), weights["head.weight"])


def _step(config: Config, weights: Mapping[str, Held], batch: np.ndarray) -> float:
    """Slopes of the mean cross-entropy of what follows each token; the mean."""
    tape = Tape()
    scores = _scores(tape, config, weights, batch[:, :-1])
    powers = np.exp(scores.value - scores.value.max(-1, keepdims=True))
    shares = powers / powers.sum(-1, keepdims=True)
    wanted = np.eye(config.vocabulary, dtype=np.float32)[batch[:, 1:]]
    count = wanted.shape[0] * wanted.shape[1]
    scores.slope[...] = (shares - wanted) / count
    tape.back()
    return float(-np.log((shares * wanted).sum(-1)).sum() / count)


@cache
def trained() -> tuple[Weights, float]:
    """The weights by our names, and the mean loss of the last steps (nats per token)."""
    held = {name: Held(array.astype(np.float32)) for name, array in RandomWeights(CONFIG).items()}
    moments = {name: (np.zeros_like(each.value), np.zeros_like(each.value)) for name, each in held.items()}
    tokens, rng, losses = text(60_000, 0), np.random.default_rng(1), []
    for step in range(1, STEPS + 1):
        starts = rng.integers(0, len(tokens) - LENGTH - 1, BATCH)
        losses.append(_step(CONFIG, held, np.stack([tokens[start:start + LENGTH + 1] for start in starts])))
        rate = RATE * min(step / 20, 1) * (0.05 + 0.95 * (1 + np.cos(np.pi * step / STEPS)) / 2)
        for name, each in held.items():
            first, second = moments[name]
            first += 0.1 * (each.slope - first)
            second += 0.02 * (each.slope ** 2 - second)
            size = np.sqrt(second / (1 - 0.98 ** step)) + 1e-8
            each.value -= (rate * first / (1 - 0.9 ** step) / size).astype(np.float32)
            each.slope[...] = 0
    return {name: each.value for name, each in held.items()}, float(np.mean(losses[-20:]))
