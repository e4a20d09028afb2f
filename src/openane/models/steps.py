"""The functions of a language model: how many tokens each takes, how much of the cache it sees, which one is next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from openane.errors import GenerationError
from openane.models.adapters import Slots


class CacheWriter(StrEnum):
    """Who puts new keys and values into the cache."""

    HOST = "host"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A function of a model: `tokens` new ones at a time, `seen` positions of the cache, whose states are for
    `context`. `logits`: whether it computes scores of the vocabulary for every row."""

    name: str
    tokens: int
    seen: int
    context: int
    logits: bool = True
    placement: CacheWriter = CacheWriter.HOST
    slots: Slots | None = None


@dataclass(frozen=True, slots=True)
class Buckets:
    """Lengths that functions are compiled for: `prefill` tokens at a time, and `contexts` a decode step sees, the
    longest of which is the model's context here. GenerationError when they do not ascend from 1."""

    contexts: tuple[int, ...]
    prefill: tuple[int, ...]

    def __post_init__(self) -> None:
        for name, lengths in (("contexts", self.contexts), ("prefill lengths", self.prefill)):
            whole = all(type(length) is int for length in lengths)
            ascending = whole and all(low < high for low, high in pairwise(lengths))
            least = 1 if name == "contexts" else 2
            if not ascending or min(lengths, default=least) < least or not self.contexts:
                raise GenerationError(f"{name} must be whole numbers that ascend, not {list(lengths)}")

    @property
    def context(self) -> int:
        """The longest text."""
        return self.contexts[-1]

    def steps(self, logits: bool, placement: CacheWriter, slots: Slots | None) -> tuple[ModelStep, ...]:
        """The functions: `decode` or `decode_SEEN`, and `prefill_TOKENS`; `logits` says whether those of more than one
        token score the vocabulary."""
        several = len(self.contexts) > 1
        decode = [ModelStep(f"decode_{seen}" if several else "decode", 1, seen, self.context, True, placement, slots)
                  for seen in reversed(self.contexts)]
        prefill = [ModelStep(f"prefill_{tokens}", tokens, self.context, self.context, logits, placement, slots)
                   for tokens in self.prefill if tokens <= self.context]
        return (*decode, *prefill)


def choose(steps: Sequence[ModelStep], held: int, tokens: int) -> ModelStep:
    """The step for `tokens` more (logits of a prefill apart) on top of `held`: the shortest that takes them all, or
    the longest there is, that sees enough of the cache."""
    ends = [step.seen if step.placement is CacheWriter.HOST else step.seen - 1 for step in steps]
    seeing = [step for step, end in zip(steps, ends, strict=True) if end >= held]
    whole = [step for step in seeing if step.tokens >= tokens]
    if whole:
        return min(whole, key=lambda step: (step.tokens, step.seen))
    return min(seeing, key=lambda step: (-step.tokens, step.seen))
