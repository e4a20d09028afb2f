"""Which bytes are live in which task: against a byte-by-byte account, and for the cases with a rule of their own."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import LIMITS

from openane.engine import Access, Operation, PassThrough, Space
from openane.program import Buffer, Program, Role
from openane.report.html.lifetimes import HOST, Lifetimes, lifetimes, pieces

X, Y = 4, 5
BUFFERS = (Buffer("x", X, Role.INPUT, 64), Buffer("y", Y, Role.OUTPUT, 64))


def l2(low: int, count: int) -> Access:
    return Access(space=Space.L2, offset=low, shape=(1, 1, 1, 1, count), strides=(0, 0, 0, 0, 2))


def slot(number: int, count: int) -> Access:
    return Access(slot=number, shape=(1, 1, 1, 1, count), strides=(0, 0, 0, 0, 2))


def found(*moves: tuple[Access, Access]) -> Lifetimes:
    operations: list[Operation] = [PassThrough(source=source, result=result) for source, result in moves]
    return lifetimes([(Program("h13", (), buffers=BUFFERS), operations)], replace(LIMITS, l2_size=1 << 12))


def test_a_chain_of_copies() -> None:
    lives = found((slot(X, 16), l2(0, 16)), (l2(0, 16), l2(64, 16)), (l2(64, 16), slot(Y, 16)))
    assert lives.flow == ((0, 1), (1, 2))
    assert [(life.low, life.begin, life.end, life.writer) for life in lives.lives if life.area == 0] == \
        [(0, 0, 1, 0), (64, 1, 2, 1)]
    assert lives.live(3, on_chip=True) == [32, 64, 32]
    host = next(life for life in lives.lives if life.writer == HOST)
    assert (host.begin, host.end) == (0, 0)
    assert lives.live(3, on_chip=False) == [64, 0, 32]


def test_parts_written_one_by_one_are_read_together() -> None:
    lives = found((slot(X, 8), l2(0, 8)), (slot(X, 8), l2(16, 8)), (l2(0, 16), slot(Y, 16)))
    assert set(lives.flow) == {(0, 2), (1, 2)}


def test_bytes_used_again_end_the_life_before() -> None:
    lives = found((slot(X, 16), l2(0, 16)), (l2(0, 16), slot(Y, 16)), (slot(X, 8), l2(8, 8)), (l2(0, 16), slot(Y, 16)))
    parts = {(life.low, life.high, life.begin, life.end) for life in lives.lives if life.area == 0}
    assert parts == {(0, 8, 0, 3), (8, 24, 0, 1), (8, 24, 2, 3), (24, 32, 0, 3)}
    assert set(lives.flow) == {(0, 1), (0, 3), (2, 3)}


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_flow_is_that_of_the_bytes(moves: list[tuple[int, int]]) -> None:
    """Blocks are copied at random; a block's last writer before a read is where the data came from."""
    lives = found(*((l2(32 * a, 16), l2(32 * b, 16)) for a, b in moves))
    owners: dict[int, list[int]] = {}
    read: set[int] = set()
    expected = set()
    for task, (source, target) in enumerate(moves):
        expected |= {(owner, task) for owner in owners.get(source, ()) if owner != task}
        read.update(owners.get(source, ()))
        owners[target] = [owner for owner in owners.get(target, ()) if owner not in read] + [task]
    assert set(lives.flow) == expected
    for life in lives.lives:
        assert 0 <= life.begin <= life.end < len(moves)


@given(st.tuples(*[st.integers(1, 4)] * 5), st.permutations(range(5)), st.integers(0, 3))
def test_pieces_hold_every_element(shape: tuple[int, int, int, int, int], order: list[int], gap: int) -> None:
    strides, step = [0] * 5, 2
    for axis in order:
        strides[axis] = step
        step = step * shape[axis] + 64 * gap
    access = Access(space=Space.L2, offset=128, shape=shape, strides=(*strides,))  # type: ignore[arg-type]
    ranges = pieces(access, LIMITS.burst)
    assert ranges == sorted(ranges)
    assert (ranges[0][0], ranges[-1][1]) == access.span
    assert sum(high - low for low, high in ranges) >= access.elements * 2
