"""Weights that are folded twice in one compilation and made once: ranges are measured on a folded graph, and the graph
is then compiled from its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from openane.graph import RoundedConstant, Value

_MADE: ContextVar[dict[tuple[int, bool, int, bytes], tuple[np.ndarray, Value]]] = ContextVar("folded weights")
"""By the id of a weight's array, whether it has more digits, the id of how it is multiplied, and the bytes of its
gains: the array, which thereby keeps its id, and what the weight became."""


@contextmanager
def folded_once() -> Iterator[None]:
    """While this lasts `folded` gives again what it made of the same weight before."""
    token = _MADE.set({})
    try:
        yield
    finally:
        _MADE.reset(token)


def folded(weight: Value, product: object, gains: bytes, make: Callable[[], Value]) -> Value:
    """What `make` makes of a weight that is multiplied as `product` says and takes gains of these bytes; the constant
    it made before, which is not kept any longer, while `folded_once` lasts."""
    made = _MADE.get(None)
    if made is None:
        return make()
    key = _key(weight, product, gains)
    if key in made:
        return made.pop(key)[1]
    result = make()
    made[key] = weight.array(), result
    return result


def was_folded(weight: Value, product: object, gains: bytes) -> bool:
    """Whether `folded` has what it would make."""
    made = _MADE.get(None)
    return made is not None and _key(weight, product, gains) in made


def _key(weight: Value, product: object, gains: bytes) -> tuple[int, bool, int, bytes]:
    return id(weight.array()), isinstance(weight, RoundedConstant), id(product), gains
