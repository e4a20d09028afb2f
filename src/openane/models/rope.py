"""Rotary positions: the angles by which pairs of a head's elements are turned at each position.

Element i of a head's first half and element i of its second half are one pair; pair i turns by position * frequency[i].
The frequencies and the ways of stretching them are those of Hugging Face's configurations; tables are computed in
float64 on the host, a row per token of a step.
"""

from __future__ import annotations

import math

import numpy as np

from openane.models.config import Rope


def frequencies(rope: Rope, head_size: int, context: int) -> tuple[np.ndarray, float]:
    """Frequency of each pair (float64 [head_size / 2], radians per token), and what cosines and sines are scaled by."""
    exponents = np.arange(0, head_size, 2) / head_size
    base = rope.base
    if rope.kind == "dynamic" and context > rope.original and head_size > 2:
        longer = rope.factor * context / rope.original - (rope.factor - 1)
        base *= longer ** (head_size / (head_size - 2))
    plain = base ** -exponents
    if rope.kind == "linear":
        return plain / rope.factor, 1.0
    if rope.kind == "llama3":
        return _llama3(rope, plain), 1.0
    if rope.kind == "yarn":
        return _yarn(rope, plain, head_size), _yarn_scale(rope)
    return plain, 1.0


def table(rope: Rope, head_size: int, context: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines, fp16 [tokens, head_size]: sines of the first half negated, as `Layers.turned` has it."""
    turns, scale = frequencies(rope, head_size, context)
    angles = np.multiply.outer(np.asarray(positions, np.float64), turns)
    cosines, sines = np.cos(angles) * scale, np.sin(angles) * scale
    return (np.concatenate([cosines, cosines], -1).astype(np.float16),
            np.concatenate([-sines, sines], -1).astype(np.float16))


def _llama3(rope: Rope, plain: np.ndarray) -> np.ndarray:
    turns = rope.original * plain / (2 * math.pi)  # that each pair makes within the length trained on
    span = rope.high - rope.low
    share = np.clip((turns - rope.low) / span, 0, 1) if span else (turns >= rope.low).astype(np.float64)
    blended: np.ndarray = (1 - share) * plain / rope.factor + share * plain
    return blended


def _yarn(rope: Rope, plain: np.ndarray, head_size: int) -> np.ndarray:
    def pair(turns: float) -> float:
        """Which pair makes so many turns within the original length."""
        return head_size * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.base))

    first, last = pair(rope.high), pair(rope.low)
    if rope.truncated:
        first, last = math.floor(first), math.ceil(last)
    low, high = max(first, 0), min(last, head_size - 1)
    ramp = np.clip((np.arange(len(plain)) - low) / (max(high - low, 0.001)), 0, 1)
    blended: np.ndarray = plain / rope.factor * ramp + plain * (1 - ramp)
    return blended


def _yarn_scale(rope: Rope) -> float:
    if rope.attention is not None:
        return rope.attention
    return 0.1 * math.log(rope.factor) + 1 if rope.factor > 1 else 1.0
