"""The text in a decoder's cache, and the steps that make it longer.

The cache is the model's two states; how many of its positions count is known here alone. Nothing is excluded: whoever
holds a `CachedText` sees to it that one caller at a time changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from openane.errors import ContextFull, GenerationError
from openane.models.config import Config
from openane.models.decoder import PLACES
from openane.models.layers import FAR
from openane.models.rope import table
from openane.models.runner import ModelRunner
from openane.models.steps import CacheWriter, ModelStep, choose

Cancel = Callable[[], bool]
"""Asked between steps; `threading.Event.is_set` is one."""


class CachedText:
    """Tokens whose keys and values the cache holds. `embeddings` fp16 [vocabulary, width], `positions` float32
    [context, width] where they are learned; `context`: the longest text."""

    def __init__(self, config: Config, runner: ModelRunner, embeddings: np.ndarray, positions: np.ndarray | None,
                 context: int) -> None:
        self._config, self._runner, self._context = config, runner, context
        self._table, self._positions = embeddings, positions
        self._tokens: list[int] = []

    @property
    def tokens(self) -> tuple[int, ...]:
        """The text."""
        return tuple(self._tokens)

    def rewind(self, length: int) -> None:
        """Forgets what comes after the first `length` tokens. GenerationError when there are fewer."""
        if not 0 <= length <= len(self._tokens):
            raise GenerationError(f"the text has {len(self._tokens)} tokens; {length} of them cannot be kept")
        del self._tokens[length:]

    def prefill(self, tokens: Sequence[int], cancel: Cancel | None = None) -> bool:
        """Appends tokens, as many at a time as functions take; whether all of them are there now. `cancel` is asked
        before each step, and True leaves the rest out. Errors as for `require`."""
        whole = self.require(tokens)
        return self._append(whole, cancel, None) == len(whole)

    def decode(self, token: int) -> np.ndarray:
        """Appends one token and scores what follows it: float32 [vocabulary]. Errors as for `require`."""
        whole = self.require([token])
        step = choose([step for step in self._runner.steps if step.tokens == 1], len(self._tokens), 1)
        return self._run(step, whole)["logits"].reshape(-1).astype(np.float32)

    def score(self, tokens: Sequence[int]) -> np.ndarray:
        """Appends tokens and scores what follows each of them: float32 [tokens, vocabulary]."""
        found: list[np.ndarray] = []
        self._append(self.require(tokens), None, found)
        return np.concatenate(found) if found else np.zeros((0, self._config.vocabulary), np.float32)

    def require(self, tokens: Sequence[int], held: int | None = None) -> list[int]:
        """The tokens as numbers. GenerationError where one is unknown, ContextFull where they leave no room on top of
        `held` others (those there are, unless given); nothing is computed."""
        known = self._config.vocabulary
        whole = whole_numbers(tokens)
        unknown = next((token for token in whole if not 0 <= token < known), None)
        if unknown is not None:
            raise GenerationError(f"token {unknown} is none of the {known} the model knows")
        length = len(whole) + (len(self._tokens) if held is None else held)
        if length > self._context:
            raise ContextFull(self._context, length)
        return whole

    def _append(self, tokens: list[int], cancel: Cancel | None, found: list[np.ndarray] | None) -> int:
        """How many were appended; scores of each go to `found`, where there is one."""
        able = [step for step in self._runner.steps if step.logits or found is None]
        at = 0
        while at < len(tokens) and not (cancel is not None and cancel()):
            step = choose(able, len(self._tokens), len(tokens) - at)
            part = tokens[at:at + step.tokens]
            outputs = self._run(step, part)
            if found is not None:
                found.append(outputs["logits"][0, :len(part)].astype(np.float32))
            at += len(part)
        return at

    def _run(self, step: ModelStep, tokens: Sequence[int]) -> dict[str, np.ndarray]:
        """One step on `tokens`, at most as many as it takes, and their keys and values into the cache."""
        held, count = len(self._tokens), len(tokens)
        outputs = self._runner.run(step.name, self._inputs(step, tokens))
        if step.placement is CacheWriter.HOST:
            for name, axis in PLACES.items():
                before = (slice(None),) * axis
                self._runner.write(name, outputs[f"new_{name}"][(*before, slice(count))],
                                   (*before, slice(held, held + count)))
        self._tokens += tokens
        return outputs

    def _inputs(self, step: ModelStep, tokens: Sequence[int]) -> dict[str, np.ndarray]:
        held, count = len(self._tokens), len(tokens)
        positions = np.minimum(np.arange(held, held + step.tokens), self._config.context - 1)
        rows = np.zeros((1, step.tokens, self._config.width), np.float16)
        rows[0, :count] = self._table[list(tokens)]
        if self._positions is not None:
            rows[0, :count] = (rows[0, :count].astype(np.float32) + self._positions[positions[:count]])
        inputs = {"embeddings": rows, "mask": mask(step, held)}
        if self._config.family == "llama":
            cosines, sines = table(self._config.rope, self._config.head_size, self._context, positions)
            inputs |= {"cosines": cosines[None, None], "sines": sines[None, None]}
        if step.placement is CacheWriter.ENGINE:
            put = np.zeros((1, 1, step.seen, step.tokens), np.float16)
            put[0, 0, np.arange(held, held + count), np.arange(count)] = 1
            inputs["put"] = put
        return inputs


def whole_numbers(items: object, what: str = "tokens") -> list[int]:
    """Python's own numbers. GenerationError for anything but a row of whole numbers."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise GenerationError(f"{what} are a row of whole numbers, and {items!r} is none")
    found = list(items)
    for item in found:
        if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer):
            raise GenerationError(f"{what} are whole numbers, and {item!r} is none")
    return [int(item) for item in found]


def mask(step: ModelStep, held: int) -> np.ndarray:
    """What `decoder.build` adds to scores: 0 for the `held` tokens of the cache, and for new ones up to the row's own;
    far below every score elsewhere. fp16."""
    new = np.triu(np.full((step.tokens, step.tokens), FAR, np.float16), 1)
    cache = np.full((step.tokens, step.seen), FAR, np.float16)
    cache[:, :held] = 0
    if step.placement is CacheWriter.HOST:
        return np.concatenate([cache, new], axis=1)[None, None]
    rest = step.seen - held
    cache[:, held:held + step.tokens] = new[:, :rest]
    return cache[None, None]
