"""Runs of bytes that two files have in common: the weights of a model whose programs differ in shapes alone."""

from __future__ import annotations

from openane.record_classes import dataclass

PROBE = 1024
"""Bytes by which a run is found, and the fewest it has."""
STEP = 4096
"""How far apart runs are looked for."""
MOST_MISSES = 256
"""Places in a row where nothing was found, after which no more is looked for."""


@dataclass(frozen=True, slots=True)
class CommonRun:
    """`size` equal bytes, at `a` of the one and at `b` of the other."""

    a: int
    b: int
    size: int


def common_runs(first: bytes | memoryview, second: bytes | memoryview) -> list[CommonRun]:
    """Runs of `first` that `second` has too, in order and apart from each other; not all of them are found. Where one
    ends, the next is looked for behind it in both, then anywhere."""
    left, right = memoryview(first), bytes(second)
    runs: list[CommonRun] = []
    at = end = expected = misses = 0
    while at + PROBE <= len(left) and misses < MOST_MISSES:
        probe = bytes(left[at:at + PROBE])
        place = right.find(probe, expected)
        if place < 0:
            place = right.find(probe, 0, expected + PROBE)
        if place < 0:
            at, misses = at + STEP, misses + 1
            continue
        back = _alike_before(left, right, at, place, min(at - end, place))
        size = back + _alike(left, right, at, place)
        runs.append(CommonRun(at - back, place - back, size))
        at = end = at - back + size
        expected, misses = place - back + size, 0
    return runs


def _alike(left: memoryview, right: bytes, a: int, b: int) -> int:
    """How many bytes from there on are equal."""
    most = min(len(left) - a, len(right) - b)
    other, size, step = memoryview(right), 0, PROBE
    while size < most and step:
        part = min(step, most - size)
        if left[a + size:a + size + part] == other[b + size:b + size + part]:
            size, step = size + part, step * 2
        else:
            step = part // 2
            most = size + part - 1
    return size


def _alike_before(left: memoryview, right: bytes, a: int, b: int, most: int) -> int:
    """How many bytes before there are equal, at most so many."""
    count = 0
    while count < most and left[a - count - 1] == right[b - count - 1]:
        count += 1
    return count
