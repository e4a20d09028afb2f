"""The compiled loop rounds as numpy does, and is brought with the one that lays out weights when that pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from support.needs import library

from openane.cache import Cache
from openane.machine_code import machine
from openane.machine_code.laying import LOOPS
from openane.machine_code.patience import LATE, SOON, Patience, Rounder, Widener
from openane.machine_code.rounding import ROUND
from openane.machine_code.widening import WIDEN
from openane.ops import half_bits
from openane.simulator import kernels

ENDS = (0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0xEFFF, 0xF000, 0xFFFF)
"""Lower halves of float32: what fp16 drops, in the middle between two numbers of it and beside that."""


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Rounder:
    library("numba")
    with mock.patch.object(machine, "_folders", return_value=[Cache(Path(tmp_path_factory.mktemp("code")))]):
        found: Rounder = machine.functions([ROUND], "rounding")[0]
    return found


@pytest.fixture
def at_hand(loop: Rounder) -> Iterator[None]:
    """The loop is what `half_bits` rounds with."""
    class Brought(Patience):
        def rounder(self, count: int) -> Rounder | None:
            return loop

    with mock.patch.object(half_bits, "patience", Brought):
        yield


def _with_end(end: int) -> np.ndarray:
    """The float32 numbers whose bits end so."""
    return ((np.arange(1 << 16, dtype=np.uint32) << 16) + np.uint32(end)).view(np.float32)


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("end", ENDS, ids=hex)
def test_the_loop_rounds_as_numpy_does(end: int) -> None:
    numbers = _with_end(end)
    finite = numbers[np.abs(numbers) < half_bits.INFINITE]
    for each, held in ((finite, True), (numbers, False), (finite.reshape(2, -1).T, True)):
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = each.astype(np.float16)
        made, said = half_bits.half_and_finite(each)
        assert np.array_equal(made.view(np.uint16), wanted.view(np.uint16))
        assert said is held


def test_the_loop_makes_float32_as_numpy_does(tmp_path: Path) -> None:
    library("numba")
    with mock.patch.object(machine, "_folders", return_value=[Cache(tmp_path)]):
        loop = machine.functions([WIDEN], "widening")[0]

    class Brought(Patience):
        def widener(self, count: int) -> Widener | None:
            return loop

    words = np.arange(1 << 16, dtype=np.uint16)
    halves = words[words & 0x7C00 != 0x7C00].view(np.float16)
    with mock.patch.object(half_bits, "patience", Brought):
        for each in (halves, halves.reshape(2, -1).T, words.view(np.float16)):
            made = half_bits.from_half(each)
            np.testing.assert_array_equal(made.view(np.uint32), each.astype(np.float32).view(np.uint32))


class _Asked:
    """In place of `machine`: says what it was asked for, and gives what it has."""

    def __init__(self, found: Sequence[object] | None) -> None:
        self.found, self.asked = found, list[str]()

    def kept(self, loops: object) -> Sequence[object] | None:
        self.asked.append("kept")
        return self.found

    def functions(self, loops: object, name: str) -> Sequence[object]:
        self.asked.append("compiled")
        return [print, print]


def _asked(patience: Patience, asked: _Asked, count: int) -> object:
    with mock.patch.multiple(machine, kept=asked.kept, functions=asked.functions):
        return patience.rounder(count)


def test_a_loop_that_was_kept_is_brought_for_so_many_numbers() -> None:
    patience, asked = Patience(), _Asked([len, min])
    assert _asked(patience, asked, SOON - 1) is None
    assert not asked.asked
    assert _asked(patience, asked, 1) is len
    assert _asked(patience, asked, 1) is len
    assert patience.layer(1) is min
    assert asked.asked == ["kept"]


def test_one_that_was_not_is_compiled_for_many_more() -> None:
    patience, asked = Patience(), _Asked(None)
    for count in (SOON, 1, LATE - SOON - 2):
        assert _asked(patience, asked, count) is None
    assert asked.asked == ["kept"]
    assert _asked(patience, asked, 1) is print
    assert asked.asked == ["kept", "compiled"]


def test_without_numba_numpy_rounds() -> None:
    patience = Patience()
    with mock.patch.object(machine, "kept", side_effect=ImportError), \
            mock.patch.object(machine, "functions", side_effect=ImportError) as compiled:
        for count in (SOON, LATE, LATE, 1, 1):
            assert patience.rounder(count) is None
        assert patience.layer(1) is None
    assert compiled.call_count == 1


def test_whoever_compiles_the_simulators_loops_compiles_those_for_weights() -> None:
    """So that later processes have them kept, which few numbers would compile them for."""
    asked: list[Sequence[object]] = []

    def functions(loops: Sequence[object], name: str) -> machine.Functions:
        asked.append(loops)
        return machine.Functions(print for _ in loops)

    with mock.patch.object(kernels, "_kept", return_value=None), mock.patch.object(machine, "functions", functions):
        assert kernels.kernels.__wrapped__() is not None
    assert asked[1:] == [LOOPS]
