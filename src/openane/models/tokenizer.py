"""Text to tokens and back: `tokenizer.json` of a Hugging Face directory or `tokenizer.bin` of llama2.c, both by the
`tokenizers` library.

A `tokenizer.bin` has the longest piece's length, then per token a float32 score, a length and the piece. Its encoding
merges the neighbours whose piece scores highest; as byte-pair merges these are all ways to cut a piece in two, ranked
by its score.

A text that comes from somebody else may hold the name of a special token (`<|im_end|>`), and would end its own turn of
a conversation if that became the token. So names in a text are text, unless they are asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, GenerationError, UnsupportedError
from openane.version import pip_line

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for a space in pieces."""
MOST_PIECES = 1 << 20
LONGEST_PIECE = 1024
"""Bytes: every place a piece could be cut at is looked at."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text or a pair: tokens, the segment of each, the characters it stands for (begin, end), and which of the two
    texts those are of (None: the token is none's)."""

    tokens: list[int]
    types: list[int]
    places: list[tuple[int, int]]
    parts: list[int | None]


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

    @cached_property
    def unknown(self) -> str | None:
        """The name of the token for what the vocabulary does not have."""
        model = self._library.model
        if type(model).__name__ != "Unigram":
            return getattr(model, "unk_token", None)
        number = json.loads(self._library.to_str())["model"].get("unk_id")
        return None if number is None else str(self._library.id_to_token(number))

    @cached_property
    def names(self) -> dict[int, str]:
        """Tokens that have a name of their own in texts, special or not; without the one for what is unknown, which
        any text may hold."""
        return {int(number): str(token.content) for number, token in self._library.get_added_tokens_decoder().items()
                if token.content != self.unknown}

    @cached_property
    def lone_bytes(self) -> dict[int, int]:
        """Tokens that stand for one byte of what the vocabulary does not have, by number; none where bytes are parts
        of every token."""
        found = {self.token(f"<0x{byte:02X}>"): byte for byte in range(256)}
        return {token: byte for token, byte in found.items()
                if token is not None and self.decode([token]) in (chr(byte), UNFINISHED)}

    @cached_property
    def guarded(self) -> frozenset[int]:
        """Special tokens that no text may turn into."""
        return frozenset(self.special.values()) & frozenset(self.names)

    def encode(self, text: str, special: bool = True, names: bool = False, most: int | None = None) -> list[int]:
        """The tokens of a text; `special`: with those that begin one. `names`: names of special tokens in the text
        become those tokens; otherwise they are text like any other. Of a text of more than `most` tokens only the
        number matters: names are not looked at."""
        found = _called(self._library.encode, text, add_special_tokens=special)
        tokens, own = list(found.ids), list(found.special_tokens_mask)
        named = any(token in self.guarded and not its for token, its in zip(tokens, own, strict=True))
        fits = most is None or len(tokens) <= most
        if not names and fits and (named or (self.unknown and self.unknown in text)):
            first = own.index(0) if 0 in own else len(own)
            last = len(own) - (own[::-1].index(0) if 0 in own else 0)
            tokens = [*tokens[:first], *self.ordinary_tokens(text, self.guarded), *tokens[last:]]
        return [self.start, *tokens] if special and self.start is not None else tokens

    def encode_pair(self, text: str, other: str | None = None) -> EncodedText:
        """A text, or two that belong together, with the tokens the library's own rules put around and between them;
        names of special tokens are text."""
        texts = (text,) if other is None else (text, other)
        found = _called(self._unnamed.encode, *texts, add_special_tokens=True)
        return EncodedText(list(found.ids), list(found.type_ids), list(found.offsets), list(found.sequence_ids))

    def named(self, text: str) -> list[tuple[int, int, int]]:
        """Tokens a text names: each token, and where its name begins and ends."""
        found = _called(self._library.encode, text, add_special_tokens=False)
        return [(int(token), begin, end) for token, (begin, end) in zip(found.ids, found.offsets, strict=True)
                if token in self.names]

    def ordinary_tokens(self, text: str, guarded: Collection[int]) -> list[int]:
        """The tokens of a text, none of which is one of `guarded`. A name that the library takes for its token though
        told not to (a word of its vocabulary, a token not declared special) is cut after its first character."""
        found = _called(self._unnamed.encode, text, add_special_tokens=False)
        places = list(zip(found.ids, found.offsets, strict=True))
        cuts = sorted({begin + 1 for token, (begin, end) in places if token in guarded and end - begin > 1})
        if not cuts:
            return [int(token) for token in found.ids if token not in guarded]
        pieces = (text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True))
        return [token for piece in pieces for token in self.ordinary_tokens(piece, guarded)]

    @cached_property
    def _unnamed(self) -> Any:
        """The library's tokenizer once more, to which names of special tokens are text: the setting is not one that
        may change while another thread encodes."""
        copy = type(self._library).from_str(self._library.to_str())
        copy.encode_special_tokens = True
        return copy

    def decode(self, tokens: Iterable[int], special: bool = False) -> str:
        """The text of tokens; `special`: with the names of those that are no text."""
        return str(_called(self._library.decode, list(tokens), skip_special_tokens=not special))

    def piece(self, token: int, before: int | None) -> str:
        """What one token adds to the text after another; the names of those that are no text. U+FFFD stands for bytes
        that are no whole character."""
        alone = self.decode([token], special=True)
        if before is None:
            return alone
        known, both = (self.decode(tokens, special=True) for tokens in ([before], [before, token]))
        return both[len(known):] if both.startswith(known) else alone

    def token(self, name: str) -> int | None:
        """The number of a token by its name."""
        found = self._library.token_to_id(name)
        return None if found is None else int(found)


def of_folder(folder: Path) -> Tokenizer | None:
    """The tokenizer beside a model: `tokenizer.json` or `tokenizer.bin`; None where there is neither."""
    if (folder / "tokenizer.json").is_file():
        return of_json(folder / "tokenizer.json")
    return of_llama2c(folder / "tokenizer.bin") if (folder / "tokenizer.bin").is_file() else None


def of_file(path: Path) -> Tokenizer:
    """The tokenizer of a file: `.bin` is llama2.c's, all else is read as tokenizer.json. FormatError when it is not
    there or none."""
    if not path.is_file():
        raise FormatError(f"{path} is not there", expected="a tokenizer.json, or a tokenizer.bin of llama2.c",
                          found="nothing")
    return of_llama2c(path) if path.suffix == ".bin" else of_json(path)


def of_json(path: Path) -> Tokenizer:
    """A `tokenizer.json`. FormatError when the library cannot read it."""
    library = _library()
    try:
        found = library.Tokenizer.from_file(str(path))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises plain exceptions, and panics that are not even those
        raise FormatError(f"{path.name} is no tokenizer: {error}") from None
    found.no_truncation()  # files keep how their makers cut and filled batches; a text here is taken whole
    found.no_padding()
    return Tokenizer(found)


def of_llama2c(path: Path) -> Tokenizer:
    """A `tokenizer.bin` of llama2.c. FormatError when it is none."""
    pieces, scores = _read_pieces(path.read_bytes(), path.name)
    known = [name for name in ("<unk>", "<s>", "</s>") if name in pieces]
    return of_scores(pieces, scores, known, pieces.index("<s>") if "<s>" in pieces else None)


def of_scores(pieces: Sequence[str], scores: Sequence[float], special: Sequence[str], start: int | None) -> Tokenizer:
    """A tokenizer that merges the neighbours whose piece scores highest; `special` pieces are no text, `start` is the
    token that begins a text."""
    library = _library()
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
    made.add_special_tokens(list(special))
    return Tokenizer(made, start)


def of_merges(pieces: Sequence[str], merges: Sequence[str], special: Sequence[str], level: str | None,
              start: int | None) -> Tokenizer:
    """A tokenizer of bytes, which merges neighbours in the order of `merges` (two pieces with a space between) inside
    of what the expression `level` cuts a text into (None: as GPT-2 does). FormatError where two pieces or what they
    make are unknown."""
    library = _library()
    vocabulary: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        vocabulary.setdefault(piece, number)
    cuts = [each.partition(" ")[::2] for each in merges]
    for left, right in cuts:
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise FormatError("a merge of the tokenizer is none", expected="two pieces that make a third",
                              found=repr(f"{left} {right}"))
    made = library.Tokenizer(library.models.BPE(vocab=vocabulary, merges=cuts))
    whole = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=level is None)
    split = [] if level is None else [library.pre_tokenizers.Split(library.Regex(level), "isolated")]
    made.pre_tokenizer = library.pre_tokenizers.Sequence([*split, whole])
    made.decoder = library.decoders.ByteLevel()
    made.add_special_tokens(list(special))
    return Tokenizer(made, start)


def _read_pieces(data: bytes, name: str) -> tuple[list[str], list[float]]:
    """Pieces and scores, spaces as the library's pieces have them."""
    pieces: list[str] = []
    scores: list[float] = []
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 4:at + 8], "little")
        if at + 8 + size > len(data) or size > LONGEST_PIECE or len(pieces) >= MOST_PIECES:
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
        found = json.loads(file.read_text("utf-8")).get("eos_token_id")
    except (ValueError, AttributeError, RecursionError):
        raise FormatError(file.name, expected="an object", found="something else") from None
    numbers = found if isinstance(found, list) else [] if found is None else [found]
    if any(type(number) is not int for number in numbers):
        raise FormatError(f"eos_token_id of {file.name}", expected="a token or a list of tokens", found=found)
    return tuple(numbers)


def _called(function: Callable[..., Any], *values: object, **settings: object) -> Any:
    """What the library answers. GenerationError for text that is no Unicode, FormatError where the tokenizer has parts
    that do not fit together, which shows when it is used."""
    try:
        return function(*values, **settings)
    except (KeyboardInterrupt, SystemExit):
        raise
    except UnicodeError:
        raise GenerationError("a text holds code points that no Unicode text has (lone surrogates)") from None
    except BaseException as error:  # plain exceptions, and panics that are not even those
        raise FormatError(f"the tokenizer cannot be used: {error}") from None


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.normalizers
    except ImportError:
        raise UnsupportedError("reading a tokenizer", "needs the tokenizers package", remedy=pip_line("llm")) from None
    return tokenizers
