"""The compiled form of exact arithmetic against the plain one, bit for bit, and who decides between them."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import CHIP, layout_of
from support.needs import library

from openane.engine import Access, Convolution
from openane.machine_code import machine
from openane.program import Buffer, Role
from openane.simulator import load_operations
from openane.simulator.arithmetic import EXACT_PRODUCTS, Accumulator, Mode, SumForm, exact
from openane.simulator.arithmetic.half import decoded
from openane.simulator.arithmetic.select import COMPILED_FROM, COMPILED_TASK


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    library("numba")
    from openane.simulator.arithmetic import compiled
    return compiled


def drawn(seed: int, shape: tuple[int, ...], low: int, high: int, special: bool = False) -> np.ndarray:
    """fp16 numbers in float32, exponent fields `low` to `high` (0: zeros and subnormals; 31 is not drawn unless
    `special`: infinities, and NaN, which is read as infinity)."""
    rng = np.random.default_rng(seed)
    fields = rng.integers(low, high, shape)
    words = (rng.integers(0, 2, shape) << 15) | (fields << 10) | rng.choice([0, 1, 512, 1023, 768], shape)
    if special:
        words.reshape(-1)[::7] = rng.choice([0x7C00, 0xFC00, 0x7E00, 0, 0x8000], words.reshape(-1)[::7].size)
    return decoded(words.astype(np.uint16))


def same(first: np.ndarray, second: np.ndarray) -> None:
    np.testing.assert_array_equal(first.view(np.uint64), second.view(np.uint64))


ranges = st.tuples(st.integers(0, 30), st.integers(1, 31)).map(lambda pair: (min(pair), max(*pair, min(pair) + 1)))
sizes = st.tuples(st.integers(1, 200), st.integers(1, 9), st.integers(1, 300))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), ranges, ranges, sizes, st.booleans())
def test_sums_are_bit_identical(compiled: ModuleType, seed: int, first: tuple[int, int], second: tuple[int, int],
                                size: tuple[int, int, int], turned: bool) -> None:
    terms, rows, columns = size
    left, right = drawn(seed, (terms, rows), *first), drawn(seed + 1, (terms, columns), *second)
    if turned:
        left, right = right, left
    same(np.ascontiguousarray(compiled.outer_sums(left, right)), np.ascontiguousarray(exact.outer_sums(left, right)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), ranges, ranges, sizes)
def test_sums_of_channels_are_bit_identical(compiled: ModuleType, seed: int, first: tuple[int, int],
                                            second: tuple[int, int], size: tuple[int, int, int]) -> None:
    terms, channels, width = size[0] % 30 + 1, size[1], size[2]
    weights, columns = drawn(seed, (terms, channels), *first), drawn(seed + 1, (terms, channels, width), *second)
    same(compiled.channel_sums(weights, columns), exact.channel_sums(weights, columns))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), ranges, ranges, sizes)
def test_accumulators_agree_on_special_values(compiled: ModuleType, seed: int, first: tuple[int, int],
                                              second: tuple[int, int], size: tuple[int, int, int]) -> None:
    terms, rows, columns = size
    left, right = drawn(seed, (terms, rows), *first, True), drawn(seed + 1, (terms, columns), *second, True)
    forms = [Accumulator(Mode.EXACT, form) for form in (SumForm.NUMBA, SumForm.NUMPY)]
    same(*(np.ascontiguousarray(each.outer(left, right)) for each in forms))


def test_ties_and_the_cut(compiled: ModuleType) -> None:
    left = np.float32([[2.0**-8, -(2.0**-8), 1.5 * 2.0**-8, 60000, 2.0**-24]])
    right = np.float32([[1.5 * 2.0**-8, 1.25 * 2.0**-8, 1.5 * 2.0**-9, 60000, 2.0**-2]])
    quanta = compiled.outer_sums(left, right) * 2.0**16
    np.testing.assert_array_equal(quanta, exact.outer_sums(left, right) * 2.0**16)
    assert quanta[:3, 0].tolist() == [2, -2, 2]
    assert quanta[2, 2] == 0
    assert quanta[3, 3] == 60000.0**2 * 2**16


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(0, 30), st.integers(1, 70), st.integers(1, 600))
def test_products_of_like_sizes(compiled: ModuleType, seed: int, first: int, second: int, rows: int,
                                columns: int) -> None:
    """Any digits of one size or the next: whole ranges are next to the cut, or to another way of rounding."""
    rng = np.random.default_rng(seed)
    left, right = (decoded((rng.integers(0, 2048, (37, extent)) + (field << 10) & 0x7BFF
                            | rng.integers(0, 2, (37, extent)) << 15).astype(np.uint16))
                   for field, extent in ((first, rows), (second, columns)))
    same(np.ascontiguousarray(compiled.outer_sums(left, right)), np.ascontiguousarray(exact.outer_sums(left, right)))


def test_sums_beyond_what_doubles_hold(compiled: ModuleType) -> None:
    terms = 4000
    left = np.full((terms, 1), 65504, np.float32)
    right = np.where(np.arange(terms) % 2, -65504, 65504).astype(np.float32)[:, None]
    right[0], left[7], right[7] = 65472, 2.0**-8, 2.0**-8
    right[-1] = -65504 + 32
    for function in (exact.outer_sums, compiled.outer_sums):
        assert function(left, right)[0, 0] == sum(
            int(a * b * 2**16) for a, b in zip(left[:, 0].tolist(), right[:, 0].tolist(), strict=True)) * 2.0**-16


def test_numba_is_taken_where_it_pays_and_the_report_says_so(compiled: ModuleType) -> None:
    assert SumForm.choose(Mode.EXACT, [1, COMPILED_FROM - 1]) is SumForm.NUMBA
    assert SumForm.choose(Mode.EXACT, [COMPILED_FROM - 1]) is SumForm.NUMPY
    assert SumForm.choose(Mode.FAST, [COMPILED_FROM]) is SumForm.NUMPY
    assert SumForm.choose(Mode.AUTO, [EXACT_PRODUCTS + 1]) is SumForm.NUMPY
    assert SumForm.choose(Mode.AUTO, [EXACT_PRODUCTS]) is SumForm.NUMBA
    assert SumForm.NUMBA.of(COMPILED_TASK - 1) is SumForm.NUMPY
    shape = (1, 256, 1, 64, 256)
    layout = layout_of(shape)
    operation = Convolution(source=Access(slot=4, shape=shape, strides=layout.strides),
                            result=Access(slot=5, shape=(1, 1, 1, 64, 256), strides=layout.strides))
    buffers = [Buffer("x", 4, Role.INPUT, layout.size), Buffer("y", 5, Role.OUTPUT, layout.size)]
    report = load_operations([operation], buffers, arithmetic="exact", chip=CHIP).run()
    assert (report.forms, report.arithmetic) == (("numba",), ("exact",))


def test_without_numba_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "openane.simulator.arithmetic.compiled"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(sys.modules["openane.simulator.arithmetic"], "compiled", raising=False)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert SumForm.choose(Mode.EXACT, [COMPILED_FROM]) is SumForm.NUMPY
    with pytest.raises(ImportError, match=r"pip install 'openane\[fast\]'"):
        __import__(name)
