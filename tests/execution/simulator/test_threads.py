"""Threads that share a run: the bits and reports of one thread that does the same parts one after the other, whatever
the operands hold."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import pytest
from support.h13 import CHIP, layout_of
from support.needs import library
from threadpoolctl import ThreadpoolController

from openane.engine import (
    Access,
    Binary,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Convolution,
    Elementwise,
    Geometry,
    Operation,
    Pool,
    Pooling,
    Post,
)
from openane.program import Buffer, Role
from openane.simulator import LoadedProgram, context, kernels, load_operations, threads

CHANNELS, HIGH, WIDE = 24, 14, 11
SLOTS = {"x": 4, "a": 5, "b": 6, "c": 7, "d": 8, "e": 9}
WINDOWS = {  # kernel, stride and padding (rows, columns)
    "b": ((3, 3), (1, 1), (1, 1)),
    "c": ((3, 3), (2, 2), (1, 1)),
    "d": ((5, 4), (1, 3), (0, 2)),
    "e": ((1, 1), (1, 1), (0, 0)),
}
SPECIAL = np.array([0x7C00, 0xFC00, 0x7E01], np.uint16)


def access(name: str, rows: int, columns: int) -> Access:
    """An operand in the buffer of that name."""
    layout = layout_of((1, CHANNELS, 1, rows, columns))
    return Access(slot=SLOTS[name], shape=layout.shape, strides=layout.strides)


def convolution(source: Access, name: str, start: int) -> tuple[Convolution, int]:
    """One whose weights begin at a byte of the constants, and where these end."""
    kernel, stride, padding = WINDOWS[name]
    high, wide = (1 + (extent + 2 * around - taps) // step
                  for extent, around, taps, step in zip((HIGH, WIDE), padding, kernel, stride, strict=True))
    dense = CHIP.limits.coefficients.dense(Geometry(1, CHANNELS, CHANNELS * kernel[0] * kernel[1]), 4, bias=False)
    streams = tuple(CoefficientStream(core, offset + start, size) for core, offset, size in dense.streams)
    held = Coefficients.together(CoefficientSection.of(1, streams), lanes=4)
    operation = Convolution(source=source, result=access(name, high, wide), coefficients=held, kernel=(1, *kernel),
                            stride=(1, *stride), padding=(0, *padding), post=Post(scale=0.25), input_relu=name == "d")
    return operation, max(stream.offset + stream.size for stream in streams)


def program() -> LoadedProgram:
    """Windows of several kinds, twice the same ones on the same source, pooling and sums between."""
    x, a = access("x", HIGH, WIDE), access("a", HIGH, WIDE)
    convolutions, end = [], 0
    for name in WINDOWS:
        found, end = convolution(a, name, end)
        convolutions.append(found)
    again, end = convolution(a, "b", end)
    half = access("c", HIGH // 2, 6)
    operations: list[Operation] = [
        Elementwise(first=x, result=a, scale=0.5, bias=0.1), convolutions[0], again, *convolutions[1:],
        Elementwise(first=access("b", HIGH, WIDE), second=access("e", HIGH, WIDE), result=a, function=Binary.MAXIMUM),
        Pooling(first=a, result=half, pool=Pool.MAXIMUM, kernel=(2, 2), stride=(2, 2)),
    ]
    buffers = [Buffer(name, slot, Role.INPUT, 1 << 15) for name, slot in SLOTS.items()]
    constants = np.random.default_rng(7).standard_normal(end // 2).astype(np.float16)
    return load_operations(operations, buffers, constants.tobytes(), arithmetic="fast", chip=CHIP)


def fill(loaded: LoadedProgram, seed: int, special: bool) -> None:
    """Draws the input."""
    words = np.random.default_rng(seed).standard_normal(1 << 14).astype(np.float16).view(np.uint16)
    if special:
        words[::97] = np.random.default_rng(seed).choice(SPECIAL, words[::97].size)
    loaded.buffers["x"].view(np.uint16)[:] = words


@contextmanager
def shared_by(count: int) -> Iterator[None]:
    """Runs are shared by so many threads, however small they are."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(threads.ProductThreads, "allowed", count))
        stack.enter_context(mock.patch.object(context, "WORTH", 0))
        for name in ("SHARE", "FEWEST"):
            stack.enter_context(mock.patch.object(threads, name, 16))
        yield


@pytest.mark.parametrize("count", [2, 3])
def test_threads_give_the_bits_and_reports_of_numpy(count: int) -> None:
    library("numba")
    with shared_by(count):
        plain, shared = program(), program()
    with shared_by(count):
        for turn, special in enumerate([False, False, True, False, True, True, False]):
            reports = []
            for loaded, worth, patience in ((plain, False, 1e9), (shared, True, 0.0)):
                fill(loaded, turn, special)
                with mock.patch.object(kernels, "worth", return_value=worth), mock.patch.object(
                        kernels, "PATIENCE", patience):
                    reports.append(loaded.run())
            for name in SLOTS:
                np.testing.assert_array_equal(shared.buffers[name], plain.buffers[name], f"{name} of run {turn}")
            assert repr(reports[0].tasks).replace("-0.0", "0.0") == repr(reports[1].tasks).replace("-0.0", "0.0")
    known = shared._sequences._known
    assert known is not None
    assert known.whole
    assert {pause.step for pause in known._pauses if len(pause.lanes) > 1} == set(range(7))  # pooling is one part


def test_windows_that_are_the_same_are_read_once() -> None:
    library("numba")
    loaded = program()
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        for turn in range(2):
            fill(loaded, turn, special=False)
            loaded.run()
    known = loaded._sequences._known
    assert known is not None
    assert [known._owner[row] for row, call in enumerate(known._calls) if call.loop == "columns"] == [1, 3, 4]


def test_one_thread_and_three_differ_by_rounding_alone() -> None:
    library("numba")
    with shared_by(3):
        shared = program()
    alone, found = program(), []
    for loaded in (alone, shared):
        with shared_by(3):
            fill(loaded, 1, special=False)
            loaded.run()
        found.append(loaded.buffers["b"].view(np.float16)[:CHANNELS * HIGH * 32].astype(np.float32))
    np.testing.assert_allclose(found[0], found[1], rtol=2e-3, atol=1e-4)


def test_parts_cover_all_and_begin_where_sums_are_rounded_alike() -> None:
    for channels in (1, 11, 12, 13, 24, 64, 100):
        for count in (1, 2, 3, 4):
            parts = [part for _, part in threads.cuts(1, channels, 1 << 30, count)]
            assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
            assert (parts[0].start, parts[-1].stop) == (0, channels)
            assert len(parts) <= count
            assert all(part.start % threads.EVEN == 0 for part in parts)
            assert len(parts) == 1 or min(part.stop - part.start for part in parts) >= threads.EVEN
    assert threads.cuts(4, 7, 1 << 30, 2) == [(slice(0, 2), slice(0, 7)), (slice(2, 4), slice(0, 7))]
    assert threads.cuts(1, 64, threads.SHARE, 4) == [(slice(0, 1), slice(0, 64))]


def test_tiles_are_shared_evenly() -> None:
    assert threads.even_tiles(1, 56, 56, 1 << 30, 1) == 1
    assert threads.even_tiles(1, 56, 56, 1 << 30, 2) == 2
    assert threads.even_tiles(3, 56, 56, 1 << 30, 2) == 4
    assert threads.even_tiles(1, 56, 56, 0, 2) == 1, "not worth it"
    assert threads.even_tiles(1, 14, 14, 1 << 30, 2) == 1, "too small"


def test_lanes_run_at_the_same_time() -> None:
    together = threading.Barrier(3)
    with threads.Helpers(3) as helpers:
        for _ in range(2):
            assert len(set(helpers.share([lambda: together.wait(60)] * 3))) == 3
    assert not any(thread.name == "ane simulator" for thread in threading.enumerate())


def test_what_another_thread_raises_is_raised_here() -> None:
    def fails() -> int:
        raise KeyError("lane")

    with threads.Helpers(2) as helpers:
        assert helpers.share([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
        with pytest.raises(KeyError, match="lane"):
            helpers.share([fails, fails, fails])
        assert helpers.share([lambda: 4]) == [4]


@pytest.mark.needs("product threads", "numba")
def test_products_are_one_threads_while_runs_share_their_work() -> None:
    blas = ThreadpoolController().select(user_api="blas").lib_controllers

    def told() -> list[int]:
        return [each.get_num_threads() for each in blas]

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        known = threads.ProductThreads()
        before = told()
        with known.left_out():
            with known.left_out():
                assert told() == [1] * len(blas)
            assert told() == [1] * len(blas)
        assert told() == before


@pytest.mark.parametrize(("settings", "wanted"), [
    ({"OPENBLAS_NUM_THREADS": "1"}, 1), ({"OPENBLAS_NUM_THREADS": "3", "OMP_NUM_THREADS": "1"}, 3),
    ({"OMP_NUM_THREADS": "2"}, 2), ({"OPENBLAS_NUM_THREADS": "64"}, threads.MOST),
    ({"OPENBLAS_NUM_THREADS": "many", "OMP_NUM_THREADS": "2"}, 2)])
def test_a_run_takes_as_many_threads_as_products_do(settings: dict[str, str], wanted: int) -> None:
    known = threads.ProductThreads()
    kept = {name: value for name, value in os.environ.items() if name not in threads.SETTINGS}
    with mock.patch.dict(os.environ, kept | settings, clear=True):
        known._controller = object()
        assert known.allowed == wanted
        known._controller = None
        assert known.allowed == 1, "they cannot be told to stay out of it"
