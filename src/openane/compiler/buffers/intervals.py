"""Gives addresses in one memory to tensors that are in use for some operations, so that those in use at the same time
do not overlap."""

from __future__ import annotations

from collections.abc import Iterable

from openane.record_classes import dataclass
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
    placed = _Placed()
    offsets: dict[int, int] = {}
    floor = used = 0
    for request in sorted(requests, key=lambda r: (r.above, r.turn, -r.size, r.first, r.key)):
        taken = sorted(placed.beside(request))
        offset = floor if request.above else 0
        for low, high in taken:
            if offset + request.size <= low:
                break
            offset = max(offset, round_up(high, step))
        placed.add(request, offset)
        offsets[request.key] = offset
        used = max(used, offset + request.size)
        if not request.above:
            floor = max(floor, round_up(offset + request.size, step))
    return offsets, used


class _Placed:
    """Requests that have their offsets, found by the time they are in use: time is cut into spans of 1, 2, 4 ...
    operations, and a request is kept with the one or two spans it reaches into of the first length that is not below
    its own. Who looks for those beside a short one then passes over nearly all others."""

    def __init__(self) -> None:
        self._spans: dict[int, dict[int, list[tuple[int, int, int, int]]]] = {}

    def add(self, request: Interval, offset: int) -> None:
        """Keeps a request with its offset."""
        length = 2 ** (request.last - request.first).bit_length()
        kept = request.first, request.last, offset, offset + request.size
        spans = self._spans.setdefault(length, {})
        for span in {request.first // length, request.last // length}:
            spans.setdefault(span, []).append(kept)

    def beside(self, request: Interval) -> set[tuple[int, int]]:
        """Where those lie that are in use at the same time as a request: first byte, and the one behind the last."""
        first, last = request.first, request.last
        found: set[tuple[int, int]] = set()
        for length, spans in self._spans.items():
            for span in range(first // length, last // length + 1):
                found.update([(low, high) for begin, end, low, high in spans.get(span, ())
                              if begin <= last and first <= end])
        return found
