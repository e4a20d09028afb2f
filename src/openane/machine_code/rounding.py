"""float32 rounded to fp16, in an eighth of the time that takes in numpy."""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop
from openane.machine_code.halves import even

SIZE = np.int32(0x7FFFFFFF)


def _round_loop(numbers, words):  # type: ignore[no-untyped-def]
    """Rounds `numbers` [n], ties to even and NaN to 0, to `words` [n] of fp16 numbers. Gives the bits of the largest
    magnitude, which those of NaN exceed."""
    most = np.int32(0)
    for i in range(np.uint64(numbers.size)):
        value = numbers[i]
        most = max(most, np.int32(np.float32(value).view(np.int32) & SIZE))
        words[i] = np.uint16(even(value))
    return most


ROUND = TaskLoop(_round_loop, ("float32[::1]", "uint16[::1]"), ("int64",))
