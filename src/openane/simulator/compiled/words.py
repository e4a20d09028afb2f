"""What is asked of a run of fp16 words: other loops are compiled with these inside. At 16 bits a word they are cheap as
loops of their own."""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import part
from openane.machine_code.halves import MAGNITUDE


@part
def survey(words, count, low, high, signed):  # type: ignore[no-untyped-def]
    """The survey of words, with what was found of others."""
    least, most, top = np.uint16(low), np.uint16(high), np.int16(signed)
    for i in range(count):
        word = words[i]
        least = min(least, word)
        most = max(most, word)
        top = max(top, np.int16(word))
    return np.int32(least), np.int32(most), np.int32(top)


@part
def largest(words, count):  # type: ignore[no-untyped-def]
    """The largest word without its sign: whether there is an infinity or a NaN is seen by it."""
    top = np.uint16(0)
    for i in range(count):
        top = max(top, np.uint16(words[i] & np.uint16(MAGNITUDE)))
    return np.int32(top)
