"""Tokens of MIL text, and a cursor over them that knows where it is.

Tokens are taken from the text one at a time: a program's weights may be written inline, and a list of tokens would be
many times the size of the text. Every error names line and column.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, NoReturn, Protocol

from openane.errors import FormatError

MAXIMUM_DEPTH = 32
"""How deeply types and values may nest: a rank-5 tensor in a tuple in a dictionary needs 8."""

MAXIMUM_NUMBER = 1100
"""Longest number in characters: every double has an exact decimal form within it."""

_TOKEN = re.compile(r"""
    (?P<number> [-+]? (?: 0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?(?:[pP][-+]?[0-9]+)?
                        | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?
                        | (?<=[-+])(?:inf|nan) ))
  | (?P<name> [A-Za-z_@][A-Za-z0-9_@]* )
  | (?P<string> "(?:[^"\\]|\\.)*" )
  | (?P<arrow> -> )
  | (?P<mark> [()\[\]{}<>=,;?*] )
""", re.VERBOSE | re.ASCII | re.DOTALL)

_RUN = re.compile(r"\[([-+0-9a-fA-FxXpPnNiI.,\s]+)\]", re.ASCII)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_INVERSE = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}

_BLANK = re.compile(r"(?:\s+|//[^\n]*)*")


def quote(text: str) -> str:
    """`text` as a MIL string literal."""
    return '"' + "".join(_INVERSE.get(character, character) for character in text) + '"'


def unquote(literal: str) -> str:
    """The text of a MIL string literal."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), literal[1:-1], flags=re.DOTALL)


class MilToken(NamedTuple):
    """One token: kind (number, name, string, arrow, mark, end), its text, its position in the program."""

    kind: str
    text: str
    position: int


class Places(Protocol):
    """Finds a position of a program for messages."""

    def place(self, position: int) -> str:
        """Where it is: "line 3, column 9"."""

    def source(self, position: int) -> str:
        """What a node made from it is said to come from: "MIL line 3"."""

    def fail(self, message: str, *, expected: object = None, found: object = None,
             position: int | None = None) -> NoReturn:
        """Raises FormatError at `position`."""


class Cursor:
    """Reads tokens of `text` with one token of lookahead beyond the current one."""

    language: ClassVar[str] = "MIL"
    pattern: ClassVar[re.Pattern[str]] = _TOKEN
    """What a token is: a group for each kind."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._end = 0
        self._depth = 0
        self._lines: list[int] | None = None
        self.token = self._scan()
        self.next = self._scan()

    def _scan(self) -> MilToken:
        blank = _BLANK.match(self.text, self._end)
        start = blank.end() if blank else self._end
        if start == len(self.text):
            self._end = start
            return MilToken("end", "the end of the text", start)
        match = self.pattern.match(self.text, start)
        if match is None or match.lastgroup is None:
            self._end = start
            what = "an unterminated string" if self.text[start] == '"' else repr(self.text[start])
            self.fail(f"no {self.language} token begins here", found=what, position=start)
        self._end = match.end()
        if match.lastgroup == "number" and match.end() - start > MAXIMUM_NUMBER:
            self.fail("number too long", expected=f"at most {MAXIMUM_NUMBER} characters", found=match.end() - start,
                      position=start)
        return MilToken(match.lastgroup, match.group(), start)

    def advance(self) -> MilToken:
        """The current token; moves on to the next."""
        token = self.token
        self.token = self.next
        self.next = self._scan()
        return token

    def at(self, text: str) -> bool:
        """Whether the current token is the mark or name `text`."""
        return self.token.text == text and self.token.kind != "string"

    def accept(self, text: str) -> bool:
        """Takes the current token when it is `text`."""
        if not self.at(text):
            return False
        self.advance()
        return True

    def expect(self, text: str) -> MilToken:
        """Takes the mark or name `text`. FormatError when something else is there."""
        if not self.at(text):
            self.fail("unexpected token", expected=repr(text), found=repr(self.token.text[:40]))
        return self.advance()

    def name(self, what: str) -> str:
        """Takes an identifier. FormatError naming `what` was wanted."""
        if self.token.kind != "name":
            self.fail("unexpected token", expected=what, found=repr(self.token.text[:40]))
        return self.advance().text

    def run(self) -> list[str] | None:
        """Takes a bracketed list of plain numbers in one step and returns them as text; None when it is not one."""
        match = _RUN.match(self.text, self.token.position)
        if match is None:
            return None
        self._end = match.end()
        self.token = self._scan()
        self.next = self._scan()
        return match.group(1).split(",")

    def where(self, position: int | None = None) -> tuple[int, int]:
        """(line, column), from 1, of a position in the text; of the current token by default."""
        place = self.token.position if position is None else position
        if self._lines is None:
            self._lines = [-1, *(match.start() for match in re.finditer("\n", self.text))]
        line = bisect_left(self._lines, place)
        return line, place - self._lines[line - 1]

    def place(self, position: int | None = None) -> str:
        """Line and column in words."""
        line, column = self.where(position)
        return f"line {line}, column {column}"

    def source(self, position: int) -> str:
        """What a node made from the text at `position` comes from."""
        return f"{self.language} line {self.where(position)[0]}"

    def fail(self, message: str, *, expected: object = None, found: object = None,
             position: int | None = None) -> NoReturn:
        """Raises FormatError at `position`, the current token by default. Its `offset` is the line."""
        line, column = self.where(position)
        if expected is None and found is not None:
            message, found = f"{message}: {found}", None
        error = FormatError(f"line {line}, column {column}: {message}", expected=expected, found=found)
        error.offset = line
        raise error

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level of nesting. FormatError beyond MAXIMUM_DEPTH."""
        if self._depth >= MAXIMUM_DEPTH:
            self.fail("nested too deeply", expected=f"at most {MAXIMUM_DEPTH} levels", found="more")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def separated(self, closing: str) -> Iterator[None]:
        """Iterates over comma-separated items up to `closing`, which is taken: the caller reads one item per step."""
        if self.accept(closing):
            return
        while True:
            yield
            if self.accept(closing):
                return
            self.expect(",")
