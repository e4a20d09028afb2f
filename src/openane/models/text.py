"""The text in a decoder's cache, and the steps that make it longer.

The cache is the model's two states; how many of its positions count is known here alone. Nothing is excluded: whoever
holds a `CachedText` sees to it that one caller at a time changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openane.errors import ContextFull, GenerationError
from openane.models.config import Config
from openane.models.decoder import PLACES, masks, turning
from openane.models.layers import FAR
from openane.models.rope import table
from openane.models.runner import ModelRunner
from openane.models.steps import CacheWriter, ModelStep, choose
from openane.models.tokens import require_known, whole_numbers

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
        whole = whole_numbers(tokens)
        require_known(whole, self._config.vocabulary)
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
        rows[0, :count] = self._embedded(tokens)
        if self._positions is not None:
            rows[0, :count] = (rows[0, :count].astype(np.float32) + self._positions[positions[:count]])
        slopes = alibi_slopes(self._config.heads) if self._config.positions == "alibi" else None
        inputs: dict[str, np.ndarray] = {"embeddings": rows}
        inputs |= {name: mask(step, held, window, slopes) for name, window in masks(self._config, step).items()}
        for name, rope in turning(self._config).items():
            cosines, sines = table(rope, self._config.head_size, self._context, positions)
            inputs |= {f"{name}cosines": cosines[None, None], f"{name}sines": sines[None, None]}
        if step.placement is CacheWriter.ENGINE:
            put = np.zeros((1, 1, step.seen, step.tokens), np.float16)
            put[0, 0, np.arange(held, held + count), np.arange(count)] = 1
            inputs["put"] = put
        return inputs

    def _embedded(self, tokens: Sequence[int]) -> np.ndarray:
        """Rows of the table of embeddings, scaled where they are."""
        rows = self._table[list(tokens)]
        scale = self._config.embedding_scale * self._config.stream_scale
        return rows if scale == 1 else rows.astype(np.float32) * np.float32(scale)


def mask(step: ModelStep, held: int, window: int | None = None, slopes: np.ndarray | None = None) -> np.ndarray:
    """What `decoder.build` adds to scores: 0 for the `held` tokens of the cache, and for new ones up to the row's own,
    of them the last `window`; far below every score elsewhere. With `slopes`, one per head, scores fall with the
    distance. fp16 [1, 1 or heads, tokens, columns]."""
    rows, cache = np.arange(held, held + step.tokens), np.arange(step.seen)
    on_host = step.placement is CacheWriter.HOST
    columns = np.concatenate([cache, rows]) if on_host else cache
    distances = rows[:, None] - columns
    allowed = distances >= 0
    if on_host:
        allowed[:, held:step.seen] = False
    if window is not None:
        allowed &= distances < window
    if slopes is None:
        return np.where(allowed, np.float16(0), np.float16(FAR))[None, None]
    falling = -slopes[:, None, None] * np.abs(distances)
    return np.where(allowed, falling, FAR)[None].astype(np.float16)


def alibi_slopes(heads: int) -> np.ndarray:
    """How fast scores of each head fall with the distance: powers of two between 1 and 2^-8, and for numbers of heads
    that are no power of two those between the powers (Press et al., 2022). float64 [heads]."""
    whole = 2 ** int(np.log2(heads))
    first = 2.0 ** (-8 * np.arange(1, whole + 1) / whole)
    between = 2.0 ** (-4 * np.arange(1, 2 * (heads - whole), 2) / whole)
    return np.concatenate([first, between])
