"""What is asked of tokens before anything is computed: whole numbers that the model knows, no more than it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from openane.errors import ContextFull, GenerationError


def whole_numbers(items: object, what: str = "tokens") -> list[int]:
    """Python's own numbers. GenerationError for anything but a row of whole numbers."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise GenerationError(f"{what} are a row of whole numbers, and {items!r} is none")
    found = list(items)
    for item in found:
        if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer):
            raise GenerationError(f"{what} are whole numbers, and {item!r} is none")
    return [int(item) for item in found]


def chosen_lengths(lengths: Sequence[int], longest: int) -> tuple[int, ...]:
    """Lengths that functions are compiled for, ascending, none above the model's own. GenerationError for others."""
    wanted = tuple(sorted({min(length, longest) for length in whole_numbers(lengths, "lengths")}))
    if not wanted or wanted[0] < 1:
        raise GenerationError(f"lengths must be whole numbers from 1, not {list(lengths)}")
    return wanted


def require_known(numbers: Sequence[int], known: int, what: str = "token") -> None:
    """GenerationError names the first number that is not from 0 to below `known`."""
    unknown = next((number for number in numbers if not 0 <= number < known), None)
    if unknown is not None:
        raise GenerationError(f"{what} {unknown} is none of the {known} the model knows")


def require_text(tokens: Sequence[int], segments: Sequence[int], known: tuple[int, int], longest: int) -> None:
    """A text for an encoder: tokens, the segment of each, and how many of either the model knows. GenerationError for
    others or none, ContextFull for more than the longest function takes."""
    if not tokens or len(segments) != len(tokens):
        raise GenerationError(f"{len(tokens)} tokens and {len(segments)} segments are no text")
    require_known(tokens, known[0])
    require_known(segments, known[1], "segment")
    if len(tokens) > longest:
        raise ContextFull(longest, len(tokens), "shorten the text, or compile a longer function (lengths)")
