"""A text continued token by token: what is asked for, what comes back, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openane.errors import GenerationError
from openane.models.sampling import Sampler, Sampling
from openane.models.tokenizer import Pieces

if TYPE_CHECKING:
    from openane.models.language import LanguageModel

GREEDY = Sampling()
Cancel = Callable[[], bool]
"""Asked between steps; `threading.Event.is_set` is one."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of one text. `stop` are texts that end it (they are not given out), `probabilities` adds each token's."""

    max_tokens: int = 128
    sampling: Sampling = GREEDY
    stop: tuple[str, ...] = ()
    probabilities: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise GenerationError(f"max_tokens must be at least 1, not {self.max_tokens}")
        if any(not text for text in self.stop):
            raise GenerationError("a text that ends a text must not be empty")


@dataclass(frozen=True, slots=True)
class Token:
    """One step of a text. `number` is the token (None where only held-back text is given out or the text was
    cancelled), `text` what is certain now, `finish` why the text ends here: `stop`, `length`, `cancelled`; None while
    it goes on. `logprob`: natural logarithm of the token's probability, if asked for."""

    number: int | None
    text: str
    finish: str | None = None
    logprob: float | None = None


class Stops:
    """Holds back text that may be the beginning of a text to stop at. The one that ends first counts, however the text
    is cut into tokens, and the longest of several that end together."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop, self._held = tuple(stop), ""
        self._longest = max(map(len, self._stop), default=0)

    def add(self, text: str) -> tuple[str, bool]:
        """The text to give out, and whether it ends there."""
        whole = self._held + text
        ends = [(place + len(stop), place) for stop in self._stop if (place := whole.find(stop)) >= 0]
        if ends:
            self._held = ""
            return whole[:min(ends)[1]], True
        keep = next((size for size in range(min(self._longest - 1, len(whole)), 0, -1)
                     if any(stop.startswith(whole[-size:]) for stop in self._stop)), 0)
        self._held = whole[len(whole) - keep:]
        return whole[:len(whole) - keep], False

    def rest(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return held


def stream(model: LanguageModel, tokens: list[int], options: Options, cancel: Cancel | None,
           release: Callable[[], None]) -> Iterator[Token]:
    """See `LanguageModel.stream`; `release` is called when the iterator ends, is closed or is forgotten."""
    return _Stream(model, tokens, options, cancel, release)


class _Stream(Iterator[Token]):
    """An iterator that gives the model free however it ends, even before its first token."""

    def __init__(self, model: LanguageModel, tokens: list[int], options: Options, cancel: Cancel | None,
                 release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release
        self._made = _tokens(model, tokens, options, cancel)

    def __next__(self) -> Token:
        try:
            return next(self._made)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the text."""
        self._made.close()
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        if getattr(self, "_made", None) is not None:
            self.close()


def _tokens(model: LanguageModel, tokens: list[int], options: Options,
            cancel: Cancel | None) -> Generator[Token, None, None]:
    if not tokens:
        raise GenerationError("there is no text to continue")
    model.rewind(_common(model.tokens, tokens[:-1]))
    model.prefill(tokens[len(model.tokens):-1], cancel)
    pieces = None if model.tokenizer is None else Pieces(model.tokenizer, tokens)
    stops, sampler, stopping = Stops(options.stop), Sampler(options.sampling), model.stops
    last = tokens[-1]
    for count in range(1, options.max_tokens + 1):
        if cancel is not None and cancel():
            yield Token(None, stops.rest(), "cancelled")
            return
        scores = model.decode(last)
        last = sampler.choose(scores)
        logprob = _logprob(scores, last) if options.probabilities else None
        if last in stopping:
            yield Token(last, stops.add(pieces.rest() if pieces else "")[0] + stops.rest(), "stop", logprob)
            return
        text, ended = stops.add(pieces.add(last) if pieces else "")
        full = len(model.tokens) >= model.context or count == options.max_tokens
        if full and not ended:
            more, ended = stops.add(pieces.rest() if pieces else "")
            text += more + stops.rest()
        yield Token(last, text, "stop" if ended else "length" if full else None, logprob)
        if ended or full:
            return


def _common(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many tokens both begin with."""
    count = 0
    for first, second in zip(held, wanted, strict=False):
        if first != second:
            break
        count += 1
    return count


def _logprob(scores: np.ndarray, token: int) -> float:
    wide = scores.astype(np.float64)
    top = wide.max()
    return float(wide[token] - top - np.log(np.exp(wide - top).sum()))
