"""What options take: numbers within bounds, words of a list, and standard output where one stream is written."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from openane.chips.machines import find, named_targets
from openane.cli import VERBS, main, outputs
from openane.cli.numbers import finite, one_of, real, whole
from openane.cli.parsers import verb_parser
from openane.errors import UnsupportedError
from openane.timing import ClockState

TEXTS = ("nan", "-nan", "inf", "-inf", "1e999", "-1", "x", "", "1.5.2", "9" * 5000, "NAME=nan", "NAME=inf",
         "NAME=1e999", "0x", "٣", "1_", "\x1b[2J")
READ_ALONE = {"tokenizer", "adapter", "api_key_file", "compare", "trace"}
"""Paths beside outputs.READ that a command reads."""


def declared() -> Iterator[tuple[str, argparse.ArgumentParser, argparse.Action]]:
    """Every verb with its parser and each thing it takes."""
    for verb in VERBS:
        parser = verb_parser(verb)
        yield from ((verb, parser, action) for action in parser._actions)


def numbers(value: object) -> Iterator[float]:
    """The numbers in what an option makes of its text."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)


def test_no_option_takes_a_number_unchecked() -> None:
    taken = [(verb, action.dest, text[:20], value) for verb, parser, action in declared() if action.type is not None
             for text in TEXTS if (value := _taken(parser, action, text)) is not None
             for number in numbers(value) if not math.isfinite(number) or number < 0]
    assert not taken


def _taken(parser: argparse.ArgumentParser, action: argparse.Action, text: str) -> object:
    """What an option makes of a text; None where it is refused, in words of ours and not many of them."""
    try:
        return parser._get_value(action, text)
    except argparse.ArgumentError as refused:
        said = str(refused)
    assert not re.search(r"invalid .* value", said)
    assert len(said) < 300
    return None


def test_bounds_are_said() -> None:
    for taken, text, wanted in ((whole(0), "-1", "a whole number of 0 or more"),
                                (whole(2, 5), "6", "a whole number from 2 to 5"),
                                (real(0), "nan", "a finite number of 0 or more"),
                                (real(0, 1), "1.1", "a number from 0, to 1"),
                                (real(0, 1, below=True), "1", "a number from 0, below 1"),
                                (real(0, 1, above=True), "0", "a number above 0, to 1"),
                                (one_of(ClockState), "fast", "full, rising or lowest")):
        with pytest.raises(argparse.ArgumentTypeError, match=f"^expected {wanted}, found {text!r}$"):
            taken(text)
    assert [real(0, 1)(text) for text in ("0", "1", "5e-1")] == [0, 1, 0.5]
    assert [whole(2, 5)(text) for text in ("2", "5")] == [2, 5]
    assert one_of(ClockState)("rising") is ClockState.RISING
    assert finite("1e999") is None


def test_every_path_is_known_as_read_or_written() -> None:
    known = {*outputs.READ, *outputs.WRITTEN, *outputs.FOLDERS, *READ_ALONE}
    assert {action.dest for _, _, action in declared() if action.type is Path} <= known


@pytest.mark.parametrize("name", [*outputs.WRITTEN, *outputs.FOLDERS])
def test_standard_output_is_no_file_of_its_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for verb, parser, action in declared():
        if action.dest != name or action.type is not Path or not action.option_strings or name == "trace" == verb:
            continue
        if name in (parser.get_default(outputs.STREAMS) or ()):
            continue
        others = [word for other in parser._actions if other.required and other is not action
                  for word in (*other.option_strings[:1], "model")]
        assert main([verb, *others, action.option_strings[0], "-"]) == 1
        assert "is not written to standard output" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_a_target_without_a_name(text: str) -> None:
    for asked in (named_targets, find):
        with pytest.raises(UnsupportedError, match=r"no machine, chip or generation is named \(found (nothing|,)\)"):
            asked(text.strip())
