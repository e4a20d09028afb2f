"""Gives addresses in one memory to tensors that are in use for some operations, so that those in use at the same time
do not overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openane.rounding import round_up


@dataclass(frozen=True, slots=True)
class Interval:
    """A request for `size` bytes that are in use from operation `first` to operation `last`, both included. Requests
    are served in the order of `turn`, the lowest first. One with `above` lies above all requests that do not have
    it."""

    key: int
    size: int
    first: int
    last: int
    turn: tuple[int, ...] = ()
    above: bool = False


def allocate(requests: Iterable[Interval], step: int) -> tuple[dict[int, int], int]:
    """Offsets (multiples of `step`) such that requests alive at the same time do not overlap, and the bytes used.

    Greedy: by turn, then the largest first, each at the lowest free offset.
    """
    placed: list[tuple[Interval, int]] = []
    offsets: dict[int, int] = {}
    floor = 0
    for request in sorted(requests, key=lambda r: (r.above, r.turn, -r.size, r.first, r.key)):
        taken = sorted((offset, offset + other.size) for other, offset in placed
                       if other.first <= request.last and request.first <= other.last)
        offset = floor if request.above else 0
        for low, high in taken:
            if offset + request.size <= low:
                break
            offset = max(offset, round_up(high, step))
        placed.append((request, offset))
        offsets[request.key] = offset
        if not request.above:
            floor = max(floor, round_up(offset + request.size, step))
    return offsets, max((offset + request.size for request, offset in placed), default=0)
