"""A language model whose tokens are bytes: it answers a chat by quoting it, and continues text with the alphabet."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from openane.errors import UnsupportedError
from openane.models.generation import GeneratedToken, Options, Stops
from openane.models.pieces import Pieces
from openane.models.sampling import Sampling
from openane.models.tokenizer import Tokenizer

END = 256
VOCABULARY = 257


class Bytes:
    """Tokens are bytes, as the `tokenizers` library would have them."""

    def decode(self, tokens: Iterable[int], **_: Any) -> str:
        """UTF-8; nothing for the end token."""
        return bytes(token for token in tokens if token < END).decode(errors="replace")

    def token_to_id(self, _: str) -> None:
        """No token has a name."""
        return


class ByteModel:
    """Answers of a chat are `You said: ...` and the end token; a completion is `abcd...` for ever. `hold`, when it is
    cleared, stops the model before its next token; `failure` is raised there."""

    context = 4096

    def __init__(self, answer: Callable[[str], bytes] | None = None, pause: float = 0) -> None:
        self.answer = answer or (lambda said: f"You said: {said}".encode())
        self.pause = pause
        self.hold = threading.Event()
        self.hold.set()
        self.started = self.ended = self.tokens = 0
        self.seen: list[Sampling] = []
        self.failure: Exception | None = None
        self.tokenizer = Tokenizer(Bytes())

    def prompt_tokens(self, prompt: Any) -> list[int]:
        """Bytes of a text; of a conversation a line for each message, the last one the user's."""
        if isinstance(prompt, str):
            return list(prompt.encode())
        if not isinstance(prompt[0], Mapping):
            return list(prompt)
        if prompt[-1]["role"] != "user":
            raise UnsupportedError("chat template", "the user speaks last")
        return list("".join(f"{m['role']}: {m['content']}\n" for m in prompt).encode())

    def stream(self, tokens: Sequence[int], options: Options | None = None,
               cancel: Callable[[], bool] | None = None) -> Iterator[GeneratedToken]:
        """See `TextModel`."""
        assert options is not None
        assert cancel is not None
        self.started += 1
        assert self.started == self.ended + 1, "two texts at once"
        self.seen.append(options.sampling)
        try:
            yield from self._texts(tokens, options, cancel)
        finally:
            self.ended += 1

    def _texts(self, tokens: Sequence[int], options: Options, cancel: Callable[[], bool]) -> Iterator[GeneratedToken]:
        pieces, stops = Pieces(self.tokenizer, tokens), Stops(options.stop)
        for count, token in enumerate(self._numbers(self.tokenizer.decode(tokens)), 1):
            while not self.hold.wait(0.005) and not cancel():
                pass
            if self.failure is not None:
                raise self.failure
            if cancel():
                yield GeneratedToken(None, "", "cancelled")
                return
            time.sleep(self.pause)
            self.tokens += 1
            text, ended = stops.add(pieces.add(token)) if token != END else ("", False)
            if full := (token == END or count == options.max_tokens) and not ended:
                more, ended = stops.add(pieces.rest())
                text += more + stops.rest()
            finish = "stop" if ended or token == END else "length" if full else None
            told = (-0.5, tuple((place, -1.0 - place) for place in range(97, 97 + options.alternatives)))
            yield GeneratedToken(token, text, finish, *(told if options.probabilities else ()))
            if finish:
                return

    def _numbers(self, prompt: str) -> Iterator[int]:
        if "user: " in prompt:
            yield from self.answer(prompt.rpartition("user: ")[2].removesuffix("\n"))
            yield END
        else:
            yield from itertools.cycle(range(ord("a"), ord("z") + 1))
