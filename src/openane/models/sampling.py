"""Which token comes next, from the scores of the vocabulary: the most likely one, or one drawn from what temperature,
top-k and top-p leave. Computed on the host in float64; a seed makes a text repeatable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from openane.errors import GenerationError


@dataclass(frozen=True, slots=True)
class Sampling:
    """`temperature` 0 takes the most likely token. `top_k` leaves the k most likely (0: all), then `top_p` the fewest
    whose probabilities reach p together (1: all). GenerationError for numbers out of range."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _require("temperature", self.temperature, self.temperature >= 0 and math.isfinite(self.temperature),
                 "0 or larger")
        _require("top_k", self.top_k, self.top_k >= 0, "0 or larger")
        _require("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, up to 1")
        _require("seed", self.seed, self.seed is None or self.seed >= 0, "0 or larger")


class Sampler:
    """Draws tokens for one text."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, scores: np.ndarray) -> int:
        """A token for scores [vocabulary], whatever their float type. GenerationError when none is a number."""
        wide = np.asarray(scores, np.float64)
        if not np.isfinite(wide).any():
            raise GenerationError("the model gave no finite score: its numbers left the range of fp16")
        if self._sampling.temperature == 0:
            return int(np.nanargmax(wide))
        tokens, shares = distribution(wide, self._sampling)
        place = np.searchsorted(np.cumsum(shares), self._random.random(), side="right")
        return int(tokens[min(int(place), len(tokens) - 1)])


def distribution(scores: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that may be drawn, most likely first, and their probabilities. `temperature` must not be 0."""
    finite = np.where(np.isnan(scores), -np.inf, scores)
    kept = min(sampling.top_k or len(finite), len(finite))
    tokens = np.argpartition(-finite, kept - 1)[:kept] if kept < len(finite) else np.arange(len(finite))
    tokens = tokens[np.argsort(-finite[tokens], kind="stable")]
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp((finite[tokens] - finite[tokens[0]]) / sampling.temperature)
    powers[0] = 1.0
    shares = np.nan_to_num(powers) / np.nan_to_num(powers).sum()
    if sampling.top_p < 1:
        reached = int(np.searchsorted(np.cumsum(shares), sampling.top_p)) + 1
        tokens, shares = tokens[:reached], shares[:reached] / shares[:reached].sum()
    return tokens, shares


def _require(name: str, value: object, good: bool, allowed: str) -> None:
    if not good:
        raise GenerationError(f"{name} must be {allowed}, not {value}")
