"""Lines and tokens of the text form, and its errors, which name line and column.

A line is tokens separated by blanks (a comma counts as one): words, and quoted text with the escapes \\n \\t \\" \\\\
\\0 and \\xNN. A semicolon outside quotes starts a comment. A line that begins with a blank belongs to the directive
above.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from openane.errors import FormatError

LONGEST_LINE = 1 << 16
LONGEST_NUMBER = 60   # characters; the longest any field needs is 20
LISTED_NAMES = 40     # an error lists at most this many known names

_TOKEN = re.compile(r'[\s,]*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<word>[^\s,;"]+)|(?P<comment>;.*)|(?P<end>$))')
_WORD = re.compile(r"[^\s,]+")
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf|nan)", re.ASCII)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)|([^\\]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "0": b"\0", '"': b'"', "\\": b"\\"}
_SPELLED = {value: f"\\{letter}" for letter, value in _ESCAPES.items()}


class TextError(FormatError):
    """The text form breaks a rule at `line` and `column`, both counted from 1."""

    def __init__(self, message: str, line: int, column: int, *, expected: object = None, found: object = None) -> None:
        self.line, self.column = line, column
        super().__init__(f"line {line}, column {column}: {message}", expected=expected, found=found)


class ListingToken(NamedTuple):
    """A word, or quoted text with its quotes still on, and where it begins."""

    text: str
    quoted: bool
    line: int
    column: int

    def error(self, message: str, expected: object = None) -> TextError:
        """The error for this token."""
        found = self.text if len(self.text) <= LONGEST_NUMBER else self.text[:LONGEST_NUMBER] + "..."
        return TextError(message, self.line, self.column, expected=expected, found=None if expected is None else found)

    def unknown(self, what: str, known: Iterable[str]) -> TextError:
        """The error for a name that is none of `known`: the nearest is suggested, the others are listed."""
        names = list(known)
        near = difflib.get_close_matches(self.text[:LONGEST_NUMBER], names, n=1)
        listed = ", ".join(names[:LISTED_NAMES]) + (", ..." if len(names) > LISTED_NAMES else "")
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return self.error(f"unknown {what}{hint}", expected=f"one of {listed or 'none'}")


class Line(NamedTuple):
    """A line with at least one token. `member`: it begins with a blank."""

    tokens: tuple[ListingToken, ...]
    member: bool

    @property
    def first(self) -> ListingToken:
        """The token that says what the line is."""
        return self.tokens[0]

    def rest(self, count: int, form: str) -> tuple[ListingToken, ...]:
        """The tokens after the first, which must be `count`; `form` shows how the line is written."""
        found = len(self.tokens) - 1
        if found > count:
            raise self.tokens[count + 1].error("one token too many", f"{form!r}")
        if found < count:
            raise self.end_error("the line ends early", f"{form!r}")
        return self.tokens[1:]

    def end_error(self, message: str, expected: object) -> TextError:
        """The error for something missing at the end of the line."""
        last = self.tokens[-1]
        return TextError(message, last.line, last.column + len(last.text), expected=expected,
                         found="the end of the line")


def read_lines(text: str) -> Iterator[Line]:
    """The lines that hold anything but blanks and comments. TextError where no token begins."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            raise TextError("the line is too long", number, LONGEST_LINE, expected=f"at most {LONGEST_LINE} characters",
                            found=len(line))
        tokens = tuple(_tokens(line, number) if '"' in line else _words(line, number))
        if tokens:
            yield Line(tokens, line[:1].isspace())


def _words(line: str, number: int) -> Iterator[ListingToken]:
    """As `_tokens`, of a line without quotes, which nearly all are: several times as fast."""
    for match in _WORD.finditer(line.partition(";")[0]):
        yield ListingToken(match[0], False, number, match.start() + 1)


def _tokens(line: str, number: int) -> Iterator[ListingToken]:
    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            start = position + len(line[position:]) - len(line[position:].lstrip(" \t,"))
            raise TextError("quoted text does not end on its line", number, start + 1, expected='a closing "',
                            found="the end of the line")
        position = match.end()
        if match.lastgroup in ("string", "word"):
            yield ListingToken(match[match.lastgroup], match.lastgroup == "string", number,
                               match.start(match.lastgroup) + 1)


def integer(token: ListingToken, what: str, low: int = 0, high: int | None = None) -> int:
    """The number a token spells, decimal or 0x. TextError when it is none or outside low..high (both included)."""
    if token.quoted or len(token.text) > LONGEST_NUMBER or not _INTEGER.fullmatch(token.text):
        raise token.error(f"{what} is a number", "digits, or 0x and hexadecimal digits")
    value = int(token.text, 16 if "x" in token.text.lower() else 10)
    if value < low or (high is not None and value > high):
        raise token.error(f"{what} is out of range", f"{low} or more" if high is None else f"{low}..{high:#x}")
    return value


def number(token: ListingToken, what: str) -> float:
    """The real number a token spells (`1.5`, `-0.0`, `inf`, `nan`)."""
    if token.quoted or len(token.text) > LONGEST_NUMBER or not _FLOAT.fullmatch(token.text):
        raise token.error(f"{what} is a real number", "for example 0.5, -1e-05, inf or nan")
    return float(token.text)


def unquoted(token: ListingToken, what: str) -> bytes:
    """The bytes of quoted text: its characters in UTF-8, escapes as single bytes."""
    if not token.quoted:
        raise token.error(f"{what} is text in quotes", '"text"')
    out = bytearray()
    for match in _ESCAPE.finditer(token.text[1:-1]):
        escape, plain = match.groups()
        if plain is not None:
            try:
                out += plain.encode()
            except UnicodeEncodeError:
                raise token.error(f"{what} holds half of a surrogate pair", "characters or \\xNN") from None
        elif escape[0] == "x" and len(escape) == 3:
            out.append(int(escape[1:], 16))
        elif escape in _ESCAPES:
            out += _ESCAPES[escape]
        else:
            raise token.error(f"unknown escape \\{escape}", r"\n \t \0 \" \\ or \xNN")
    return bytes(out)


def quoted(data: bytes) -> str:
    """The quoted text for bytes: printable characters as they are, every other byte escaped."""
    try:
        characters: Iterable[str] = data.decode()
    except UnicodeDecodeError:
        characters = [chr(byte) if byte < 0x80 else "" for byte in data]
        spelled = (_spell(c) if c else f"\\x{byte:02x}" for c, byte in zip(characters, data, strict=True))
        return '"' + "".join(spelled) + '"'
    return '"' + "".join(map(_spell, characters)) + '"'


def _spell(character: str) -> str:
    data = character.encode()
    if data in _SPELLED:
        return _SPELLED[data]
    return character if character.isprintable() else "".join(f"\\x{byte:02x}" for byte in data)


def comment(text: str) -> str:
    """Text from a file for use in a comment: one line of printable characters."""
    return "".join(character if character.isprintable() else "." for character in text)
