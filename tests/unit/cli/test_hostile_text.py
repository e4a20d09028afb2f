"""What a file calls itself does not command the terminal, and a path is said once."""

from __future__ import annotations

from openane import cli
from openane.errors import AneError


def test_messages_show_control_characters_and_cut_long_lines(capsys):
    cli._fail("'\x1b[2J" + "n" * 5000 + "'\nhint: second\x07 line")
    error = capsys.readouterr().err
    assert "\\x1b[2J" in error
    assert "\\x07" in error
    assert "\x1b" not in error
    assert "characters)" in error
    assert max(map(len, error.split("\n"))) < 1100
    assert "\nhint: second" in error


def test_a_place_is_named_once():
    assert str(AneError("broken").within("f").within("f").within("g")) == "g: f: broken"
