"""Tokens of StableHLO text: MIL's cursor over the tokens of MLIR."""

from __future__ import annotations

import re
from typing import ClassVar

from openane.graph.mil.lexer import Cursor

_TOKEN = re.compile(r"""
    (?P<dense> dense<(?:"[^"]*"|[^<>"]*)> )
  | (?P<type> tensor<(?:[^<>"]|<[^<>"]*>)*> )
  | (?P<number> [-+]?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?) )
  | (?P<name> [A-Za-z_][A-Za-z0-9_$.]* )
  | (?P<value> %[A-Za-z0-9_$.-]+(?:\#[0-9]+)? )
  | (?P<symbol> @(?:[A-Za-z_][A-Za-z0-9_$.]*|"[^"]*") )
  | (?P<alias> [\#!^][A-Za-z0-9_$.]+ )
  | (?P<string> "(?:[^"\\]|\\.)*" )
  | (?P<arrow> -> )
  | (?P<mark> [()\[\]{}<>=,:*?/|#-] )
""", re.VERBOSE | re.ASCII | re.DOTALL)

_OPENING, _CLOSING = "([{<", ")]}>"


class StableCursor(Cursor):
    """Reads tokens of StableHLO text."""

    language: ClassVar[str] = "StableHLO"
    pattern: ClassVar[re.Pattern[str]] = _TOKEN

    def kind(self, kind: str) -> str:
        """Takes a token of a kind; its text. FormatError when another is there."""
        if self.token.kind != kind:
            self.fail("unexpected token", expected=f"a {kind}", found=repr(self.token.text[:40]))
        return self.advance().text

    def skip(self) -> str:
        """Takes what the current bracket opens, up to its end; its text. FormatError where it does not end."""
        start, depth = self.token.position, 0
        while True:
            if self.token.kind == "end":
                self.fail("a bracket is not closed", position=start)
            if self.token.kind == "mark":
                depth += (self.token.text in _OPENING) - (self.token.text in _CLOSING)
            end = self.token.position + len(self.token.text)
            self.advance()
            if not depth:
                return self.text[start:end]
