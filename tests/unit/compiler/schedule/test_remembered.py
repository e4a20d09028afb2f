"""Programs that are remembered: the same one becomes the tasks it became before, another one never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.h13 import CHIP

import openane as ane
from openane.compiler.buffers.storage import BufferKind, VirtualBuffer
from openane.compiler.schedule.pipeline import store
from openane.compiler.schedule.remembered import Remembered, Schedulable, remembered
from openane.engine import Access, Elementwise
from openane.ops.build import GraphBuilder

SIZE = 4096


def program(scale: float = 2.0, count: int = 1) -> Schedulable:
    """Tasks that scale one port to the other."""
    first, last = (Access(slot=slot, shape=(1, 16, 1, 4, 32), strides=(0, 256, 0, 64, 2)) for slot in (1000, 1001))
    blocks = {slot: VirtualBuffer(SIZE, BufferKind.PORT, name) for slot, name in ((1000, "x"), (1001, "y"))}
    operations = (Elementwise(first=first, result=last, scale=scale),) * count
    return Schedulable(CHIP, 0, (1000, 1001), (None,) * count, operations, blocks)


def stored(of: Schedulable):
    return store(CHIP, of.operations, of.blocks, of.ports, ["scale"] * len(of.operations))


def test_the_same_program_is_found_and_others_are_not():
    kept, made = Remembered(), stored(program())
    kept.add(program(), made)
    assert kept.get(program()) is made
    assert kept.get(program(3.0)) is None


def test_numbers_that_are_equal_and_have_other_signs_are_others():
    kept = Remembered()
    kept.add(program(0.0), stored(program(0.0)))
    assert program(0.0).operations == program(-0.0).operations
    assert kept.get(program(-0.0)) is None


@pytest.mark.parametrize("changed", [{"level": 1}, {"ports": (1001, 1000)}, {"chip": ane.chips.get_chip("h14")},
                                     {"blocks": {**program().blocks, 1001: VirtualBuffer(SIZE, BufferKind.SCRATCH)}}])
def test_all_that_tasks_follow_from_is_compared(changed):
    kept = Remembered()
    kept.add(program(), stored(program()))
    assert kept.get(replace(program(), **changed)) is None


def test_what_was_made_longest_ago_is_forgotten():
    kept = Remembered(most=4)
    for number in range(3):
        kept.add(program(number + 2.0, 2), stored(program(number + 2.0, 2)))
    assert kept.get(program(2.0, 2)) is None
    assert kept.get(program(3.0, 2)) is not None
    kept.add(program(9.0, 5), stored(program(9.0, 5)))
    assert kept.get(program(9.0, 5)) is None, "more than all may have"
    assert kept.get(program(3.0, 2)) is not None


def network(seed: int, table: str):
    rng = np.random.default_rng(seed)
    builder = GraphBuilder("network")
    x = builder.input("x", "fp16", (1, 8, 4, 4))
    weight = rng.standard_normal((8, 8, 1, 1)).astype(np.float16)
    return builder.finish({"y": builder.single(table, x=builder.single("conv", x=x, weight=weight))})


def test_other_weights_are_given_the_tasks_and_keep_their_numbers():
    first, again, other = (ane.compile(network(seed, table), precision="as-is")
                           for seed, table in ((0, "sigmoid"), (1, "sigmoid"), (1, "tanh")))
    assert all(before.words is after.words for before, after in zip(first.programs[0].tasks, again.programs[0].tasks,
                                                                   strict=True))
    assert first.programs[0].constants != again.programs[0].constants
    remembered.cache_clear()
    fresh = ane.compile(network(1, "tanh"), precision="as-is")
    assert [task.words for task in fresh.programs[0].tasks] == [task.words for task in other.programs[0].tasks]
    assert fresh.programs[0].constants == other.programs[0].constants
