"""Texts of tokens that come one by one: characters and stop strings may be cut anywhere."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from support.text_model import Bytes

from openane.models.generation import Stops
from openane.models.pieces import Pieces
from openane.models.tokenizer import UNFINISHED, Tokenizer

TOKENIZER = Tokenizer(Bytes())
LETTERS = st.text("abab\N{LATIN SMALL LETTER E WITH ACUTE}", max_size=24)


def told(tokens: Sequence[int], before: Sequence[int] = ()) -> list[str]:
    pieces = Pieces(TOKENIZER, before)
    return [*(pieces.add(token) for token in tokens), pieces.rest()]


@given(st.text(), st.text())
def test_texts_come_whole_and_no_character_is_torn(before: str, text: str) -> None:
    pieces = told(text.encode(), before.encode())
    assert "".join(pieces) == text
    assert all(len(piece) <= 1 or UNFINISHED in text for piece in pieces)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_text_come_as_such_and_soon(data: bytes) -> None:
    pieces, given_out = Pieces(TOKENIZER), 0
    for count, token in enumerate(data, 1):
        given_out += len(pieces.add(token))
        assert given_out >= len(data[:count].decode(errors="ignore")) - 4
    assert given_out + len(pieces.rest()) >= len(data.decode(errors="ignore"))


def test_an_endless_row_of_stray_bytes_is_not_held_back() -> None:
    assert len("".join(told([0x80] * 1000)[:-1])) > 990


def cut(text: str, rng: random.Random) -> list[str]:
    places = sorted(rng.choices(range(len(text) + 1), k=5))
    return [text[low:high] for low, high in zip([0, *places], [*places, len(text)], strict=True)]


@given(LETTERS, st.lists(st.text("ab\N{LATIN SMALL LETTER E WITH ACUTE}", min_size=1, max_size=4), max_size=4),
       st.randoms(use_true_random=False))
def test_stops_do_not_depend_on_how_the_text_is_cut(text: str, stop: list[str], rng: random.Random) -> None:
    ends = [(place + len(each), place) for each in stop if (place := text.find(each)) >= 0]
    expected = text[:min(ends)[1]] if ends else text
    stops, out = Stops(stop), ""
    for piece in cut(text, rng):
        more, ended = stops.add(piece)
        out += more
        assert expected.startswith(out)
        if ended:
            break
    else:
        out += stops.rest()
        assert not ends
    assert out == expected


@given(LETTERS, st.text("ab", min_size=1, max_size=4))
def test_no_more_is_held_back_than_a_stop_could_need(text: str, stop: str) -> None:
    if stop not in text:
        out = Stops([stop]).add(text)[0]
        held = text[len(out):]
        assert stop.startswith(held)
        assert not any(stop.startswith(text[-size:]) for size in range(len(held) + 1, len(stop)) if size <= len(text))
