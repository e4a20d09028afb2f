"""Whole programs of several operations: hand-over, copies, overlaps, binding, reports, and what is refused."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import pytest
from support.h13 import CHIP

from openane.engine import Access, Activation, Binary, Elementwise, PassThrough, Post, Reduction, Space
from openane.errors import ProgramError, SimulationError, UnsupportedError
from openane.program import Buffer, Program, Role, Task
from openane.simulator import LoadedProgram, load, load_operations
from openane.simulator.executable import Operation
from openane.simulator.sharing import SharedWeights

SHAPE = (1, 4, 1, 3, 32)
STRIDES = (0, 192, 0, 64, 2)
SIZE = 4 * 192
X, Y = (Access(slot=slot, shape=SHAPE, strides=STRIDES) for slot in (4, 5))
CHAIN = Access(space=Space.CHAIN, shape=SHAPE)
RESIDENT = Access(space=Space.L2, offset=0x400, shape=SHAPE, strides=(0, 64, 0, 256, 2))
BUFFERS = [Buffer("x", 4, Role.INPUT, SIZE), Buffer("y", 5, Role.OUTPUT, SIZE)]


def values(loaded: LoadedProgram, name: str) -> np.ndarray:
    return np.ndarray(SHAPE, np.float16, loaded.buffers[name].data, 0, STRIDES)


def draw(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float16)


def test_results_are_handed_over_through_chain_l2_and_copies() -> None:
    negated = replace(X, offset=0)
    programs: list[list[Operation]] = [
        [PassThrough(source=X, result=CHAIN, post=Post(scale=2.0)), Elementwise(first=CHAIN, result=Y, absolute=True)],
        [PassThrough(source=X, result=RESIDENT, post=Post(scale=2.0)),
         Elementwise(first=RESIDENT, result=Y, absolute=True)],
        [PassThrough(source=replace(X, copy=RESIDENT), result=CHAIN),
         Elementwise(first=CHAIN, second=RESIDENT, result=Y, function=Binary.ADD, relu=False),
         Elementwise(first=Y, result=Y, absolute=True)],
        [PassThrough(source=X, result=replace(Y, copy=RESIDENT)),
         Elementwise(first=RESIDENT, second=negated, result=Y, function=Binary.ADD),
         Elementwise(first=Y, result=Y, absolute=True)],
    ]
    for operations in programs:
        loaded = load_operations(operations, BUFFERS, chip=CHIP)
        for seed in (0, 1):  # prepared once, run many times
            values(loaded, "x")[...] = draw(seed)
            loaded.run()
            np.testing.assert_array_equal(values(loaded, "y"), np.abs(draw(seed) * np.float16(2)))


def test_the_copy_of_a_broadcast_operand_is_small() -> None:
    row = replace(X, shape=SHAPE, strides=(0, 0, 0, 0, 2),
                  copy=replace(RESIDENT, shape=(1, 1, 1, 1, 32), strides=(0, 0, 0, 0, 2)))
    loaded = load_operations([Elementwise(first=row, result=Y)], BUFFERS, chip=CHIP)
    values(loaded, "x")[...] = draw()
    loaded.run()
    np.testing.assert_array_equal(loaded.memory.l2[0x400:0x440].view(np.float16), draw()[0, 0, 0, 0])
    np.testing.assert_array_equal(values(loaded, "y"), np.broadcast_to(draw()[:, :1, :, :1], SHAPE))


def test_a_result_over_its_own_source() -> None:
    source = Access(slot=4, shape=(1, 1, 1, 1, 100), strides=(0, 0, 0, 0, 2))
    loaded = load_operations([PassThrough(source=source, result=replace(source, offset=2))], BUFFERS, chip=CHIP)
    numbers = np.arange(101, dtype=np.float16)
    loaded.run({"x": numbers})
    np.testing.assert_array_equal(loaded.buffers["x"][:202].view(np.float16), [0, *range(100)])


def test_a_transpose_by_strides() -> None:
    result = Access(slot=5, shape=(1, 8, 1, 2, 8), strides=(0, 2, 0, 256, 32))
    source = Access(slot=4, shape=(1, 8, 1, 2, 8), strides=(0, 32, 0, 256, 2))
    loaded = load_operations([PassThrough(source=source, result=result)], BUFFERS, chip=CHIP)
    x = np.random.default_rng(0).standard_normal((2, 8, 16)).astype(np.float16)
    loaded.run({"x": x})
    y = loaded.buffers["y"][:512].view(np.float16).reshape(2, 8, 16)
    np.testing.assert_array_equal(y[:, :, :8], x[:, :, :8].swapaxes(1, 2))


def test_reports_start_anew_with_every_run() -> None:
    loaded = load_operations([Elementwise(first=X, result=Y, scale=2.0)], BUFFERS, chip=CHIP)
    x = draw()
    x[0, 0, 0, 0, :3] = [np.nan, 60000, -60000]
    values(loaded, "x")[...] = x
    first = loaded.run()
    values(loaded, "x")[...] = 1
    second = loaded.run()
    assert (first.nan_inputs, first.overflows, first.tasks[0].low) == (1, 3, -np.inf)
    assert (second.nan_inputs, second.overflows, second.tasks[0].low, second.tasks[0].high) == (0, 0, 2, 2)
    assert first.overflows == 3
    assert (first.tasks[0].operation, first.arithmetic, first.seconds > 0) == ("Elementwise", (), True)


def test_binding_other_memory() -> None:
    first = load_operations([Elementwise(first=X, result=Y, scale=2.0)], BUFFERS, chip=CHIP)
    second = load_operations([Elementwise(first=X, result=Y, scale=3.0)], BUFFERS, chip=CHIP)
    second.bind("x", first.buffers["y"])
    values(first, "x")[...] = draw()
    first.run()
    second.run()
    np.testing.assert_array_equal(values(second, "y"), draw() * np.float16(2) * np.float16(3))


@pytest.mark.parametrize(("operations", "text"), [
    ([Elementwise(first=CHAIN, result=Y)], "task 0 .Elementwise. first is handed over by the task before it"),
    ([PassThrough(source=X, result=CHAIN)], "task 0 hands its result to a next task, but is the last one"),
    ([PassThrough(source=X, result=CHAIN), Elementwise(first=replace(CHAIN, shape=(1, 4, 1, 3, 31)), result=Y)],
     "task 1 .* expects"),
    ([PassThrough(source=X, result=replace(CHAIN, shape=(1, 1 << 30, 1 << 30, 1, 1)))], "more than all buffers hold"),
    ([PassThrough(source=X, result=replace(Y, offset=2))], "task 0 .PassThrough. result touches bytes 0x2 to"),
    ([Elementwise(first=X, second=replace(X, slot=7), result=Y)], "second uses slot 7, where no buffer is bound"),
    ([Elementwise(first=replace(X, copy=replace(RESIDENT, offset=2 << 20)), result=Y)], "first .copy. touches"),
    ([Reduction(first=X, result=Y)], "reducing"),
    ([PassThrough(source=X, result=Y, post=Post(activation=Activation.TABLE))], "has no coefficients with one"),
])
def test_programs_that_are_refused(operations: list[Operation], text: str) -> None:
    with pytest.raises(SimulationError, match=text):
        load_operations(operations, BUFFERS, chip=CHIP)


def test_programs_whose_words_mean_nothing_are_refused() -> None:
    with pytest.raises(ProgramError):
        load(Program("h13", (Task((0,) * 12),)))
    with pytest.raises(UnsupportedError, match="h13"):
        load(Program("h99", ()))
    with pytest.raises(SimulationError, match="exact, fast, auto"):
        load(Program("h13", ()), arithmetic="double")


@pytest.mark.parametrize("operation", [
    PassThrough(source=X, result=Y, post=Post(bias=0.5, scale=-3.0, activation=Activation.RELU)),
    PassThrough(source=X, result=Y, post=Post(scale=0.3)), Elementwise(first=X, result=Y, absolute=True, scale=7.0)])
def test_a_function_that_was_computed_often_is_looked_up(operation: Operation) -> None:
    """After 65536 elements a run is a look-up, of every word there is, with the same bits and the same report."""
    loaded = load_operations([operation, replace(operation, source=Y) if isinstance(operation, PassThrough) else
                              replace(operation, first=Y)], BUFFERS, chip=CHIP)
    rng = np.random.default_rng(0)
    for _ in range(2 * 65536 // (2 * draw().size)):
        x = rng.integers(0, 1 << 16, SHAPE).astype(np.uint16).view(np.float16)
        values(loaded, "x")[...] = x
        report = loaded.run()
        fresh = load_operations(loaded.operations, BUFFERS, chip=CHIP)
        values(fresh, "x")[...] = x
        assert fresh.run().tasks == report.tasks
        np.testing.assert_array_equal(values(loaded, "y").view(np.uint16), values(fresh, "y").view(np.uint16))


def test_equal_weights_are_held_once() -> None:
    weights, shared = np.random.default_rng(0).standard_normal((1, 64, 128)).astype(np.float32), SharedWeights()
    first = shared.shared(weights)
    assert first is weights
    assert shared.shared(weights.copy()) is first
    other = weights.copy()
    other[0, 3, 5] += 1
    assert shared.shared(other) is other
    assert shared.shared(other.copy()) is other
    zeros = np.zeros((1, 64, 128), np.float32)
    assert shared.shared(zeros) is zeros
    assert np.signbit(shared.shared(-zeros)).all()
    few = np.ones(8, np.float32)
    assert shared.shared(few.copy()) is not shared.shared(few.copy())
    known = weakref.ref(first)
    del first, weights
    assert known() is None  # nobody holds them any more
