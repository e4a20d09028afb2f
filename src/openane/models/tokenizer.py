"""Text to tokens and back: `tokenizer.json` of a Hugging Face directory or `tokenizer.bin` of llama2.c, both by the
`tokenizers` library.

A `tokenizer.bin` has the longest piece's length, then per token a float32 score, a length and the piece. Its encoding
merges the neighbours whose piece scores highest; as byte-pair merges these are all ways to cut a piece in two, ranked
by its score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.models.weights import PIP

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for a space in pieces."""
MOST_PIECES = 1 << 20
PENDING = 3
"""Bytes of an unfinished character, at most."""
LONGEST_UNDECODED = 16
"""Tokens that are decoded again at most; what is no text by then will be none."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Tokenizer:
    """`encode` and `decode`; `special` are tokens that are no text, by name. `start` begins a text (None: nothing
    does, or the library's own rules add it)."""

    def __init__(self, library: Any, start: int | None = None) -> None:
        self._library, self.start = library, start

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return int(self._library.get_vocab_size(with_added_tokens=True))

    @property
    def special(self) -> dict[str, int]:
        """Tokens that are no text."""
        return {str(token.content): int(number) for number, token in self._library.get_added_tokens_decoder().items()
                if token.special}

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text; `special`: with those that begin one. Names of special tokens in the text count."""
        found = [int(token) for token in self._library.encode(text, add_special_tokens=special).ids]
        return [self.start, *found] if special and self.start is not None else found

    def decode(self, tokens: Iterable[int], special: bool = False) -> str:
        """The text of tokens; `special`: with the names of those that are no text."""
        return str(self._library.decode(list(tokens), skip_special_tokens=not special))

    def token(self, name: str) -> int | None:
        """The number of a token by its name."""
        found = self._library.token_to_id(name)
        return None if found is None else int(found)


class Pieces:
    """The text of tokens that come one by one, in constant time each. What may still change is held back: a character
    of UTF-8 has at most four bytes, and decoders write U+FFFD for an unfinished one, at most one per byte."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        """`before`: tokens of the text so far; a few are enough to know how the next one is joined."""
        self._tokenizer = tokenizer
        self._context = list(before[-8:])
        self._known = len(tokenizer.decode(self._context).rstrip(UNFINISHED)) if self._context else 0
        self._fresh: list[int] = []
        self._given = 0

    def add(self, token: int) -> str:
        """The text that is certain now."""
        self._fresh.append(token)
        text, full = self._text(), len(self._fresh) >= LONGEST_UNDECODED
        pending = 0 if full else min(len(text) - len(text.rstrip(UNFINISHED)), PENDING)
        certain = text[self._given:len(text) - pending]
        self._given = max(self._given, len(text) - pending)
        if full or (text and not pending):
            self._context, self._fresh, self._given = self._fresh, [], 0
            self._known = len(self._tokenizer.decode(self._context))
        return certain

    def rest(self) -> str:
        """What was held back."""
        rest = self._text()[self._given:] if self._fresh else ""
        self._fresh, self._given = [], 0
        return rest

    def _text(self) -> str:
        return self._tokenizer.decode(self._context + self._fresh)[self._known:]


def of_folder(folder: Path) -> Tokenizer | None:
    """The tokenizer beside a model: `tokenizer.json` or `tokenizer.bin`; None where there is neither."""
    if (folder / "tokenizer.json").is_file():
        return of_json(folder / "tokenizer.json")
    return of_llama2c(folder / "tokenizer.bin") if (folder / "tokenizer.bin").is_file() else None


def of_json(path: Path) -> Tokenizer:
    """A `tokenizer.json`. FormatError when the library cannot read it."""
    library = _library()
    try:
        return Tokenizer(library.Tokenizer.from_file(str(path)))
    except Exception as error:  # the library raises plain exceptions
        raise FormatError(f"{path.name} is no tokenizer: {error}") from None


def of_llama2c(path: Path) -> Tokenizer:
    """A `tokenizer.bin` of llama2.c. FormatError when it is none."""
    library = _library()
    pieces, scores = _read_pieces(path.read_bytes(), path.name)
    vocabulary: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        vocabulary.setdefault(piece, number)
    model = library.models.BPE(vocab=vocabulary, merges=list(_merges(vocabulary, scores)), unk_token="<unk>",
                               fuse_unk=True, byte_fallback=True)
    made = library.Tokenizer(model)
    made.normalizer = library.normalizers.Sequence(
        [library.normalizers.Prepend(SPACE), library.normalizers.Replace(" ", SPACE)])
    made.decoder = library.decoders.Sequence([
        library.decoders.Replace(SPACE, " "), library.decoders.ByteFallback(), library.decoders.Fuse(),
        library.decoders.Strip(" ", 1, 0)])
    made.add_special_tokens([name for name in ("<unk>", "<s>", "</s>") if name in vocabulary])
    return Tokenizer(made, vocabulary.get("<s>"))


def _read_pieces(data: bytes, name: str) -> tuple[list[str], list[float]]:
    """Pieces and scores, spaces as the library's pieces have them."""
    pieces: list[str] = []
    scores: list[float] = []
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 4:at + 8], "little")
        if at + 8 + size > len(data) or len(pieces) >= MOST_PIECES:
            raise FormatError(f"{name} is no tokenizer of llama2.c", offset=at,
                              expected="a score, a length and a piece", found=f"{len(data) - at} bytes")
        scores.append(float(np.frombuffer(data, "<f4", 1, at)[0]))
        text = data[at + 8:at + 8 + size].decode("utf-8", "replace")
        pieces.append(text.strip("\n") if text in ("\n<s>\n", "\n</s>\n") else text.replace(" ", SPACE))
        at += 8 + size
    if not pieces:
        raise FormatError(f"{name} is no tokenizer of llama2.c", expected="pieces", found=f"{len(data)} bytes")
    return pieces, scores


def _merges(vocabulary: dict[str, int], scores: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Every way to cut a piece in two known ones, best pieces first."""
    order = sorted((number for piece, number in vocabulary.items() if len(piece) > 1 and not _BYTE.fullmatch(piece)),
                   key=lambda number: (-scores[number], number))
    names = {number: piece for piece, number in vocabulary.items()}
    for number in order:
        piece = names[number]
        yield from ((piece[:cut], piece[cut:]) for cut in range(1, len(piece))
                    if piece[:cut] in vocabulary and piece[cut:] in vocabulary)


def stops_of(folder: Path) -> tuple[int, ...]:
    """Tokens that end a text as `generation_config.json` lists them; none where it is missing."""
    file = folder / "generation_config.json"
    if not file.is_file():
        return ()
    try:
        found = json.loads(file.read_text()).get("eos_token_id")
    except (ValueError, AttributeError):
        raise FormatError(file.name, expected="an object", found="something else") from None
    numbers = found if isinstance(found, list) else [] if found is None else [found]
    if any(type(number) is not int for number in numbers):
        raise FormatError(f"eos_token_id of {file.name}", expected="a token or a list of tokens", found=found)
    return tuple(numbers)


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.normalizers
    except ImportError:
        raise UnsupportedError("reading a tokenizer", "needs the tokenizers package", remedy=PIP) from None
    return tokenizers
