"""Strided views against the address formula, and the checks that keep them inside their memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import CHIP, LIMITS

from openane.engine import Access, DType, PassThrough, Space
from openane.errors import SimulationError
from openane.program import Buffer, Role
from openane.simulator import load_operations
from openane.simulator.blocks import paired_blocks, split
from openane.simulator.context import Workspace
from openane.simulator.executable import l2_reach
from openane.simulator.memory import MEMORY_LIMIT, Memory, overlapping

extents = st.tuples(*[st.integers(1, 4)] * 5)
steps = st.tuples(*[st.integers(-9, 40)] * 5)


def address(access: Access, index: tuple[int, ...]) -> int:
    n, c, d, h, w = index
    sn, sc, sd, sh, sw = access.strides
    lanes = access.interleave
    return (access.offset + n * sn + c // lanes * sc + d * sd + h * sh + w * sw + c % lanes * access.dtype.size)


def memory_of(size: int, slot: int = 4) -> Memory:
    return Memory([Buffer("x", slot, Role.INPUT, size)], LIMITS)


@settings(max_examples=150, deadline=None)
@given(extents, steps, st.sampled_from(list(DType)), st.sampled_from([1, 2, 3, 4, 8]), st.integers(0, 7))
def test_reads_are_where_the_formula_says(shape, strides, dtype, lanes, offset) -> None:  # type: ignore[no-untyped-def]
    access = Access(slot=4, offset=offset, shape=shape, strides=strides, dtype=dtype, interleave=lanes)
    low, high = access.span
    access = replace(access, offset=offset - min(low, 0))
    size = access.span[1]
    memory = memory_of(size)
    memory.buffers["x"][:] = np.random.default_rng(0).integers(0, 256, size)
    operand = memory.operand(access, "test", writes=False)
    operand.load()
    data = memory.buffers["x"].tobytes()
    signed = dtype is DType.INT8
    for index in product(*map(range, shape)):
        at = address(access, index)
        assert operand.array[index] == int.from_bytes(data[at:at + dtype.size], "little", signed=signed)


@settings(max_examples=60, deadline=None)
@given(extents, st.sampled_from([1, 2, 3, 4, 8]), st.integers(0, 3))
def test_writes_touch_their_elements_alone(shape, lanes, offset) -> None:  # type: ignore[no-untyped-def]
    n, c, d, h, w = shape
    row = w * 2 * lanes + 6
    access = Access(slot=4, offset=offset, shape=shape, interleave=lanes,
                    strides=(row * h * d * -(-c // lanes), row * h * d, row * h, row, 2 * lanes))
    memory = memory_of(access.span[1] + 5)
    memory.buffers["x"][:] = 0xA5
    operand = memory.operand(access, "test", writes=True)
    values = np.random.default_rng(0).integers(0, 1 << 16, shape).astype(np.uint16)
    operand.array[...] = values
    operand.store()
    expected = np.full(memory.buffers["x"].size, 0xA5, np.uint8)
    for index in product(*map(range, shape)):
        at = address(access, index)
        expected[at:at + 2] = np.frombuffer(int(values[index]).to_bytes(2, "little"), np.uint8)
    np.testing.assert_array_equal(memory.buffers["x"], expected)


@settings(max_examples=100, deadline=None)
@given(extents, st.integers(1, 50))
def test_blocks_cover_everything_once(shape: tuple[int, ...], limit: int) -> None:
    seen = np.zeros(shape, int)
    for part in split(shape, limit):
        assert seen[part].size <= limit
        seen[part] += 1
    assert (seen == 1).all()
    big = np.arange(seen.size * 2).reshape(*shape[:-1], shape[-1] * 2)[..., ::2]
    small = np.arange(shape[1]).reshape(1, -1, 1, 1, 1)
    out = np.zeros(shape, int)
    for first, second, target in paired_blocks([big, small, out], limit):
        assert target.size <= limit
        target[...] = first * 1000 + second
    np.testing.assert_array_equal(out, big * 1000 + small)


def test_accesses_outside_are_refused() -> None:
    memory = memory_of(64)
    fits = Access(slot=4, shape=(1, 1, 1, 1, 32), strides=(0, 0, 0, 0, 2))
    memory.operand(fits, "task 3 source", writes=True)
    for broken in (replace(fits, offset=1), replace(fits, shape=(1, 1, 1, 1, 33)), replace(fits, offset=-2),
                   replace(fits, shape=(1, 1, 1, 2, 1), strides=(0, 0, 0, -64, 0)),
                   replace(fits, shape=(1, 1 << 20, 1, 1, 1), strides=(0, 1 << 40, 0, 0, 0))):
        with pytest.raises(SimulationError, match=r"task 3 source touches bytes .* of slot 4 \(x\), which has 0x40"):
            memory.operand(broken, "task 3 source", writes=False)
    with pytest.raises(SimulationError, match="slot 9, where no buffer is bound; bound are slots"):
        memory.operand(replace(fits, slot=9), "task 3 source", writes=False)
    with pytest.raises(SimulationError, match="writes to slot 1, the constants"):
        memory.operand(replace(fits, slot=1), "task 3 result", writes=True)
    with pytest.raises(SimulationError, match="of L2, which has 0x200000 bytes"):
        memory.operand(replace(fits, space=Space.L2, offset=(2 << 20) - 32), "task 3 source", writes=False)


def test_sizes_are_checked_before_memory_is_taken() -> None:
    for size in (MEMORY_LIMIT + 1, 1 << 62, -1):
        with pytest.raises(SimulationError, match="holds programs of up to"):
            memory_of(size)
    assert memory_of(0).buffers["x"].size == 0


def test_l2_is_held_as_far_as_a_program_goes_and_bounded_as_a_whole() -> None:
    place = Access(space=Space.L2, offset=0x100, shape=(1, 2, 1, 1, 4), strides=(0, 64, 0, 0, 2))
    copied = replace(place, offset=0x200, copy=replace(place, offset=0x900))
    row = Access(slot=4, shape=place.shape, strides=(0, 8, 0, 0, 2))
    operations = [PassThrough(source=row, result=copied), PassThrough(source=place, result=row)]
    assert l2_reach(operations) == copied.copy.span[1]
    assert l2_reach([PassThrough(source=row, result=row)]) == 0
    buffers = [Buffer("x", 4, Role.INPUT, row.span[1])]
    loaded = load_operations(operations, buffers, chip=CHIP)
    assert loaded.memory.l2.size == l2_reach(operations)
    assert loaded.memory.total_size == Memory(buffers, LIMITS).total_size
    for offset in (LIMITS.l2_size - 4, -4):
        with pytest.raises(SimulationError, match=f"of L2, which has {LIMITS.l2_size:#x} bytes"):
            load_operations([PassThrough(source=replace(place, offset=offset), result=row)], buffers, chip=CHIP)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3000)), max_size=20), st.integers(0, 5000))
def test_scratch_of_later_places_leaves_earlier_ones_alone(asked: list[tuple[int, int]], reserved: int) -> None:
    workspace = Workspace()
    workspace.reserve(reserved)
    live: list[np.ndarray] = []
    for number, (place, count) in enumerate(asked):
        if place > len(live):
            continue
        live[place:] = [workspace.floats((count,), place)]
        live[place].fill(number)
        kept = [array[0] for array in live]
        assert all((array == first).all() for array, first in zip(live, kept, strict=True))
        assert len(set(kept)) == len(kept)


def test_filling_and_binding() -> None:
    memory = memory_of(8)
    memory.fill({"x": b"\1\2\3"})
    assert memory.buffers["x"].tolist() == [1, 2, 3, 0, 0, 0, 0, 0]
    for wrong, text in (({"y": b""}, "no buffer is called 'y'; there are x"), ({"x": bytes(9)}, "has 8 bytes, not 9")):
        with pytest.raises(SimulationError, match=text):
            memory.fill(wrong)
    with pytest.raises(SimulationError, match="needs 8 bytes, not 7"):
        memory.bind("x", np.zeros(7, np.uint8))
    with pytest.raises(SimulationError, match="contiguous one-dimensional uint8"):
        memory.bind("x", np.zeros(8, np.int8))


def test_overlap() -> None:
    row = Access(slot=4, shape=(1, 1, 1, 1, 8), strides=(0, 0, 0, 0, 2))
    assert not overlapping(row, row)
    assert overlapping(row, replace(row, offset=2))
    assert not overlapping(row, replace(row, offset=16))
    assert not overlapping(row, replace(row, slot=5, offset=2))
    assert not overlapping(row, replace(row, space=Space.L2, offset=2))
