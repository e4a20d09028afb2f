"""The documents of OpenAI's API that carry an answer, whole or in chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from openane.models.tokenizer import UNFINISHED
from openane.serving.engine import FinishedChoice, Likely, TextPiece
from openane.version import __version__

Document = dict[str, Any]
FINGERPRINT = f"openane-{__version__}"
OWNER = "openane"


def usage_of(prompt: int, completion: int) -> Document:
    """Token counts."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def model_document(name: str, created: int) -> Document:
    """One entry of /v1/models."""
    return {"id": name, "object": "model", "created": created, "owned_by": OWNER}


@dataclass
class Answer:
    """One answer in the making: what it is called, and the text of each choice so far. `chat` tells the endpoints
    apart, `usage` whether a stream ends with the token counts, `likely` whether tokens have probabilities.
    `created`: seconds since 1970; `begun`: the same moment on a clock for durations."""

    model: str
    chat: bool
    usage: bool
    prompt_tokens: int
    choices: int
    likely: bool = False
    created: int = field(default_factory=lambda: int(time.time()))
    begun: float = field(default_factory=time.monotonic)
    identity: str = field(default_factory=lambda: secrets.token_hex(12))
    completion_tokens: int = 0

    def __post_init__(self) -> None:
        self._texts: list[list[str]] = [[] for _ in range(self.choices)]
        self._tokens: list[list[Likely]] = [[] for _ in range(self.choices)]
        self._told = [0] * self.choices
        self._reasons = ["stop"] * self.choices

    def take(self, event: TextPiece | FinishedChoice) -> None:
        """Adds to what `whole` will give."""
        if isinstance(event, TextPiece):
            self._texts[event.index].append(event.text)
            self._tokens[event.index] += event.tokens
        else:
            self._reasons[event.index] = event.reason
            self.completion_tokens += event.tokens

    def whole(self) -> Document:
        """The complete answer."""
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._head(kind), "choices": [self._choice(index) for index in range(self.choices)],
                "usage": usage_of(self.prompt_tokens, self.completion_tokens)}

    def opening(self) -> list[Document]:
        """What a stream begins with: a chat says who speaks."""
        if not self.chat:
            return []
        return [self._chunk(index, {"delta": {"role": "assistant", "content": "", "refusal": None}})
                for index in range(self.choices)]

    def chunk(self, event: TextPiece | FinishedChoice) -> Document:
        """What a stream says of an event."""
        self.completion_tokens += event.tokens if isinstance(event, FinishedChoice) else 0
        reason = event.reason if isinstance(event, FinishedChoice) else None
        text, tokens = (event.text, event.tokens) if isinstance(event, TextPiece) else ("", ())
        said = {"delta": {"content": text} if text or tokens else {}} if self.chat else {"text": text}
        logprobs = self._logprobs(event.index, tokens) if isinstance(event, TextPiece) else None
        return self._chunk(event.index, said, reason, logprobs)

    def closing(self) -> list[Document]:
        """What a stream ends with: the token counts where they were asked for."""
        if not self.usage:
            return []
        return [{**self._head(self._chunk_kind()), "choices": [],
                 "usage": usage_of(self.prompt_tokens, self.completion_tokens)}]

    def _choice(self, index: int) -> Document:
        text = "".join(self._texts[index])
        said = {"message": {"role": "assistant", "content": text, "refusal": None}} if self.chat else {"text": text}
        return {"index": index, **said, "logprobs": self._logprobs(index, self._tokens[index]),
                "finish_reason": self._reasons[index]}

    def _chunk(self, index: int, said: Document, reason: str | None = None,
               logprobs: Document | None = None) -> Document:
        document = {**self._head(self._chunk_kind()),
                    "choices": [{"index": index, **said, "logprobs": logprobs, "finish_reason": reason}]}
        return {**document, "usage": None} if self.usage else document

    def _logprobs(self, index: int, tokens: Sequence[Likely]) -> Document | None:
        """Tokens with their probabilities, as each endpoint tells them; None where nobody asked."""
        if not self.likely:
            return None
        if self.chat:
            return {"content": [{**_said(token.text, token.logprob), "top_logprobs": [
                _said(*each) for each in token.alternatives]} for token in tokens], "refusal": None}
        # tokens that are no whole characters may have one text: the likeliest counts, which comes first
        begins = list(accumulate((len(token.text) for token in tokens), initial=self._told[index]))
        self._told[index] = begins.pop()
        return {"tokens": [token.text for token in tokens], "token_logprobs": [token.logprob for token in tokens],
                "top_logprobs": [dict(reversed(token.alternatives)) for token in tokens], "text_offset": begins}

    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _head(self, kind: str) -> Document:
        return {"id": f"{'chatcmpl' if self.chat else 'cmpl'}-{self.identity}", "object": kind, "created": self.created,
                "model": self.model, "system_fingerprint": FINGERPRINT}


def _said(text: str, logprob: float) -> Document:
    """A token of a chat. Bytes are those of its text where it is whole characters, else not known."""
    return {"token": text, "logprob": logprob, "bytes": None if UNFINISHED in text else list(text.encode())}


def encoded(document: object) -> bytes:
    """A document as JSON, in one line."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def server_sent(document: object) -> bytes:
    """A document as one server-sent event."""
    return b"data: " + encoded(document) + b"\n\n"


LAST = b"data: [DONE]\n\n"
