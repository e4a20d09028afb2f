"""Keeps weights in memory once where several programs hold the same.

The functions of one model (one for a prompt, one for a single token) have the same weights, packed for different
numbers of lanes. Unpacked they are equal.
"""

from __future__ import annotations

from itertools import count
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

from openane.simulator.arithmetic.half import Floats

FEWEST = 1 << 12
"""Smaller arrays are not worth a look."""
SAMPLED = 64


class SharedWeights:
    """Finds an equal array among those somebody holds. Any thread may ask."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[object, ...], Floats] = WeakValueDictionary()
        self._lock = Lock()

    def shared(self, values: Floats) -> Floats:
        """The same numbers (contiguous float32), perhaps in an array that others hold: nobody is to write it."""
        if values.size < FEWEST:
            return values
        sample = values.reshape(-1)[::max(1, values.size // SAMPLED)].tobytes()
        with self._lock:
            for number in count():
                key = values.shape, sample, number
                known = self._known.get(key)
                if known is None:
                    self._known[key] = values
                    return values
                if np.array_equal(known.view(np.int32), values.view(np.int32)):
                    return known
        raise AssertionError("numbers do not end")
