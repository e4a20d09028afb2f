"""Objective-C type encodings: what a method takes and gives, as the runtime writes it.

`@40@0:8@16@24@32` is: gives an object, its arguments take 40 bytes; receiver at 0, selector at 8, three objects. The
classes of the stand-in state the types alone (`@@:@@@`); offsets follow from them. On arm64 a BOOL is `B`; arguments
narrower than 4 bytes are counted as 4.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

QUALIFIERS = "rnNoORV"
SIZES = {"B": 4, "c": 4, "C": 4, "i": 4, "I": 4}
GARBAGE_ABOVE_BYTE = 0xA5A5A500
"""What a register holds above a returned BOOL: only its lowest byte is defined, so that a caller who declares a wider
result must not get away with it."""
GARBAGE_ABOVE_WORD = 0xA5A5A5A5 * 2**32
"""The same above a result of 32 bits."""


@cache
def split_types(encoding: str) -> tuple[str, ...]:
    """The types of an encoding without offsets: result, receiver, selector, arguments."""
    types, start, position = [], 0, 0
    while position < len(encoding):
        character = encoding[position]
        if character in QUALIFIERS or character == "^":
            position += 1
            continue
        if character == "{":
            position = encoding.index("}", position)
        position += 1
        types.append(encoding[start:position])
        start = position
    return tuple(types)


def with_offsets(encoding: str) -> str:
    """The encoding as `method_getTypeEncoding` gives it."""
    result, *arguments = split_types(encoding)
    offset, text = 0, ""
    for each in arguments:
        text += f"{each}{offset}"
        offset += SIZES.get(each, 8)
    return f"{result}{offset}{text}"


def changed(encoding: str) -> str:
    """An encoding with another last argument: what an update of the system might do to a method."""
    *kept, last = split_types(encoding)
    return "".join(kept) + ("Q" if last != "Q" else "@")


def narrow(kind: str) -> Callable[[int], int] | None:
    """How to read an argument of a type narrower than a register from the register; None for full words."""
    return _NARROW.get(kind)


_NARROW: dict[str, Callable[[int], int]] = {
    "B": lambda word: ctypes.c_uint8(word).value,
    "c": lambda word: ctypes.c_int8(word).value,
    "C": lambda word: ctypes.c_uint8(word).value,
    "i": lambda word: ctypes.c_int32(word).value,
    "I": lambda word: ctypes.c_uint32(word).value,
    "q": lambda word: ctypes.c_int64(word).value,
}
