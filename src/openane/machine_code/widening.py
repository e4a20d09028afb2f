"""fp16 as float32, in a fraction of the time that takes in numpy."""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop
from openane.machine_code.halves import signed_number


def _widen_loop(words, numbers):  # type: ignore[no-untyped-def]
    """Makes `numbers` [n] of the `words` [n] of finite fp16 numbers."""
    for i in range(np.uint64(words.size)):
        numbers[i] = signed_number(np.int32(words[i]))


WIDEN = TaskLoop(_widen_loop, ("uint16[::1]", "float32[::1]"))
