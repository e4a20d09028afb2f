"""What the server asks of a language model; `openane.models.LanguageModel` is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from openane.models.chat import Message
from openane.models.generation import GeneratedToken, Options
from openane.models.text import Cancel
from openane.models.tokenizer import Tokenizer


class TextModel(Protocol):
    """A model and its tokenizer. `stream` is used by one thread, `prompt_tokens` by another meanwhile."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Text to tokens and back."""
        ...

    @property
    def context(self) -> int:
        """Tokens of prompt and answer together that fit."""
        ...

    def prompt_tokens(self, prompt: str | Sequence[int] | Sequence[Message]) -> list[int]:
        """The tokens of a text to continue, of a conversation up to where the assistant answers, or as given. AneError
        for what tokenizer or template do not take."""
        ...

    def stream(self, tokens: Sequence[int], options: Options | None = None,
               cancel: Cancel | None = None) -> Iterator[GeneratedToken]:
        """The tokens that continue a text and their texts; the last one says why it is. `cancel` is asked between
        tokens: True ends the text."""
        ...
