"""The device's address space: nothing overlaps, everything mapped is found, and accesses are followed to the byte."""

from __future__ import annotations

import mmap
import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from openane.devices.simdriver import DriverError, DriverFile
from openane.devices.simdriver.space import AddressSpace, SimulatedBufferObject
from openane.engine import Access

PAGE, BASE, PAGES = mmap.PAGESIZE, 16 * mmap.PAGESIZE, 40


@pytest.fixture(params=[0, PAGE])
def guard(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def space(guard: int) -> Iterator[AddressSpace]:
    made = AddressSpace(BASE, PAGES * PAGE, guard)
    yield made
    made.close()


@pytest.fixture
def file() -> Iterator[DriverFile]:
    made = DriverFile(7, reuses=False)
    yield made
    made.close()


def insert(space: AddressSpace, file: DriverFile, pages: int) -> SimulatedBufferObject | None:
    item = file.create(pages * PAGE, pages * PAGE, poisoned=False)
    try:
        space.insert(item, file.memfd)
    except DriverError:
        return None
    return item


def mapped_pages(items: list[SimulatedBufferObject]) -> set[int]:
    return {page for item in items for page in range(item.address // PAGE, item.end // PAGE)}


def test_random_lives(space: AddressSpace, file: DriverFile, guard: int) -> None:
    rng = random.Random(1)
    items: list[SimulatedBufferObject] = []
    for _ in range(400):
        if items and rng.random() < 0.45:
            space.remove(items.pop(rng.randrange(len(items))))
        else:
            pages = rng.randrange(1, 9)
            item = insert(space, file, pages)
            if item is None:
                starts = sorted([BASE // PAGE, *((kept.end + guard) // PAGE for kept in items)])
                ends = sorted([BASE // PAGE + PAGES, *((kept.address - guard) // PAGE for kept in items)])
                assert all(end - start < pages for start, end in zip(starts, ends, strict=True))
            else:
                items.append(item)
                space.bytes[item.address - BASE] = item.handle % 256  # it is memory, and its own
        ordered = sorted(items, key=lambda kept: kept.address)
        assert list(space.objects) == ordered
        assert all(first.end + guard <= second.address for first, second in pairwise(ordered))
        assert all(space.bytes[kept.address - BASE] == kept.handle % 256 for kept in items)
        pages_mapped = mapped_pages(items)
        low, high = sorted(rng.randrange(BASE - PAGE, BASE + (PAGES + 1) * PAGE) for _ in range(2))
        expected = next((page for page in range(low // PAGE, -(-high // PAGE)) if page not in pages_mapped), None)
        assert space.unmapped(low, high) == (None if expected is None or low == high else max(low, expected * PAGE))
        assert {*space.objects_in(low, high)} == {kept for kept in items if kept.address < high and kept.end > low}
        assert space.used == sum(kept.length for kept in items)


def touched(access: Access) -> np.ndarray:
    """Every byte of an access without interleave, one by one."""
    places = np.array([access.offset])
    for extent, stride in zip(access.shape, access.strides, strict=True):
        places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
    return (places[:, None] + np.arange(access.dtype.size)).reshape(-1)


def test_accesses_are_followed_to_the_byte(space: AddressSpace, file: DriverFile) -> None:
    rng = random.Random(2)
    made = [insert(space, file, rng.randrange(1, 4)) for _ in range(12)]
    items = [item for item in made if item is not None]
    for item in items[::3]:
        space.remove(item)
        items.remove(item)
    pages = np.array(sorted(mapped_pages(items)))
    outcomes = set()
    for _ in range(2000):
        shape = tuple(rng.choice((1, 1, 1, 2, 3, 16)) for _ in range(5))
        strides = tuple(rng.choice((0, 2, 6, 64, PAGE // 2, PAGE, 3 * PAGE, -PAGE)) for _ in range(5))
        access = Access(offset=rng.randrange(BASE, BASE + PAGES * PAGE), shape=shape,  # type: ignore[arg-type]
                        strides=strides)  # type: ignore[arg-type]
        bytes_touched = touched(access)
        holes = bytes_touched[~np.isin(bytes_touched // PAGE, pages)]
        stray = space.stray(access)
        assert (stray is None) == (not holes.size), access
        assert stray is None or stray in holes
        outcomes.add((stray is None, space.unmapped(*access.span) is None))
    assert outcomes == {(True, True), (True, False), (False, False)}
