"""Regions against plain sets of bytes."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from openane.engine import Access
from openane.program.verify.regions import Effort, Region, access_regions, interval, meets, nested, rounded, subtract
from openane.program.verify.written import Written
from openane.program.verify.written_l2 import WrittenL2

steps = st.one_of(st.integers(0, 40), st.sampled_from([8, 16, 24, 48, 96, 192, 288]))
loops = st.lists(st.tuples(st.integers(1, 9), steps), max_size=3)
drawn = st.builds(nested, st.integers(0, 60), loops, st.integers(1, 12))
regions = drawn.filter(lambda found: found[0] is not None).map(lambda found: found[0])


def members(offset: int, nest: list[tuple[int, int]], run: int) -> list[int]:
    """Every byte, once per time it is named."""
    return [offset + sum(i * s for i, (_, s) in zip(index, nest, strict=True)) + byte
            for index in product(*(range(extent) for extent, _ in nest)) for byte in range(run)]


def bytes_of(region: Region) -> set[int]:
    named = members(region.offset, list(region.loops), region.run)
    assert len(named) == len(set(named)) == region.size
    assert region.end == max(named) + 1
    return set(named)


@given(st.integers(0, 60), loops, st.integers(1, 12))
def test_nested_loops_name_the_same_bytes(offset: int, nest: list[tuple[int, int]], run: int) -> None:
    region, once = nested(offset, nest, run)
    named = members(offset, [loop for loop in nest if loop[1]], run)
    if region is not None:
        assert bytes_of(region) == set(named)
        assert once == (len(named) == len(set(named)))


@settings(max_examples=400)
@given(regions, regions)
def test_differences_are_exact(first: Region, second: Region) -> None:
    effort = Effort()
    pieces = subtract(first, second, effort)
    assert effort.left >= 0
    left = [byte for piece in pieces for byte in bytes_of(piece)]
    assert len(left) == len(set(left))
    assert set(left) == bytes_of(first) - bytes_of(second)
    assert meets(first, second) == bool(bytes_of(first) & bytes_of(second))


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(["write", "lose", "read"]), regions), max_size=14))
def test_written_bytes_are_exact(steps: list[tuple[str, Region]]) -> None:
    written, held = Written(), set()
    for what, region in steps:
        if what == "read":
            missing = bytes_of(region) - held
            assert written.missing(region) == (min(missing) if missing else None)
            continue
        written.remove(region)
        held -= bytes_of(region)
        if what == "write":
            written.add(region)
            held |= bytes_of(region)


@settings(max_examples=300)
@given(st.integers(1, 400), st.lists(st.tuples(st.sampled_from(["write", "lose", "read"]), regions), max_size=14))
def test_written_bytes_of_l2_are_exact(size: int, steps: list[tuple[str, Region]]) -> None:
    """As those of a memory, but that nothing beyond the end is ever written."""
    written, held = WrittenL2(size), set()
    for what, region in steps:
        if what == "read":
            missing = bytes_of(region) - held
            assert written.missing(region) == (min(missing) if missing else None)
            continue
        written.remove(region)
        held -= bytes_of(region)
        if what == "write":
            written.add(region)
            held |= {byte for byte in bytes_of(region) if byte < size}


@given(st.permutations(range(6)), st.sampled_from([40, 64]))
def test_pieces_in_any_order_make_a_whole(order: list[int], run: int) -> None:
    written = Written()
    for row in order:
        written.add(Region(64 * row, ((3, 384),), run))
    assert written.missing(Region(0, ((3, 384), (6, 64)), run)) is None
    assert written.missing(interval(0, 3 * 384)) == (None if run == 64 else 40)


def test_little_effort_never_finds_more_than_there_is() -> None:
    sieve, block = Region(0, ((50, 100), (10, 7)), 2), Region(3, ((60, 83), (5, 11)), 3)
    for steps in range(40):
        effort = Effort(steps)
        left = {byte for piece in subtract(block, sieve, effort) for byte in bytes_of(piece)}
        assert left >= bytes_of(block) - bytes_of(sieve)
        assert meets(block, sieve)


@given(st.tuples(*[st.integers(1, 5)] * 5), st.sampled_from([1, 2, 4]))
def test_accesses_with_channels_in_blocks(shape: tuple[int, ...], interleave: int) -> None:
    n, c, d, h, w = shape
    row = -(-w * interleave * 2 // 64) * 64
    blocks = -(-c // interleave)
    strides = (row * h * blocks * d, row * h, row * h * blocks, row, 2 * interleave)
    access = Access(shape=(n, c, d, h, w), strides=strides, interleave=interleave)
    found, once = access_regions(access)
    assert once
    named = {i * access.strides[0] + j // interleave * access.strides[1] + j % interleave * 2 + k * access.strides[2]
             + y * access.strides[3] + x * access.strides[4] + byte
             for i, j, k, y, x in product(*map(range, shape)) for byte in range(2)}
    assert set().union(*map(bytes_of, found)) == named
    moved = set().union(*(bytes_of(rounded(region, 64)) for region in found))
    assert moved == {64 * (byte // 64) + i for byte in named for i in range(64)}


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from([64, 128, 192, 256, 448])), min_size=2, max_size=3))
def test_accesses_whose_strides_do_not_nest(nest: list[tuple[int, int]]) -> None:
    """The bytes exactly, or none where no short dimension stands in the way."""
    extents, strides = ([1] * (4 - len(nest)) + [loop[part] for loop in nest] + [1] for part in (0, 1))
    found, _ = access_regions(Access(shape=tuple(extents), strides=tuple(strides)))
    assert not found or set().union(*map(bytes_of, found)) == set(members(0, nest, 2))
    if len(nest) == 2:
        assert found


def test_what_cannot_be_taken_apart_does_not_take_distant_bytes_with_it() -> None:
    """Tensors far from each other are known as one region; one of them is overwritten by another arrangement."""
    written = Written()
    rows = ((6, 40960), (320, 128))
    for offset in (0, 492544):
        region, _ = nested(offset, list(rows), 96)
        assert region is not None
        written.add(region)
    over, _ = nested(0, [(64, 3856), (6, 640)], 640)
    assert over is not None
    written.remove(over)
    for head in range(6):
        kept, _ = nested(492544 + 40960 * head, [(320, 128)], 96)
        assert kept is not None
        assert written.missing(kept) is None
