"""Machine code of loops that is kept: without numba it gives what numba's own way of calling gives."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from support.needs import library

from openane.cache import Cache
from openane.machine_code import machine
from openane.machine_code.described import TaskLoop, give_back, part, room, rows_of

KINDS = ("float32[:,:]", "uint16[::1]", "int64*3", "float32", "boolean")
GIVES = ("boolean", "int64", "int32")


@part
def _largest(values, count):  # type: ignore[no-untyped-def]
    most = values[0]
    for i in range(count):
        most = max(most, values[i])
    return most


def _everything_loop(numbers, words, three, factor, doubled):  # type: ignore[no-untyped-def]
    """Takes and gives one of every kind."""
    rows, columns = numbers.shape
    sums, squares = room(columns, np.float64(0)), rows_of(rows, columns, np.float32(0))
    total = 0.0
    for j in range(columns):
        sums[j] = 0
        for i in range(rows):
            squares[i, j] = numbers[i, j] * numbers[i, j]
            sums[j] += squares[i, j] * factor
        total += sums[j] * (2 if doubled else 1)
        words[j] = np.uint16(three[0] + j * three[1])
    most = _largest(words, columns)
    give_back(sums)
    give_back(squares)
    return total > three[2], int(most) - 1000, np.int32(total)


def _total_loop(numbers, divisor):  # type: ignore[no-untyped-def]
    return numbers.size / divisor


def _exponent_loop(numbers):  # type: ignore[no-untyped-def]
    numbers[0] = math.frexp(numbers[0])[1]


LOOPS = (TaskLoop(_everything_loop, KINDS, GIVES), TaskLoop(_total_loop, ("float32[::1]", "int64"), ("float64",)))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Cache]:
    """Where code is kept."""
    library("numba")
    cache = Cache(tmp_path)
    with mock.patch.object(machine, "_folders", return_value=[cache]):
        yield cache


def made(function: machine.Function) -> list[object]:
    """What the first loop gives and writes."""
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    words = np.zeros(3, np.uint16)
    given = [function(numbers, words, (5, 7, 1), np.float32(0.5), doubled) for doubled in (False, True)]
    return [*map(tuple, given), words.tolist()]


def test_kept_code_gives_what_numba_gives(folder: Cache) -> None:
    from openane.machine_code import building

    assert machine.kept(LOOPS) is None
    first = machine.functions(LOOPS, "loops of a test")
    assert [entry.label for entry in folder.entries()] == ["machine code of loops of a test"]
    with mock.patch.object(building, "built", side_effect=AssertionError("compiled again")):
        again = machine.functions(LOOPS, "loops of a test")
    wanted = made(building.dispatched(LOOPS)[0])
    assert wanted == [(True, -981, 1012), (True, -981, 2024), [5, 12, 19]]
    assert made(first[0]) == made(again[0]) == wanted
    assert again[1](np.zeros(10, np.float32), 4) == 2.5


def test_arrays_of_another_kind_are_refused() -> None:
    everything, total = machine.functions(LOOPS, "loops of a test")
    numbers, words = np.zeros((2, 3), np.float32), np.zeros(3, np.uint16)
    for wrong, number in (((numbers.astype(np.float64), words), 1), ((numbers[0], words), 1),
                          ((numbers, words.astype(np.int16)), 2)):
        with pytest.raises(TypeError, match=f"argument {number} of the loop everything_loop is no array"):
            everything(*wrong, (5, 7, 1), 0.5, False)
    with pytest.raises(TypeError, match=r"argument 1 of the loop total_loop is no array of float32\[::1\]"):
        total(np.zeros(6, np.float32)[::2], 2)
    with pytest.raises(RuntimeError, match="total_loop"):
        total(np.zeros(6, np.float32), 0)


def test_damaged_code_is_compiled_again(folder: Cache) -> None:
    machine.functions(LOOPS[1:], "loops of a test")
    code = next(folder.folder.rglob(machine.CODE))
    code.write_bytes(code.read_bytes()[:-1] + b"\xff")
    assert machine.kept(LOOPS[1:]) is None
    assert machine.functions(LOOPS[1:], "loops of a test")[0](np.zeros(10, np.float32), 5) == 2
    assert machine.kept(LOOPS[1:]) is not None


def test_code_of_other_settings_or_another_processor_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.functions(LOOPS[1:], "loops of a test")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "7")  # what changes no code
    assert machine.kept(LOOPS[1:]) is not None
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert machine.kept(LOOPS[1:]) is None
    monkeypatch.delenv("NUMBA_OPT")
    with mock.patch("llvmlite.binding.get_host_cpu_name", return_value="another"):
        assert machine.kept(LOOPS[1:]) is None


def test_code_that_would_need_numba_is_not_kept(folder: Cache) -> None:
    from openane.machine_code import building

    with mock.patch.object(building, "built", side_effect=building.NotAlone("it needs more")):
        functions = machine.functions(LOOPS, "loops of a test")
    assert not folder.entries()
    assert made(functions[0])[2] == [5, 12, 19]
    with mock.patch.object(machine, "_is_tried", return_value=False):
        assert made(machine.functions(LOOPS, "loops of a test")[0])[2] == [5, 12, 19]
    assert not folder.entries()


def test_code_says_what_it_would_need_of_others() -> None:
    from openane.machine_code import building

    with pytest.raises(building.NotAlone, match="numba_frexp"):
        building.built([TaskLoop(_exponent_loop, ("float64[::1]",))])


def test_another_process_takes_the_simulators_loops_without_numba() -> None:
    with mock.patch.object(machine, "_folders", side_effect=lambda: [Cache(Path(machine.__file__).parent
                                                                           / "__pycache__")]):
        from openane.simulator.kernels import kernels

        if kernels() is None:
            pytest.fail("numba is installed")
    said = subprocess.run([sys.executable, "-c", "import sys\nfrom openane.simulator import kernels\n"
                           "print(kernels.at_hand(), 'numba' in sys.modules)"], capture_output=True, text=True,
                          check=True)
    assert said.stdout.split() == ["True", "False"]
