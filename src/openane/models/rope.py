"""Rotary positions: the angles by which pairs of a head's elements are turned at each position.

Element i of a head's first half and element i of its second half are one pair; pair i turns by position * frequency[i].
Where only a part of a head is turned, the pairs are the first elements of both halves, and the others stay. Checkpoints
that have another order are put into this one when they are read (`order`). The frequencies and the ways of stretching
them are those of Hugging Face's configurations; tables are computed in float64 on the host, a row per token of a step.
"""

from __future__ import annotations

import math

import numpy as np

from openane.models.config import Rope


def frequencies(rope: Rope, head_size: int, context: int) -> tuple[np.ndarray, float]:
    """Frequency of each pair (float64 [turned elements / 2], radians per token), and what cosines and sines are scaled
    by."""
    size = rope.turned or head_size
    exponents = np.arange(0, size, 2) / size
    base = rope.base
    if rope.kind == "dynamic" and context > rope.original and size > 2:
        longer = rope.factor * context / rope.original - (rope.factor - 1)
        base *= longer ** (size / (size - 2))
    plain = base ** -exponents
    if rope.kind == "linear":
        return plain / rope.factor, 1.0
    if rope.kind == "llama3":
        return _llama3(rope, plain), 1.0
    if rope.kind == "yarn":
        return _yarn(rope, plain, size), _yarn_scale(rope)
    if rope.kind == "longrope":
        return plain / np.array(rope.long if context > rope.original else rope.short), rope.attention or 1.0
    return plain, 1.0


def table(rope: Rope, head_size: int, context: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines, fp16 [tokens, head_size]: sines of the first half negated, as `ModelLayers.turned` has it;
    1 and 0 for elements that stay."""
    turns, scale = frequencies(rope, head_size, context)
    angles = np.multiply.outer(np.asarray(positions, np.float64), turns)
    cosines, sines = np.ones((len(angles), head_size)), np.zeros((len(angles), head_size))
    pairs, half = len(turns), head_size // 2
    for start, sign in ((0, -1), (half, 1)):
        cosines[:, start:start + pairs] = np.cos(angles) * scale
        sines[:, start:start + pairs] = sign * np.sin(angles) * scale
    return cosines.astype(np.float16), sines.astype(np.float16)


def order(rope: Rope, head_size: int) -> np.ndarray | None:
    """Which element of a checkpoint's head comes to each place of ours; None where they have the same order."""
    size = rope.turned or head_size
    turned, rest = np.arange(size), np.arange(size, head_size)
    first, second = (turned[::2], turned[1::2]) if rope.neighbours else (turned[:size // 2], turned[size // 2:])
    staying = head_size // 2 - size // 2
    places = np.concatenate([first, rest[:staying], second, rest[staying:]])
    return None if (places == np.arange(head_size)).all() else places


def _llama3(rope: Rope, plain: np.ndarray) -> np.ndarray:
    turns = rope.original * plain / (2 * math.pi)  # that each pair makes within the length trained on
    span = rope.high - rope.low
    share = np.clip((turns - rope.low) / span, 0, 1) if span else (turns >= rope.low).astype(np.float64)
    blended: np.ndarray = (1 - share) * plain / rope.factor + share * plain
    return blended


def _yarn(rope: Rope, plain: np.ndarray, size: int) -> np.ndarray:
    def pair(turns: float) -> float:
        """Which pair makes so many turns within the original length."""
        return size * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.base))

    first, last = pair(rope.high), pair(rope.low)
    if rope.truncated:
        first, last = math.floor(first), math.ceil(last)
    low, high = max(first, 0), min(last, size - 1)
    ramp = np.clip((np.arange(len(plain)) - low) / (max(high - low, 0.001)), 0, 1)
    blended: np.ndarray = plain / rope.factor * ramp + plain * (1 - ramp)
    return blended


def _yarn_scale(rope: Rope) -> float:
    if rope.attention is not None:
        return rope.attention
    return 0.1 * math.log(rope.factor) + 1 if rope.factor > 1 else 1.0
