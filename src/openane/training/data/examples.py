"""Examples by number, and the order in which an epoch goes through them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from openane.errors import FormatError

SAMPLES = 16
"""Examples of each part that a digest reads."""


class Examples(Protocol):
    """A fixed list of examples."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def take(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs [n, ...] (real numbers, or token numbers) and labels [n] or [n, length] (int64)."""
        ...


@dataclass(frozen=True)
class Split:
    """Examples to learn from and to judge by. `classes`: labels are below it. `tokens`: inputs are token numbers below
    `classes` and labels the tokens that follow them."""

    training: Examples
    test: Examples
    classes: int
    tokens: bool = False

    def digest(self) -> str:
        """Tells data apart: the counts of examples and some of them, hashed, in hexadecimal."""
        said = hashlib.blake2b(digest_size=8)
        for part in (self.training, self.test):
            said.update(b"%d:" % len(part))
            for array in part.take(np.linspace(0, len(part) - 1, SAMPLES).astype(np.int64)):
                said.update(np.ascontiguousarray(array).tobytes())
        return said.hexdigest()


@dataclass(frozen=True)
class Pairs:
    """Inputs and labels in two arrays."""

    inputs: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Examples.take`."""
        return self.inputs[numbers], self.labels[numbers].astype(np.int64)


@dataclass(frozen=True)
class TokenWindows:
    """Windows of `length` tokens and the tokens that follow each, in a row of tokens."""

    tokens: np.ndarray
    length: int

    def __len__(self) -> int:
        return max(0, (len(self.tokens) - 1) // self.length)

    def take(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Examples.take`."""
        at = np.asarray(numbers, np.int64)[:, None] * self.length + np.arange(self.length + 1)
        rows = self.tokens[at].astype(np.int64)
        return rows[:, :-1], rows[:, 1:]


def windows(tokens: np.ndarray, length: int, holdout: float, classes: int, place: str) -> Split:
    """The first tokens to learn from, the last `holdout` of them to judge by. FormatError when they are too few."""
    cut = len(tokens) - int(len(tokens) * holdout)
    split = Split(TokenWindows(tokens[:cut], length), TokenWindows(tokens[cut:], length), classes, tokens=True)
    if not len(split.training) or not len(split.test):
        raise FormatError(f"{place} has {len(tokens)} tokens, of which {len(tokens) - cut} are held out: too few for "
                          f"windows of {length}")
    return split


def order(seed: int, epoch: int, count: int) -> np.ndarray:
    """The order of an epoch's examples: it depends on nothing else, so that a resumed training finds it again."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def batches(count: int, size: int) -> Iterator[tuple[np.ndarray, int]]:
    """All of `count` examples in batches of `size`, the last filled up with its first; and how many are real."""
    for start in range(0, count, size):
        numbers = np.arange(start, min(start + size, count))
        yield np.resize(numbers, size), len(numbers)
