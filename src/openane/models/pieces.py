"""The text of tokens that come one by one: characters and words may be spread over several."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence

from openane.models.tokenizer import UNFINISHED, Tokenizer

PENDING = 3
"""Bytes of an unfinished character, at most."""
LONGEST_UNDECODED = 16
"""Tokens that are decoded again at most; what is no text by then will be none."""


class Pieces:
    """The text of tokens that come one by one, in constant time each. What may still change is held back: a character
    of UTF-8 has at most four bytes, and decoders write U+FFFD for an unfinished one, at most one per byte. Tokens that
    stand for one byte are put together here: the library would give a whole row of them up for one that is unfinished.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        """`before`: tokens of the text so far; a few are enough to know how the next one is joined."""
        self._tokenizer = tokenizer
        self._context = list(before[-8:])
        self._known = len(tokenizer.decode(self._context).rstrip(UNFINISHED)) if self._context else 0
        self._fresh: list[int] = []
        self._given = 0
        self._bytes = getincrementaldecoder("utf-8")("replace")
        for token in self._context:
            self._byte(token)

    def add(self, token: int) -> str:
        """The text that is certain now."""
        if token in self._tokenizer.lone_bytes:
            settled = self._settled()
            self._context = [*self._context[-8:], token]
            return settled + self._byte(token)
        return self._bytes.decode(b"", True) + self._added(token)

    def rest(self) -> str:
        """What was held back."""
        return self._bytes.decode(b"", True) + self._settled()

    def _byte(self, token: int) -> str:
        """What the byte of a token completes; any other token ends the row."""
        byte = self._tokenizer.lone_bytes.get(token)
        return self._bytes.decode(b"", True) if byte is None else self._bytes.decode(bytes([byte]))

    def _added(self, token: int) -> str:
        if not self._fresh and self._context and self._context[-1] in self._tokenizer.lone_bytes:
            self._known = len(self._tokenizer.decode(self._context))
        self._fresh.append(token)
        text, full = self._text(), len(self._fresh) >= LONGEST_UNDECODED
        pending = 0 if full else min(len(text) - len(text.rstrip(UNFINISHED)), PENDING)
        certain = text[self._given:len(text) - pending]
        self._given = max(self._given, len(text) - pending)
        if full or (text and not pending):
            self._context, self._fresh, self._given = self._fresh, [], 0
            self._known = len(self._tokenizer.decode(self._context))
        return certain

    def _settled(self) -> str:
        """What is held back of tokens that are no bytes, which become context."""
        rest = self._text()[self._given:] if self._fresh else ""
        self._context, self._fresh, self._given = [*self._context, *self._fresh], [], 0
        return rest

    def _text(self) -> str:
        return self._tokenizer.decode(self._context + self._fresh)[self._known:]
