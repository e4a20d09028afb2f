"""Which token comes next, from the scores of the vocabulary: the most likely one, or one drawn from what temperature,
top-k and top-p leave. Computed on the host in float64; a seed makes a text repeatable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from openane.errors import GenerationError

LARGEST = 1e9
"""A score beyond it counts as this much."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """`temperature` 0 takes the most likely token. `top_k` leaves the k most likely (0: all), then `top_p` the fewest
    whose probabilities reach p together (1: all). GenerationError for numbers out of range."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _require("temperature", self.temperature, _finite(self.temperature) and self.temperature >= 0, "0 or larger")
        require_whole("top_k", self.top_k, 0)
        _require("top_p", self.top_p, _finite(self.top_p) and 0 < self.top_p <= 1, "above 0, up to 1")
        if self.seed is not None:
            require_whole("seed", self.seed, 0)


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


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Natural logarithms of every token's probability before temperature and the like, float64; scores that are no
    numbers count as impossible."""
    wide = np.clip(np.nan_to_num(np.asarray(scores, np.float64), nan=-LARGEST), -LARGEST, LARGEST)
    above = wide - wide.max()
    logarithms: np.ndarray = above - np.log(np.exp(above).sum())
    return logarithms


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


def require_whole(name: str, value: object, least: int) -> None:
    """GenerationError unless it is a whole number of at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    _require(name, value, whole and int(value) >= least,  # type: ignore[call-overload]
             f"a whole number of at least {least}")


def _finite(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _require(name: str, value: object, good: bool, allowed: str) -> None:
    if not good:
        raise GenerationError(f"{name} must be {allowed}, not {value!r}")
