"""A text continued token by token: what is asked for, what comes back, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from openane.errors import GenerationError
from openane.models.pieces import Pieces
from openane.models.sampling import Sampler, Sampling, log_probabilities, require_whole
from openane.models.text import CachedText, Cancel
from openane.models.tokenizer import Tokenizer

GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Options:
    """Of one text. `stop` are texts that end it (they are not given out), `probabilities` adds each token's, and those
    of so many of the likeliest `alternatives`."""

    max_tokens: int = 128
    sampling: Sampling = GREEDY
    stop: tuple[str, ...] = ()
    probabilities: bool = False
    alternatives: int = 0

    def __post_init__(self) -> None:
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("alternatives", self.alternatives, 0)
        if not isinstance(self.stop, tuple | list) or any(not isinstance(text, str) or not text for text in self.stop):
            raise GenerationError(f"stop is a tuple of texts, none of them empty, not {self.stop!r}")


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One step of a text. `number` is the token (None where only held-back text is given out or the text was
    cancelled), `text` what is certain now, `finish` why the text ends here: `stop`, `length`, `cancelled`; None while
    it goes on. `logprob`: natural logarithm of the token's probability, if asked for; `alternatives`: the likeliest
    tokens and theirs, best first."""

    number: int | None
    text: str
    finish: str | None = None
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model's tokens mean: its `tokenizer` (None: not known), the tokens that end a text, and how many tokens a
    text has at most."""

    tokenizer: Tokenizer | None
    stops: frozenset[int]
    context: int


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


def stream(reading: Reading, held: CachedText, tokens: list[int], options: Options, cancel: Cancel | None,
           release: Callable[[], None]) -> Iterator[GeneratedToken]:
    """See `LanguageModel.stream`; `release` is called when the iterator ends, is closed or is forgotten."""
    return _Stream(_tokens(reading, held, tokens, options, cancel), release)


class _Stream(Iterator[GeneratedToken]):
    """An iterator that gives the model free however it ends, even before its first token. Closed while another thread
    waits for its next token, it ends behind that."""

    def __init__(self, made: Generator[GeneratedToken, None, None], release: Callable[[], None]) -> None:
        self._made, self._turn, self._closing = made, Lock(), False
        self._release: Callable[[], None] | None = release

    def __next__(self) -> GeneratedToken:
        if not self._turn.acquire(blocking=False):
            raise GenerationError("the next token of this text is being computed already")
        try:
            return next(self._made)
        except BaseException:
            self._closing = True
            raise
        finally:
            self._turn.release()
            if self._closing:
                self.close()

    def close(self) -> None:
        """Ends the text."""
        self._closing = True
        if not self._turn.acquire(blocking=False):
            return  # whoever computes the next token closes it then
        try:
            self._made.close()
            release, self._release = self._release, None
            if release is not None:
                release()
        finally:
            self._turn.release()

    def __del__(self) -> None:
        self.close()


class _NoText:
    """What stands in for the text of tokens where there is no tokenizer."""

    def add(self, token: int) -> str:
        """Nothing."""
        return ""

    def rest(self) -> str:
        """Nothing."""
        return ""


def _tokens(reading: Reading, held: CachedText, tokens: list[int], options: Options,
            cancel: Cancel | None) -> Generator[GeneratedToken, None, None]:
    held.rewind(_common(held.tokens, tokens[:-1]))
    if not held.prefill(tokens[len(held.tokens):-1], cancel):
        yield GeneratedToken(None, "", "cancelled")
        return
    pieces = _NoText() if reading.tokenizer is None else Pieces(reading.tokenizer, tokens)
    stops, sampler, stopping = Stops(options.stop), Sampler(options.sampling), reading.stops
    last = tokens[-1]
    for count in range(1, options.max_tokens + 1):
        if cancel is not None and cancel():
            yield GeneratedToken(None, stops.rest(), "cancelled")
            return
        scores = held.decode(last)
        last = sampler.choose(scores)
        likely = _likely(scores, last, options)
        if last in stopping:
            yield GeneratedToken(last, stops.add(pieces.rest())[0] + stops.rest(), "stop", *likely)
            return
        text, ended = stops.add(pieces.add(last))
        full = len(held.tokens) >= reading.context or count == options.max_tokens
        if full and not ended:
            more, ended = stops.add(pieces.rest())
            text += more + stops.rest()
        if ended or full:
            yield GeneratedToken(last, text, "stop" if ended else "length", *likely)
            return
        yield GeneratedToken(last, text, None, *likely)


def _common(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many tokens both begin with."""
    count = 0
    for first, second in zip(held, wanted, strict=False):
        if first != second:
            break
        count += 1
    return count


def _likely(scores: np.ndarray, token: int, options: Options) -> tuple[float | None, tuple[tuple[int, float], ...]]:
    """The logarithm of a token's probability and the likeliest alternatives, where they are asked for."""
    if not options.probabilities:
        return None, ()
    found = log_probabilities(scores)
    best = np.argsort(-found, kind="stable")[:options.alternatives]
    return float(found[token]), tuple((int(each), float(found[each])) for each in best)
